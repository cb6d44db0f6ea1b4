"""What a step costs, and how long a whole training takes: `python -m benchmarks.composed.costs`.

The composed decoder and the rendered one are timed in turns on the bump of the paper's study (N = 32, one-hot code,
batch 32), processor seconds per step on one thread. The training time of `low_rank_recommended` is extrapolated from
its steps; that of the composed recipe includes the fit at the end, which is timed whole. One JSON object is printed.
"""

from __future__ import annotations

import json
import time
from statistics import median

import torch

import recombine as rc
from benchmarks.composed.cases import PLAN, task_of
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer

TURNS, STEPS = 3, 60


def seconds_of_steps(trainer: Trainer, steps: int) -> float:
    before = time.process_time()
    for _ in range(steps):
        trainer.advance()
    return (time.process_time() - before) / steps


def main() -> None:
    torch.set_num_threads(1)
    task = task_of(PLAN["paper"]["cases"]["corner"])
    rendered = PLAN["rivals"]["rendered"]
    settings = {key: value for key, value in rendered.items() if key != "recipe"}
    models = {"composed": rc.decoders.Composed(task), "rendered": rc.decoders.DECODERS.build(settings, task)}
    recipes = {"composed": rc.recipe("composed"), "rendered": rc.recipe(rendered["recipe"])}
    trainers = {
        name: Trainer([model], Setup.of(task, recipes[name].model_copy(update={"batch": 32}), device="cpu"), [0])
        for name, model in models.items()
    }
    for trainer in trainers.values():
        seconds_of_steps(trainer, 5)  # memory and code are made ready
    turns = [{name: seconds_of_steps(trainer, STEPS) for name, trainer in trainers.items()} for _ in range(TURNS)]
    own = Trainer([rc.decoders.DECODERS.build(settings, task)], Setup.of(task, recipes["rendered"], device="cpu"), [0])
    seconds_of_steps(own, 5)
    whole = own.total * seconds_of_steps(own, STEPS)
    before = time.process_time()
    rc.train(rc.decoders.Composed(task), task, training=recipes["composed"], device="cpu", progress=False)
    ours = time.process_time() - before
    found = {
        "milliseconds_per_step": {name: 1e3 * median(turn[name] for turn in turns) for name in models},
        "step_ratio": median(turn["composed"] / turn["rendered"] for turn in turns),
        "parameters": {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()},
        "training_seconds": {"composed": ours, "low_rank_recommended (extrapolated)": whole},
        "low_rank_recommended": {"steps": own.total, "batch": recipes["rendered"].batch},
        "training_ratio": ours / whole,
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
