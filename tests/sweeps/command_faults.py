"""Kill commands at random moments; repeating them gives the undisturbed result.

python -m tests.sweeps.command_faults --kills 50        # part of `make fault-test`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import recombine.diagnostics.diagnose
import recombine.report.page
import recombine.studies.framework.reproduce
import recombine.sweeps  # noqa: F401  (so that forked commands have all of it)
from recombine.cli import app as cli
from recombine.core.tables import from_csv, to_csv
from recombine.runs.config import RunConfig

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.kind=mlp",
        "decoder.width=16", "training.steps=600"]  # fmt: skip
RUN = RunConfig.parse(TINY).hash
DEADLINE = 600.0


class Command:
    """`recombine …` as a process of its own, forked from this one, which has torch already."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.words, self.log = list(words), log
        self.pid = os.fork()
        if self.pid == 0:
            with log.open("a") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            sys.argv = ["recombine", *self.words]
            code = 1
            try:
                cli.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
            finally:
                sys.stdout.flush()
                os._exit(code)

    def end(self, until: float = DEADLINE) -> int | None:
        """Its exit code, or None if it still runs then."""
        deadline = time.monotonic() + until
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.005)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, without what changes from call to call."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def run_files(folder: Path) -> dict[str, bytes]:
    """A run without run.json, which holds times."""
    found = content(folder / RUN)
    assert "run.json" in found
    assert not [name for name in found if "checkpoint" in name or name.endswith(".part") or name.startswith(".new")]
    return {name: bytes_ for name, bytes_ in found.items() if name != "run.json" and not name.startswith(".lock")}


def page(folder: Path) -> dict[str, bytes]:
    """The page if there is one: it is whole at any time."""
    path = folder / "report.html"
    assert not path.exists() or path.read_bytes().rstrip().endswith(b"</html>"), "half a page"
    return {"report.html": b"whole"} if path.exists() else {}


def results(folder: Path) -> dict[str, bytes]:
    """The tables and verdicts of a reproduction."""
    found = content(folder / "reproduction")
    return {name: bytes_ for name, bytes_ in found.items() if name.endswith(".csv") and name.startswith("tables/")}


def comparison(folder: Path) -> dict[str, bytes]:
    """The tables of a comparison, without training times."""
    found = content(folder / "comparison")
    tables = {name: found[name] for name in ("limits.csv", "ranks.csv", "published.csv", "table.tex", "compare.json")}
    rows = from_csv(found["rows.csv"].decode())
    return {**tables, "rows.csv": to_csv([{**row, "seconds": 0} for row in rows]).encode()}


def disturbed(
    words: Callable[[Path], list[str]], look: Callable[[Path], dict[str, bytes]], folder: Path, kills: int, seed: int
) -> dict[str, object]:
    """Run a command to its end, kill it at random moments of that time, run it to its end again, and compare.

    Both begin with a copy of the same folder, and so does every attempt after one that was not killed in time.
    """
    import shutil

    chance, log = random.Random(seed), folder.with_suffix(".log")
    calm = folder.with_name(f"{folder.name}-calm")
    shutil.copytree(folder, calm)
    started = time.monotonic()
    assert Command(words(calm), log).end() == 0, log.read_text()
    lasted = time.monotonic() - started
    killed = finished = 0
    work = folder.with_name(f"{folder.name}-work")
    shutil.copytree(folder, work)
    while killed < kills:
        command = Command(words(work), log)
        if command.end(chance.uniform(0, lasted)) is None:
            command.kill()
            killed += 1
            look(work) if look is page else None
            continue
        finished += 1
        shutil.rmtree(work)
        shutil.copytree(folder, work)
        assert finished < 20 * kills, "it ends before it is killed"
    assert Command(words(work), log).end() == 0, log.read_text()
    expected, found = look(calm), look(work)
    assert set(expected) == set(found), sorted(set(expected) ^ set(found))
    assert expected
    assert [name for name in expected if expected[name] != found[name]] == []
    assert "Traceback" not in log.read_text(), log.read_text()
    return {"killed": killed, "seconds": round(time.monotonic() - started, 1)}


def check(folder: Path, kills: int, seed: int, commands: Sequence[str]) -> dict[str, object]:
    """The whole test; raises if anything is lost or different."""
    base = folder / "base"
    assert Command(["train", *TINY, "--out", str(base), "--device", "cpu"], folder / "base.log").end() == 0
    parts = "errors,outputs,superposition"
    empty = folder / "empty"
    empty.mkdir()
    cases: dict[str, tuple[Path, Callable[[Path], list[str]], Callable[[Path], dict[str, bytes]]]] = {
        "train": (empty, lambda out: ["train", *TINY, "--out", str(out), "--device", "cpu"], run_files),
        "diagnose": (base, lambda out: ["diagnose", RUN, "--out", str(out), "--parts", parts], run_files),
        "report": (base, lambda out: ["report", str(out), "--diagnose", "--output", str(out / "report.html")], page),
        "reproduce": (
            empty,
            lambda out: ["reproduce", "R6", "--profile", "smoke", "--engine", "in-process", "--out",
                         str(out / "reproduction")],
            results,
        ),
        "compare": (
            empty,
            lambda out: ["compare", "--suite", "mini", "--remedies", "cnn", "--scenes", "bump", "--engine",
                         "in-process", "--out", str(out / "comparison")],
            comparison,
        ),
    }  # fmt: skip
    import shutil

    told: dict[str, object] = {}
    for name in commands:
        start, words, look = cases[name]
        own = folder / name
        shutil.copytree(start, own)
        told[name] = disturbed(words, look, own, kills, seed)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="of every command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="+", default=["train", "diagnose", "report", "reproduce", "compare"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recombine-faults-") as folder:
        print(json.dumps(check(Path(folder), arguments.kills, arguments.seed, arguments.commands)))


if __name__ == "__main__":
    main()
