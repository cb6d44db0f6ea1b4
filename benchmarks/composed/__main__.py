"""Run a part of test.yaml: `python -m benchmarks.composed promised --out promised.json`.

Parts: design, promised, paper, test, expected_failures, beyond, continuous, warped. `--models composed rendered cnn
pixel_mlp stripes` trains rivals too. Every case is run with the first seed, then with the next. A line is printed per
training; with `--out`, numbers of every seed and medians are written as JSON after each of them, and what the file has
already is not run again. `--pictures FOLDER` writes a PNG per case and model: truth above, outputs below, of OOD cells
spread over the hold-out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

import recombine as rc
from benchmarks.composed.cases import PLAN, judged, outputs_of, task_of, width_for
from recombine.core.images import as_pictures

OURS = "composed"
PARTS = ["design", "promised", "paper", "test", "expected_failures", "beyond", "continuous", "warped"]
MODELS = [OURS, *(name for name in PLAN["rivals"] if name != "width")]
SHOWN = 8  # cells of a picture


def recipe_for(name: str, rival: dict[str, Any]) -> rc.training.Training:
    """Our recipe, or a rival's with our number of steps and our batch."""
    ours = rc.recipe("composed", evaluate_every=10**6, allow_unseen=True)
    if name == OURS:
        return ours
    examples = {"single_factor": {}} if rival.get("single_factor") else {}
    return rc.recipe(
        rival["recipe"], steps=ours.steps, batch=ours.batch, evaluate_every=10**6, examples={"cells": {}, **examples}
    )


def decoder_for(name: str, rival: dict[str, Any], case: dict[str, Any], task: rc.Task) -> rc.decoders.Decoder:
    own = {key: case[key] for key in ("terms", "blend", "depth", "width") if key in case}
    ours = rc.decoders.Composed(task, allow_undetermined=True, **own)
    if name == OURS:
        return ours
    settings = {key: value for key, value in rival.items() if key not in ("recipe", "single_factor")}
    if settings["kind"] in ("cnn", "pixel_mlp"):
        parameters = sum(p.numel() for p in ours.parameters())
        settings["width"] = width_for(settings["kind"], settings["depth"], task, parameters)
    return rc.decoders.DECODERS.build(settings, task)


def trained(name: str, case: dict[str, Any], seed: int) -> tuple[nn.Module, dict[str, Any]]:
    """A model and its numbers."""
    rival = {} if name == OURS else PLAN["rivals"][name]
    task = task_of(case, stripes=bool(rival.get("single_factor")))
    model = decoder_for(name, rival, case, task)
    before = time.process_time()
    run = rc.train(model, task, seed=seed, training=recipe_for(name, rival), progress=False)
    used = time.process_time() - before
    outcome = judged(run.model, task)
    row = {"seed": seed, **asdict(outcome), "ratio": outcome.ratio, "seconds": run.seconds, "cpu_seconds": used}
    if isinstance(run.model, rc.decoders.Composed):
        row["roles"] = str(run.model.roles(task.space.names))
    return run.model, row


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    keys = ("id_error", "ood_error", "ratio", "right", "right_id", "seconds", "cpu_seconds")
    found: dict[str, Any] = {key: median(row[key] for row in rows) for key in keys}
    return {**found, "least_right": min(row["right"] for row in rows)}


def picture(model: nn.Module, case: dict[str, Any], path: Path) -> None:
    """Truth above, outputs below."""
    import matplotlib.image

    task = task_of(case)
    cells = task.holdout.ood_cells
    chosen = cells[torch.linspace(0, len(cells) - 1, SHOWN).round().long()]
    outputs, targets = outputs_of(model, task, chosen)
    rows = [as_pictures(images.clamp(0, 1).numpy()) for images in (targets, outputs)]
    sheet = np.concatenate([np.concatenate(list(row), axis=1) for row in rows if row is not None], axis=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    matplotlib.image.imsave(path, np.kron(sheet, np.ones((4, 4, 1)[: sheet.ndim])), vmin=0, vmax=1, cmap="gray")


def jobs(part: str, given: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Cases, models and seeds. Stripes are for bumps only, whose scene has them."""
    plan = PLAN[part]
    cases = [name for name in plan["cases"] if not given.cases or name in given.cases]
    rivals = plan.get("rival_seeds", plan["seeds"][:3])
    own: dict[str, list[int]] = {n: given.seeds or (plan["seeds"] if n == OURS else rivals) for n in given.models}
    for at in range(max(map(len, own.values()))):
        for case, name in product(cases, given.models):
            if at < len(own[name]) and (name != "stripes" or "bump" in plan["cases"][case]["scene"]):
                yield case, name, own[name][at]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--cases", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, nargs="*", help="instead of those of test.yaml")
    parser.add_argument("--models", nargs="+", default=[OURS], choices=MODELS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    if given.out and given.out.exists():
        found = json.loads(given.out.read_text(encoding="utf-8"))
    for case, name, seed in jobs(given.part, given):
        rows = found.get(case, {}).get(name, {}).get("seeds", [])
        if seed in [row["seed"] for row in rows]:
            continue
        model, row = trained(name, PLAN[given.part]["cases"][case], seed)
        rows.append(row)
        if given.pictures and len(rows) == 1:
            picture(model, PLAN[given.part]["cases"][case], given.pictures / f"{case}_{name}.png")
        found.setdefault(case, {})[name] = {"median": summary(rows), "seeds": rows}
        shown = ("right", "id_error", "ood_error", "ratio", "cpu_seconds")
        print(case, name, seed, {key: float(f"{row[key]:.3g}") for key in shown}, flush=True)
        if given.out:
            given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
