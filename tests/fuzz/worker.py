"""Run one case in a forked process with limits, and say what went wrong."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.cases import Case

SECONDS, BYTES = 20.0, 2 * 2**30
CODES = (0, 1, 2)


class Outcome(NamedTuple):
    """The exit code of a case, and what is wrong with it."""

    code: int
    wrong: list[str]


def prepare(case: Case) -> Path:
    root = Path(tempfile.mkdtemp(prefix="recombine-fuzz-"))
    for name, content in case.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def run_forked(case: Case, seconds: float = SECONDS) -> Outcome:
    """What is wrong with a case run in a fork of this process, which has imported the command line already."""
    root = prepare(case)
    before = _listing(root)
    out, err = root.with_suffix(".out"), root.with_suffix(".err")
    child = os.fork()
    if child == 0:
        _become(case, root, out, err)
    code, slow = _wait(child, seconds)
    return _judged(case, root, before, (code, slow, out.read_text(errors="replace"), err.read_text(errors="replace")))


def run_process(case: Case, seconds: float = SECONDS) -> Outcome:
    """The same in a process of its own, as a user starts it."""
    root = prepare(case)
    before = _listing(root)
    command = [sys.executable, "-c", "from recombine.cli.app import main; main()", *case.words]
    for path in (root.with_suffix(".out"), root.with_suffix(".err")):
        path.touch()
    started = subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        out, err = started.communicate(timeout=3 * seconds)
        code, slow = started.returncode, False
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        out, err = started.communicate()
        code, slow = -9, True
    return _judged(case, root, before, (code, slow, out.decode(errors="replace"), err.decode(errors="replace")))


def _become(case: Case, root: Path, out: Path, err: Path) -> None:
    """The child: never returns."""
    code = 70
    try:
        os.setsid()
        os.chdir(root)
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
        sys.argv = ["recombine", *case.words]
        from recombine.cli.app import main

        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 71
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> tuple[int, bool]:
    """(exit code, whether it had to be ended)."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), False
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -9, True


def _listing(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def _judged(case: Case, root: Path, before: set[str], result: tuple[int, bool, str, str]) -> Outcome:
    code, slow, out, err = result
    wrong = []
    if slow:
        wrong.append("hang")
    elif code not in ((2,) if case.bad else CODES):
        wrong.append(f"exit code {code}")
    if "Traceback (most recent call last)" in out + err:
        wrong.append("traceback")
    if "\x1b[2J" in out + err:
        wrong.append("control characters")
    if "--json" in case.words and code in (0, 1) and out.strip() and not _is_json(out):
        wrong.append("no JSON")
    new = sorted(name for name in _listing(root) - before if not re.search(r"__pycache__|^\.cache", name))
    if code == 2 and new:
        wrong.append(f"left behind: {new[:3]}")
    shutil.rmtree(root, ignore_errors=True)
    for path in (root.with_suffix(".out"), root.with_suffix(".err")):
        path.unlink(missing_ok=True)
    last = " ".join(err.strip().splitlines()[-1:])[:200]
    return Outcome(code, [f"{what} | {last}" for what in wrong])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
