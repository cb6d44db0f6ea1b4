"""What every engine promises, and what local processes do besides. None of it is about science."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recombine.core.errors import InputError
from recombine.sweeps.engines.choice import start_engine
from recombine.sweeps.engines.engine import (
    ENGINES,
    Answered,
    Engine,
    EngineOptions,
    Job,
    Lost,
    Needs,
    Output,
    Overdue,
    Raised,
)
from recombine.sweeps.engines.in_process import InProcess
from recombine.sweeps.engines.kept import KeptEngine
from recombine.sweeps.engines.processes import WORKER_BYTES, Processes, gpu_places
from recombine.sweeps.engines.wire import decode_event, decode_job, encode_event, encode_job

HERE = "tests.sweeps.functions"


def job(name, job_id=None, **payload):
    return Job(job_id or name, f"{HERE}:{name}", payload)


def events(engine, count, seconds=60.0):
    """The next so many events."""
    found, until = [], time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < until, found
        found += engine.poll(0.1)
    return found


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    engine = Processes(2, log=tmp_path_factory.mktemp("logs"))
    yield engine
    engine.close()


@pytest.fixture(params=["in-process", "processes"])
def engine(request):
    return InProcess() if request.param == "in-process" else request.getfixturevalue("processes")


def test_jobs_are_answered_with_data_and_files(engine):
    assert isinstance(engine, Engine)
    assert engine.capacity() >= 1
    engine.submit(job("echo", x=3))
    [answer] = events(engine, 1)
    assert isinstance(answer, Answered)
    assert answer.job == "echo"
    assert answer.output.data["got"] == 3
    assert answer.output.files == {"a/b": b"\x00\n" * 3, "c": b""}


def test_what_a_job_raises_comes_back_with_its_traceback(engine):
    engine.submit(job("fail", x="luck"))
    [answer] = events(engine, 1)
    assert answer == Raised("fail", "ValueError: no luck", answer.traceback)
    assert 'raise ValueError(f"no {payload' in answer.traceback


def test_an_unknown_function_is_an_answer_too(engine):
    engine.submit(job("nothing"))
    [answer] = events(engine, 1)
    assert "has no attribute 'nothing'" in answer.error


@pytest.mark.parametrize(
    "event",
    [
        Answered("a", Output({"x": [1, None, "é\n"]}, {"f": b"\n\n", "g": b""})),
        Raised("a", "e\n", "t"),
        Lost("a", "r"),
    ],
)
def test_events_survive_the_wire(event):
    assert decode_event(encode_event(event)) == event


def test_jobs_survive_the_wire_with_their_files():
    job = Job("a", "m:f", {"x": [1, None, "é\n"]}, "title", {"f": b"\n\n", "g": b""})
    assert decode_job(encode_job(job)) == job


def test_engines_are_a_catalogue():
    assert list(ENGINES)[:3] == ["in-process", "processes", "ray"]


def test_files_of_a_job_arrive(engine):
    engine.submit(Job("files", f"{HERE}:sizes", {}, files={"a": b"\x00\n", "b": b""}))
    assert events(engine, 1)[0].output.data == {"a": 2, "b": 0}


def test_a_worker_lives_for_many_jobs_and_keeps_one_thread(processes):
    pids = set()
    for i in range(4):
        processes.submit(job("surroundings", f"s{i}"))
        [answer] = events(processes, 1)
        assert answer.output.data["threads"] == 1
        assert answer.output.data["OMP_NUM_THREADS"] == "1"
        pids.add(answer.output.data["pid"])
    assert len(pids) == 1


def test_a_killed_worker_is_told_and_replaced(processes, tmp_path):
    processes.submit(job("die", mark=str(tmp_path / "mark")))
    [event] = events(processes, 1)
    assert isinstance(event, Lost)
    assert "was killed by SIGKILL" in event.reason
    processes.submit(job("die", mark=str(tmp_path / "mark")))
    assert events(processes, 1)[0].output.data == "alive"


def test_a_hanging_job_is_cancelled_and_the_others_go_on(processes, tmp_path):
    processes.submit(job("hang", mark=str(tmp_path / "mark")))
    while not (tmp_path / "mark").exists():
        time.sleep(0.01)
    processes.submit(job("echo", x=1))
    assert events(processes, 1)[0].job == "echo"
    processes.cancel("hang")
    for i in range(3):
        processes.submit(job("echo", f"e{i}", x=1))
        assert events(processes, 1)[0].job == f"e{i}"


def test_a_kept_engine_stops_only_the_jobs_of_the_sweep_that_ends(tmp_path):
    engine = KeptEngine("processes", EngineOptions(workers=2))
    try:
        engine.submit(job("echo", x=1))
        events(engine, 1)
        [idle] = [worker.process for worker in engine.engine.workers.values()]
        engine.submit(job("echo", x=2))
        engine.submit(job("hang", mark=str(tmp_path / "mark")))
        events(engine, 1)
        hanging = next(w.process for w in engine.engine.workers.values() if w.job == "hang")
        engine.close()
        assert idle.poll() is None
        assert hanging.poll() is not None
        engine.submit(job("echo", x=3))
        assert events(engine, 1)[0].output.data["got"] == 3
    finally:
        engine.stop()
    assert idle.poll() is not None


def test_jobs_run_in_the_main_thread_where_signals_arrive(engine):
    engine.submit(job("main_thread"))
    assert events(engine, 1)[0].output.data is True


def test_a_job_that_takes_too_long_in_process_is_stopped(tmp_path):
    engine = InProcess(time_limit=0.2)
    engine.submit(job("hang", mark=str(tmp_path / "mark")))
    [event] = engine.poll(0.0)
    assert isinstance(event, Overdue)


def test_workers_share_graphics_cards_by_fraction():
    assert gpu_places(["0", "1"], 0.5) == ["0", "1", "0", "1"]
    assert gpu_places(["0", "1"], 0.3) == ["0", "1"] * 3
    assert gpu_places(["0", "1", "2"], 1) == ["0", "1", "2"]
    assert gpu_places(["a", "b", "c"], 2) == ["a,b"]
    engine = Processes(None, Needs(cpus=0.1, gpus=0.5), gpus=["7", "8"])
    assert engine.capacity() == 4
    try:
        for i in range(3):
            engine.submit(job("surroundings", str(i), seconds=0.5))
        seen = sorted(event.output.data["CUDA_VISIBLE_DEVICES"] for event in events(engine, 3))
    finally:
        engine.close()
    assert seen == ["7", "7", "8"]


def test_no_more_workers_than_fit_into_memory_whatever_the_share_of_a_core(monkeypatch):
    monkeypatch.setattr("recombine.sweeps.engines.processes.machine_memory", lambda: 5 * WORKER_BYTES)
    assert Processes(10**9, Needs(cpus=0.01)).capacity() == 5


def test_a_job_in_this_process_needs_what_the_machine_has_too():
    with pytest.raises(InputError, match="5000 CPUs"):
        start_engine("in-process", EngineOptions(needs=Needs(cpus=5000)))


def test_how_many_fit_depends_on_what_they_need():
    cores = len(os.sched_getaffinity(0))
    assert Processes().capacity() == cores
    assert Processes(None, Needs(cpus=cores)).capacity() == 1
    assert Processes(cores + 3).capacity() == cores  # a cap, not a wish
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert Processes(None, Needs(cpus=0.01, memory=memory // 3)).capacity() == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Processes(None, Needs(cpus=5000)), "needs 5000 CPUs, but this machine has"),
        (lambda: Processes(None, Needs(memory=10**18)), "would need 1 EB"),
        (lambda: Processes(None, Needs(gpus=1), gpus=[]), "Omit --gpus"),
        (lambda: Needs(cpus=0), "from 0.01 to"),
        (lambda: Needs(cpus=1e9), "from 0.01 to 100000 CPUs"),
        (lambda: Needs(gpus=1.5), "an integer or a fraction below 1"),
        (lambda: start_engine("procesess", EngineOptions()), "did you mean 'processes'"),
        (lambda: start_engine("processes", EngineOptions(workers=0)), "must be at least 1"),
        (lambda: start_engine("processes", EngineOptions(address="auto")), "are only for cluster engines"),
    ],
)
def test_what_cannot_be_placed_is_an_error(make, message):
    with pytest.raises(InputError, match=message):
        make()


DRIVER = """
import sys, time
from recombine.sweeps.engines.engine import Job
from recombine.sweeps.engines.kept import KeptEngine
from recombine.sweeps.engines.processes import Processes
engine = Processes(1)
engine.submit(Job("a", "tests.sweeps.functions:hang", {"mark": sys.argv[1]}))
print(engine.workers[0].process.pid, flush=True)
time.sleep(600)
"""


def test_a_worker_dies_with_its_driver(tmp_path):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path / "mark")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    worker = int(driver.stdout.readline())
    until = time.monotonic() + 60
    while not (tmp_path / "mark").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert running(worker)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    until = time.monotonic() + 60
    while running(worker):
        assert time.monotonic() < until, "it goes on without its driver"
        time.sleep(0.01)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
