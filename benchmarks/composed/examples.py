"""How many pairs a bump needs: `python -m benchmarks.composed.examples --out examples.json`.

For each side N, decoders are trained on n pairs outside the centre (the middle three fifths of both axes) and judged on
the pairs of the centre. The n pairs are drawn in one of two ways:

- random: without replacement. A value may be without any pair, or tied to few others.
- connected: first 2N − 1 random pairs that tie all values together (a spanning tree), then random ones.

Beside the share of right pairs stands the share that the drawn pairs determine, which needs no training (see
`recombine.models.composed.determined`). Rows are added to the file as they complete; rows that it has are kept.

Written down before any training with values aligned together, for N = 28, 36, 48, 64 and seeds 300, 301, 302: the
number of connected pairs that is needed grows no faster than N if there is one multiple of N, among 2, 2.5, 3 and 4, at
which the median over seeds of the share of right pairs is at least 0.95 for every N. For random pairs, 5.5N is asked
alone, because the table of determined pairs names it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int

import recombine as rc
from benchmarks.composed.cases import outputs_of, right
from recombine.models.composed.determined import determination

ENOUGH = 0.95
Row = dict[str, Any]


def centre(side: int) -> Bool[np.ndarray, "x y"]:
    inside = (np.arange(side) >= side // 5) & (np.arange(side) <= side - side // 5 - 1)
    return inside[:, None] & inside[None, :]


def pairs(side: int, count: int, how: str, seed: int) -> Bool[np.ndarray, "x y"]:
    """True at the pairs to train on."""
    order = np.random.default_rng([seed, side]).permutation(np.argwhere(~centre(side)))
    if how == "connected":
        tree = spanning(order, side)
        order = np.concatenate([order[tree], order[~tree]])
    chosen = np.zeros((side, side), dtype=bool)
    chosen[tuple(order[:count].T)] = True
    return chosen


def spanning(order: Int[np.ndarray, "pair 2"], side: int) -> Bool[np.ndarray, " pair"]:
    """True at each pair that ties values together which the pairs before it do not."""
    group = np.arange(2 * side)
    taken = np.zeros(len(order), dtype=bool)
    for i, (x, y) in enumerate(order):
        one, other = group[x], group[side + y]
        taken[i] = one != other
        group[group == one] = other
    return taken


def trained(side: int, multiple: float, how: str, seed: int) -> Row:
    """The numbers of one training. 2N stands for the 2N − 1 pairs of a tree, if they are connected."""
    space = rc.FactorSpace(x=side, y=side)
    count = round(multiple * side) - (how == "connected" and multiple == 2)
    chosen, asked = pairs(side, count, how, seed), centre(side)
    holdout = rc.holdouts.mask(space, ~chosen)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.OneHot(space), holdout, allow_unseen=True)
    model = rc.decoders.Composed(task, allow_undetermined=True)
    before = time.process_time()
    run = rc.train(
        model, task, seed=seed, training=rc.recipe("composed", evaluate_every=10**6, allow_unseen=True), progress=False
    )
    used = time.process_time() - before
    known, truth = outputs_of(run.model, task, holdout.id_cells)
    unseen = right(*outputs_of(run.model, task, torch.as_tensor(np.flatnonzero(asked))), truth.mean(0))
    determined = torch.as_tensor(~determination(chosen, asked).undetermined[asked])
    return {
        "side": side,
        "multiple": multiple,
        "pairs": count,
        "how": how,
        "seed": seed,
        "determined": float(determined.float().mean()),
        "right": float(unseen.float().mean()),
        "right_of_determined": float(unseen[determined].float().mean()) if determined.any() else None,
        "id_error": float((known - truth).square().mean()),
        "cpu_seconds": used,
    }


def needed(rows: Iterable[Row], how: str) -> dict[int, float]:
    """For each side the smallest number of pairs from which on the median over seeds is enough."""
    found: dict[int, float] = {}
    own = [row for row in rows if row["how"] == how]
    for side in sorted({row["side"] for row in own}):
        shares: dict[int, list[float]] = {}
        for row in own:
            if row["side"] == side:
                shares.setdefault(row["pairs"], []).append(row["right"])
        for count in sorted(shares, reverse=True):
            if median(shares[count]) < ENOUGH:
                break
            found[side] = count
    return found


def growth(counts: dict[int, float]) -> float:
    """The slope of log n over log N."""
    return linear_regression([math.log(side) for side in counts], [math.log(n) for n in counts.values()]).slope


def determined_by_chance(side: int, counts: Sequence[int], draws: int = 20) -> list[float]:
    """Mean share of the centre that random pairs determine, without any training."""
    asked = centre(side)
    shares = [
        [1 - determination(pairs(side, n, "random", seed), asked).undetermined[asked].mean() for seed in range(draws)]
        for n in counts
    ]
    return [float(np.mean(own)) for own in shares]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Shares over the number of pairs: lines for what random pairs determine, markers for trained decoders."""
    from recombine.plotting.style import COLOURS, new_figure
    from recombine.studies.framework.figure_style import tidy

    figure = new_figure(6.4, 3.6)
    ax = figure.subplots()
    sides, multiples = sorted({row["side"] for row in rows} | {28, 36, 48, 64}), [1, 2, 3, 4, 5, 6, 7, 8]
    for at, (side, colour) in enumerate(zip(sides, COLOURS)):
        shares = determined_by_chance(side, [m * side for m in multiples])
        ax.plot(multiples, shares, color=colour, lw=1.2, label=f"N = {side}: determined by random pairs")
        for how, marker in (("random", "o"), ("connected", "^")):
            own = [row for row in rows if row["side"] == side and row["how"] == how]
            places = [row["multiple"] + 0.07 * (at - 1.5) for row in own]  # so that markers do not hide each other
            ax.plot(places, [row["right"] for row in own], marker, color=colour, ms=7, mec="white")
    for how, marker in (("random", "o"), ("connected", "^")):
        ax.plot([], [], marker, color="0.4", label=f"right after training, {how} pairs")
    ax.axhline(ENOUGH, color="0.5", lw=0.9, ls="--")
    ax.set_xlabel("trained pairs, in units of N")
    ax.set_ylabel("share of the centre")
    ax.set_ylim(-0.04, 1.04)
    ax.legend(fontsize=7, frameon=False)
    tidy(ax)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", type=int, nargs="+", default=[28, 36, 48, 64])
    parser.add_argument("--seeds", type=int, nargs="+", default=[200, 201, 202])
    parser.add_argument("--multiples", type=float, nargs="+", default=[2, 3, 4, 5, 6, 7])
    parser.add_argument("--how", nargs="+", default=["random", "connected"], choices=["random", "connected"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figure", type=Path, help="draw the rows of the file")
    given = parser.parse_args()
    rows: list[Row] = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else []
    known = {(row["side"], row["multiple"], row["how"], row["seed"]) for row in rows}
    asked = [(n, m, how, s) for n in given.sides for how in given.how for m in given.multiples for s in given.seeds]
    for key in asked:
        if key in known:
            continue
        rows.append(trained(*key))
        print(rows[-1], flush=True)
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if given.figure:
        draw(rows, given.figure)
    for how in given.how:
        counts = needed(rows, how)
        print(how, "needed:", counts, f"growth exponent {growth(counts):.2f}" if len(counts) > 1 else "")


if __name__ == "__main__":
    main()
