"""The verdict of a stored run, read from its diagnosis without loading other files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recombine.core.errors import Missing, StoreError
from recombine.core.files import inside, read_plain_json
from recombine.diagnostics.diagnosis_files import FORMAT, MAIN
from recombine.runs.layout import WEIGHTS
from recombine.runs.store import Store


@dataclass(frozen=True)
class StoredVerdict:
    """The part of a verdict that a table shows.

    Attributes:
        kind: Kind of the verdict.
        right: Share of correct unseen cells; None if it is unknown.
    """

    kind: str
    right: float | None


def stored_verdict(store: Store, run: str) -> StoredVerdict | None:
    """The verdict in a finished run's diagnosis.

    None if there is no readable diagnosis of these weights, or if the diagnosis lacks the parts that a verdict needs.
    """
    try:
        file = inside(store.root, run, "diagnosis", MAIN)
        if not file.is_file():
            return None
        content = read_plain_json(file)
        weights = store.facts(run)["files"][WEIGHTS]
    except StoreError:
        return None
    if _at(content, "format") != FORMAT or _at(content, "source") != {"run": run, "model": weights}:
        return None
    if _at(content, "parts", "superposition", "missing", "superposition", "state") == Missing.NOT_REQUESTED:
        return None
    kind, right = _at(content, "verdict", "kind"), _at(content, "verdict", "right")
    if not isinstance(kind, str):
        return None
    return StoredVerdict(kind, float(right) if isinstance(right, int | float) else None)


def _at(content: Any, *keys: str) -> Any:
    """The value under nested keys; None if a key is missing."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content
