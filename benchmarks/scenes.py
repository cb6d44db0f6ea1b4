"""How fast scenes are drawn, and whether a training step waits for its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

import recombine as rc
from benchmarks.measure import Row, seconds
from recombine.core.scenes import SCENES
from recombine.core.scenes.drawn import places
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer

if TYPE_CHECKING:
    from benchmarks.cases import Scale

SIDE = 64
RATE = 10_000.0  # colour pictures of 64 × 64 per second on two cores
HUE = {"kind": "cyclic", "size": 8, "low": 0.0, "step": 0.125}
ALONG = places(16, 14.0, 2.0)
SIZED = {"rows": SIDE, "columns": SIDE}
SCENES_AT_64: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "balls": ({"kind": "balls", **SIZED}, {"x1": ALONG, "y1": ALONG, "x2": ALONG, "y2": ALONG}),
    "balls that hide one another": (
        {"kind": "balls", "occlusion": True, **SIZED}, {"x1": ALONG, "y1": ALONG, "x2": ALONG, "y2": ALONG},
    ),
    "shapes": ({"kind": "shapes", "diameter": 14.0, **SIZED}, {"shape": 4, "x": ALONG, "y": ALONG, "hue": HUE}),
    "sprites": (
        {"kind": "sprites", "diameter": 14.0, **SIZED},
        {"x1": ALONG, "shape1": ["square", "triangle"], "x2": ALONG, "hue2": HUE},
    ),
    "arrow": (
        {"kind": "arrow", "length": 20.0, **SIZED},
        {"angle": {"kind": "cyclic", "size": 12, "low": 0.0, "step": 30.0}, "x": ALONG, "hue": HUE},
    ),
}  # fmt: skip


def scenes(scale: Scale) -> Iterator[Row]:
    """Pictures per second of every coloured scene, and the share of a step that is spent on pictures."""
    for name, (config, factors) in SCENES_AT_64.items():
        space = rc.FactorSpace.from_config(factors)
        scene = SCENES.build(config, space)
        assert scene.output_shape == (3, SIDE, SIDE)
        values = space.values(torch.randint(len(space), (scale.pictures,), generator=torch.Generator().manual_seed(0)))
        scene(values[:32])
        each = [seconds(partial(scene, values)) for _ in range(scale.repeats)]
        rate = len(values) / median(each)
        yield Row(f"{name}: pictures per second / {RATE:g}", rate / RATE, 1.0, {"per_second": rate, "seconds": each})
    yield from waiting(scale)


def waiting(scale: Scale) -> Iterator[Row]:
    """Steps against the time to get their batches, from a table of pictures and drawn for every batch."""
    config, factors = SCENES_AT_64["shapes"]
    for what, hues in (("a table", 2), ("pictures drawn for every batch", 16)):  # of 100 and of 800 MB
        hue = {**HUE, "size": hues, "step": 1 / hues}
        space = rc.FactorSpace.from_config({**factors, "hue": hue})
        task = rc.Task(SCENES.build(config, space), rc.encodings.OneHot(space), rc.holdouts.random(space, 0.2))
        model = rc.decoders.CNN(task, depth=4, width=scale.cnn[1]).initialize(0)
        training = rc.recipe("recommended", steps=10 * scale.steps, evaluate_cells=1)
        trainer = Trainer([model], Setup.of(task, training, device="cpu"), [0])
        trainer.advance()
        pairs = [(seconds(trainer.advance), seconds(partial(trainer.batch, trainer.step))) for _ in range(scale.waits)]
        step, batch = (median(column) for column in zip(*pairs, strict=True))
        name = f"CNN(4,{scale.cnn[1]}) on shapes, {what}: half a step / time to get its batch"
        yield Row(name, step / 2 / batch, 1.0, {"step": step, "batch": batch})
