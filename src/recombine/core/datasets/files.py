"""Data files: opened only if they are regular files, and identified by the SHA-256 of their content.

A checksum is computed once per state of a file, which is identified by device, inode, size, modification and change
time, and cached in memory. Checksums of files of at least `WORTH_KEEPING` bytes are also cached in
`recombine/checksums.json` in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache), so that a file of many gigabytes
is not read again by every command. A cache that cannot be read or written is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from recombine.core.errors import InputError, StoreError
from recombine.core.files import write_json

WORTH_KEEPING = 64 * 2**20  # bytes: smaller files are read in a tenth of a second
MOST_KEPT = 1000
SEARCH = "RECOMBINE_DATA"  # folders, separated as in PATH, that are searched for moved data files
BLOCK = 2**20

_known: dict[str, str] = {}  # state of a file → sha256
_seen: dict[str, Path] = {}  # sha256 → where this process last found a file with that content


@dataclass(frozen=True)
class DataFile:
    """A file that was opened and read.

    Attributes:
        path: Where it is, absolute.
        sha256: Checksum of its content.
        size: Bytes.
    """

    path: Path
    sha256: str
    size: int


def open_regular(path: Path) -> int:
    """A file descriptor for reading. Raises an error unless the path leads to a regular file.

    It does not block: opening a pipe would otherwise wait until some process writes to it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise InputError(
            f"There is no file {path}. Give the path of the data. If the file was moved, add its new folder to the "
            f"environment variable {SEARCH}."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path} is not a regular file. recombine reads data only from regular files.")
    return descriptor


def checked_file(path: str | Path) -> DataFile:
    """A regular file with its checksum, from the cache if the file has not changed since."""
    place = Path(path).expanduser().absolute()
    descriptor = open_regular(place)
    try:
        facts = os.fstat(descriptor)
        state = f"{facts.st_dev}-{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}-{facts.st_ctime_ns}"
        sha256 = _known.get(state) or _kept(facts.st_size).get(state)
        if sha256 is None:
            sha256 = _digest(descriptor)
            if facts.st_size >= WORTH_KEEPING:
                _keep(state, sha256)
    finally:
        os.close(descriptor)
    _known[state] = sha256
    _seen[sha256] = place
    return DataFile(place, sha256, facts.st_size)


def found_again(path: str | Path, sha256: str) -> DataFile:
    """The file that a configuration recorded, at its path or moved, with the same content.

    A file that is not at its path is searched for where this process found its content before, and by its name in the
    folders of the environment variable RECOMBINE_DATA.

    Raises:
        InputError: If no file with this content is found. The error names a file that changed.
    """
    recorded = Path(path)
    seen = [_seen[sha256]] if sha256 in _seen else []
    places = [recorded, *seen, *(folder / recorded.name for folder in _search_folders())]
    present = [place for place in dict.fromkeys(places) if place.is_file()]
    for place in present:
        file = checked_file(place)
        if file.sha256 == sha256:
            return file
    if not present:
        checked_file(recorded)  # names what is wrong with it
    raise changed(present[0], sha256, checked_file(present[0]).sha256)


def _located(path: str | Path) -> Path:
    """Where a file is: at its path, or by its name in one of the folders of RECOMBINE_DATA."""
    given = Path(path).expanduser().absolute()
    places = [given, *(folder / given.name for folder in _search_folders())]
    return next((place for place in places if place.is_file()), given)


class DataFiles:
    """The files of a data set as they are opened, by role ("images", "labels").

    Args:
        recorded: Role → SHA-256 from an earlier opening, which the files must still have. None the first time.
    """

    def __init__(self, recorded: dict[str, str] | None = None) -> None:
        self.recorded = recorded
        self.opened: dict[str, DataFile] = {}
        self._many: list[DataFile] = []

    def open(self, role: str, path: str | Path) -> Path:
        """The path of the file. Raises if it is not a regular file or if its content differs from the recorded one."""
        if self.recorded is not None and role in self.recorded:
            file = found_again(path, self.recorded[role])
        else:
            file = checked_file(_located(path))
        self.opened[role] = file
        return file.path

    def folder(self, path: str | Path) -> Path:
        """Where a folder is: at its path, or by its name in one of the folders of RECOMBINE_DATA."""
        recorded = Path(path).expanduser().absolute()
        places = [recorded, *(folder / recorded.name for folder in _search_folders())]
        for place in places:
            if place.is_dir():
                return place
        raise InputError(f"There is no folder {recorded}.")

    def open_many(self, role: str, folder: Path, paths: list[Path]) -> None:
        """Open files of a folder that share one checksum. Raises an error if it differs from the recorded one."""
        self._many = [checked_file(path) for path in paths]
        sha256 = hashlib.sha256("".join(file.sha256 for file in self._many).encode()).hexdigest()
        if self.recorded is not None and self.recorded.get(role, sha256) != sha256:
            raise changed(folder, self.recorded[role], sha256)
        self.opened[role] = DataFile(folder, sha256, sum(file.size for file in self._many))

    def unchanged(self) -> bool:
        """Whether all opened files still have the same content."""
        files = [*(file for file in self.opened.values() if file.path.is_file()), *self._many]
        return all(file.path.is_file() and checked_file(file.path).sha256 == file.sha256 for file in files)

    @property
    def sha256(self) -> dict[str, str]:
        return {role: file.sha256 for role, file in self.opened.items()}


def changed(path: Path, before: str, now: str) -> InputError:
    """The error for data that have changed."""
    return InputError(
        f"{path} changed after its checksum was recorded. Its sha256 was {before[:16]}… and is now {now[:16]}…. "
        "Restore the file, or train a new run on the changed data with a configuration without sha256."
    )


def _search_folders() -> list[Path]:
    return [Path(folder) for folder in os.environ.get(SEARCH, "").split(os.pathsep) if folder]


def _digest(descriptor: int) -> str:
    total = hashlib.sha256()
    position = 0
    while block := os.pread(descriptor, BLOCK, position):
        total.update(block)
        position += len(block)
    return total.hexdigest()


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "recombine" / "checksums.json"


def _kept(size: int) -> dict[str, str]:
    """Checksums cached on disk; none for a small file, or if the cache cannot be read."""
    if size < WORTH_KEEPING:
        return {}
    try:
        kept = json.loads(_cache().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # none yet, damaged, or no home folder
        return {}
    return kept if isinstance(kept, dict) else {}


def _keep(state: str, sha256: str) -> None:
    with contextlib.suppress(OSError, StoreError, RuntimeError):
        kept = {**_kept(WORTH_KEEPING), state: sha256}
        write_json(_cache(), dict(list(kept.items())[-MOST_KEPT:]))
