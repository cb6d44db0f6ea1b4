"""`make fuzz`: many cases, mostly in forks of one process, some as processes of their own.

python -m tests.fuzz --cases 10000 --processes 500 --workers 2 --minutes 20
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import time

from tests.fuzz.cases import FOUND, Case, generated
from tests.fuzz.stored import stored_run
from tests.fuzz.worker import run_forked, run_process

KINDS = ("command", "yaml", "folder", "model")


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--processes", type=int, default=500)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--first", type=int, default=0, help="Seed of the first case.")
    given = options.parse_args()
    files = stored_run()
    import recombine.runs.store
    import recombine.sweeps  # noqa: F401 (imported once, before the forks)

    ends = time.monotonic() + 60 * given.minutes
    pipes = []
    for worker in range(given.workers):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            _work(worker, given, files, ends, write)
            os._exit(0)
        os.close(write)
        pipes.append(read)
    lines = [line for pipe in pipes for line in os.fdopen(pipe).read().splitlines()]
    counts = collections.Counter(line.split("\t")[0] for line in lines)
    codes = collections.Counter(tuple(line.split("\t")[1:]) for line in lines if not line.startswith("wrong"))
    for (kind, code), number in sorted(codes.items()):
        if kind in KINDS:
            print(f"{kind}: exit code {code} {number} times")
    for line in lines:
        if line.startswith("wrong"):
            print(line)
    done = counts["forked"] + counts["process"]
    print(f"{done} cases, {counts['process']} of them as processes; {counts['wrong']} findings")
    return int(counts["wrong"] > 0)


def _work(worker: int, given: argparse.Namespace, files: dict[str, bytes], ends: float, pipe: int) -> None:
    """Every n-th case until all are done or the time is over; a line per case and per finding."""
    every = given.cases // given.processes if given.processes else given.cases + 1
    with os.fdopen(pipe, "w") as told:
        for number in range(worker, given.cases, given.workers):
            if time.monotonic() > ends:
                break
            case = _case(number, given.first, files)
            apart = (number // given.workers) % every == every - 1
            found = run_process(case) if apart else run_forked(case)
            print(f"{'process' if apart else 'forked'}\t{case.name.split()[0]}\t{found.code}", file=told)
            for what in found.wrong:
                print(f"wrong\t{case.name}\t{what}\t{' '.join(map(repr, case.words))}"[:600], file=told, flush=True)


def _case(number: int, first: int, files: dict[str, bytes]) -> Case:
    if number < len(FOUND):
        return FOUND[number]
    return generated(KINDS[number % 7 % len(KINDS)], first + number, files)


if __name__ == "__main__":
    sys.exit(main())
