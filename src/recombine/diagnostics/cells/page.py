"""The page's view of an unseen output: its class, and the training outputs that form its best sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from recombine.diagnostics.cells.classes import CellClass
from recombine.diagnostics.cells.products import SMALL_OUTPUT
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.page_content import Packer


def memories_panel(part: PartResult, pack: Packer) -> dict[str, Any] | None:
    """The classified unseen cells with their memories and weights; None if the files contain none.

    `words` are the distinct descriptions, and `word` is the index of each cell's description. Sums with fewer memories
    than others are padded with −1.
    """
    rows = [row for row in part.tables.get("classes", []) if row["split"] == "ood"]
    cells, weights = (part.arrays.get(f"memories/{name}") for name in ("cells", "weights"))
    if not rows or cells is None or weights is None or len(rows) != len(cells) or cells.shape != weights.shape:
        return None
    used = int((cells >= 0).sum(1).max())
    told = [_description(row) for row in rows]
    words = list(dict.fromkeys(told))
    return {
        "words": words,
        "word": [words.index(one) for one in told],
        "of": pack.add_integers(np.array([row["cell"] for row in rows])),
        "explained": [None if np.isnan(row["sum"]) else round(row["sum"], 3) for row in rows],
        "cells": pack.add_integers(cells[:, :used]),
        "weights": pack.add(weights[:, :used], bits=16, curve="root"),
        "small": SMALL_OUTPUT,
    }


def _description(row: dict[str, Any]) -> str:
    """The class of a cell, with the value it shows or the classes it could have."""
    meaning = CellClass(row["class"]).meaning
    if row["wrong_factor"]:
        return f"{meaning}: {row['wrong_factor']} is shown as {row['shown_value']}"
    if row["options"]:
        return f"{meaning}: {' or '.join(CellClass(one).meaning for one in row['options'].split(' | '))}"
    return meaning
