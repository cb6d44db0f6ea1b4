"""What users' own data cost: colour against grey, and all parts of a diagnosis over four factors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

import torch

import recombine as rc
from benchmarks.measure import Row, seconds
from recombine.core.memory import keep_freed_memory
from recombine.models.decoders import Decoder
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer

if TYPE_CHECKING:
    from benchmarks.cases import Scale

SIDE = 28
COLOURS = torch.tensor([1.0, 0.6, 0.2])
ALLOWED = 1.15  # times the time of a grey step
DIAGNOSIS_SECONDS = 10.0
TURNS = 3  # grey and colour steps take turns this many at a time


def bumps(*, colour: bool) -> rc.Task:
    """The standard bump scene as arrays with labels, grey or in colour."""
    space = rc.FactorSpace(x=SIDE, y=SIDE)
    values = space.values(torch.arange(len(space)))
    grey = rc.scenes.Bump(space)(values)
    images = COLOURS[:, None, None] * grey[:, None] if colour else grey
    hole = rc.holdouts.centre(space, 6, 22)
    return rc.Task.from_arrays(images, values, factors=["x", "y"], holdout=hole, encoding="bump")


def grid(shape: tuple[int, ...]) -> rc.Task:
    """Pictures of 8 × 8 pixels over a grid of several factors, a fifth of which is held out."""
    factors = {f"factor_{i}": size for i, size in enumerate(shape)}
    space = rc.FactorSpace(**factors)
    values = space.values(torch.arange(len(space)))
    generator = torch.Generator().manual_seed(0)
    sums = sum(torch.randn(size, 64, generator=generator)[values[:, i].long()] for i, size in enumerate(shape))
    images = torch.sigmoid(torch.as_tensor(sums)).reshape(-1, 8, 8)
    return rc.Task.from_arrays(images, values, factors=factors, holdout={"kind": "random", "fraction": 0.2})


def step_seconds(kind: str, depth: int, width: int, steps: int) -> dict[str, float]:
    """Median seconds of a grey and of a colour training step, which take turns."""
    keep_freed_memory()
    trainers: dict[str, Trainer] = {}
    for name, task in (("grey", bumps(colour=False)), ("colour", bumps(colour=True))):
        make = {"cnn": rc.decoders.CNN, "mlp": rc.decoders.MLP}[kind]
        model: Decoder = make(task, depth=depth, width=width).initialize(0)
        training = rc.recipe("paper", steps=TURNS * steps + TURNS, evaluate_cells=1)
        trainers[name] = Trainer([model], Setup.of(task, training, device="cpu"), [0])
    measured: dict[str, list[float]] = {name: [] for name in trainers}
    for turn in range(steps + 1):
        for name, trainer in trainers.items():
            found = [seconds(trainer.advance) for _ in range(TURNS)]
            measured[name] += found if turn else []  # the first steps prepare
    return {name: median(found) for name, found in measured.items()}


def mlp_products(depth: int, width: int, channels: int) -> int:
    """Multiplications of one sample in an MLP's forward pass."""
    return 2 * SIDE * width + (depth - 1) * width**2 + width * channels * SIDE**2


def own(scale: Scale) -> Iterator[Row]:
    """Colour against grey steps, and a diagnosis over four factors with all parts."""
    depth, width = scale.cnn
    found = step_seconds("cnn", depth, width, scale.steps)
    name = f"CNN({depth},{width}) batch 32: {ALLOWED} × grey step / colour step"
    yield Row(name, ALLOWED * found["grey"] / found["colour"], 1.0, {**found, "ratio": found["colour"] / found["grey"]})
    arithmetic = mlp_products(3, 256, 3) / mlp_products(3, 256, 1)
    found = step_seconds("mlp", 3, 256, scale.steps)
    raw = {**found, "ratio": found["colour"] / found["grey"], "arithmetic": arithmetic}
    name = f"MLP(3,256) batch 32: {ALLOWED} × ratio of arithmetic × grey / colour"
    yield Row(name, ALLOWED * arithmetic * found["grey"] / found["colour"], 1.0, raw)
    yield four_factors(scale)


def four_factors(scale: Scale) -> Row:
    """All parts of the diagnosis of a small MLP."""
    task = grid(scale.small_grid)
    model = rc.decoders.MLP(task, depth=2, width=64)
    run = rc.train(model, task, training=rc.recipe("recommended", steps=10 * scale.steps), progress=False)
    processor = time.process_time()
    wall = seconds(lambda: run.diagnose(progress=False))
    raw = {"seconds": wall, "processor_seconds": time.process_time() - processor}
    cells = " × ".join(map(str, scale.small_grid))
    return Row(f"MLP(2,64), {cells} cells, all parts: 10 s / seconds", DIAGNOSIS_SECONDS / wall, 1.0, raw)
