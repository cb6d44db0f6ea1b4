"""The files of a diagnosis: JSON, CSV and safetensors, verified when read. docs/diagnose.md names them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from recombine.core.errors import DamagedError, Missing, StoreError
from recombine.core.factors import FactorSpace
from recombine.core.files import (
    file_digest,
    read_plain_json,
    read_tensors,
    set_aside,
    write_json,
    write_tensors,
    write_text,
)
from recombine.core.holdouts import HOLDOUTS, Holdout, from_run_lengths, run_lengths
from recombine.core.holdouts.data import OwnSplit
from recombine.core.tables import column_types, from_csv, to_csv
from recombine.diagnostics.findings import Absence, PartResult, json_able
from recombine.diagnostics.part import Part, chosen_parts
from recombine.diagnostics.request import DiagnosisRequest
from recombine.diagnostics.verdict import Verdict

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis

FORMAT = "recombine-diagnosis-2"
MAIN = "diagnosis.json"


def write_diagnosis(diagnosis: Diagnosis, folder: Path) -> Path:
    """Write all files. diagnosis.json is written last and contains the digests of all others.

    Until then, an earlier diagnosis.json remains; readers reject only the parts whose files have changed. Files that it
    lists and that are no longer needed are removed at the end.
    """
    before = _files_of(folder)
    parts: dict[str, Any] = {}
    files: dict[str, str] = {}
    for name, part in diagnosis.parts.items():
        parts[name], written = write_part(part, folder, folder)
        files |= {path.name: file_digest(path) for path in written}
    content = {
        "format": FORMAT,
        "space": diagnosis.space.to_config(),
        "holdout": _holdout_config(diagnosis.holdout),
        "available": _availability(diagnosis.holdout),
        "layers": list(diagnosis.layers),
        "verdict": diagnosis.verdict.to_json(),
        "facts": json_able(diagnosis.facts),
        "source": diagnosis.source,
        "parts": parts,
        "files": files,
    }
    write_json(free_path(folder / MAIN), content)
    for name in before - set(files):
        (folder / name).unlink(missing_ok=True)
    return folder


def free_path(path: Path) -> Path:
    """The path of a file to be written; a folder at that path is set aside."""
    if path.is_dir() and not path.is_symlink():
        set_aside(path)
    return path


def _files_of(folder: Path) -> set[str]:
    """The files that the diagnosis stored in the folder lists; none if no diagnosis can be read."""
    try:
        content = read_plain_json(folder / MAIN)
        if content["format"] == FORMAT:
            return {name for name in content["files"] if Path(name).name == name and name != MAIN}
    except (StoreError, KeyError, TypeError, AttributeError):
        pass
    return set()


def read_diagnosis(folder: Path, *, partial: bool = False) -> dict[str, Any]:
    """The fields of a diagnosis. Missing, changed or foreign files raise an error.

    With `partial`, a part whose files are missing or changed is marked as missing instead, with the reason.
    """
    content = read_plain_json(folder / MAIN)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StoreError(f"{folder / MAIN} is not a diagnosis of this version, which uses the format {FORMAT!r}.")
    try:
        damaged = {
            name: reason for name, digest in content["files"].items() if (reason := _damage(folder, name, digest))
        }
        if damaged and not partial:
            raise DamagedError(next(iter(damaged.values())))
        space = FactorSpace.from_config(content["space"])
        return {
            "space": space,
            "holdout": _holdout(content, space),
            "layers": tuple(content["layers"]),
            "parts": {
                name: _part(folder, name, given, content["files"], damaged) for name, given in content["parts"].items()
            },
            "verdict": Verdict.from_json(content["verdict"]),
            "facts": _checked_facts(content["facts"]),
            "source": content["source"],
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, StoreError):
            raise
        raise DamagedError(f"{folder / MAIN} cannot be read: {error!r}.") from error


def _checked_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a diagnosis, whose request and notes are used later. Raises if they cannot be."""
    DiagnosisRequest.from_json(facts["request"])
    notes = facts.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"the notes must be texts, got {notes!r}")
    return facts


def _holdout_config(holdout: Holdout | None) -> dict[str, Any] | None:
    """The configuration of the hold-out; a split that only a data set defines is stored cell by cell."""
    if isinstance(holdout, OwnSplit):
        return from_run_lengths(holdout.space, lengths=run_lengths(holdout.mask)).config
    return None if holdout is None else holdout.config


def _availability(holdout: Holdout | None) -> list[int] | None:
    """Which cells exist, as lengths of runs; None for all."""
    return None if holdout is None or not holdout.n_unavailable else run_lengths(holdout.available)


def _holdout(content: dict[str, Any], space: FactorSpace) -> Holdout | None:
    if content["holdout"] is None:
        return None
    found = HOLDOUTS.build(content["holdout"], space)
    lengths = content["available"]
    return found if lengths is None else found.within(from_run_lengths(space, lengths=lengths).mask)


def lacking_parts(folder: Path, request: DiagnosisRequest, source: Mapping[str, str]) -> tuple[str, ...]:
    """The requested parts that the diagnosis stored in a folder lacks. Only its diagnosis.json is read.

    These are all parts if there is no diagnosis, if its source differs, or if its shared settings differ.
    """
    wanted = chosen_parts(request)
    try:
        content = read_plain_json(folder / MAIN)
        shared = {name: content["facts"]["request"][name] for name in request.shared}
        if content["format"] != FORMAT or content["source"] != source or shared != request.shared:
            return tuple(part.name for part in wanted)
        return tuple(part.name for part in wanted if not _kept(part, content, folder, request))
    except (StoreError, KeyError, TypeError, AttributeError):
        return tuple(part.name for part in wanted)


def _kept(part: Part, content: dict[str, Any], folder: Path, request: DiagnosisRequest) -> bool:
    """Whether a diagnosis contains a part as requested, or found that it cannot be computed."""
    entry = content["parts"].get(part.name)
    if entry is None:
        return False
    absent = entry["missing"].get(part.name)
    if absent is not None:
        return absent["state"] not in (Missing.NOT_REQUESTED, Missing.DAMAGED)
    files = [name for name in content["files"] if name in _files_of_part(part.name, entry)]
    return all((folder / name).is_file() for name in files) and part.answers(entry["facts"], request)


def _files_of_part(name: str, entry: dict[str, Any]) -> list[str]:
    return [
        *(f"{name}-{table}.csv" for table in entry["tables"]),
        *([f"{name}.safetensors"] if entry["arrays"] else []),
    ]


def _damage(folder: Path, name: str, digest: str) -> str:
    """The problem with a file; empty if there is none."""
    if Path(name).name != name or not (folder / name).is_file():
        return f"{folder / name} is missing. Diagnose the model again."
    if file_digest(folder / name) != digest:
        return f"{folder / name} was changed after it was written. Diagnose the model again."
    return ""


def _part(
    folder: Path, name: str, given: dict[str, Any], digests: dict[str, str], damaged: dict[str, str]
) -> PartResult:
    """A part, or the reason why it is missing if one of its files is damaged. Only listed files are read."""
    files = _files_of_part(name, given)
    unlisted = [file for file in files if file not in digests]
    if unlisted:
        raise DamagedError(f"{folder / MAIN} does not list {unlisted[0]!r}. Diagnose the model again.")
    reasons = [damaged[file] for file in files if file in damaged]
    if reasons:
        return PartResult(name, facts=given["facts"], missing={name: Absence(Missing.DAMAGED, reasons[0])})
    return read_part(name, given, folder, folder)


def write_part(part: PartResult, tables: Path, arrays: Path) -> tuple[dict[str, Any], list[Path]]:
    """Write a part as `<part>-<table>.csv` and `<part>.safetensors`; returns `read_part`'s arguments and the files."""
    types, files = {}, []
    for table, rows in part.tables.items():
        files.append(free_path(tables / f"{part.name}-{table}.csv"))
        write_text(files[-1], to_csv(rows))
        types[table] = column_types(rows)
    if part.arrays:
        files.append(free_path(arrays / f"{part.name}.safetensors"))
        write_tensors(files[-1], {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in part.arrays.items()})
    missing = {what: {"state": why.state.value, "reason": why.reason} for what, why in part.missing.items()}
    entry = {"tables": types, "arrays": list(part.arrays), "facts": json_able(part.facts), "missing": missing}
    return entry, files


def read_part(name: str, given: dict[str, Any], tables: Path, arrays: Path) -> PartResult:
    """Read the files that `write_part` wrote, given its return value."""
    rows = {
        table: from_csv((tables / f"{name}-{table}.csv").read_text(encoding="utf-8"), types)
        for table, types in given["tables"].items()
    }
    found = read_tensors(arrays / f"{name}.safetensors")[0] if given["arrays"] else {}
    missing = {what: Absence(Missing(why["state"]), why["reason"]) for what, why in given["missing"].items()}
    return PartResult(name, rows, {n: found[n].numpy() for n in given["arrays"]}, given["facts"], missing)
