"""Plug-ins in sweeps: workers know them, folders and files name them, nothing recorded is loaded."""

import json

import pytest

from recombine import sweeps
from recombine.core import plugins
from recombine.core.errors import StoreError
from recombine.core.plugins import PluginError, PluginState
from recombine.core.scenes import SCENES
from recombine.diagnostics.request import DiagnosisRequest
from recombine.report.collect import collect
from recombine.report.page import write_report
from recombine.runs.config import RunConfig
from recombine.runs.store import Store

SCENE = """
import torch
import recombine as rc

@rc.scenes.SCENES.register("slope")
class Slope(rc.scenes.Scene):
    def __init__(self, space: rc.FactorSpace, steepness: float = 1.0) -> None:
        self.space = space
        self.steepness = steepness
        self.output_shape = (2, 3)

    def __call__(self, values, present=None):
        ramp = torch.arange(6.0).reshape(2, 3) / 6
        return ramp * self.steepness * values.sum(-1)[..., None, None] / 10
"""
WORDS = ["scene.kind=slope", "scene.factors.x=4", "scene.factors.y=4", "holdout.lo=1", "holdout.hi=2",
         "decoder.kind=mlp", "decoder.width=4", "decoder.depth=1", "training.steps=2", "seed=0..1"]  # fmt: skip


@pytest.fixture
def slope(tmp_path):
    path = tmp_path / "slope.py"
    path.write_text(SCENE)
    yield path
    forget()


def forget():
    for plugin in plugins.loaded():
        plugins._unload(plugin)


def test_worker_processes_know_what_the_driver_loaded_even_if_the_file_is_gone(slope, tmp_path):
    used = plugins.use(slope)
    configs = sweeps.parse(WORDS).configs
    slope.unlink()
    result = sweeps.run(configs, tmp_path / "runs", engine="processes", workers=1, device="cpu", quiet=True)
    assert result.failed == []
    assert len(result.finished) == 2
    needed = {"slope": used.sha256}
    assert configs[0].plugins == needed
    assert Store(tmp_path / "runs").facts(configs[0].hash)["plugins"] == needed
    assert json.loads((tmp_path / "runs" / "sweep.json").read_text())["plugins"] == needed

    forget()  # a stored run and a sweep's folder only name the plug-in: nothing is loaded, and they are still listed
    assert not SCENES.has("slope")
    assert {str(row.status) for row in Store(tmp_path / "runs").list()} == {"finished"}
    table = sweeps.table(tmp_path / "runs", all_settings=True)
    assert {row["scene.kind"] for row in table.rows} == {"slope"}
    with pytest.raises(PluginError) as caught:
        Store(tmp_path / "runs").load(configs[0].hash)
    assert caught.value.states == {"slope": PluginState.MISSING}
    assert not SCENES.has("slope")


def test_a_run_without_its_plug_in_is_still_reported(slope, tmp_path):
    plugins.use(slope)
    configs = sweeps.parse([*WORDS[:-1], "seed=0"]).configs
    request = DiagnosisRequest(parts=["errors"])
    sweeps.run(configs, tmp_path / "runs", diagnose=request, engine="in-process", device="cpu", quiet=True)
    forget()
    collected = collect([str(tmp_path / "runs")])
    assert [model.run.id for model in collected.models if model.run is not None] == [configs[0].hash]
    page = write_report(collected, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000
    assert not any("is not shown" in note for note in page.notes)
    run = Store(tmp_path / "runs").load(configs[0].hash, without_plugins=True)
    assert run.summary
    with pytest.raises(ValueError, match="slope"):
        _ = run.task


def test_a_folder_of_a_changed_plug_in_is_refused(slope, tmp_path):
    plugins.use(slope)
    configs = sweeps.parse(WORDS).configs
    options = {"engine": "in-process", "device": "cpu", "quiet": True}
    sweeps.run(configs, tmp_path / "runs", **options)
    slope.write_text(f"{SCENE}\n# another version\n")
    plugins.use(slope)
    with pytest.raises(StoreError, match="plug-in slope was changed"):
        sweeps.run(configs, tmp_path / "runs", **options)
    assert len(sweeps.run(configs, tmp_path / "runs", any_version=True, **options).finished) == 2


def test_kinds_that_no_plug_in_registered_are_refused_before_workers_start(slope, tmp_path):
    exec(compile(SCENE, "notebook", "exec"), {"__name__": "__main__"})
    try:
        configs = sweeps.parse(WORDS).configs
        assert configs[0].plugins == {"__main__": ""}
        with pytest.raises(PluginError, match="Move them into a file"):
            sweeps.run(configs, tmp_path / "runs", engine="processes", device="cpu", quiet=True)
        result = sweeps.run(configs, tmp_path / "runs", engine="in-process", device="cpu", quiet=True)
        assert len(result.finished) == 2
        assert len(Store(tmp_path / "runs").load(configs[0].hash).id) == 16
    finally:
        SCENES.remove("slope")
        del SCENES.origin["slope"]


@pytest.mark.parametrize("given", [["slope"], "slope", {"slope": "the hash"}, {"slope": None}])
def test_a_file_names_plug_ins_and_loads_none(slope, tmp_path, given):
    given = {"slope": plugins.hashlib.sha256(SCENE.encode()).hexdigest()} if given == {"slope": "the hash"} else given
    file = tmp_path / "sweep.yaml"
    base = dict(word.split("=") for word in WORDS[:-1])
    file.write_text(json.dumps({"plugins": given, "base": base}))
    with pytest.raises(PluginError) as caught:
        sweeps.parse([], file)
    assert caught.value.states == {"slope": PluginState.MISSING}
    plugins.use(slope)
    assert len(sweeps.parse([], file).configs) == 1
    file.write_text(json.dumps({"plugins": {"slope": "0" * 64}, "base": base}))
    with pytest.raises(PluginError) as caught:
        sweeps.parse([], file)
    assert caught.value.states == {"slope": PluginState.CHANGED}


@pytest.mark.parametrize("given", [5, {"slope": 5}, [], [[]]])
def test_odd_plug_ins_in_a_file_are_told_with_their_place(tmp_path, given):
    file = tmp_path / "sweep.yaml"
    file.write_text(json.dumps({"plugins": given}))
    with pytest.raises(ValueError, match="line 1, column"):
        sweeps.parse([], file)


def test_the_plug_ins_of_a_configuration_are_no_part_of_its_identity(slope):
    plugins.use(slope)
    before = RunConfig.parse(WORDS[:-1]).hash
    slope.write_text(f"{SCENE}\n# another version\n")
    plugins.use(slope)
    assert RunConfig.parse(WORDS[:-1]).hash == before
    assert RunConfig.parse([]).plugins == {}
