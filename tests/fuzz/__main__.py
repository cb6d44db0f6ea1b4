"""`make fuzz`: many cases, mostly in forks of one process, some as processes of their own.

python -m tests.fuzz --cases 10000 --processes 500 --workers 2 --minutes 20
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field

from tests.fuzz import depth
from tests.fuzz.cases import Case
from tests.fuzz.found import found_cases
from tests.fuzz.generated import KINDS, generated
from tests.fuzz.statistics import Statistics
from tests.fuzz.stored import stored_files
from tests.fuzz.worker import MOST_PATIENCE, SECONDS, SHOWING, command_line, run_forked, run_process

SILENT = 2 * MOST_PATIENCE * SECONDS  # a worker that tells nothing for so long hangs itself


@dataclass
class Worker:
    """A process that runs every n-th case and tells of each one before and after it in a line."""

    number: int
    pid: int
    pipe: int
    at: int  # the case it is at
    heard: float
    done: bool = False  # whether it said that it has no more cases
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
                if not worker.done:  # its traceback is on standard error
                    statistics.add_finding(f"case {worker.at}", "the fuzzer's own process ended", "")
                    workers.append(_start(worker.number, worker.at + given.workers, given, files, ends))
            elif time.monotonic() - worker.heard > SILENT:
                statistics.add_finding(f"case {worker.at}", "the fuzzer's own process hangs", "")
                workers.remove(worker)
                os.kill(worker.pid, signal.SIGKILL)
                _bury(worker)
                workers.append(_start(worker.number, worker.at + given.workers, given, files, ends))
        if time.monotonic() - told > given.every:
            told = time.monotonic()
            print(f"{told - started:.0f} s: {statistics.line()}", flush=True)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    minutes = sum(one.ru_utime + one.ru_stime for one in used) / 60
    print(f"{statistics}\n{statistics.line()} in {time.monotonic() - started:.0f} s")
    print(f"{minutes:.1f} minutes of processor time in all")
    return int(bool(statistics.findings))


def _start(number: int, first: int, given: argparse.Namespace, files: dict[str, bytes], ends: float) -> Worker:
    read, write = os.pipe2(os.O_CLOEXEC)
    faulthandler.cancel_dump_traceback_later()  # its thread would not exist in the fork, which would wait for it
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            _work(first, given, files, ends, write)
        except BaseException:
            traceback.print_exc()
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
        elif what == "done":
            worker.done = True
        elif what == "wrong":
            statistics.add_finding(*values)
            print("wrong: " + " | ".join(values), flush=True)
        else:
            statistics.add(what, *values)
    return bool(more)


def _work(first: int, given: argparse.Namespace, files: dict[str, bytes], ends: float, pipe: int) -> None:
    """Every n-th case until all are done or the time is over."""
    found = [] if given.kind else found_cases(files)
    chosen = range(given.first, given.first + given.cases)
    as_processes = set(random.Random(0).sample(chosen, min(given.processes, given.cases)))
    for number in range(first, given.first + given.cases, given.workers):
        if time.monotonic() > ends:
            break
        faulthandler.dump_traceback_later(SILENT - 10, exit=True)
        _tell(pipe, "at", number)
        case = _case(number, given.kind, files, found)
        apart = number in as_processes
        outcome = run_process(case) if apart else run_forked(case)
        way = "process" if apart else "forked"
        _tell(pipe, way, case.name.split()[0], outcome.code, f"{outcome.seconds:.4f}", ",".join(outcome.passed))
        for what in outcome.wrong:
            _tell(pipe, "wrong", case.name, what, " ".join(map(repr, case.words)))
    _tell(pipe, "done")


def _tell(pipe: int, *values: object) -> None:
    text = "\t".join(str(value).replace("\t", " ").replace("\n", " ") for value in values)[:1500]
    os.write(pipe, (text + "\n").encode(errors="replace"))


def _case(number: int, kind: str | None, files: dict[str, bytes], found: list[Case]) -> Case:
    return found[number] if number < len(found) else generated(kind or KINDS[number % len(KINDS)], number, files)


def _import_all() -> None:
    """Do once, before the forks, what every process does: import modules and plug-ins, find the members of families and
    build the command line."""
    import gc
    import importlib

    from recombine.core import plugins

    for module in ("recombine.sweeps", "recombine.runs.estimate", "recombine.report.page", "recombine.report.collect",
                   "recombine.diagnostics.diagnose", "recombine.cli.app", "recombine.plotting.contact_sheet",
                   "torch._dynamo", "matplotlib.figure", "matplotlib.backends.backend_agg", "PIL.PngImagePlugin",
                   "PIL.JpegImagePlugin", "numpy.ctypeslib", "scipy.optimize", "typer._adapters",
                   "typer._click.decorators", "recombine.studies.framework.reproduce", "recombine.plotting.writing",
                   "importlib.resources.readers", "PIL.ImageOps", "PIL.BmpImagePlugin", "PIL.GifImagePlugin",
                   "PIL.PpmImagePlugin", "torch.profiler._cupti_monitor",
                   "pydantic.type_adapter"):  # fmt: skip
        importlib.import_module(module)
    plugins.load_installed()
    for family in plugins._families:
        family.discover()
    command_line()
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, all memory


if __name__ == "__main__":
    sys.exit(main())
