"""Diagnoses where runs are trained: side by side, resumable, kept with the run."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from recombine import sweeps
from recombine.cli.app import app
from recombine.core.errors import DamagedError, InputError
from recombine.diagnostics.request import DiagnosisRequest
from recombine.runs.store import Store
from recombine.runs.transfer import add_diagnosis, diagnosis_files
from recombine.sweeps.engines.engine import ENGINES
from recombine.sweeps.engines.in_process import InProcess
from recombine.sweeps.journal import events

WORDS = ["scene.factors.x=6", "scene.factors.y=6", "holdout.lo=2", "holdout.hi=3", "decoder.kind=mlp",
         "decoder.width=8", "decoder.depth=1", "training.steps=4"]  # fmt: skip
ERRORS = DiagnosisRequest(parts=["errors"])
BOTH = DiagnosisRequest(parts=["errors", "superposition"])


def sweep(configs, out, **options):
    return sweeps.run(configs, out, **{"engine": "in-process", "device": "cpu", "quiet": True, **options})


def configs(*more):
    return sweeps.parse([*WORDS, *more]).configs


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Two trained and diagnosed runs, by worker processes."""
    out = tmp_path_factory.mktemp("diagnosed")
    wanted = configs("seed=0..1")
    result = sweep(wanted, out, diagnose=ERRORS, engine="processes", workers=2)
    assert result.failed == result.undiagnosed == []
    assert result.finished == result.trained == result.diagnosed == [c.hash for c in wanted]
    return out


@pytest.fixture
def copy(done, tmp_path):
    shutil.copytree(done, tmp_path / "runs")
    return tmp_path / "runs"


def kept(out):
    """Run → files of its diagnosis."""
    return {
        run: {path.name: path.read_bytes() for path in sorted((out / run / "diagnosis").glob("*"))}
        for run in Store(out).ids()
    }


def work_begun(out):
    return [(event["work"], event["runs"]) for event in events(out) if event["event"] == "started"]


def test_every_worker_process_diagnoses_what_was_trained(done):
    wanted = configs("seed=0..1")
    assert work_begun(done)[0] == ("train", [c.hash for c in wanted])  # two seeds of an MLP train together
    assert sorted(work_begun(done)[1:]) == sorted(
        ("diagnose", [c.hash]) for c in wanted
    )  # and are diagnosed one by one
    for config in wanted:
        run = Store(done).load(config.hash)
        assert run.lacks(ERRORS) == ()
        assert run.diagnosis["errors"].computed
    assert len(sweeps.status(done).diagnosed or []) == 2


def test_what_is_kept_is_not_computed_again(copy, monkeypatch):
    before = kept(copy)
    monkeypatch.setattr("recombine.sweeps.engines.engine.call", lambda *_: pytest.fail("computed again"))
    result = sweep(configs("seed=0..1"), copy, diagnose=ERRORS)
    assert (result.trained, len(result.diagnosed)) == ([], 2)
    assert kept(copy) == before


def test_a_lost_diagnosis_and_a_further_part_are_computed_and_nothing_else(copy):
    first, second = configs("seed=0..1")
    before = kept(copy)
    shutil.rmtree(copy / first.hash / "diagnosis")
    result = sweep([first, second], copy, diagnose={first.hash: ERRORS, second.hash: BOTH})
    assert result.trained == []
    assert result.diagnosed == [first.hash, second.hash]
    assert kept(copy)[first.hash] == before[first.hash]
    found = Store(copy).load(second.hash).diagnosis
    assert found["errors"].computed
    assert found["superposition"].computed


def test_only_the_runs_named_are_diagnosed(copy):
    first, second = configs("seed=2..3")
    result = sweep([first, second], copy, diagnose={second.hash: ERRORS})
    assert result.finished == [first.hash, second.hash]
    assert result.diagnosed == [second.hash]


def test_without_a_shared_folder_the_run_goes_out_and_the_diagnosis_comes_back(done, tmp_path):
    class Elsewhere(InProcess):
        shares_files = False

    ENGINES.add("elsewhere", lambda options: Elsewhere())
    try:
        wanted = configs("seed=0..1")
        result = sweep(wanted, tmp_path / "runs", diagnose=ERRORS, engine="elsewhere")
        assert (len(result.diagnosed), result.failed, result.undiagnosed) == (2, [], [])
        assert kept(tmp_path / "runs") == kept(done)
        result = sweep(wanted, tmp_path / "runs", diagnose=BOTH, engine="elsewhere")  # adds to what is there
        assert len(result.diagnosed) == 2
        assert Store(tmp_path / "runs").load(wanted[0].hash).lacks(BOTH) == ()
    finally:
        ENGINES.remove("elsewhere")


def test_files_that_are_no_diagnosis_of_the_run_are_refused(copy):
    store = Store(copy)
    first, second = (store.load(config.hash) for config in configs("seed=0..1"))
    good = diagnosis_files(first)
    main = json.loads(good["diagnosis/diagnosis.json"])
    [table] = [name for name in good if name.endswith(".csv")][:1]
    before = kept(copy)
    lock = store.lock(first.config)
    try:
        for bad in (
            diagnosis_files(second),
            {},
            {**good, "diagnosis/../../escape.json": b"{}"},
            {**good, "run.json": b"{}"},
            {**good, table: b"changed"},
            {name: content for name, content in good.items() if name != table},
            {**good, "diagnosis/diagnosis.json": b"["},
            {**good, "diagnosis/diagnosis.json": json.dumps({**main, "source": []}).encode()},
        ):
            with pytest.raises(DamagedError):
                add_diagnosis(first, bad, lock)
            assert kept(copy) == before
        add_diagnosis(first, good, lock)
        assert kept(copy) == before
    finally:
        lock.release()


def test_a_run_that_cannot_be_diagnosed_is_told_and_the_others_go_on(copy):
    first, second = configs("seed=0..1")
    shutil.rmtree(copy / first.hash / "diagnosis")
    (copy / first.hash / "diagnosis").write_text("in the way")
    result = sweep([first, second], copy, diagnose=BOTH)
    assert [failure.run for failure in result.undiagnosed] == [first.hash]
    assert result.failed == []
    assert result.diagnosed == [second.hash]
    assert first.hash in (result.undiagnosed[0].log or "")


def test_a_run_whose_weights_are_damaged_is_trained_and_diagnosed_again(copy):
    first, second = configs("seed=0..1")
    (copy / first.hash / "model" / "model.safetensors").write_bytes(b"junk")
    result = sweep([first, second], copy, diagnose=BOTH)
    assert (result.trained, result.undiagnosed) == ([first.hash], [])
    assert sorted(result.diagnosed) == sorted([first.hash, second.hash])


def test_a_diagnosis_of_other_settings_is_not_replaced_by_less(copy):
    sweep(configs("seed=0"), copy, diagnose=BOTH)
    result = sweep(configs("seed=0"), copy, diagnose=DiagnosisRequest(parts=["errors"], seed=1))
    assert len(result.undiagnosed) == 1
    assert Store(copy).load(configs("seed=0")[0].hash).lacks(BOTH) == ()


def test_the_verdict_is_a_column_of_the_table(copy):
    wanted = configs("seed=0..1")
    assert "verdict" not in sweeps.table(copy).columns  # errors alone give no verdict
    sweep(wanted, copy, diagnose=BOTH)
    table = sweeps.table(copy)
    expected = {config.hash: str(Store(copy).load(config.hash).diagnosis.verdict.kind) for config in wanted}
    assert {row["run"]: row["verdict"] for row in table.rows} == expected
    assert table.columns.index("verdict") == table.columns.index("seed") + 1
    assert "verdict" not in table.metrics
    [row] = table.grouped().rows
    assert sum(int(count.split()[-1]) for count in row["verdict"].split(", ")) == 2
    shares = [Store(copy).load(config.hash).diagnosis.verdict.right for config in wanted]
    assert [r["right_cells"] for r in table.rows] == shares
    assert row["right_cells"] == pytest.approx(sum(shares) / 2)
    assert row["right_cells_low"] <= row["right_cells"] <= row["right_cells_high"]
    (copy / wanted[0].hash / "diagnosis" / "diagnosis.json").write_text("[]")  # one that cannot be read has none
    assert len([row for row in sweeps.table(copy).rows if row.get("verdict")]) == 1
    assert sweeps.table(copy).to_csv().count("\n") == 3


def test_an_unknown_part_is_told_before_anything_starts(tmp_path):
    with pytest.raises(InputError, match="did you mean 'errors'"):
        sweep(configs("seed=0"), tmp_path / "runs", diagnose=DiagnosisRequest(parts=["erors"]))
    assert not (tmp_path / "runs").exists()


def test_the_command_line_asks_for_parts(copy, tmp_path):
    options = ["--out", str(copy), "--engine", "in-process", "--device", "cpu", "--json"]
    result = CliRunner().invoke(app, ["sweep", *WORDS, "seed=0..1", "--diagnose", "errors,superposition", *options])
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["diagnosed"]) == 2
    result = CliRunner().invoke(app, ["sweep", *WORDS, "--diagnose", "erors", "--out", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert not (tmp_path / "new").exists()
