"""The lock: one holder, freed by death, never taken from the living."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from recombine.core import lock as module
from recombine.core.errors import LockHeld, StoreError
from recombine.core.lock import Lock, holder

HOLD = """
import sys, time
from pathlib import Path
from recombine.core.lock import Lock
Lock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".lock"


def other_process(path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def written(path, **changes):
    """A lock file as another holder would leave it."""
    with Lock(path):
        facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "token": "0" * 16, **changes}))


def test_one_holder_at_a_time_and_nothing_left(path):
    with Lock(path) as lock:
        assert holder(path) == lock.me
        with pytest.raises(LockHeld, match=rf"Process {os.getpid()} on .* is working on"):
            Lock(path).acquire()
        lock.check()
    assert list(path.parent.iterdir()) == []
    assert holder(path) is None


def test_a_killed_holder_is_noticed_at_once_even_as_a_zombie(path):
    process = other_process(path)
    with pytest.raises(LockHeld):
        Lock(path).acquire()
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, but not yet buried
    with Lock(path):
        pass
    process.wait()
    process.stdout.close()


def test_the_number_of_a_dead_process_used_again_is_not_its_holder(path):
    written(path, started=1)
    with Lock(path) as lock:
        assert json.loads(path.read_text())["token"] == lock.me.token


def test_a_holder_elsewhere_lives_as_long_as_its_heart_beats(path):
    written(path, place="another machine", host="far")
    with pytest.raises(LockHeld, match="on far"):
        Lock(path).acquire()
    assert holder(path).host == "far"
    old = time.time() - module.STALE - 1
    os.utime(path, (old, old))
    assert holder(path) is None
    with Lock(path) as lock:
        assert json.loads(path.read_text())["token"] == lock.me.token


def test_what_killed_processes_left_while_taking_the_lock_is_cleared_away(path):
    old = time.time() - module.STALE - 1
    for name in (".lock.0123.part", ".lock.4567", ".lock.89ab.part", "other.part"):
        (path.parent / name).write_text("")
        if name != ".lock.89ab.part":  # someone may be taking the lock just now
            os.utime(path.parent / name, (old, old))
    (path.parent / ".lock.cdef").mkdir()  # cannot be deleted like a file
    os.utime(path.parent / ".lock.cdef", (old, old))
    with Lock(path):
        assert {p.name for p in path.parent.iterdir()} == {".lock", ".lock.89ab.part", ".lock.cdef", "other.part"}


def test_the_heart_beats(path, monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.02)
    monkeypatch.setattr(module, "_heart", None)  # a thread that knows the short beat
    with Lock(path):
        old = time.time() - 1000
        os.utime(path, (old, old))
        deadline = time.monotonic() + 60
        while path.stat().st_mtime < old + 500:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_former_holder_keeps_no_successors_lock_alive(path, monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.02)
    monkeypatch.setattr(module, "_heart", None)
    former = Lock(path)
    former.acquire()
    written(path.with_name("other"))  # what a successor on another machine would write
    path.with_name("other").replace(path)
    os.utime(path, (1, 1))
    deadline = time.monotonic() + 60
    while former in module._held:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert path.stat().st_mtime == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
def test_an_unreadable_lock_counts_until_it_is_old(path, content):
    path.write_text(content)
    with pytest.raises(LockHeld, match="Another process"):
        Lock(path).acquire()
    os.utime(path, (1, 1))
    with Lock(path):
        pass


def test_a_sleeper_finds_out_that_it_lost_the_lock(path):
    lock = Lock(path)
    lock.acquire()
    written_by = json.loads(path.read_text())
    path.write_text(json.dumps({**written_by, "token": "0" * 16}))
    with pytest.raises(StoreError, match="was taken over"):
        lock.check()
    lock.release()
    assert path.exists()  # the other's


def test_of_many_who_find_a_dead_holder_one_wins(path):
    for _ in range(30):
        written(path, started=1)
        winners, barrier = [], threading.Barrier(8)

        def attempt(winners=winners, barrier=barrier):
            lock = Lock(path)
            barrier.wait()
            try:
                lock.acquire()
            except LockHeld:
                return
            winners.append(lock)

        threads = [threading.Thread(target=attempt) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        winners[0].check()
        winners[0].release()


def test_file_systems_without_links_work_too(path, monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(module.os, "link", refused)
    with Lock(path) as lock:
        lock.check()
        with pytest.raises(LockHeld):
            Lock(path).acquire()
    assert not path.exists()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="Cannot write to"):
        Lock(tmp_path / "missing" / ".lock").acquire()
