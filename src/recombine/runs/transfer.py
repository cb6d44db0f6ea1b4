"""Transfer of diagnoses between machines that do not share a store, as the content of their files.

Received files are untrusted. Only files of a diagnosis that match their digests and belong to the weights of the run
are accepted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recombine.core.errors import DamagedError
from recombine.core.files import parse_json, read_plain, write_bytes
from recombine.core.lock import Lock
from recombine.diagnostics.diagnosis_files import FORMAT, MAIN
from recombine.runs.layout import DIAGNOSIS
from recombine.runs.stored import StoredRun

FOLDER = "diagnosis"
MOST_FILE = 2**33  # bytes


def diagnosis_files(run: StoredRun) -> dict[str, bytes]:
    """The content of all files of a run's diagnosis as "diagnosis/name"; empty if there is none."""
    folder = run.diagnosis_folder
    if not (folder / MAIN).is_file():
        return {}
    names = {f"{FOLDER}/{path.name}": path for path in sorted(folder.iterdir()) if not path.is_symlink()}
    return {name: read_plain(path, most=MOST_FILE) for name, path in names.items() if DIAGNOSIS.fullmatch(name)}


def add_diagnosis(run: StoredRun, files: Mapping[str, bytes], lock: Lock) -> None:
    """Store a diagnosis that was computed on another machine. The caller must hold the lock of the run."""
    content = _content(run, files)
    digests = {Path(name).name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    if any(not DIAGNOSIS.fullmatch(name) for name in files) or content.get("files") != {
        name: digest for name, digest in digests.items() if name != MAIN
    }:
        raise DamagedError(f"The received diagnosis of run {run.id} is damaged or is not a diagnosis.")
    lock.check()
    folder = run.diagnosis_folder
    for name in sorted(files, key=lambda name: Path(name).name == MAIN):  # write the file that lists the others last
        write_bytes(folder / Path(name).name, files[name])


def _content(run: StoredRun, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The content of diagnosis.json. Raises if it has another version or belongs to another run."""
    content = parse_json(files.get(f"{FOLDER}/{MAIN}", b""), f"The received diagnosis of run {run.id}")
    if isinstance(content, dict) and content.get("format") == FORMAT and content.get("source") == run.source:
        return content
    raise DamagedError(f"The received diagnosis of run {run.id} belongs to another run or is damaged.")
