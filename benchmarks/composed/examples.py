"""How many pairs a bump needs: `python -m benchmarks.composed.examples --sides 28 40 56`.

For each side N, decoders are trained on n random ID pairs, n = 2N, 3N, …, until the median over seeds of the share of
held-out pairs (centre, the middle three fifths of both axes) that are right is at least 95 %. The growth exponent is
the slope of log n over log N. One line per training is printed, then the numbers needed and the exponent.
"""

from __future__ import annotations

import argparse
import math
from statistics import linear_regression, median

import recombine as rc
from benchmarks.composed.cases import judged

ENOUGH = 0.95
MULTIPLES = (2, 3, 4, 5, 6, 8)


def share_right(side: int, count: int, seed: int) -> float:
    space = rc.FactorSpace(x=side, y=side)
    low = side // 5
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.OneHot(space), rc.holdouts.centre(space, low, side - low - 1))
    training = rc.recipe("composed", evaluate_every=10**6, examples={"cells": {"count": count}})
    run = rc.train(rc.decoders.Composed(task), task, seed=seed, training=training, progress=False)
    return judged(run.model, task).right


def needed(side: int, seeds: list[int]) -> int | None:
    """The first number of pairs that is enough; None if none is."""
    for multiple in MULTIPLES:
        shares = [share_right(side, multiple * side, seed) for seed in seeds]
        print(f"N = {side}, {multiple * side} pairs: right {[round(share, 3) for share in shares]}", flush=True)
        if median(shares) >= ENOUGH:
            return multiple * side
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", type=int, nargs="+", default=[28, 40, 56])
    parser.add_argument("--seeds", type=int, nargs="+", default=[200, 201, 202])
    given = parser.parse_args()
    found = {side: count for side in given.sides if (count := needed(side, given.seeds)) is not None}
    print("needed:", found)
    if len(found) > 1:
        slope = linear_regression([math.log(side) for side in found], [math.log(n) for n in found.values()]).slope
        print(f"growth exponent {slope:.2f}")


if __name__ == "__main__":
    main()
