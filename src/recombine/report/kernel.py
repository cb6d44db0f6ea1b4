"""The kernel view: Gram matrices of a model's outputs, ID rows first."""

from __future__ import annotations

from typing import Any

import numpy as np

from recombine.report.arrays import Blobs
from recombine.report.collect import Model

MOST_CELLS = 1024


def kernel_json(model: Model, blobs: Blobs) -> dict[str, Any]:
    """The upper triangles of all similarities, row by row, and the cell of each row.

    Larger matrices are subsampled to every second, third, … cell, so that ID and OOD keep their shares. `of` is the
    original number of cells.
    """
    part = model.diagnosis["kernels"]
    if not part.computed:
        return {"missing": part.reason}
    cells, n_id = part.arrays["cells"], int(part.facts["n_id"])
    step = -(-len(cells) // MOST_CELLS)
    kept = np.concatenate([np.arange(0, n_id, step), np.arange(n_id, len(cells), step)])
    above = np.triu_indices(len(kept))
    block = f"model {model.name!r}, kernel"
    return {
        "cells": cells[kept].tolist(),
        "n_id": int((kept < n_id).sum()),
        "of": len(model.diagnosis.space),
        "grams": {
            name: blobs.add(matrix[np.ix_(kept, kept)][above], block) for name, matrix in part.by_layer("gram").items()
        },
        "agreement": {row["similarity"]: row for row in part.table("agreement")} if "agreement" in part.tables else {},
    }
