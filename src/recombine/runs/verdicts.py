"""The verdict of a stored run, read from its diagnosis without loading anything else."""

from __future__ import annotations

import contextlib

from recombine.core.errors import Missing, StoreError
from recombine.core.files import read_json
from recombine.diagnostics.diagnosis_files import FORMAT, MAIN
from recombine.runs.store import Store


def stored_verdict(store: Store, run: str) -> str | None:
    """What kind of verdict a finished run's diagnosis holds.

    None if it has no diagnosis of these weights, if that cannot be read, or if it was asked for other parts only.
    """
    file = store.root / run / "diagnosis" / MAIN
    if not file.is_file():
        return None
    with contextlib.suppress(StoreError, KeyError, TypeError, AttributeError):
        content = read_json(file)
        weights = store.facts(run)["files"]["model/model.safetensors"]
        asked = content["parts"]["superposition"]["missing"].get("superposition", {}).get("state")
        of_this = content["format"] == FORMAT and content["source"] == {"run": run, "model": weights}
        if of_this and asked != Missing.NOT_REQUESTED:
            return str(content["verdict"]["kind"])
    return None
