"""Kill drivers and workers of a sweep at random moments, and see that nothing is lost, repeated or changed.

python -m tests.sweeps.faults --drivers 100 --workers 100 --runs 60        # `make fault-test`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import recombine.sweeps  # noqa: F401  (so that forked drivers have it)
from recombine.cli import app as cli
from recombine.sweeps.engines import worker

RESULTS = ("config.json", "model/config.json", "model/model.safetensors", "scores.csv", "history.jsonl",
           "losses.safetensors")  # fmt: skip
SMALL = {"scene.factors": {"x": 8, "y": 8}, "holdout": {"lo": 2, "hi": 5}, "training.evaluate_every": 20}
DEADLINE = 120.0


def specification(runs: int, steps: int) -> str:
    """A third convolutional runs, which train one by one, and two thirds in batches of four seeds."""
    third = runs // 3
    blocks = [
        {
            "base": {**SMALL, "decoder.kind": "cnn", "decoder.depth": 2, "decoder.width": 4},
            "grid": {"seed": f"0..{third - 1}", "training.steps": [steps // 8]},
        },
        {
            "base": {**SMALL, "decoder.kind": "mlp", "decoder.width": 16},
            "grid": {"seed": f"0..{runs - third - 1}", "training.steps": [steps]},
        },
    ]
    return json.dumps(blocks)  # JSON is YAML


class ForkedWorker:
    """Stands in for the `subprocess.Popen` of a worker: a fork of its driver, which has torch already.

    Importing torch takes longer than what a worker does before it is killed.
    """

    def __init__(self, command: Sequence[str], *, stderr: int, env: Mapping[str, str], **_: Any) -> None:
        (reads, tells), (hears, writes), driver = os.pipe(), os.pipe(), os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                errors = os.open(os.devnull, os.O_WRONLY) if stderr == subprocess.DEVNULL else stderr
                for number, handle in enumerate((reads, writes, errors)):
                    os.dup2(handle, number)
                os.closerange(3, 1024)  # ends of the pipes of other workers
                os.environ.update(env)
                torch.set_num_threads(1)
                sys.stdin, sys.stderr, sys.argv = os.fdopen(0), os.fdopen(2, "w"), [*command[:1], str(driver)]
                worker.main()
            finally:
                os._exit(1)
        os.close(reads)
        os.close(writes)
        self.stdin, self.stdout = os.fdopen(tells, "wb"), os.fdopen(hears, "rb")

    def wait(self, timeout: float = DEADLINE) -> int:
        ends = time.monotonic() + timeout
        while time.monotonic() < ends:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        raise subprocess.TimeoutExpired("worker", timeout)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Driver:
    """`recombine sweep` as a process of its own. It is forked from this one, which has torch already: that saves the
    test its longest wait. Its workers are forks of it, except those of every tenth driver."""

    def __init__(self, spec: Path, out: Path) -> None:
        options = ["--max-parallel", "2", "--retries", "1000", "--checkpoint-seconds", "0.1", "--device", "cpu"]
        self.code: int | None = None
        self.log = out.with_suffix(".log")
        self.pid = os.fork()
        if self.pid == 0:
            with self.log.open("a") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            if os.getpid() % 10:
                subprocess.Popen = ForkedWorker  # type: ignore[misc, assignment]
            sys.argv = ["recombine", "sweep", str(spec), "--out", str(out), *options]
            code = 1
            try:
                cli.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
            finally:
                os._exit(code)

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def end(self) -> int:
        """Its exit code, once it is there."""
        deadline = time.monotonic() + 600
        while self.poll() is None:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)
        assert self.code in (0, -signal.SIGKILL), (self.code, self.log.read_text())
        return self.code


def table(out: Path) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "recombine", "sweep", "table", str(out)], capture_output=True, check=True
    ).stdout


def children(pid: int) -> list[int]:
    """The workers of a driver."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def finished(out: Path) -> dict[str, tuple[int, int]]:
    """Run → what tells one writing of its run.json from another."""
    found = {}
    for path in out.glob("*/run.json"):
        facts = path.stat()
        found[path.parent.name] = (facts.st_ino, facts.st_mtime_ns)
    return found


def someone_trains(out: Path) -> bool:
    return any(out.glob("*/.lock"))


class Killer:
    """Kills and keeps the books."""

    def __init__(self, spec: Path, out: Path, chance: random.Random) -> None:
        self.spec, self.out, self.chance = spec, out, chance
        self.seen: dict[str, tuple[int, int]] = {}
        self.killed: Counter[str] = Counter()

    def look(self) -> None:
        """Everything that was finished still is, in the same files."""
        now = finished(self.out)
        for run, facts in self.seen.items():
            assert now.get(run) == facts, f"run {run} was {'repeated' if run in now else 'lost'}"
        self.seen = now

    def wait(self, driver: Driver) -> None:
        """Until a training is under way, mostly; sometimes only until a random moment of the start."""
        until = time.monotonic() + (self.chance.uniform(0, 2) if self.chance.random() < 0.15 else DEADLINE)
        while time.monotonic() < until and driver.poll() is None and not someone_trains(self.out):
            time.sleep(0.005)
        time.sleep(self.chance.uniform(0, 0.25))

    def kill(self, what: str, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.killed[what] += 1

    def life(self, drivers: int, workers: int) -> None:
        """One driver from its start to its death, or to its end if nothing is left to do."""
        driver = Driver(self.spec, self.out)
        while self.killed["workers"] < workers and driver.poll() is None:
            self.wait(driver)
            pids = children(driver.pid)
            if pids:
                self.kill("workers", self.chance.choice(pids))
                self.look()
            if self.killed["drivers"] < drivers:
                break
        if self.killed["drivers"] < drivers and driver.poll() is None:
            self.wait(driver)
            if driver.poll() is None:
                self.kill("drivers", driver.pid)
        driver.end()
        self.look()


def check(folder: Path, drivers: int, workers: int, runs: int, steps: int, seed: int) -> dict[str, object]:
    """The whole test; raises if anything is lost, repeated or different."""
    started = time.monotonic()
    spec = folder / "sweep.yaml"
    spec.write_text(specification(runs, steps))
    undisturbed, disturbed = folder / "undisturbed", folder / "disturbed"
    assert Driver(spec, undisturbed).end() == 0
    killer = Killer(spec, disturbed, random.Random(seed))
    while killer.killed["drivers"] < drivers or killer.killed["workers"] < workers:
        assert len(finished(disturbed)) < runs, f"all runs finished after {dict(killer.killed)}: make them longer"
        killer.life(drivers, workers)
    assert Driver(spec, disturbed).end() == 0
    killer.look()
    assert len(finished(disturbed)) == runs
    expected = table(undisturbed)
    assert expected.count(b"\n") == runs + 1
    assert table(disturbed) == expected
    for run in finished(undisturbed):
        for name in RESULTS:
            assert (undisturbed / run / name).read_bytes() == (disturbed / run / name).read_bytes(), (run, name)
        assert {str(p.relative_to(disturbed / run)) for p in (disturbed / run).rglob("*") if p.is_file()} >= set(
            RESULTS
        )
    events = [json.loads(line) for line in (disturbed / "sweep-events.jsonl").read_text().splitlines()]
    done: set[str] = set()
    for event in events:
        repeated = done & set(event["runs"]) if event["event"] in ("started", "finished") else set()
        assert not repeated, f"started or finished again: {repeated}"
        done |= set(event["runs"]) if event["event"] in ("finished", "found") else set()
    return {
        "killed": dict(killer.killed),
        "runs": runs,
        "lost": sum(event["event"] == "lost" for event in events),
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("drivers", 20), ("workers", 20), ("runs", 60), ("steps", 600), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recombine-faults-") as folder:
        print(json.dumps(check(Path(folder), **vars(arguments))))


if __name__ == "__main__":
    main()
