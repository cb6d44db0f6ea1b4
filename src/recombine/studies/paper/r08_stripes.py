"""Forced rendering by data: all stripes and m bumps (Liang et al. 2025, Sec. 5).

results = few_shot(Store("runs"), bumps=(0, 10, 50, 100), seeds=range(4))
plot(results.pictures, results.rows).savefig("stripes.png")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from recombine.core.errors import InputError
from recombine.core.statistics import median
from recombine.core.task import Task
from recombine.diagnostics.numerics.conjunction import conjunction, foreground, sum_of_single_factors
from recombine.runs.config import RunConfig
from recombine.runs.store import Store, StoredRun
from recombine.studies.framework.baseline import REMEDY, REMEDY_STEPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUMPS = (0, 10, 50, 100)


@dataclass(frozen=True)
class StripeRow:
    """One run on stripes and bumps; means over the cells of a split.

    Attributes:
        additive: Cosine of OOD outputs with the sum of the stripes; `baseline` is that of the true scenes.
        composed: Cosine of OOD outputs with the true scenes.
    """

    seed: int
    bumps: int
    run: str
    ood_mse: float
    id_localization: float
    ood_localization: float
    additive: float
    composed: float
    baseline: float


@dataclass(frozen=True)
class Pictures:
    """Some held-out scenes, and what one seed makes of them for every m.

    Attributes:
        places: Their factor values.
        truth, added: The scenes, and the sums of their single-factor scenes.
        outputs: Number of bumps → the outputs.
        seed: Which seed.
    """

    places: Float[np.ndarray, "shown factor"]
    truth: Float[np.ndarray, "shown row column"]
    added: Float[np.ndarray, "shown row column"]
    outputs: dict[int, Float[np.ndarray, "shown row column"]]
    seed: int


@dataclass(frozen=True)
class FewShot:
    """What `few_shot` gives."""

    rows: list[StripeRow]
    pictures: Pictures


def configs(
    bumps: Iterable[int] = BUMPS,
    seeds: Iterable[int] = range(4),
    steps: int = REMEDY_STEPS,
    setting: Sequence[str] = (),
) -> dict[int, list[RunConfig]]:
    """Number of bumps → one configuration per seed."""
    seeds, bumps = list(seeds), list(bumps)
    if not seeds:
        raise InputError("The study needs at least one seed. Got none.")
    if not bumps:
        raise InputError("The study needs at least one number of bumps, such as 0. Got none.")
    common = [*REMEDY, "training.stripes=true", f"training.steps={steps}", *setting]
    return {m: [RunConfig.parse([*common, f"training.bumps={m}", f"seed={seed}"]) for seed in seeds] for m in bumps}


def few_shot(
    store: Store,
    bumps: Iterable[int] = BUMPS,
    seeds: Iterable[int] = range(4),
    *,
    steps: int = REMEDY_STEPS,
    setting: Sequence[str] = (),
    shown: int = 6,
    device: str = "auto",
    progress: bool | None = None,
) -> FewShot:
    """Rows for every m and seed, and pictures of the first seed; finished runs come from the store.

    Args:
        store: Where the runs are and go.
        bumps: The numbers m of bumps beside all stripes.
        seeds: One run each.
        steps: Length of every run.
        setting: Changes to the setting, "group.key=value".
        shown: How many held-out cells are pictured, spread evenly over the hold-out.
        device, progress: See `Store.train`.
    """
    wanted = configs(bumps, seeds, steps, setting)
    for group in wanted.values():  # all of them before the first is trained
        group[0].check()
    runs = {m: store.train(group, device=device, progress=progress) for m, group in wanted.items()}
    rows = [row(m, run) for m, group in runs.items() for run in group]
    first = {m: group[0] for m, group in runs.items()}
    return FewShot(rows, pictures(first, shown))


def row(bumps: int, run: StoredRun) -> StripeRow:
    """The row of one run."""
    means = run.scores.summary(resamples=1)
    found = conjunction(run.model, run.task)
    return StripeRow(
        seed=run.config.seed,
        bumps=bumps,
        run=run.id,
        ood_mse=means["ood", "mse"].mean,
        id_localization=means["id", "localization"].mean,
        ood_localization=means["ood", "localization"].mean,
        additive=float(found.additive.mean()),
        composed=float(found.composed.mean()),
        baseline=float(found.baseline.mean()),
    )


def pictures(runs: dict[int, StoredRun], shown: int = 6) -> Pictures:
    """Outputs of runs for held-out cells spread evenly over the hold-out."""
    from recombine.scoring.outputs import render

    some = next(iter(runs.values()))
    task: Task = some.task
    held = task.holdout.ood_cells
    cells = held[torch.linspace(0, len(held) - 1, min(shown, len(held))).round().long()]
    values = task.space.values(cells)
    truth = foreground(task.scene, task.scene(values))
    added = sum_of_single_factors(task.scene, values)
    outputs = {
        m: foreground(task.scene, torch.from_numpy(render(run.model, task, cells)[1])).numpy()
        for m, run in runs.items()
    }
    return Pictures(values.numpy(), truth.numpy(), added.numpy(), outputs, some.config.seed)


def plot(shown: Pictures, rows: Sequence[StripeRow], labels: Mapping[int, str] | None = None) -> Figure:
    """Truth, the sum of the stripes, and the outputs for every m, with the scores over seeds. Nothing is trained.

    Args:
        shown: The pictures.
        rows: The scores.
        labels: How to call numbers of bumps, if not "m bumps".
    """
    from recombine.plotting.images import show_image
    from recombine.plotting.style import new_figure

    lines = {"truth": shown.truth, "sum of stripes": shown.added}
    notes = {"truth": "", "sum of stripes": ""}
    for m, outputs in shown.outputs.items():
        group = [row for row in rows if row.bumps == m]
        name = (labels or {}).get(m, f"{m} bumps")
        lines[name] = outputs
        notes[name] = "\n".join(
            f"{label} {_spread([getattr(row, key) for row in group])}"
            for label, key in (("found", "ood_localization"), ("additive", "additive"), ("bump", "composed"))
        )
    brightest = max(1.0, *(float(images.max()) for images in lines.values()))  # where stripes cross they add up to 2
    figure = new_figure(1.15 * len(shown.places) + 2.4, 1.25 * len(lines) + 0.7)
    axes = figure.subplots(len(lines), len(shown.places), squeeze=False)
    for line, (name, images) in enumerate(lines.items()):
        for column, place in enumerate(shown.places):
            label = ", ".join(f"{value:g}" for value in place) if line == 0 else ""
            show_image(axes[line, column], images[column], label, held_out=True, brightest=brightest)
        text = f"{name}\n{notes[name]}".strip()
        axes[line, 0].set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)
    seeds = len({row.seed for row in rows})
    figure.supxlabel(
        f"pairs never seen in training, outputs of seed {shown.seed}; scores: median [least, most] of {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}\nbrightness 0 … {brightest:.2f} (the brightest pixel shown) on one "
        "scale, as its square root",
        fontsize=8,
    )
    return figure


def _spread(numbers: Sequence[float]) -> str:
    if not numbers:
        return "–"
    return f"{median(numbers):.2f} [{min(numbers):.2f}, {max(numbers):.2f}]"
