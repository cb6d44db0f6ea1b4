"""Run one case in a process with limits, and say what went wrong."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tests.fuzz import depth
from tests.fuzz.cases import Case
from tests.fuzz.folders import OUTSIDE, SECRET

SECONDS, BYTES = 20.0, 2 * 2**30
MOST_PATIENCE = 9  # times as long as a case may take, on a machine that is busy with other things
SHOWING: list[bool] = []  # whether what cases print is shown
TEMPORARY = re.compile(r"\.part$|(^|/)\.lock|(^|/)\.new($|/)")


class Outcome(NamedTuple):
    """How a case ended, what is wrong with it, and how far it got.

    Attributes:
        code: Its exit code; negative for a signal.
        wrong: What is wrong.
        passed: Which points of `depth` it passed; of a process of its own they are not known.
        seconds: Processor time.
    """

    code: int
    wrong: list[str]
    passed: list[str]
    seconds: float


class _Ended(NamedTuple):
    code: int
    slow: bool
    seconds: float
    bytes: int


@functools.cache
def _place() -> str | None:
    """A folder in memory, if there is one: a case writes many small files, and each of them is flushed to the disk."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free > 2**28
    return str(memory) if usable else None


def prepare(case: Case) -> Path:
    """A new folder with the files of a case."""
    root = Path(tempfile.mkdtemp(prefix="recombine-fuzz-", dir=_place()))
    for name, content in case.files.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
                if path.name == ".lock":  # one whose holder died a while ago: a younger one is waited for
                    os.utime(path, (time.time() - 120, time.time() - 120))
            elif content.kind == "link":
                path.symlink_to(content.target)
            elif content.kind == "pipe":
                os.mkfifo(path)
            else:
                path.mkdir(exist_ok=True)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # something of the case stands there already
    return root


@functools.cache
def command_line() -> Any:
    """The application as typer builds it at the start of every process."""
    import typer.main

    from recombine.cli.app import app

    return typer.main.get_command(app)


def run_forked(case: Case, seconds: float = SECONDS) -> Outcome:
    """A case in a fork of this process, which has imported the command line already."""
    root = prepare(case)
    before = _listing(root)
    out, err = root.with_suffix(".out"), root.with_suffix(".err")
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _become(case, root, (out, err), write)
    os.close(write)
    ended = _wait(child, seconds)
    passed = _rest(read).split("\n")[:-1]
    texts = (out.read_text(errors="replace"), err.read_text(errors="replace"))
    return _judged(case, root, before, ended, texts, passed)


def run_process(case: Case, seconds: float = SECONDS) -> Outcome:
    """The same in a process of its own, as a user starts it. Starting it takes a while too."""
    root = prepare(case)
    before = _listing(root)
    out, err = root.with_suffix(".out"), root.with_suffix(".err")
    command = [sys.executable, "-c", "from recombine.cli.app import main; main()", *case.words]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # or it compiles all
    with out.open("wb") as first, err.open("wb") as second:
        started = subprocess.Popen(
            command, cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=first, stderr=second, start_new_session=True
        )
    ended = _wait(started.pid, seconds)
    started.returncode = ended.code  # it was waited for here
    texts = (out.read_text(errors="replace"), err.read_text(errors="replace"))
    return _judged(case, root, before, ended, texts, [])


def _become(case: Case, root: Path, outputs: tuple[Path, Path], pipe: int) -> NoReturn:
    """The child."""
    code = 70
    try:
        os.setsid()
        os.chdir(root)
        for number, path in enumerate(outputs, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
        depth.tell(pipe)
        sys.argv = ["recombine", *case.words]
        from recombine.cli.command import run_app

        try:
            run_app(command_line())
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


def _wait(child: int, seconds: float) -> _Ended:
    """Wait for a child, which leads its own session, and end all of it when its time is over.

    It has so many seconds of processor time. Once so many seconds have passed it may not sleep for long either. A
    machine that is busy with other things makes it no hang.
    """
    started, slow, asleep = time.monotonic(), False, 0
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(child, resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
    end = os.pidfd_open(child)  # readable once it has ended
    while True:
        ready = select.select([end], [], [], 0.1)[0]
        done, status, usage = os.wait4(child, 0 if ready else os.WNOHANG)
        if done:
            break
        passed = time.monotonic() - started
        asleep = asleep + 1 if passed > seconds and _sleeps(child) else 0
        if not slow and (asleep > 50 or passed > MOST_PATIENCE * seconds):
            slow = True
            _kill(child)
        elif slow and passed > (MOST_PATIENCE + 1) * seconds:  # not even that ends it: leave it
            os.close(end)
            return _Ended(-9, True, seconds, 0)
    os.close(end)
    _kill(child, group_only=True)  # what it may have started
    code = os.waitstatus_to_exitcode(status)
    slow = slow or code == -signal.SIGXCPU
    return _Ended(code, slow, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _sleeps(child: int) -> bool:
    try:
        return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return False


def _kill(child: int, *, group_only: bool = False) -> None:
    for kill in (os.killpg,) if group_only else (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _rest(pipe: int) -> str:
    """What is in a pipe, without waiting for more: a grandchild may still hold its other end."""
    found = b""
    while select.select([pipe], [], [], 0)[0] and (more := os.read(pipe, 4096)):
        found += more
    os.close(pipe)
    return found.decode()


def _listing(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def _judged(
    case: Case, root: Path, before: set[str], ended: _Ended, texts: tuple[str, str], passed: list[str]
) -> Outcome:
    out, err = texts
    wrong = []
    if ended.slow:
        wrong.append("hang")
    elif ended.code not in case.codes:
        wrong.append(f"exit code {ended.code}")
    if ended.bytes > BYTES:
        wrong.append(f"{ended.bytes / 2**30:.1f} GB of memory")
    if "Traceback (most recent call last)" in out + err:
        wrong.append("traceback")
    if "\x1b" in out + err:
        wrong.append("control characters")
    if SECRET.decode() in out + err:
        wrong.append("read through a link")
    if OUTSIDE in case.files and ((root / OUTSIDE).read_bytes() != SECRET or len(os.listdir(root / "outside")) != 1):
        wrong.append("written through a link")
    if "--json" in case.words and ended.code in (0, 1) and out.strip() and not _is_json(out):
        wrong.append("no JSON")
    new = sorted(name for name in _listing(root) - before if not re.search(r"__pycache__|^\.cache", name))
    left = new if ended.code == 2 and "--force" not in case.words else [n for n in new if TEMPORARY.search(n)]
    if left and not ended.slow and not _sets_aside(left):
        wrong.append(f"left behind: {left[:3]}")
    shutil.rmtree(root, ignore_errors=True)
    for path in (root.with_suffix(".out"), root.with_suffix(".err")):
        path.unlink(missing_ok=True)
    if SHOWING:
        print(f"{' '.join(map(repr, case.words))}\n{out}\n{err}\npassed: {passed}")
    last = " ".join(err.strip().splitlines()[-1:])[:200]
    return Outcome(ended.code, [f"{what} | {last}" for what in wrong], passed, ended.seconds)


def _sets_aside(new: list[str]) -> bool:
    """Whether all that is new is what was damaged before, under another name, or the list of it."""
    return all(re.search(r"(^|/)damaged-", name) for name in new)


def _is_json(text: str) -> bool:
    """Whether a text is JSON and nothing else; NaN and Infinity are none."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True
