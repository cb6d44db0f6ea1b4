"""Remedies of plug-ins that raise, wherever they do so, lose their own rows and nothing else."""

import json
import textwrap
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from recombine import sweeps
from recombine.cli.app import app
from recombine.core import plugins
from recombine.core.errors import InputError
from recombine.studies.compare import running
from recombine.studies.compare.planning import entries
from recombine.studies.compare.remedy import REMEDIES, Block, Remedy
from recombine.studies.compare.results import Status
from recombine.studies.compare.suite import Budget, chosen, suite

BAD = """
    import math
    import torch
    from torch import nn
    import recombine as rc
    from recombine.core.task import Shapes, Task
    from recombine.studies.compare.remedy import REMEDIES, Remedy

    class Base(rc.decoders.Decoder):
        def __init__(self, shapes, width=8):
            super().__init__(shapes)
            self.first = nn.Linear(self.shapes.code_size, width)
            self.second = nn.Linear(width, math.prod(self.shapes.output_shape))

        def forward(self, code):
            return self.second(torch.relu(self.first(code))).unflatten(-1, self.shapes.output_shape)

    @rc.decoders.DECODERS.register("train_raises")
    class TrainRaises(Base):
        '''Raises after a few steps.'''
        seen = 0

        def __init__(self, shapes: Task | Shapes, width: int = 8) -> None:
            super().__init__(shapes, width)

        def forward(self, code):
            self.seen += torch.is_grad_enabled()
            if self.seen > 3:
                raise ZeroDivisionError("train")
            return super().forward(code)

    @rc.decoders.DECODERS.register("loaded_raises")
    class LoadedRaises(Base):
        '''Trains and is scored, and raises when it is evaluated after it was loaded.'''
        trained = False

        def __init__(self, shapes: Task | Shapes, width: int = 8) -> None:
            super().__init__(shapes, width)

        def forward(self, code):
            if torch.is_grad_enabled():
                self.trained = True
            elif not self.trained and len(code) > 2:
                raise IndexError("loaded")
            return super().forward(code)

    @rc.decoders.DECODERS.register("gallery_raises")
    class GalleryRaises(Base):
        '''Raises for batches of twelve, the size of a gallery.'''

        def __init__(self, shapes: Task | Shapes, width: int = 8) -> None:
            super().__init__(shapes, width)

        def forward(self, code):
            if len(code) == 12:
                raise IndexError("twelve")
            return super().forward(code)

    @rc.decoders.DECODERS.register("gallery_exits")
    class GalleryExits(Base):
        '''Ends the process for batches of twelve.'''

        def __init__(self, shapes: Task | Shapes, width: int = 8) -> None:
            super().__init__(shapes, width)

        def forward(self, code):
            if len(code) == 12:
                raise SystemExit(3)
            return super().forward(code)

    for name in ("train_raises", "loaded_raises", "gallery_raises", "gallery_exits"):
        REMEDIES.add(name, Remedy(name, {"kind": name}, "us"))
"""


@pytest.fixture
def bad(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins.importlib.metadata, "entry_points", lambda group: [])
    path = tmp_path / "bad.py"
    path.write_text(textwrap.dedent(BAD))
    yield path
    for plugin in list(plugins._loaded.values()):
        plugins._unload(plugin)


def test_a_plugin_that_raises_loses_its_own_rows_only(bad, tmp_path):
    plugins.use(str(bad))
    wanted = replace(
        chosen(
            suite("mini"),
            remedies=["mlp", "train_raises", "loaded_raises", "gallery_raises", "gallery_exits"],
            scenes=["bump"],
        ),
        budget=Budget(5800, 4, 4, 2),
    )

    def train(configs, store, request):
        result = sweeps.run(configs, store, diagnose=request, engine="in-process", quiet=True)
        return {failure.run: failure.error for failure in (*result.failed, *result.undiagnosed)}

    found = running.compare(wanted, tmp_path / "out", train=train)
    rows = {row["remedy"]: row for row in found.rows}
    assert {name for name, row in rows.items() if row["status"] == Status.DONE} == {
        "mlp", "gallery_raises", "gallery_exits"
    }  # fmt: skip
    assert {rows[name]["status"] for name in ("train_raises", "loaded_raises")} == {Status.FAILED}
    assert "train" in rows["train_raises"]["reason"]
    assert rows["loaded_raises"]["reason"] == "IndexError: loaded"
    about = json.loads((found.out / "compare.json").read_text())
    failed = {row["remedy"] for row in found.rows if row["run"] in about["failed"]}
    assert failed == {"train_raises", "loaded_raises"}
    assert len(about["selected"]) == 5
    assert any(path.name == "outputs_bump_random.png" for path in found.figures)


MISTAKEN = """
    from recombine.studies.compare.remedy import REMEDIES, Remedy

    for name, decoder, training in (
        ("wrong_decoder", {"kind": "mlp", "depht": 3}, {}),
        ("wrong_kind", {"kind": "mpl"}, {}),
        ("wrong_training", {"kind": "mlp"}, {"learning_rte": 1e-3}),
    ):
        REMEDIES.add(name, Remedy(name, decoder, "us", training=training))
    REMEDIES.add("wrong_trial", Remedy("wrong_trial", {"kind": "mlp"}, "us", trial={"decoder": {"depht": 3}}))
    REMEDIES.add("wrong_width", Remedy("wrong_width", {"kind": "mlp"}, "us", width="witdh"))
    REMEDIES.add("unfit", Remedy("unfit", {"kind": "mlp"}, "us", training={"examples": {"single_factor": {}}}))
"""


def test_mistakes_of_a_plugin_are_failures_and_unmet_needs_are_not(bad):
    bad.write_text(textwrap.dedent(MISTAKEN))
    plugins.use(str(bad))
    names = ["wrong_decoder", "wrong_kind", "wrong_training", "wrong_trial", "wrong_width", "unfit"]
    arrow = {"arrow": {"kind": "arrow", "factors": {"angle": 8, "x": 5}}}
    found = entries(replace(suite("mini"), chosen=tuple(names), scenes=arrow, splits=("random",)))
    assert [entry.status for entry in found] == [Status.FAILED] * 5 + [Status.LEFT_OUT]
    for entry, word in zip(found, ("depht", "mpl", "learning_rte", "depht", "witdh", "cannot be drawn")):
        assert word in entry.reason


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"trials": ["x", "y", "z"]}, "groups of settings"),
        ({"trials": [{"decoder": None}] * 3}, "groups of settings"),
        ({"trial": {"decoder": 3}}, "groups of settings"),
        ({"training": "fast"}, "groups of settings"),
        ({"released": 2.0}, "released"),
        ({"steps": 0.0}, "steps"),
        ({"parameters": -1.0}, "parameters"),
    ],
)
def test_a_malformed_remedy_cannot_be_made(settings, word):
    with pytest.raises(InputError, match=word):
        Remedy("mine", {"kind": "mlp"}, **settings)


def test_a_dry_run_names_what_raises(bad):
    command = ["compare", "--suite", "mini", "--scenes", "bump", "--remedies", "mlp,train_raises", "--dry-run",
               "--plugin", str(bad), "--json"]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "ZeroDivisionError" in json.loads(done.stdout)["failing"]["train_raises on bump, random"]


def test_a_dry_run_checks_the_place(tmp_path):
    (tmp_path / "file").write_text("")
    command = ["compare", "--suite", "mini", "--out", str(tmp_path / "file"), "--dry-run"]
    assert CliRunner().invoke(app, command).exit_code == 2


def test_remedies_keep_their_names():
    with pytest.raises(InputError, match="own name"):
        REMEDIES.add("mine", Remedy("cnn", {"kind": "mlp"}))


def test_settings_that_change_the_budget_put_a_remedy_into_the_other_block():
    rate = {"training": {"learning_rate": 1e-3}}
    assert Remedy("a", {"kind": "mlp"}).block is Block.EQUAL
    assert Remedy("a", {"kind": "mlp"}, training={"steps": 900}).block is Block.OWN
    assert Remedy("a", {"kind": "mlp"}, training={"examples": {"mixup": {}}}).block is Block.OWN
    assert Remedy("a", {"kind": "mlp"}, trials=[rate, rate, {"decoder": {"width": 300}}]).block is Block.OWN
    assert Remedy("a", {"kind": "mlp"}, trials=[rate, rate, {"training": {"batch": 64}}]).block is Block.OWN


def test_repeated_names_count_once():
    found = chosen(suite("mini"), remedies=["mlp", "mlp"], splits=["random", "random"])
    assert (found.remedies, found.splits) == (("mlp",), ("random",))
