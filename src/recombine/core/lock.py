"""A lock that survives crashes: a file that names its holder and whose time of change is the holder's heartbeat.

    with Lock(folder / ".lock"):
        …                         # no other process gets here

The file is created atomically and deleted at the end. A killed holder leaves it behind. On the same machine this is
detected immediately, because the process no longer exists, and on another machine after `STALE` seconds without a
heartbeat. The lock only needs atomic links, so it also works on shared folders without flock.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import platform
import re
import secrets
import stat
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from recombine.core.errors import LockHeld, LockLost, StoreError
from recombine.core.files import read_plain, set_aside

BEAT = 10.0
MOST_BYTES = 4096  # of a lock file
STALE = 60.0  # several beats, because a busy machine or file server may delay some
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True)
class Holder:
    """The holder of a lock."""

    token: str
    place: str  # scope of the process number: one boot of one machine, or one container on it
    host: str
    pid: int
    started: int | None  # start time of the process, because process numbers are reused
    since: float  # when it took the lock, seconds since 1970

    def is_dead(self) -> bool:
        """Whether the holder is certainly dead; False also if that is unknown."""
        return self.place == _place() and not _runs(self.pid, self.started)


NOBODY = Holder("nobody", "nowhere", "", 0, None, 0.0)


class Lock:
    """Held from `acquire` to `release`, or inside a with block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.me = Holder(secrets.token_hex(8), _place(), platform.node(), os.getpid(), _began(os.getpid()), time.time())

    def acquire(self) -> None:
        """Acquire the lock, also from a dead holder. Raises LockHeld if a live process holds it."""
        draft = self.path.with_name(f"{self.path.name}.{self.me.token}.part")
        try:
            _write_new(draft, json.dumps(asdict(self.me)))
            try:
                now = draft.lstat().st_mtime  # by the file server's clock, like the heartbeat it is compared with
                while not self._appear(draft):
                    self._remove_if_dead(now)
            finally:
                draft.unlink(missing_ok=True)
            self._clear_away(now)
        except OSError as error:
            raise StoreError(f"Cannot write to {self.path.parent}: {error.strerror}. Choose another --out.") from error
        _beat(self)

    def _clear_away(self, now: float) -> None:
        """Delete files of processes that were killed while acquiring the lock."""
        for left in self.path.parent.glob(f"{self.path.name}.*"):
            with contextlib.suppress(OSError):
                if abs(now - left.lstat().st_mtime) > STALE:
                    left.unlink()

    def _appear(self, draft: Path) -> bool:
        """Create the file atomically; False if it exists."""
        try:
            os.link(draft, self.path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            try:
                _write_new(self.path, draft.read_text())
            except FileExistsError:
                return False
        return True

    def _remove_if_dead(self, now: float) -> None:
        """Remove the file of a dead holder. Raises LockHeld if it is alive.

        Removing a dead holder's lock is itself protected by a second lock, named after the holder: else one who saw it
        dead a moment ago might take away the file of its successor.
        """
        seen = self._dead(now)
        if seen is not None:
            with Lock(self.path.with_name(f"{self.path.name}.{seen.token}")), contextlib.suppress(FileNotFoundError):
                if self._dead(now) == seen:
                    _take_away(self.path)

    def _dead(self, now: float) -> Holder | None:
        """The dead holder, or None if the file no longer exists. Raises LockHeld if the holder is alive."""
        try:
            seen, facts = _read(self.path), self.path.lstat()
        except FileNotFoundError:
            return None
        # a time in the future is not a heartbeat, and anything but a regular file was never a lock
        if abs(now - facts.st_mtime) > STALE or seen.is_dead() or not stat.S_ISREG(facts.st_mode):
            return seen
        who = f"Process {seen.pid} on {seen.host}" if seen.pid else "Another process"
        raise LockHeld(f"{who} is working on {self.path.parent.name}. Wait until it finishes, or stop it.")

    def check(self) -> None:
        """Raise if the lock was taken over, because this process was suspended for so long that it counted as dead."""
        try:
            found = _read(self.path)
        except FileNotFoundError:
            found = None
        if found != self.me:
            raise LockLost(
                f"The lock of {self.path.parent} was taken over, because this process did not respond for {STALE:g} s. "
                "Its work since then was discarded; run the same command again."
            )

    def release(self) -> None:
        _held.discard(self)
        with contextlib.suppress(OSError):
            if _read(self.path) == self.me:
                self.path.unlink()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def holder(path: Path) -> Holder | None:
    """The current holder of a lock, or None. Only reads."""
    try:
        found, facts = _read(path), path.lstat()
    except OSError:
        return None
    dead = abs(time.time() - facts.st_mtime) > STALE or found.is_dead() or not stat.S_ISREG(facts.st_mode)
    return None if dead else found


def _read(path: Path) -> Holder:
    """The content of a lock file; no holder if it is invalid (from an old version, or because the disk was full)."""
    try:
        found = Holder(**json.loads(read_plain(path, most=MOST_BYTES)))
    except (ValueError, TypeError, RecursionError):  # DamagedError is a ValueError
        return NOBODY
    sensible = (
        re.fullmatch("[0-9a-f]{16}", str(found.token))
        and isinstance(found.place, str)
        and isinstance(found.host, str)
        and type(found.pid) is int
        and 0 < found.pid < 2**31
        and (found.started is None or type(found.started) is int)
        and type(found.since) in (int, float)
        and abs(found.since) < 1e18
    )
    return found if sensible else NOBODY


def _write_new(path: Path, text: str) -> None:
    """Write a file that must not exist yet, not even as a link."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), "w") as file:
        file.write(text)


def _take_away(path: Path) -> None:
    """Delete a lock file. A folder in its place is renamed."""
    if path.is_dir() and not path.is_symlink():
        set_aside(path)
    else:
        path.unlink()


@functools.cache
def _place() -> str:
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(parts)


def _stat(pid: int) -> list[str] | None:
    """State, parent, … start time of a process as Linux tells them; the name before them may hold anything."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return None


def _began(pid: int) -> int | None:
    facts = _stat(pid)
    return int(facts[19]) if facts else None


def _runs(pid: int, started: int | None) -> bool:
    """Whether this exact process still exists; a zombie does not count. True if that is unknown."""
    facts = _stat(pid)
    if facts is not None:
        return facts[0] not in "ZX" and (started is None or int(facts[19]) == started)
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # someone else's
        return True
    return True


_held: set[Lock] = set()
_starting = threading.Lock()
_heart: threading.Thread | None = None


def _beat(lock: Lock) -> None:
    """Keep a lock's heartbeat going, in one thread for all locks of this process."""
    global _heart
    with _starting:
        _held.add(lock)
        if _heart is None or not _heart.is_alive():
            _heart = threading.Thread(target=_beat_forever, name="lock heartbeat", daemon=True)
            _heart.start()


def _beat_forever() -> None:
    while True:
        time.sleep(BEAT)
        for lock in tuple(_held):
            with contextlib.suppress(OSError):
                if _read(lock.path) == lock.me:  # else it was taken over, and a successor's heart is its own
                    os.utime(lock.path, follow_symlinks=False)
                else:
                    _held.discard(lock)
