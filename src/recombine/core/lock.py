"""A lock that survives crashes: a file that names its holder and whose time of change is the holder's heartbeat.

    with Lock(folder / ".lock"):
        …                         # nobody else gets here

The file appears in one step and is deleted at the end. A holder that was killed leaves it behind; on the same machine
that is noticed at once, because no such process runs any more, and from another machine after `STALE` seconds without
a heartbeat. It needs nothing but atomic links, so that it also works on shared folders without flock.
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
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from recombine.core.errors import LockHeld, StoreError

BEAT = 10.0
STALE = 60.0  # several beats, as a busy machine or file server may delay some
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True)
class Holder:
    """Who holds a lock."""

    token: str
    place: str  # where the process number means something: one boot of one machine, or one container on it
    host: str
    pid: int
    started: int | None  # when the process began, as the system counts: numbers are used again
    since: float  # when it took the lock, seconds since 1970

    def is_dead(self) -> bool:
        """Certainly dead; False also if that cannot be known from here."""
        return self.place == _place() and not _runs(self.pid, self.started)


NOBODY = Holder("nobody", "nowhere", "", 0, None, 0.0)


class Lock:
    """Held from `acquire` to `release`, or inside a with block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.me = Holder(secrets.token_hex(8), _place(), platform.node(), os.getpid(), _began(os.getpid()), time.time())

    def acquire(self) -> None:
        """Take the lock, also from a dead holder; LockHeld if a living one has it."""
        draft = self.path.with_name(f"{self.path.name}.{self.me.token}.part")
        try:
            draft.write_text(json.dumps(asdict(self.me)))
            try:
                now = draft.stat().st_mtime  # by the file server's clock, like the heartbeat it is compared with
                while not self._appear(draft):
                    self._remove_if_dead(now)
            finally:
                draft.unlink(missing_ok=True)
            self._clear_away(now)
        except OSError as error:
            raise StoreError(f"Cannot write to {self.path.parent}: {error.strerror}. Choose another --out.") from error
        _beat(self)

    def _clear_away(self, now: float) -> None:
        """Delete what processes left that were killed while they took the lock."""
        for left in self.path.parent.glob(f"{self.path.name}.*"):
            with contextlib.suppress(OSError):
                if now - left.stat().st_mtime > STALE:
                    left.unlink()

    def _appear(self, draft: Path) -> bool:
        """Make the file in one step; False if there is one."""
        try:
            os.link(draft, self.path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            try:
                handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            except FileExistsError:
                return False
            with os.fdopen(handle, "w") as file:
                file.write(draft.read_text())
        return True

    def _remove_if_dead(self, now: float) -> None:
        """Take the file of a dead holder away; LockHeld if it lives.

        The right to bury a holder is a lock of its own, named after it: else one who saw it dead a moment ago might
        take away the file of its successor.
        """
        seen = self._dead(now)
        if seen is not None:
            with Lock(self.path.with_name(f"{self.path.name}.{seen.token}")), contextlib.suppress(FileNotFoundError):
                if self._dead(now) == seen:
                    self.path.unlink()

    def _dead(self, now: float) -> Holder | None:
        """The dead holder, None if there is no file any more; LockHeld if the holder lives."""
        try:
            seen, age = _read(self.path), now - self.path.stat().st_mtime
        except FileNotFoundError:
            return None
        if age > STALE or seen.is_dead():
            return seen
        who = f"Process {seen.pid} on {seen.host}" if seen.pid else "Another process"
        raise LockHeld(f"{who} is working on {self.path.parent.name}. Wait for it, or end it.")

    def check(self) -> None:
        """Raise if the lock is not ours any more: this process was asleep for so long that it was taken for dead."""
        try:
            found = _read(self.path)
        except FileNotFoundError:
            found = None
        if found != self.me:
            raise StoreError(
                f"The lock of {self.path.parent} was taken over, as this process did not answer for {STALE:g} s. "
                "What it did there since is not kept; run the same command again."
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
    """Who holds a lock now, or None; for looking only."""
    try:
        found, age = _read(path), time.time() - path.stat().st_mtime
    except OSError:
        return None
    return None if age > STALE or found.is_dead() else found


def _read(path: Path) -> Holder:
    """What a lock file says; nobody's if that is nothing sensible (an old version's, or the disk was full)."""
    try:
        found = Holder(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return NOBODY
    return found if re.fullmatch("[0-9a-f]{16}", str(found.token)) else NOBODY


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
    """Whether this very process is still there; a zombie is not. True where that cannot be known."""
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
                    os.utime(lock.path)
                else:
                    _held.discard(lock)
