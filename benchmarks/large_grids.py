"""Large grids: memory stays bounded, and time per cell does not grow with their number.

    python -m benchmarks.large_grids               # both measurements, about half an hour on two cores
    python -m benchmarks.large_grids --one 128 128 # one diagnosis: cells and pixels per side; prints JSON

Each diagnosis (geometry, probes, superposition) runs in a process of its own, whose peak memory is that of the
diagnosis and of Python with torch. Time per cell is compared between grids of 32² and 128² cells over images of the
same size: with larger images a cell costs more, whatever the number of cells. The model is one as users bring it, plain
torch: with width 64 and images of 128² pixels its last layer has 64 · 128² = 1 048 576 units.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import nn

import recombine as rc
from benchmarks.measure import Row, peak_gb
from recombine.core.factors import continuous

FIRST_SIDE = 8
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


def decoder(code_size: int, width: int, pixels: int) -> nn.Module:
    """From a code to 8 × 8 pixels, doubled until the image is reached, ReLU after each layer."""
    layers: list[nn.Module] = [nn.Linear(code_size, width * FIRST_SIDE**2), nn.Unflatten(1, (width, FIRST_SIDE, -1))]
    for _ in range((pixels // FIRST_SIDE).bit_length() - 1):
        layers += [nn.ReLU(), nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1), nn.Flatten(1, 2))


def diagnosis(cells: int, pixels: int, width: int) -> rc.Diagnosis:
    """Of an untrained decoder on cells² combinations of images with pixels² pixels."""
    side = continuous(0.0, float(pixels), cells)
    space = rc.FactorSpace(x=side, y=side)
    low, high = 6 * pixels / 28, 22 * pixels / 28
    scene, hole = rc.scenes.Bump(space), rc.holdouts.centre(space, low, high)
    encode = rc.encodings.Positional(space)
    torch.manual_seed(0)
    model = decoder(encode.size, width, pixels)
    return rc.diagnose(model, space, encode, hole, target=scene, parts=list(PARTS), progress=False)


def diagnosed(cells: int, pixels: int, width: int) -> dict[str, Any]:
    """What a diagnosis takes in this process, after a small one that loads all there is to load."""
    diagnosis(FIRST_SIDE, FIRST_SIDE, width)
    started = time.perf_counter()
    found = diagnosis(cells, pixels, width)
    spent = time.perf_counter() - started
    units = max(math.prod(layer) for layer in found.facts["layers"].values())
    return {"cells": len(found.space), "largest_layer": units, "seconds": spent, "peak_gb": peak_gb()}


def apart(cells: int, pixels: int, width: int) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.large_grids", "--one", str(cells), str(pixels), "--width", str(width)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def large(scale: Scale) -> Iterator[Row]:
    """Peak memory on the larger grid with large images, and time per cell on both grids."""
    (small, many), pixels = scale.grids, scale.grid_pixels
    name = f"decoder of width {scale.grid_width}, geometry, probes, superposition"
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
