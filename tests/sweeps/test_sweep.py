"""Whole sweeps: the same table whoever runs them, and what happens when something goes wrong."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import recombine
from recombine import sweeps
from recombine.core.errors import DamagedError, InputError, LockHeld, StoreError
from recombine.core.lock import holder
from recombine.runs import training
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps import manifest
from recombine.sweeps.jobs.training import batches, train
from recombine.sweeps.journal import events

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.width=8",
        "training.steps=10"]  # fmt: skip
ROOT = Path(__file__).parents[2]
OPTIONS = {"device": "cpu", "checkpoint_seconds": 60.0, "plugins": []}  # of jobs


def configs(*words):
    return sweeps.parse([*TINY, *words]).configs


def sweep(wanted, out, **options):
    return sweeps.run(wanted, out, **{"engine": "in-process", "device": "cpu", "quiet": True, **options})


def command(*words, env=None):
    """`recombine sweep` as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "recombine", "sweep", *TINY, *map(str, words), "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(env or {})},
    )


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished sweep of five MLP seeds and one CNN."""
    out = tmp_path_factory.mktemp("sweep") / "runs"
    wanted = [*configs("decoder.kind=mlp", "seed=0..4"), *configs("decoder.kind=cnn", "decoder.depth=2")]
    result = sweep(wanted, out)
    assert result.failed == []
    assert result.finished == result.trained == [c.hash for batch in batches(wanted) for c in batch]
    return out


@pytest.fixture
def copy(done, tmp_path):
    shutil.copytree(done, tmp_path / "runs")
    return tmp_path / "runs"


def wanted_of(out):
    return [RunConfig.from_dict(row.config) for row in Store(out).list()]


def test_processes_give_the_same_table_as_in_process(done, tmp_path):
    result = sweep(wanted_of(done), tmp_path / "runs", engine="processes", workers=2)
    assert len(result.trained) == 6
    assert sweeps.table(tmp_path / "runs").to_csv() == sweeps.table(done).to_csv()


def test_seeds_are_batched_where_that_is_faster_and_by_nothing_else():
    wanted = [*configs("decoder.kind=mlp", "seed=0..9"), *configs("decoder.kind=cnn", "decoder.depth=2", "seed=0..1")]
    assert [[c.seed for c in batch] for batch in batches(wanted)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0], [1]]
    assert [[c.seed for c in batch] for batch in batches(wanted[2:6])] == [[2, 3], [4, 5]]


def test_a_finished_sweep_is_not_run_again(copy, monkeypatch):
    monkeypatch.setattr("recombine.sweeps.engines.engine.call", lambda *_: pytest.fail("run again"))
    before = {path: path.stat().st_mtime_ns for path in copy.glob("*/*") if path.is_file()}
    result = sweep(wanted_of(copy), copy)
    assert (len(result.finished), result.trained, result.failed) == (6, [], [])
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_is_left_of_a_batch_gives_the_bits_of_the_whole(copy, done):
    victims = [c for c in wanted_of(copy) if c.decoder["kind"] == "mlp" and c.seed in (1, 3)]
    for config in victims:
        shutil.rmtree(Store(copy).directory(config))
    assert sorted(sweep(wanted_of(done), copy).trained) == sorted(c.hash for c in victims)
    assert sweeps.table(copy).to_csv() == sweeps.table(done).to_csv()


def test_a_run_that_raises_is_reported_and_the_others_go_on(tmp_path):
    wanted = configs("decoder.kind=cnn", "decoder.depth=2", "training.learning_rate=1e-3,1e18")
    result = sweep(wanted, tmp_path / "runs", engine="processes", workers=1)
    assert result.finished == [wanted[0].hash]
    [failure] = result.failed
    assert (failure.run, failure.cause, failure.key) == (wanted[1].hash, sweeps.Cause.DIVERGED, "")
    assert [e["cause"] for e in events(tmp_path / "runs") if e["event"] == "failed"] == ["diverged"]
    assert failure.error in Path(failure.log).read_text()
    assert "too high" in sweeps.status(tmp_path / "runs").failed[wanted[1].hash]


def test_each_seed_of_a_batch_is_told_its_own_failure(tmp_path):
    wanted = configs("decoder.kind=mlp", "training.learning_rate=1e18", "seed=0,1")
    told = {failure.run: failure.error for failure in sweep(wanted, tmp_path / "runs").failed}
    assert [told[c.hash].count("The loss of seed") for c in wanted] == [1, 1]
    assert all(f"seed {c.seed} is not" in told[c.hash] for c in wanted)


def test_failures_are_told_as_they_happen(tmp_path, capsys):
    wanted = configs("decoder.kind=cnn", "decoder.depth=2", "training.learning_rate=1e18")
    sweep(wanted, tmp_path / "runs", quiet=False)
    told = capsys.readouterr().err
    assert f"failed: train {wanted[0].hash} cnn bump centre seed 0: The loss of seed 0" in told
    assert "Traceback" not in told  # the error was raised deliberately
    assert f"log: {tmp_path / 'runs' / 'sweep-logs'}" in told


def test_a_worker_killed_again_and_again_is_given_up(tmp_path):
    wanted = configs("decoder.kind=cnn", "decoder.depth=2", "training.steps=100000", "seed=0")
    out = tmp_path / "runs"
    stop = threading.Event()

    def kill():
        while not stop.is_set():
            for lock in out.glob("*/.lock"):
                with contextlib.suppress(OSError, ValueError):
                    os.kill(json.loads(lock.read_text())["pid"], signal.SIGKILL)
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        result = sweep(wanted, out, engine="processes", workers=1, retries=1)
    finally:
        stop.set()
        killer.join()
    assert result.finished == []
    assert [failure.cause for failure in result.failed] == [sweeps.Cause.LOST]
    assert [e["attempt"] for e in events(out) if e["event"] == "started"] == [1, 2]


@pytest.mark.parametrize("engine", ["in-process", "processes"])
def test_a_run_that_takes_too_long_is_ended_and_the_others_go_on(tmp_path, engine):
    long = configs("decoder.kind=mlp", "training.steps=1000000")
    short = configs("decoder.kind=mlp")
    result = sweep([*long, *short], tmp_path / "runs", engine=engine, workers=1, time_limit=2.0)
    assert result.finished == [short[0].hash]
    assert [failure.run for failure in result.failed] == [long[0].hash]
    assert result.failed[0].cause == sweeps.Cause.TIME_LIMIT


def test_a_full_disk_fails_the_run_that_meets_it_and_the_same_call_goes_on(tmp_path, monkeypatch, done):
    from recombine.core import files

    real, wanted = os.fsync, wanted_of(done)
    victim = next(c for c in wanted if c.decoder["kind"] == "cnn")

    def full(handle):
        if victim.hash in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(files.os, "fsync", full)
    result = sweep(wanted, tmp_path / "runs")
    assert len(result.finished) == 5
    assert result.failed[0].cause == sweeps.Cause.STORE
    monkeypatch.setattr(files.os, "fsync", real)
    assert sweep(wanted, tmp_path / "runs").trained == [victim.hash]
    assert sweeps.table(tmp_path / "runs").to_csv() == sweeps.table(done).to_csv()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="is a file"):
        sweep(configs("decoder.kind=mlp"), tmp_path / "file")
    with pytest.raises(StoreError, match="Cannot create"):
        sweep(configs("decoder.kind=mlp"), tmp_path / "file" / "below")


def test_ctrl_c_saves_and_the_same_command_goes_on_to_the_same_bits(tmp_path):
    words = ("decoder.kind=cnn", "decoder.depth=2", "training.steps=300", "seed=3", "--max-parallel", "1")
    out = tmp_path / "runs"
    process = command(*words, "--out", out, "--checkpoint-seconds", "0.1")
    wait_for(lambda: len(list(out.glob("*/checkpoint.safetensors"))) == 1)
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Run the same command again to resume" in told
    assert not list(out.glob("*/.lock"))
    assert len(list(out.glob("*/checkpoint.safetensors"))) == 1
    assert list(out.glob("*/run.json")) == []
    again = command(*words[:4], "--out", out, "--engine", "in-process")  # starts no worker
    assert again.communicate(timeout=120) is not None
    assert again.returncode == 0
    wanted = sweeps.parse([*TINY, *words[:4]]).configs
    sweep(wanted, tmp_path / "undisturbed")
    assert sweeps.table(out).to_csv() == sweeps.table(tmp_path / "undisturbed").to_csv()


def test_a_worker_that_someone_else_ends_is_tried_again(tmp_path):
    out = tmp_path / "runs"
    words = ("decoder.kind=cnn", "decoder.depth=2", "training.steps=300", "--checkpoint-seconds", "0.1")
    process = command(*words, "--out", out, "--max-parallel", "1", "--json")
    wait_for(lambda: list(out.glob("*/checkpoint.safetensors")))
    worker = holder(next(out.glob("*/.lock")))
    assert worker is not None
    assert worker.pid != process.pid
    os.kill(worker.pid, signal.SIGTERM)
    answer, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert len(json.loads(answer)["finished"]) == 1
    assert [event["event"] for event in events(out)].count("lost") == 1


def test_what_a_batch_finished_before_it_raised_counts_as_finished(tmp_path, monkeypatch):
    wanted = configs("decoder.kind=mlp", "seed=0..3")
    write, written = training.write_run, []

    def full_after_two(folder, config, run):
        written.append(config.hash)
        if len(written) > 2:
            raise ValueError("not foreseen")
        return write(folder, config, run)

    monkeypatch.setattr(training, "write_run", full_after_two)
    result = sweep(wanted, tmp_path / "runs")
    assert result.finished == result.trained == [c.hash for c in wanted[:2]]
    assert [failure.run for failure in result.failed] == [c.hash for c in wanted[2:]]


def test_two_drivers_share_the_work_and_do_nothing_twice(tmp_path):
    words = ("decoder.kind=cnn", "decoder.depth=2", "training.steps=60", "seed=0..5", "--engine", "in-process")
    both = [command(*words, "--out", tmp_path / "runs", "--json") for _ in range(2)]
    answers = []
    for process in both:
        out, told = process.communicate(timeout=240)
        assert process.returncode == 0, told
        answers.append(json.loads(out))
    trained = [run for answer in answers for run in answer["trained"]]
    assert len(trained) == len(set(trained)) == 6
    assert [len(answer["finished"]) for answer in answers] == [6, 6]
    assert all(answer["trained"] for answer in answers), "one of them did everything"


@pytest.mark.parametrize("when", ["before", "while we ask for the lock", "before we get the lock"])
def test_what_another_process_finished_is_not_counted_as_trained(when, copy, done, monkeypatch):
    victim = wanted_of(done)[0]
    if when != "before":
        shutil.rmtree(Store(copy).directory(victim))

        def finished_elsewhere(self, config):
            monkeypatch.undo()
            lock = Store(copy).lock(victim)
            Store(copy).add(victim, Store(done).files(victim), lock)
            lock.release()
            if when == "while we ask for the lock":
                raise LockHeld("Another process is working on it.")
            return self.lock(config)

        monkeypatch.setattr(Store, "lock", finished_elsewhere)
    payload = {
        "configs": [victim.to_dict()],
        "store": str(copy),
        "device": "cpu",
        "checkpoint_seconds": 60.0,
        "plugins": [],
    }
    data = train(payload).data
    assert data["finished"] == data["found"] == [victim.hash]
    assert (data["busy"], data["failed"]) == ([], {})


def test_a_run_that_another_process_works_on_is_waited_for(copy, done, monkeypatch):
    monkeypatch.setattr("recombine.sweeps.driver.WAIT_FOR_OTHERS", 0.2)
    victim = wanted_of(done)[0]
    shutil.rmtree(Store(copy).directory(victim))
    lock = Store(copy).lock(victim)

    def finish_elsewhere():
        time.sleep(0.7)
        Store(copy).add(victim, Store(done).files(victim), lock)
        lock.release()

    other = threading.Thread(target=finish_elsewhere)
    other.start()
    result = sweep(wanted_of(done), copy)
    other.join()
    assert (len(result.finished), result.trained) == (6, [])


def test_without_a_shared_folder_results_come_back_as_files_and_only_those(done, tmp_path):
    config = wanted_of(done)[0]
    output = train({**OPTIONS, "configs": [config.to_dict()], "store": None})
    assert output.data["finished"] == [config.hash]
    store = Store(tmp_path / "runs")
    lock = store.lock(config)
    files = {name.removeprefix(f"{config.hash}/"): content for name, content in output.files.items()}
    for bad, message in (
        ({**files, "../escape": b"x"}, "does not have the files of a run"),
        ({k: v for k, v in files.items() if k != "scores.csv"}, "does not have the files of a run"),
        ({**files, "scores.csv": b"x"}, "is damaged"),
        ({**files, "run.json": b"{"}, "cannot be read as JSON"),
        ({**files, "run.json": b'{"format": "other"}'}, "written by another version"),
    ):
        with pytest.raises(StoreError, match=message):
            store.add(config, bad, lock)
    assert [p.name for p in store.directory(config).iterdir()] == [".lock"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["runs"]
    store.add(config, files, lock)
    lock.release()
    assert (store.directory(config) / "scores.csv").read_bytes() == (
        Store(done).directory(config) / "scores.csv"
    ).read_bytes()


def test_a_folder_of_another_version_is_refused_and_says_what_differs(copy):
    path = copy / "sweep.json"
    good = json.loads(path.read_text())
    path.write_text(json.dumps({**good, "versions": {**good["versions"], "recombine": "0.0.9"}}))
    with pytest.raises(StoreError, match=rf"recombine 0\.0\.9 .*{re.escape(recombine.__version__)}"):
        sweep(wanted_of(copy), copy)
    assert len(sweep(wanted_of(copy), copy, any_version=True).finished) == 6
    path.write_text(json.dumps({**good, "format": "recombine-sweep-0"}))
    with pytest.raises(StoreError, match="its format is 'recombine-sweep-0'"):
        sweep(wanted_of(copy), copy)
    path.write_text(json.dumps({**good, "runs": ["../../etc"]}))
    with pytest.raises(DamagedError):
        sweeps.status(copy)


def test_runs_of_another_version_are_noticed_without_a_sweep_json(copy, monkeypatch):
    (copy / "sweep.json").unlink()
    monkeypatch.setattr(manifest, "versions", lambda: {"recombine": "9.9", "torch": "9.9"})
    with pytest.raises(StoreError, match=rf"recombine {re.escape(recombine.__version__)} .*9\.9.* torch .*9"):
        sweep(wanted_of(copy), copy)


def test_a_run_whose_record_is_damaged_is_trained_again(copy, done):
    wanted = wanted_of(copy)
    (copy / wanted[0].hash / "run.json").write_text("{")
    result = sweep(wanted, copy)
    assert result.trained == [wanted[0].hash]
    assert sweeps.table(copy).to_csv() == sweeps.table(done).to_csv()


def test_several_sweeps_into_one_folder_put_their_runs_together(copy):
    more = configs("decoder.kind=mlp", "seed=9")
    sweep(more, copy)
    assert sweeps.status(copy).total == 7
    assert len(sweeps.table(copy).rows) == 7


@pytest.mark.parametrize("options", [{"retries": -1}, {"time_limit": 0.0}, {"workers": 0}, {"engine": "slurm"}])
def test_bad_options_are_errors(tmp_path, options):
    with pytest.raises(InputError):
        sweep(configs("decoder.kind=mlp"), tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()


def test_status_tells_running_waiting_and_finished_runs(copy):
    store, wanted = Store(copy), wanted_of(copy)
    for config in wanted[:2]:
        (store.directory(config) / "run.json").unlink()
    lock = store.lock(wanted[0])
    found = sweeps.status(copy)
    assert (len(found.finished), len(found.waiting), found.failed) == (4, 1, {})
    [running] = found.running
    assert (running.run, running.pid) == (wanted[0].hash, os.getpid())
    assert f"running  {wanted[0].hash}  process {os.getpid()}" in str(found)
    assert "4 of 6 runs finished, 1 running, 0 failed, 1 waiting" in str(found)
    lock.release()
    with pytest.raises(StoreError, match="is not the folder of a sweep"):
        sweeps.status(copy / "nothing")


def test_a_cut_off_line_in_the_journal_is_left_out(copy):
    with (copy / "sweep-events.jsonl").open("a") as file:
        file.write('{"event": "failed", "runs": [["x"]]}\n' + "[" * 100_000 + '\n{"event": "fin')
    assert len(sweeps.status(copy).finished) == 6


@pytest.mark.parametrize(("kills", "runs"), [(1, 6), pytest.param(20, 60, marks=pytest.mark.long)])
def test_kills_at_random_moments_lose_nothing_repeat_nothing_and_change_nothing(kills, runs):
    counts = ["--drivers", str(kills), "--workers", str(kills), "--runs", str(runs)]
    run = [sys.executable, "-m", "tests.sweeps.faults", *counts]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["killed"] == {"workers": kills, "drivers": kills}
