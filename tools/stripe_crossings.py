"""Brightness where the two stripes of an unseen pair cross, for networks trained on stripes alone.

    python -m tools.stripe_crossings reproduction

For every network of `few_shot` without bumps, after the longest training: OOD localization, and means over unseen pairs
of the brightness at the crossing and of the brightest pixel. An exact sum of two stripes has 2 at the crossing, their
union 1.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from recombine.runs.store import Store
from recombine.scoring.outputs import render


def crossings(folder: Path) -> list[dict[str, float | str]]:
    """One row per network."""
    with (folder / "tables" / "few_shot-runs.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["bumps"]) == 0]
    steps, width = max(int(row["steps"]) for row in rows), min(int(row["width"]) for row in rows)
    found: list[dict[str, float | str]] = []
    for row in rows:
        if (int(row["steps"]), int(row["width"])) != (steps, width):
            continue
        run = Store(folder / "runs").load(row["run"])
        cells = run.task.holdout.ood_cells
        _, outputs = render(run.model, run.task, cells)
        images = outputs.reshape(len(cells), *outputs.shape[-2:])
        at = run.task.space.values(cells).long().numpy()
        crossing = [image[y, x] for image, (x, y) in zip(images, at)]
        found.append(
            {
                "seed": row["seed"],
                "localization": float(row["ood_localization"]),
                "crossing": float(sum(crossing) / len(crossing)),
                "brightest": float(images.max((1, 2)).mean()),
            }
        )
    return found


if __name__ == "__main__":
    for line in crossings(Path(sys.argv[1])):
        print("  ".join(f"{k} {v if isinstance(v, str) else round(v, 2)}" for k, v in line.items()))
