"""Memory of training on a data set larger than memory should hold, and of its diagnosis.

    python -m benchmarks.large_data --gigabytes 5

The pictures are a sparse .npy file, so that the disk holds almost nothing of it: one picture of every cell is written,
the others are holes, which read as black. They are read like any others. Prints JSON with the peak of the process's
resident memory (`peak_gb`), which the file must not count towards.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

SIZES = (16, 12, 3)  # values of the factors x, y and colour
SIDE = 64


def write_sparse(folder: Path, gigabytes: float) -> tuple[Path, Path]:
    """Pictures and labels: every cell has equally many pictures, the first of which is not black."""
    cells = int(np.prod(SIZES))
    each = max(1, int(gigabytes * 1e9 / (cells * SIDE * SIDE * 3)))
    shape = (cells * each, SIDE, SIDE, 3)
    images, labels = folder / "images.npy", folder / "labels.npy"
    with images.open("wb") as file:
        npy_format.write_array_header_2_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        start, row = file.tell(), SIDE * SIDE * 3
        positions = np.stack(np.unravel_index(np.arange(cells), SIZES), axis=1)
        for cell, (x, y, colour) in enumerate(positions):
            picture = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
            picture[4 * y : 4 * y + 16, 3 * x : 3 * x + 16, colour] = 255
            file.seek(start + cell * each * row)
            file.write(picture.tobytes())
        file.truncate(start + shape[0] * row)
    np.save(labels, np.repeat(positions, each, axis=0))
    return images, labels


def measure(gigabytes: float, steps: int, folder: Path) -> dict[str, Any]:
    """Train and diagnose; seconds of each stage, and the peak of resident memory in GB."""
    import recombine as rc

    images, labels = write_sparse(folder, gigabytes)
    seconds: dict[str, float] = {}

    def timed(name: str, started: float) -> float:
        seconds[name] = round(time.monotonic() - started, 1)
        return time.monotonic()

    now = time.monotonic()
    task = rc.Task.from_arrays(
        images,
        labels,
        factors={"x": SIZES[0], "y": SIZES[1], "colour": ["red", "green", "blue"]},
        holdout={"kind": "random", "fraction": 0.2},
    )
    now = timed("open", now)
    model = rc.decoders.MLP(task, depth=2, width=64)
    run = rc.train(model, task, training=rc.recipe("recommended", steps=steps), progress=False)
    now = timed("train and score", now)
    found = rc.diagnose(run.model, task.space, task.inputs, task.holdout, target=task.scene, progress=False)
    timed("diagnose", now)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "data_gb": round(images.stat().st_size / 1e9, 2),
        "disk_gb": round(images.stat().st_blocks * 512 / 1e9, 3),
        "pictures": len(np.load(labels, mmap_mode="r")),
        "peak_gb": round(peak / 1e9, 2),
        "seconds": seconds,
        "computed": [name for name, part in found.parts.items() if part.computed],
        "ood_mse": run.scores.summary()["ood", "mse"].mean,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where the sparse file is written; a temporary folder unless given")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        print(json.dumps(measure(given.gigabytes, given.steps, Path(folder)), indent=2))


if __name__ == "__main__":
    main()
