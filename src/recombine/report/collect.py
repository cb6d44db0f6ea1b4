"""Collects the content of the page: runs, diagnoses, tables, claims and figures under the given paths.

A path is a run's directory or id, a run store, a folder with a diagnosis, a folder with tables (`table.csv`,
`tables/*.csv`), claims (`claims.json`) and figures (`figures/*.png`), as written by a sweep or a reproduction, or a
single CSV file. `NAME=PATH` names a model. Unreadable files become notes on the page, and the rest is shown.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError, Missing, StoreError
from recombine.core.files import inside, read_plain, read_plain_json
from recombine.core.tables import from_csv
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.diagnosis_files import MAIN
from recombine.diagnostics.part import PARTS, SETTINGS
from recombine.report.labels import name_runs
from recombine.runs.damage import damage_lines
from recombine.runs.layout import RUN_ID
from recombine.runs.store import Store
from recombine.runs.stored import StoredRun

MOST_TABLE_BYTES = 2**24
ACCEPTED = (
    "the folder or id of a run, a run store, a folder with a diagnosis, or a folder with tables (table.csv, "
    "tables/*.csv) or claims.json"
)


@dataclass
class Model:
    """A diagnosed model, with its `run` if it belongs to a store.

    Attributes:
        asked: Whether it was requested directly rather than found in a store.
        named: Whether its name was given rather than generated.
        folder: Folder of its diagnosis, which identifies a model that is found twice.
    """

    name: str
    diagnosis: Diagnosis
    run: StoredRun | None = None
    asked: bool = True
    named: bool = True
    folder: Path | None = None


@dataclass(frozen=True)
class Table:
    """A CSV file. Columns that contain only numbers are numeric; the others are text."""

    name: str
    rows: list[dict[str, Any]]


@dataclass
class Collected:
    """Everything that was found.

    Attributes:
        models: Diagnosed models. Directly requested models come first.
        runs: All finished runs, diagnosed or not.
        tables: The tables, one per CSV file.
        claims: The content of claims.json files, each with the name of its folder.
        figures: Maps the names of a folder and a PNG file to its bytes.
        notes: Messages about what could not be read or is not shown.
    """

    models: list[Model] = field(default_factory=list)
    runs: list[StoredRun] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    claims: list[tuple[str, Any]] = field(default_factory=list)
    figures: dict[tuple[str, str], bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sources: dict[str, Path] = field(default_factory=dict)  # names of the folders and files that are shown
    failed: list[str] = field(default_factory=list)  # why runs of stores have no diagnosis

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.models or self.runs or self.tables or self.claims or self.figures)


def collect(paths: Sequence[str | Path], *, runs: str | Path = "runs", diagnose: bool = False) -> Collected:
    """Collect the content of a page from the given paths.

    Args:
        paths: Paths as described in the module docstring.
        runs: The store in which ids are looked up.
        diagnose: Diagnose runs that have no diagnosis yet, or lack a part of it.

    Raises:
        InputError: If a path contains nothing to show, if a requested run has no diagnosis, or if no run could be
            diagnosed with `diagnose`.
    """
    if not paths:
        raise InputError(f"There is nothing to report on. Give {ACCEPTED}.")
    found = Collected()
    undiagnosed: list[StoredRun] = []
    for given in paths:
        name, path = _named(str(given))
        if os.path.isdir(path):
            _look(found, name, path, diagnose, undiagnosed)
        elif path.suffix == ".csv" and os.path.isfile(path):
            _read_table(found, path)
        elif os.path.exists(path) or not _is_id(path):
            raise InputError(f"There is nothing to show at {_shortened(str(path))!r}. Expected {ACCEPTED}.")
        else:
            _add_run(found, Store(runs).load(str(path), without_plugins=True), name, diagnose, undiagnosed)
    if undiagnosed:
        commands = "\n".join(f"  recombine diagnose {run.id} --out {run.path.parent}" for run in undiagnosed)
        raise StoreError(
            f"{_count(len(undiagnosed), 'run has', 'runs have')} no diagnosis yet. Run\n{commands}\n"
            "or repeat this command with --diagnose."
        )
    if diagnose and found.failed and not found.models:
        raise InputError("No run could be diagnosed.\n" + "\n".join(found.failed))
    found.notes += found.failed
    if found.empty:
        why = "".join(f"\n  {note}" for note in found.notes)
        raise InputError(f"There is nothing to show in {', '.join(map(str, paths))}. Expected {ACCEPTED}.{why}")
    found.models.sort(key=lambda model: not model.asked)
    name_runs(found.models)
    return found


def _named(given: str) -> tuple[str, Path]:
    """Split NAME=PATH at the first "=" that is followed by a path or an id. An existing path is not split."""
    if not given or os.path.exists(given):
        return "", Path(given)
    cuts = [(given[:i], Path(given[i + 1 :])) for i, sign in enumerate(given) if sign == "=" and given[i + 1 :]]
    fitting = [(name, path) for name, path in cuts if os.path.exists(path) or _is_id(path)]
    return [*fitting, *cuts, ("", Path(given))][0]


def _shortened(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _is_id(path: Path) -> bool:
    return len(path.parts) == 1 and 0 < len(path.name) <= 16 and set(path.name) <= set("0123456789abcdef")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _look(found: Collected, name: str, path: Path, diagnose: bool, undiagnosed: list[StoredRun]) -> None:
    """Collect everything in a folder."""
    resolved = path.resolve()
    if RUN_ID.fullmatch(resolved.name) and (path / "config.json").is_file():
        store = Store(resolved.parent if path == Path(".") else path.parent)
        _add_run(found, store.load(resolved.name, without_plugins=True), name, diagnose, undiagnosed)
        return
    if (path / MAIN).is_file():
        if not _met(found, resolved, name, asked=True):
            found.models.append(Model(name or resolved.name, _loaded(path), named=bool(name), folder=resolved))
            _note_damage(found, path.name, found.models[-1].diagnosis)
        return
    for store in (path, path / "runs"):
        _look_through_store(found, Store(store), diagnose)
    for table in (path / "table.csv", *sorted((path / "tables").glob("*.csv"))):
        if table.is_file():
            try:
                _read_table(found, inside(path, *table.relative_to(path).parts))
            except StoreError as error:
                found.notes.append(f"The table {table} is not shown. {error}")
    if resolved in found.sources.values():
        return
    source = resolved.name if resolved.name not in found.sources else str(path)
    found.sources[source] = resolved
    if (path / "claims.json").is_file():
        try:
            found.claims.append((source, read_plain_json(path / "claims.json")))
        except StoreError as error:
            found.notes.append(f"The claims are not shown. {error}")
    for figure in sorted((path / "figures").glob("*.png")):
        try:
            found.figures[source, figure.name] = read_plain(inside(path, "figures", figure.name))
        except (OSError, StoreError) as error:
            found.notes.append(f"The figure {figure.name} is not shown. {error}")


def _look_through_store(found: Collected, store: Store, diagnose: bool) -> None:
    """Collect all finished runs of a store. Runs without a diagnosis appear only in the list of runs."""
    bare = 0
    damaged: dict[str, str] = {}
    rows = store.list()
    for row in rows:
        if row.status.damaged:
            damaged[row.id] = row.status.reason
        if not row.status.finished:
            continue
        try:
            run = store.load(row.id, without_plugins=True)
            missing: list[StoredRun] = []
            _add_run(found, run, "", diagnose, missing, asked=False)
            bare += len(missing)
        except StoreError as error:
            damaged[row.id] = str(error)
        except InputError as error:  # the run is intact, but its data or a plug-in is missing
            found.failed.append(f"Run {row.id} is not in the explorer. {error}")
    unfinished = sum(not row.status.finished and not row.status.damaged for row in rows)
    if unfinished:
        found.notes.append(f"{store.root}: {_count(unfinished, 'run is', 'runs are')} not finished and not shown.")
    found.notes += [f"Not shown: {line}" for line in damage_lines(store.root, damaged)]
    if bare:
        found.notes.append(
            f"{store.root}: {_count(bare, 'run has', 'runs have')} no diagnosis. Such runs are listed, but not shown "
            "in the explorer. Use --diagnose to diagnose them."
        )


def _add_run(
    found: Collected, run: StoredRun, name: str, diagnose: bool, undiagnosed: list[StoredRun], *, asked: bool = True
) -> None:
    if all(run.path.resolve() != known.path.resolve() for known in found.runs):
        found.runs.append(run)
    folder = (run.path / "diagnosis").resolve()
    if _met(found, folder, name, asked=asked, run=run):
        return
    if not (folder / MAIN).is_file() and not diagnose:
        undiagnosed.append(run)
        return
    diagnosis = _diagnosed(run) if diagnose else _loaded_of(run)
    _note_damage(found, f"run {run.id}", diagnosis)
    found.models.append(Model(name, diagnosis, run, asked, bool(name), folder))


def _met(found: Collected, folder: Path, name: str, *, asked: bool, run: StoredRun | None = None) -> bool:
    """Whether a model was found before. If so, its name, its run and whether it was requested are updated."""
    known = next((model for model in found.models if model.folder == folder), None)
    if known is None:
        return False
    if name and not (known.named and known.name):
        known.name, known.named = name, True
    known.run = known.run or run
    known.asked = known.asked or asked
    return True


def _loaded(folder: Path) -> Diagnosis:
    try:
        return Diagnosis.load(folder, partial=True)
    except StoreError as error:
        raise StoreError(f"{error} Diagnose the model and save the diagnosis again, or omit this folder.") from error


def _loaded_of(run: StoredRun) -> Diagnosis:
    try:
        return run.load_diagnosis(partial=True)
    except StoreError as error:
        command = f"recombine diagnose {run.id} --out {run.path.parent}"
        raise StoreError(
            f"{error} Compute it again with `{command}`, or repeat this command with --diagnose."
        ) from error


def page_parts() -> list[str]:
    """The parts that the page shows, in their order."""
    return [name for name, part in PARTS.items() if part.on_page and not part.on_request]


def _diagnosed(run: StoredRun) -> Diagnosis:
    """The diagnosis of a run with all parts that the page shows.

    A diagnosis that lacks some of them is computed again with its settings and with all of its parts, so that no
    earlier result is lost.
    """
    folder, wanted = run.path / "diagnosis", page_parts()
    if not (folder / MAIN).is_file():
        return run.diagnose(parts=wanted)
    try:
        found = run.load_diagnosis(partial=True)
    except StoreError:  # the files show which parts it had
        held = {part for part in PARTS if next(folder.glob(f"{part}[-.]*"), None) is not None}
        return run.diagnose(parts=[part for part in PARTS if part in held or part in wanted])
    if all(_kept(found, part) for part in wanted):
        return found
    chosen = {part for part in PARTS if found[part].state is not Missing.NOT_REQUESTED}
    return run.diagnose(
        parts=[part for part in PARTS if part in chosen or part in wanted], **_settings(found), **found.facts["request"]
    )


def _settings(diagnosis: Diagnosis) -> dict[str, Any]:
    """The settings of the parts. If two parts have different values, such as budgets, the larger one is used."""
    found: dict[str, Any] = {}
    for name, part in PARTS.items():
        asked = part.request_of(diagnosis[name].facts)
        if SETTINGS in asked:
            found.setdefault(SETTINGS, {})[name] = asked.pop(SETTINGS)
        for setting, value in asked.items():
            found[setting] = max(found.get(setting, value), value)
    return found


def _note_damage(found: Collected, what: str, diagnosis: Diagnosis) -> None:
    for part in PARTS:
        if diagnosis[part].state is Missing.DAMAGED:
            reason = diagnosis[part].reason
            found.notes.append(
                f"The {part} of {what} are not shown: {reason} Repeat this command with --diagnose to compute them."
            )


def _kept(diagnosis: Diagnosis, part: str) -> bool:
    """Whether a part is present or not computable, so that another attempt would not change it."""
    return diagnosis[part].state not in (Missing.NOT_REQUESTED, Missing.DAMAGED)


def _read_table(found: Collected, path: Path) -> None:
    name = path.stem if path.stem != "table" else path.parent.name
    if path.resolve() in found.sources.values():
        return
    found.sources[str(path)] = path.resolve()
    try:
        if path.stat().st_size > MOST_TABLE_BYTES:
            raise ValueError(f"it is larger than {MOST_TABLE_BYTES >> 20} MB")
        rows = from_csv(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # InputError is a ValueError
        found.notes.append(f"The table {path} is not shown: {error}.")
        return
    found.tables.append(Table(name, [{column: _finite(value) for column, value in row.items()} for row in rows]))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
