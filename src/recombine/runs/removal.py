"""Deletes the folders of runs. Folders with other files are left unchanged."""

from __future__ import annotations

import shutil
from pathlib import Path

from recombine.core.errors import StoreError
from recombine.core.files import read_plain_json
from recombine.core.lock import Lock
from recombine.runs.config import DEFAULTS
from recombine.runs.layout import CONFIG, LOCK, PASSING, is_result


def check_removable(path: Path) -> None:
    """Raise if a run's folder is a link or contains files that do not belong to a run."""
    if path.is_symlink():
        raise StoreError(f"{path} is a link and was not deleted. Delete it yourself.")
    files = [str(file.relative_to(path)) for file in path.rglob("*") if file.is_symlink() or not file.is_dir()]
    lasting = [name for name in files if not PASSING.fullmatch(name)]
    foreign = sorted(name for name in lasting if not is_result(name))
    if foreign:
        raise StoreError(f"{path} contains {', '.join(foreign)}, which recombine did not write, so it was not deleted.")
    if lasting and not _may_be_ours(path):
        raise StoreError(f"{path} was not deleted because it has no config.json and may not be a run.")


def _may_be_ours(path: Path) -> bool:
    """Whether config.json describes a run, or is too damaged to decide."""
    try:
        given = read_plain_json(path / CONFIG)
    except StoreError:
        return (path / CONFIG).is_file()
    return isinstance(given, dict) and set(given) <= set(DEFAULTS)


def remove_run(path: Path) -> None:
    """Delete a run, finished or not, that no process is working on."""
    check_removable(path)
    with Lock(path / LOCK):
        try:
            shutil.rmtree(path)
        except OSError as error:
            raise StoreError(f"Cannot delete {error.filename}: {error.strerror}.") from error
