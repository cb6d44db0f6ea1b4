"""The run store: what is written, found, refused and removed."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
import torch

from recombine.core.errors import DamagedError, InputError, LockHeld, StoreError, TrainingDiverged
from recombine.models.decoders import load
from recombine.runs.config import RunConfig, hash_of
from recombine.runs.facts import run_digest
from recombine.runs.listing import ListedRun
from recombine.runs.status import RunState
from recombine.runs.store import Store

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.kind=mlp",
        "decoder.width=16", "training.steps=20"]  # fmt: skip
FILES = {"config.json", "run.json", "scores.csv", "history.jsonl", "losses.safetensors", "model/config.json",
         "model/model.safetensors"}  # fmt: skip


def tiny(*words):
    return RunConfig.parse([*TINY, *words])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    Store(root).train([tiny()])
    return root


@pytest.fixture
def store(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "runs")
    return Store(tmp_path / "runs")


def test_a_run_writes_exactly_the_documented_files(store):
    [run] = store.train([tiny()])
    found = {str(p.relative_to(run.path)) for p in run.path.rglob("*") if p.is_file()}
    assert found == FILES
    documented = (Path(__file__).parents[2] / "docs/run-files.md").read_text(encoding="utf-8")
    for name in [*FILES, "checkpoint.safetensors", ".lock"]:
        assert f"`{name}`" in documented


def test_what_is_read_back_is_what_was_trained(store):
    run = store.load(tiny().hash)
    values = run.task.space.values(torch.arange(5))
    error = (run.model(run.task.inputs(values)) - run.task.targets(values)).square().mean((1, 2))
    torch.testing.assert_close(error.double(), torch.tensor(run.scores.columns["mse"][:5]), rtol=1e-5, atol=1e-9)
    assert run.summary == run.scores.summary().to_json()
    assert run.losses.shape == (20, 2)
    assert run.history[-1]["step"] == 20
    assert run.facts["versions"]["torch"] == torch.__version__


def test_a_finished_run_is_not_trained_again(store, monkeypatch):
    monkeypatch.setattr("recombine.runs.training.run_seeds", lambda *a, **k: pytest.fail("trained again"))
    assert store.train([tiny()])[0].id == tiny().hash


def test_seeds_of_one_configuration_get_a_run_each_and_equal_single_runs(tmp_path):
    together = Store(tmp_path / "a").train([tiny("seed=0"), tiny("seed=1"), tiny("seed=0")])
    alone = Store(tmp_path / "b").train([tiny("seed=1")])
    assert [run.config.seed for run in together] == [0, 1, 0]
    assert together[1].summary["id_mse"] == pytest.approx(alone[0].summary["id_mse"], rel=1e-3)


def test_a_diverging_seed_leaves_the_others_stored(tmp_path, monkeypatch):
    from recombine.runs import training as module

    original = module.run_seeds

    def one_fails(*args, **keywords):
        runs = original(*args, **keywords)
        raise TrainingDiverged({0: "seed 0 diverged"}, finished=runs[1:])

    monkeypatch.setattr(module, "run_seeds", one_fails)
    with pytest.raises(TrainingDiverged):
        Store(tmp_path).train([tiny("seed=0"), tiny("seed=1")])
    assert not Store(tmp_path).is_finished(tiny("seed=0"))
    assert Store(tmp_path).is_finished(tiny("seed=1"))


def test_list_names_finished_unfinished_and_damaged_runs(store):
    other = tiny("seed=9")
    store.directory(other).mkdir()
    (store.directory(other) / "config.json").write_text(json.dumps(other.to_dict()))
    (store.root / ("f" * 16)).mkdir()
    (store.root / "notes").mkdir()
    rows = {row.id: row for row in store.list()}
    assert set(rows) == {tiny().hash, other.hash, "f" * 16}
    assert rows[tiny().hash].status.state is RunState.FINISHED
    assert rows[tiny().hash].summary["id_mse"] > 0
    assert rows[other.hash].status.state is RunState.NOT_STARTED
    assert rows["f" * 16].status.state is RunState.DAMAGED
    assert rows["f" * 16].status.reason


@pytest.mark.parametrize("name", sorted(FILES - {"run.json", "config.json"}))
def test_a_changed_or_missing_file_is_noticed(store, name):
    def read_all():
        run = store.load(tiny().hash)
        return run.scores, run.model, run.history, run.losses

    path = store.directory(tiny()) / name
    content = path.read_bytes()
    read_all()
    path.write_bytes(content + b" ")
    with pytest.raises(StoreError, match="was changed after the run finished"):
        read_all()
    path.unlink()
    with pytest.raises(StoreError, match="is missing"):
        read_all()


def test_a_foreign_or_unfinished_directory_is_refused(store):
    run_json = store.directory(tiny()) / "run.json"
    good = run_json.read_text()
    run_json.write_text('{"format": "other"}')
    with pytest.raises(StoreError, match="format is 'other', expected 'recombine-run-2'"):
        store.load(tiny().hash)
    run_json.write_text(good[:50])
    with pytest.raises(StoreError, match="cannot be read as JSON"):
        store.load(tiny().hash)
    run_json.unlink()
    with pytest.raises(StoreError, match="is not finished"):
        store.load(tiny().hash)
    run_json.write_text(good)
    (store.directory(tiny()) / "config.json").write_text(json.dumps(tiny("seed=5").to_dict()))
    with pytest.raises(DamagedError):
        store.load(tiny().hash)


@pytest.mark.parametrize(
    "key", ["run", "config", "summary", "steps", "loss_names", "seconds", "finished", "device", "files"]
)
def test_a_run_json_that_lacks_a_key_is_refused_whatever_its_digest(store, key):
    path = store.directory(tiny()) / "run.json"
    facts = json.loads(path.read_text())
    del facts["digest"], facts[key]
    path.write_text(json.dumps({**facts, "digest": run_digest(facts)}))
    with pytest.raises(StoreError, match=f"Missing entries: {key}"):
        store.load(tiny().hash)
    assert store.list()[0].status.damaged


@pytest.mark.parametrize(
    "content", ['{"format": "recombine-run-2"}', '{"format": "recombine-run-2", "config": "x"}', "[]", "null"]
)
def test_a_run_json_with_holes_is_refused_and_hides_no_other_run(store, content):
    (store.directory(tiny()) / "run.json").write_text(content)
    with pytest.raises(StoreError):
        store.load(tiny().hash)
    assert store.list()[0].status.damaged


def test_a_better_score_written_into_run_json_is_noticed(store):
    path = store.directory(tiny()) / "run.json"
    facts = json.loads(path.read_text())
    facts["summary"]["ood_mse"] = 1e-9
    path.write_text(json.dumps(facts))
    with pytest.raises(StoreError, match=r"run.json was changed after the run finished"):
        store.train([tiny()])


def test_a_name_the_system_refuses_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="cannot be a run store"):
        Store(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["../secret", "/etc", "..", "", "xyz", "a" * 17, "é"])
def test_names_never_become_paths(store, name):
    for use in (store.load, store.remove):
        with pytest.raises(InputError, match="hexadecimal digits"):
            use(name)


def test_beginnings_of_ids_are_enough_if_unique(store):
    assert store.load(tiny().hash[:6]).id == tiny().hash
    with pytest.raises(InputError, match="There is no run"):
        store.load("0" * 16)


def test_only_runs_are_deleted(store):
    foreign = store.root / ("e" * 16)
    foreign.mkdir()
    (foreign / "config.json").write_text('{"_name_or_path": "another program"}')
    with pytest.raises(StoreError, match=r"no config\.json"):
        store.remove("e" * 16)
    (store.directory(tiny()) / "precious.txt").write_text("mine")
    with pytest.raises(
        StoreError, match=r"contains precious\.txt, which recombine did not write, so it was not deleted"
    ):
        store.remove(tiny().hash)
    (store.directory(tiny()) / "precious.txt").unlink()
    (store.root / ("d" * 16)).symlink_to(store.directory(tiny()))
    with pytest.raises(StoreError, match="is a link"):
        store.remove("d" * 16)
    assert foreign.is_dir()
    store.remove(tiny().hash)
    assert not store.directory(tiny()).exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model/thesis.tex": ""}, "thesis.tex, which recombine did not write"),
        ({"model/config.json": "{}"}, "no config.json"),
        ({"config.json": "[1]"}, "no config.json"),
        ({"config.json": "{}", "diagnosis/notes/mine.json": "{}"}, "which recombine did not write"),
        ({"config.json": "{}", ".new/mine": ""}, "which recombine did not write"),
    ],
)
def test_directories_that_may_hold_anything_else_are_not_deleted(store, files, message):
    folder = store.root / ("c" * 16)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    with pytest.raises(StoreError, match=message):
        store.remove("c" * 16)
    assert folder.is_dir()


@pytest.mark.parametrize("damage", ["", "{"])
def test_damaged_and_barely_begun_runs_can_be_deleted(store, damage):
    (store.directory(tiny()) / "config.json").write_text(damage)
    store.remove(tiny().hash)
    (store.root / ("b" * 16)).mkdir()
    store.remove("b" * 16)
    assert store.ids() == []


def test_a_file_is_no_run(store):
    (store.root / ("a" * 16)).write_text("")
    assert store.ids() == [tiny().hash]
    with pytest.raises(InputError, match="There is no run"):
        store.load("a" * 16)


def test_two_processes_do_not_work_on_one_run(store):
    lock = store.lock(tiny())
    with pytest.raises(LockHeld, match=f"is working on {tiny().hash}"):
        Store(store.root).train([tiny()], force=True)
    lock.release()
    Store(store.root).train([tiny()], force=True)


def test_a_store_that_is_a_file_or_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        Store(tmp_path / "file")
    with pytest.raises(StoreError, match="Cannot create"):
        Store(tmp_path / "file" / "below").train([tiny()])


def test_a_full_disk_while_finishing_leaves_an_unfinished_run_that_can_go_on(tmp_path, monkeypatch):
    from recombine.core import files

    real, calls = os.fsync, []

    def full_at_the_third_file(handle):
        calls.append(handle)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(files.os, "fsync", full_at_the_third_file)
    with pytest.raises(StoreError, match="No space left on device"):
        Store(tmp_path).train([tiny()])
    assert not Store(tmp_path).is_finished(tiny())
    [run] = Store(tmp_path).train([tiny()])
    assert run.scores.columns["mse"].shape == (64,)


@pytest.mark.parametrize("file", range(1, 9))
def test_a_full_disk_while_training_again_leaves_the_finished_run(store, monkeypatch, file):
    from recombine.core import files

    before = store.load(tiny().hash)
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == file:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.train([tiny()], force=True)
    assert store.damage(tiny()) is None
    assert store.load(tiny().hash).facts == before.facts
    assert not list(before.path.rglob("*.part"))


def test_what_a_kill_left_while_finishing_is_cleared_away(store):
    left = store.directory(tiny()) / ".new" / "model"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    store.train([tiny()], force=True)
    assert not left.parent.exists()
    assert store.damage(tiny()) is None


def test_the_stored_model_loads_on_its_own(store):
    model = load(store.directory(tiny()) / "model")
    assert torch.equal(model.out.weight, store.load(tiny().hash).model.out.weight)


def test_a_large_store_is_listed_as_quickly_as_its_records_are_read(store):
    """`make bench` measures the promise, 10 000 runs in 2 s; here with every call checked for its types."""
    facts = json.loads((store.directory(tiny()) / "run.json").read_text())
    del facts["digest"]
    for i in range(1, 2_001):
        config = {**facts["config"], "seed": i}
        mine = {**facts, "run": hash_of(config), "config": config}
        (store.root / mine["run"]).mkdir()
        (store.root / mine["run"] / "run.json").write_text(json.dumps({**mine, "digest": run_digest(mine)}))
    rows: list[ListedRun] = []
    listing, reading = [], []
    for _ in range(3):
        start = time.process_time()  # of this process: the machine may be busy with others
        rows = store.list()
        listing.append(time.process_time() - start)
        start = time.process_time()
        for path in store.root.glob("*/run.json"):
            run_digest(json.loads(path.read_bytes()))
        reading.append(time.process_time() - start)
    assert {row.status.state for row in rows} == {RunState.FINISHED}
    assert len(rows) == 2_001
    assert min(listing) < 6 * min(reading), (listing, reading)
