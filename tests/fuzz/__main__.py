"""`make fuzz`: many cases, mostly in forks of one process, some as processes of their own.

python -m tests.fuzz --cases 10000 --processes 500 --workers 2 --minutes 20
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field

from tests.fuzz import depth
from tests.fuzz.cases import FOUND, Case
from tests.fuzz.generated import KINDS, generated
from tests.fuzz.statistics import Statistics
from tests.fuzz.stored import stored_files
from tests.fuzz.worker import MOST_PATIENCE, SECONDS, SHOWING, run_forked, run_process

SILENT = 2 * MOST_PATIENCE * SECONDS  # a worker that tells nothing for so long hangs itself


@dataclass
class Worker:
    """A process that runs every n-th case and tells of each one before and after it in a line."""

    number: int
    pid: int
    pipe: int
    at: int  # the case it is at
    heard: float
    rest: bytes = field(default=b"")


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--processes", type=int, default=500)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--first", type=int, default=0, help="Number of the first case; those before it are left out.")
    options.add_argument("--kind", choices=sorted(set(KINDS)), help="Only this kind of generated cases.")
    options.add_argument("--every", type=float, default=10.0, help="Seconds between lines of progress.")
    options.add_argument("--show", metavar="CASE", help='Run one generated case, such as "folder 825", and print all.')
    given = options.parse_args()
    print("preparing: a store is trained and everything is imported", flush=True)
    import torch

    torch.set_num_threads(1)  # a fork of a process with other threads may wait for them forever
    files = stored_files()
    missing = depth.install()
    assert not missing, missing
    _import_all()
    print(f"{time.process_time():.0f} s of processor time to prepare", flush=True)
    if given.show:
        SHOWING.append(True)
        kind, number = given.show.split()
        print(run_forked(generated(kind, int(number), files)))
        return 0
    statistics, started = Statistics(), time.monotonic()
    ends, told = started + 60 * given.minutes, started
    workers = [_start(n, given.first + n, given, files, ends) for n in range(given.workers)]
    while workers:
        faulthandler.dump_traceback_later(
            2 * SILENT, exit=True
        )  # if this loop itself should hang, it ends and says where
        ready = select.select([worker.pipe for worker in workers], [], [], 1.0)[0]
        for worker in list(workers):
            if worker.pipe in ready and not _hear(worker, statistics):
                workers.remove(worker)
                _bury(worker)
            elif time.monotonic() - worker.heard > SILENT:
                statistics.add_finding(f"case {worker.at}", "the fuzzer's own process hangs", "")
                workers.remove(worker)
                os.kill(worker.pid, signal.SIGKILL)
                _bury(worker)
                workers.append(_start(worker.number, worker.at + given.workers, given, files, ends))
        if time.monotonic() - told > given.every:
            told = time.monotonic()
            print(f"{told - started:.0f} s: {statistics.line()}", flush=True)
    print(f"{statistics}\n{statistics.line()} in {time.monotonic() - started:.0f} s")
    return int(bool(statistics.findings))


def _start(number: int, first: int, given: argparse.Namespace, files: dict[str, bytes], ends: float) -> Worker:
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            _work(first, given, files, ends, write)
        finally:
            os._exit(0)
    os.close(write)
    return Worker(number, pid, read, first, time.monotonic())


def _bury(worker: Worker) -> None:
    os.close(worker.pipe)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(worker.pid, 0)


def _hear(worker: Worker, statistics: Statistics) -> bool:
    """Take what a worker tells; False once it has ended."""
    more = os.read(worker.pipe, 65536)
    *lines, worker.rest = (worker.rest + more).split(b"\n")
    worker.heard = time.monotonic()
    for line in lines:
        what, *values = line.decode(errors="replace").split("\t")
        if what == "at":
            worker.at = int(values[0])
        elif what == "wrong":
            statistics.add_finding(*values)
            print("wrong: " + " | ".join(values), flush=True)
        else:
            statistics.add(what, *values)
    return bool(more)


def _work(first: int, given: argparse.Namespace, files: dict[str, bytes], ends: float, pipe: int) -> None:
    """Every n-th case until all are done or the time is over."""
    every = given.cases // given.processes if given.processes else 0
    for number in range(first, given.first + given.cases, given.workers):
        if time.monotonic() > ends:
            break
        faulthandler.dump_traceback_later(SILENT - 10, exit=True)
        _tell(pipe, "at", number)
        case = _case(number, given.kind, files)
        apart = bool(every) and (number // given.workers) % every == every - 1
        found = run_process(case) if apart else run_forked(case)
        way = "process" if apart else "forked"
        _tell(pipe, way, case.name.split()[0], found.code, f"{found.seconds:.4f}", ",".join(found.passed))
        for what in found.wrong:
            _tell(pipe, "wrong", case.name, what, " ".join(map(repr, case.words)))


def _tell(pipe: int, *values: object) -> None:
    text = "\t".join(str(value).replace("\t", " ").replace("\n", " ") for value in values)[:1500]
    os.write(pipe, (text + "\n").encode(errors="replace"))


def _case(number: int, kind: str | None, files: dict[str, bytes]) -> Case:
    if number < len(FOUND) and kind is None:
        return FOUND[number]
    return generated(kind or KINDS[number % len(KINDS)], number, files)


def _import_all() -> None:
    """Import what the commands import, once, before the forks."""
    import importlib

    for module in ("recombine.sweeps", "recombine.runs.estimate", "recombine.report.page", "recombine.report.collect",
                   "recombine.diagnostics.diagnose", "recombine.cli.app", "torch._dynamo", "matplotlib.figure",
                   "scipy.optimize", "scipy.stats", "sklearn.linear_model"):  # fmt: skip
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


if __name__ == "__main__":
    sys.exit(main())
