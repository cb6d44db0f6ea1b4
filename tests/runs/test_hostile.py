"""Stores that someone else prepared: a listing never lies, damage stays where it is, links are not followed."""

import json
import os
import shutil

import pytest
import torch

from recombine import sweeps
from recombine.core.errors import DamagedError, StoreError
from recombine.core.files import write_tensors
from recombine.runs.config import RunConfig, hash_of
from recombine.runs.damage import DETAILS, MOST_NAMED, damage_lines, reopen_damaged
from recombine.runs.facts import run_digest
from recombine.runs.status import RunState
from recombine.runs.store import Store
from recombine.studies.framework.preparing import Preparation
from recombine.training.checkpoint import FORMAT

TINY = ["scene.factors.x=6", "scene.factors.y=6", "holdout.lo=2", "holdout.hi=3", "decoder.kind=mlp", "decoder.width=8",
        "training.steps=3"]  # fmt: skip
FIRST, SECOND, THIRD = (RunConfig.parse([*TINY, f"seed={seed}"]) for seed in range(3))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    Store(root).train([FIRST, SECOND], progress=False)
    return root


@pytest.fixture
def store(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "runs")
    return Store(tmp_path / "runs")


def record(store, config):
    return store.directory(config) / "run.json"


def rewritten(path, **changes):
    """A run.json with other facts and a digest that fits them."""
    facts = json.loads(path.read_text())
    facts = {**{k: v for k, v in facts.items() if k != "digest"}, **changes}
    path.write_text(json.dumps({**facts, "digest": run_digest(facts)}))


def states(store):
    return {row.id: row.status.state for row in store.list()}


def swept(store, *configs):
    return sweeps.run(configs, store, engine="in-process", device="cpu", quiet=True)


def test_the_record_of_another_run_is_damage_and_a_sweep_trains_the_run_again(store):
    right = json.loads(record(store, SECOND).read_text())
    shutil.copy(record(store, FIRST), record(store, SECOND))
    assert states(store) == {FIRST.hash: RunState.FINISHED, SECOND.hash: RunState.DAMAGED}
    assert [row["run"] for row in sweeps.table(store).rows] == [FIRST.hash]
    assert set(sweeps.table(store).skipped) == {SECOND.hash}
    with pytest.raises(DamagedError):
        store.load(SECOND.hash)
    assert swept(store, FIRST, SECOND).trained == [SECOND.hash]
    assert states(store) == {FIRST.hash: RunState.FINISHED, SECOND.hash: RunState.FINISHED}
    assert store.load(SECOND.hash).summary == right["summary"]


def test_one_run_in_two_folders_is_damage_in_the_folder_that_is_not_its_own(store):
    shutil.copytree(store.directory(FIRST), store.directory(THIRD))
    assert states(store)[THIRD.hash] is RunState.DAMAGED
    rewritten(record(store, THIRD), run=THIRD.hash)  # it says it is another, with the configuration of the first
    assert states(store)[THIRD.hash] is RunState.DAMAGED
    assert states(store)[FIRST.hash] is RunState.FINISHED
    assert swept(store, THIRD).trained == [THIRD.hash]


@pytest.mark.parametrize("name", ["model/model.safetensors", "scores.csv", "config.json"])
def test_a_sweep_trains_runs_again_whose_files_were_changed(store, name):
    path = store.directory(FIRST) / name
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"#")
    assert swept(store, FIRST, SECOND).trained == [FIRST.hash]
    assert path.read_bytes() == good


HOSTILE = {
    "summary": [None, [], {"ood_mse": "small"}, {"ood_mse": [1]}, {"x": True}, {"x": 10**400}, {"x": {}}],
    "config": [None, [], {}, "x", {"scene": 1}],
    "files": [None, [], {}, {"scores.csv": 1}],
    "described": [None, {"rank": 3}, {"rank": {"x": "y"}}],
    "steps": [None, -1, 1.5, True, 10**30],
    "seconds": [None, "long", 10**400, -1],
    "loss_names": [None, "loss", [1]],
    "run": [None, 3, "../../etc"],
    "versions": [[], "1"],
    "name": [3, None],
    "grid": [3, {"held_out": "x"}],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in HOSTILE.items() for value in values])
def test_a_hostile_record_is_damage_and_hides_no_other_run(store, key, value):
    rewritten(record(store, FIRST), **{key: value})
    assert states(store) == {FIRST.hash: RunState.DAMAGED, SECOND.hash: RunState.FINISHED}
    for use in (store.load, store.facts):
        with pytest.raises(StoreError):
            use(FIRST.hash)
    assert [row["run"] for row in sweeps.table(store).rows] == [SECOND.hash]


def test_deep_and_endless_records_are_damage(store):
    deep = '{"format": "recombine-run-2", "a": ' + "[" * 900 + "]" * 900 + "}"
    for content in ("[" * 100_000, deep, "NaN", "\ud800"):
        record(store, FIRST).write_text(content, errors="surrogatepass")
        assert states(store)[FIRST.hash] is RunState.DAMAGED
    record(store, FIRST).unlink()
    os.mkfifo(record(store, FIRST))  # reading it would wait for ever
    assert states(store)[FIRST.hash] is RunState.DAMAGED
    record(store, FIRST).unlink()
    record(store, FIRST).mkdir()
    assert states(store)[FIRST.hash] is RunState.DAMAGED
    assert swept(store, FIRST).trained == [FIRST.hash]


def test_an_unfinished_run_with_the_configuration_of_another_is_damage(store):
    record(store, FIRST).unlink()
    shutil.copy(store.directory(SECOND) / "config.json", store.directory(FIRST) / "config.json")
    assert states(store)[FIRST.hash] is RunState.DAMAGED
    store.train([FIRST], progress=False)
    assert states(store)[FIRST.hash] is RunState.FINISHED


def test_settings_that_were_introduced_later_or_name_a_place_do_not_look_like_damage(store):
    facts = json.loads(record(store, FIRST).read_text())
    longer = {**facts["config"], "training": {**facts["config"]["training"], "steps": 4}}
    assert hash_of(longer) != FIRST.hash
    rewritten(record(store, FIRST), config=longer)
    assert states(store)[FIRST.hash] is RunState.DAMAGED


CHECKPOINTS = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no checkpoint"),
    "facts": lambda path: write_tensors(path, {"a": torch.zeros(1)}, {"format": FORMAT, "facts": "{"}),
    "foreign": lambda path: write_tensors(
        path, {"a": torch.zeros(1)}, {"format": FORMAT, "fingerprint": "x", "facts": '{"step": 1}'}
    ),
    "folder": lambda path: path.mkdir(),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("damage", CHECKPOINTS)
def test_a_damaged_checkpoint_is_set_aside_and_the_run_starts_again(store, damage):
    store.directory(THIRD).mkdir()
    (store.directory(THIRD) / "config.json").write_text(json.dumps(THIRD.to_dict()))
    CHECKPOINTS[damage](store.directory(THIRD) / "checkpoint.safetensors")
    assert len(store.list()) == 3
    [run] = store.train([THIRD], progress=False)
    run.verify()
    assert not (run.path / "checkpoint.safetensors").exists()


def test_seeds_whose_checkpoints_are_damaged_start_again_and_the_others_go_on(store):
    for config in (FIRST, SECOND):
        record(store, config).unlink()
    (store.directory(FIRST) / "checkpoint.safetensors").write_text("half")
    before = store.directory(SECOND).joinpath("scores.csv").read_bytes()
    store.train([FIRST, SECOND], progress=False)
    assert store.directory(SECOND).joinpath("scores.csv").read_bytes() == before


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": "recombine-sweep-2"}', "[" * 100_000])
def test_a_damaged_sweep_json_is_set_aside_by_a_sweep_and_named_by_status(store, content):
    path = store.root / "sweep.json"
    path.write_text(content)
    with pytest.raises(StoreError):
        sweeps.status(store.root)
    assert swept(store, FIRST).finished == [FIRST.hash]
    assert (store.root / "damaged-sweep.json").read_text() == content
    assert sweeps.status(store.root).finished == [FIRST.hash]


def test_ten_thousand_bad_runs_give_one_line_and_a_file(tmp_path):
    few = {f"{i:016x}": "why" for i in range(MOST_NAMED)}
    assert len(damage_lines(tmp_path, few)) == MOST_NAMED
    assert not (tmp_path / DETAILS).exists()
    many = {f"{i:016x}": "why" for i in range(10_000)}
    [line] = damage_lines(tmp_path, many)
    assert "10000" in line
    assert json.loads((tmp_path / DETAILS).read_text()) == many


def test_many_damaged_runs_are_trained_again_with_one_line(store, monkeypatch):
    for config in (FIRST, SECOND):
        record(store, config).write_text("{")
    lines = reopen_damaged(store, [FIRST, SECOND, THIRD])
    assert len(lines) == 2
    assert not any("--force" in line for line in lines)  # nothing is left to do
    assert states(store) == {FIRST.hash: RunState.NOT_STARTED, SECOND.hash: RunState.NOT_STARTED}
    for config in (FIRST, SECOND):
        record(store, config).write_text("{")
    monkeypatch.setattr("recombine.runs.damage.MOST_NAMED", 1)
    [line] = reopen_damaged(store, [FIRST, SECOND])
    assert "2 runs" in line
    assert set(json.loads((store.root / DETAILS).read_text())) == {FIRST.hash, SECOND.hash}


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("mine")
    return folder


def content_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ["model", "diagnosis", ".new", "scores.csv", "model/model.safetensors", "run.json",
                                  "checkpoint.safetensors", "next-checkpoint.safetensors", ".lock"])  # fmt: skip
@pytest.mark.parametrize("dangling", [False, True])
def test_nothing_is_read_or_written_through_links_inside_a_run(store, outside, name, dangling):
    path = store.directory(FIRST) / name
    if path.is_dir() or path.exists():
        shutil.move(path, outside / "moved")
    path.symlink_to(outside / ("nothing" if dangling else "moved" if (outside / "moved").exists() else "."))
    before = content_of(outside)
    store.list()
    if (name.startswith("model") or name == "scores.csv") and not dangling:
        with pytest.raises(DamagedError):
            store.load(FIRST.hash).verify()
    store.train([FIRST], force=True, progress=False)
    store.load(FIRST.hash).diagnose(parts=["errors"], progress=False) if name != "diagnosis" else None
    assert content_of(outside) == before
    assert store.damage(FIRST) is None


@pytest.mark.parametrize("name", ["diagnosis", "diagnosis/diagnosis.json"])
def test_a_diagnosis_that_is_a_link_is_refused_before_it_is_computed_and_dropped_by_studies(
    store, outside, name, monkeypatch
):
    path = store.directory(FIRST) / name
    path.parent.mkdir(exist_ok=True)
    (outside / "diagnosis.json").write_text("{}")
    path.symlink_to(outside if name == "diagnosis" else outside / "diagnosis.json")
    before = content_of(outside)
    run = store.load(FIRST.hash)
    with monkeypatch.context() as patched:
        patched.setattr("recombine.diagnostics.diagnose.diagnose", None)
        with pytest.raises(DamagedError, match="symbolic link"):
            run.diagnose(parts=["errors"], progress=False)
    Preparation(store).reopen_damaged([FIRST])
    assert content_of(outside) == before
    assert not path.is_symlink()
    run.diagnose(parts=["errors"], progress=False)
    assert run.diagnosis["errors"].computed


def test_a_run_that_is_a_link_is_listed_as_damaged_and_not_touched(store, outside):
    shutil.move(store.directory(FIRST), outside / "run")
    store.directory(FIRST).symlink_to(outside / "run")
    store.directory(THIRD).symlink_to(outside / "nothing")
    before = content_of(outside)
    assert states(store) == {
        FIRST.hash: RunState.DAMAGED, SECOND.hash: RunState.FINISHED, THIRD.hash: RunState.DAMAGED
    }  # fmt: skip
    result = swept(store, FIRST, SECOND, THIRD)
    assert result.finished == [SECOND.hash]
    assert {failure.run for failure in result.failed} == {FIRST.hash, THIRD.hash}
    for run in (FIRST.hash, THIRD.hash):
        with pytest.raises(StoreError):
            store.remove(run)
        with pytest.raises(StoreError):
            store.load(run)
    assert content_of(outside) == before


@pytest.mark.parametrize("name", ["sweep.json", "sweep-events.jsonl", "sweep-logs", ".sweep.json.lock"])
@pytest.mark.parametrize("dangling", [False, True])
def test_a_sweep_writes_nothing_through_links(store, outside, name, dangling):
    target = outside / "nothing" if dangling else outside if name == "sweep-logs" else outside / "precious"
    (store.root / name).symlink_to(target)
    before = content_of(outside)
    engine = "processes" if name == "sweep-logs" and not dangling else "in-process"  # workers have logs of their own
    assert sweeps.run([THIRD], store, engine=engine, workers=1, device="cpu", quiet=True).trained == [THIRD.hash]
    assert content_of(outside) == before
    assert [event["event"] for event in sweeps.journal.events(store.root)][-1] == "finished"


def test_the_root_of_a_store_may_be_a_link(store, tmp_path):
    (tmp_path / "link").symlink_to(store.root)
    assert swept(Store(tmp_path / "link"), FIRST, THIRD).trained == [THIRD.hash]
    assert states(Store(tmp_path / "link"))[THIRD.hash] is RunState.FINISHED


def test_a_path_that_is_no_utf_8_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(StoreError, match="UTF-8"):
        Store(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
