"""Large grids: memory stays bounded, and time per cell does not grow with their number.

    python -m benchmarks.large_grids               # both measurements, about ten minutes on two cores
    python -m benchmarks.large_grids --one 128 128 # one diagnosis: cells and pixels per side; prints JSON

Each diagnosis (geometry, probes, superposition) runs in a process of its own, whose peak memory is that of the
diagnosis and of Python with torch. Time per cell is compared between grids of 32² and 128² cells over images of the
same size: with larger images a cell costs more, whatever the number of cells.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Protocol

import recombine as rc
from benchmarks.measure import Row, seconds
from recombine.factors import continuous

PARTS = ("geometry", "probes", "superposition")
MOST_GB = 3.0
FLAT = 1 / 1.2


class Scale(Protocol):
    """What the case reads of `benchmarks.cases.Scale`."""

    @property
    def grids(self) -> tuple[int, int]: ...

    @property
    def grid_pixels(self) -> int: ...

    @property
    def grid_width(self) -> int: ...


def depth_for(pixels: int) -> int:
    """The depth 4 of the paper, or what large images need: each layer doubles a side of 7 until they are reached."""
    return max(4, math.ceil(math.log2(pixels / 7)))


def diagnosed(cells: int, pixels: int, width: int) -> dict[str, Any]:
    """Diagnose an untrained CNN on cells² combinations of images with pixels² pixels, in this process."""
    side = continuous(0.0, float(pixels), cells)
    space = rc.FactorSpace(x=side, y=side)
    low, high = 6 * pixels / 28, 22 * pixels / 28
    scene, hole = rc.scenes.Bump(space), rc.holdouts.centre(space, low, high)
    encode = rc.encodings.Positional(space)
    model = rc.decoders.CNN(rc.Task(scene, encode, hole), depth=depth_for(pixels), width=width).initialize(0)

    def work() -> object:
        return rc.diagnose(model, space, encode, hole, target=scene, parts=list(PARTS), progress=False)

    spent = seconds(work)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"cells": len(space), "seconds": spent, "peak_gb": peak / 1e9}


def apart(cells: int, pixels: int, width: int) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.large_grids", "--one", str(cells), str(pixels), "--width", str(width)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def large(scale: Scale) -> Iterator[Row]:
    """Peak memory on the larger grid with large images, and time per cell on both grids."""
    (small, many), pixels = scale.grids, scale.grid_pixels
    name = f"CNN of width {scale.grid_width}, geometry, probes, superposition"
    whole = apart(many, pixels, scale.grid_width)
    title = f"{name}, {many}² cells, {pixels}² pixels: {MOST_GB:g} GB / peak memory"
    yield Row(title, MOST_GB / whole["peak_gb"], 1.0, whole)
    few, more = (apart(cells, small, scale.grid_width) for cells in (small, many))
    ratio = (more["seconds"] / more["cells"]) / (few["seconds"] / few["cells"])
    raw = {"ratio": ratio, "few": few, "many": more}
    yield Row(f"{name}, time per cell: {small}² / {many}² cells", 1 / ratio, FLAT, raw)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_grids")
    parser.add_argument("--one", type=int, nargs=2, metavar=("CELLS", "PIXELS"))
    parser.add_argument("--width", type=int, default=64)
    arguments = parser.parse_args()
    if arguments.one:
        cells, pixels = arguments.one
        print(json.dumps(diagnosed(cells, pixels, arguments.width)))
        return
    from benchmarks.cases import Scale as Full

    for row in large(Full()):
        print(row, flush=True)


if __name__ == "__main__":
    main()
