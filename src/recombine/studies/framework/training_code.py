"""Identifies the numerical results of training by a digest of the weights of tiny networks after a few steps.

Rows of several runs are comparable only if all runs were trained by code that gives the same numbers up to rounding. A
digest of the sources would change with every comment. This digest, which uses three significant digits, changes only
with the recipe, the initial weights, the order of the examples or the derivatives.
"""

from __future__ import annotations

import hashlib
from functools import cache

import torch

from recombine.runs.config import RunConfig
from recombine.runs.train import train_seeds

SMALL = ("scene.factors.x=6", "scene.factors.y=6", "holdout.kind=centre", "holdout.lo=2", "holdout.hi=3")
NETWORKS = (  # one for every way of training in the studies
    ("encoding.kind=bump", "decoder.kind=cnn", "decoder.depth=2", "decoder.width=3", "training.steps=4"),
    ("encoding.kind=ramp", "decoder.kind=mlp", "decoder.depth=2", "decoder.width=4", "training.kind=paper",
     "training.epochs=1", "training.steps=4"),
    ("encoding.kind=bump", "decoder.kind=cnn", "decoder.depth=2", "decoder.width=3", "training.steps=4",
     "training.examples.single_factor={}", "training.examples.cells.count=3"),
    ("encoding.kind=onehot", "decoder.kind=rendered", "training.kind=low_rank", "training.steps=4"),
)  # fmt: skip


@cache
def training_code() -> str:
    """Sixteen hexadecimal digits. Takes a fraction of a second, once per process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    total = hashlib.sha256()
    try:
        for words in NETWORKS:
            config = RunConfig.parse([*SMALL, *words])
            task = config.task()
            [run] = train_seeds(config.model(task), task, [0], training=config.recipe(), device="cpu", progress=False)
            for name, weights in run.model.state_dict().items():
                total.update(f"{name}: {[f'{weight:.2e}' for weight in weights.flatten().tolist()]}".encode())
    finally:
        torch.set_num_threads(threads)
    return total.hexdigest()[:16]
