"""How many seeds the parts of the claims need, from the rows of the pilot (docs/results/pilot).

    python -m tools.pilot_power        # prints the table of docs/statistics-power.md

The pilot is the first reproduction: quick profile, seeds 0, 1, 2. Where its rows do not have the second edition's
statistic the nearest one that they have stands for it; the table marks these parts.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from recombine.studies.framework.claims import ClaimPart, Test
from recombine.studies.framework.edition_2 import CLAIMS
from recombine.studies.framework.inference import ALPHA, rank_correlation, sd_upper, seeds_needed

PILOT = Path(__file__).parents[1] / "docs" / "results" / "pilot"
SEEDS = (0, 1, 2)
PAPERS_F = "factorization_differences_ratio_of_means"
RIGHT, PERFECT = 0.127, 0.516  # correlation of the pixel overlap with K_bin: right outputs, perfect superpositions
Values = dict[str, list[float]]


def table(name: str) -> list[dict[str, Any]]:
    """Rows of a table of the pilot, numbers as numbers."""
    with (PILOT / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return [{key: _plain(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _plain(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def by_seed(number: Callable[[int], float]) -> list[float]:
    return [number(seed) for seed in SEEDS]


def one(rows: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    [row] = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


def pilot() -> tuple[Values, set[str]]:
    """Part → a number per seed, and the parts for which another statistic stands in."""
    found: Values = {}
    for read in (_landscapes, _similarities, _layers, _rendering, _few_shot, _after_stripes, _rotation, _depths):
        found |= read()
    with (PILOT / "post_hoc.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["part"], []).append(float(row["value"]))
    exact = ("C1.", "C2.", "C3.", "C4.", "C5.", "C6.bump", "C13.")
    return found, {name for name in found if not name.startswith(exact)}


def _landscapes() -> Values:
    rows = table("landscapes-scores")

    def of(seed: int, column: str) -> list[float]:
        return [row[column] for row in rows if row["seed"] == seed]

    variance = 4.0e-3 * (1 - 1 / 28)  # of the true images, nearly
    return {
        "C1.learnt": by_seed(lambda s: math.log10(max(of(s, "id_mse")) / variance)),
        "C1.fails": by_seed(lambda s: max(of(s, "ood_localization"))),
        "C1.error": by_seed(lambda s: min(math.log10(o / i) for o, i in zip(of(s, "ood_mse"), of(s, "id_mse")))),
    }


def _similarities() -> Values:
    rows = table("similarities-agreement")

    def agreement(code: str, seed: int) -> float:
        r = one(rows, code=code, seed=seed, similarity="overlap")["correlation"]
        return (r - RIGHT) / (PERFECT - RIGHT)

    return {
        "C3.agrees": by_seed(lambda s: agreement("bump", s)),
        "C3.more": by_seed(lambda s: agreement("bump", s) - agreement("ramp", s)),
    }


def _layers() -> Values:
    rows = [row for row in table("layers-layers") if row["kind"] != "out"]
    depths = sorted({row["depth"] for row in rows})
    codes = ("bump", "ramp")

    def of(code: str, depth: float, seed: int, column: str) -> list[float]:
        return [row[column] for row in rows if (row["code"], row["depth"], row["seed"]) == (code, depth, seed)]

    def trend(values: list[float]) -> float:
        return rank_correlation(range(len(values)), values)

    def fall(code: str, depth: float, seed: int) -> float:
        values = of(code, depth, seed, PAPERS_F)
        return values[0] - min(values[1:])

    def trends(seed: int, column: str) -> float:
        return mean(trend(of(code, depth, seed, column)) for code in codes for depth in depths)

    def lost(seed: int) -> float:
        ends = [of(code, depth, seed, "r2_id_to_ood") for code in codes for depth in depths]
        return sorted(values[0] - values[-1] for values in ends)[len(ends) // 2]

    last = len(of("ramp", depths[0], 0, PAPERS_F)) - 1
    warps = [row for row in table("layers-warp") if row["depth"] == 4 and row["code"] == "ramp"]
    return {
        "C4.probe": by_seed(lambda s: trends(s, "r2_id_to_ood")),
        "C4.factorization": by_seed(lambda s: trends(s, "factorization")),
        "C4.probe_loss": by_seed(lost),
        "C4.loss_bump": by_seed(lambda s: mean(fall("bump", d, s) for d in depths)),
        "C4.loss_ramp": by_seed(lambda s: mean(fall("ramp", d, s) for d in depths)),
        "C5.than_bump": by_seed(lambda s: fall("ramp", depths[0], s) - fall("bump", depths[0], s)),
        "C5.than_deep": by_seed(
            lambda s: of("ramp", depths[-1], s, PAPERS_F)[last] - of("ramp", depths[0], s, PAPERS_F)[last]
        ),
        "C6.ramp": by_seed(lambda s: one(warps, seed=s)["distortion_ood"] - one(warps, seed=s)["distortion_id"]),
    }


def _rendering() -> Values:
    rows = table("rendering-ablation")

    def log(variant: str, seed: int, column: str) -> float:
        return math.log10(one(rows, variant=variant, seed=seed)[column])

    def gain(over: str, variant: str) -> list[float]:
        return by_seed(lambda s: log(over, s, "ood_mse") - log(variant, s, "ood_mse"))

    found = {
        f"C7.{variant}_cost": by_seed(lambda s, v=variant: log(v, s, "id_mse") - log("none", s, "id_mse"))
        for variant in ("entropy", "variance", "both")
    }
    banding = {v: by_seed(lambda s, v=v: one(rows, variant=v, seed=s)["banding"]) for v in ("none", "both")}
    return found | {
        "C7.entropy_helps": gain("none", "entropy"),
        "C7.entropy_little": gain("none", "entropy"),
        "C7.variance_much": gain("none", "variance"),
        "C7.both_much": gain("none", "both"),
        "C7.both_best": gain("variance", "both"),
        "C8.banded": banding["both"],
        "C8.more_banded": [b - a for a, b in zip(banding["none"], banding["both"])],
        "C8.smoother": by_seed(lambda s: log("none", s, "roughness_ood") - log("both", s, "roughness_ood")),
    }


def _few_shot() -> Values:
    rows = table("few_shot-runs")

    def of(bumps: int, seed: int, column: str) -> float:
        return one(rows, bumps=bumps, seed=seed)[column]

    counts = (0, 10, 50, 100)
    return {
        "C9.additive": by_seed(lambda s: of(0, s, "additive") - of(0, s, "composed")),
        "C9.place": by_seed(lambda s: of(0, s, "ood_localization")),
        "C10.bump": by_seed(lambda s: of(100, s, "composed")),
        "C10.gain": by_seed(lambda s: of(100, s, "composed") - of(0, s, "composed")),
        "C10.rises": by_seed(lambda s: rank_correlation(counts, [of(m, s, "composed") for m in counts])),
    }


def _after_stripes() -> Values:
    tuning, warps = table("after_stripes-tuning"), table("after_stripes-warp")

    def index(kind: str, layer: int, seed: int) -> float:
        return one(tuning, data="stripes + bumps", seed=seed, layer=layer)[f"weighted_{kind}"]

    def rough(data: str, seed: int) -> float:
        return math.log10(one(warps, data=data, seed=seed)["roughness_ood"])

    return {
        "C12.stripes_early": by_seed(lambda s: index("stripe", 1, s) - index("stripe", 5, s)),
        "C12.bumps_late": by_seed(lambda s: index("bump", 5, s) - index("bump", 1, s)),
        "C12.smooth": by_seed(lambda s: rough("bumps", s) - rough("stripes + bumps", s)),
    }


def _rotation() -> Values:
    rows = [row for row in table("rotation-angles") if row["variant"] == "one" and row["held_out"] == "True"]

    def median(seed: int, column: str) -> float:
        values = sorted(row[column] for row in rows if row["seed"] == seed)
        return values[len(values) // 2]

    return {
        "C13.nearer": by_seed(lambda s: math.log10(median(s, "mse_truth") / median(s, "mse_blend"))),
        "C13.alike": by_seed(lambda s: median(s, "r_blend")),
    }


def _depths() -> Values:
    rows = [row for row in table("depths-layers") if row["kind"] != "out"]
    warps = table("depths-warp")
    depths = [{row["depth"] for row in warps if row["decoder"] == decoder} for decoder in ("cnn", "mlp")]
    shared = sorted(depths[0] & depths[1])

    def warp(decoder: str, code: str, seed: int) -> float:
        values = sorted(one(warps, decoder=decoder, code=code, depth=d, seed=seed)["warp"] for d in shared)
        return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2

    def opposite(code: str, seed: int) -> float:
        pair = warp("cnn", code, seed), warp("mlp", code, seed)
        return math.copysign(min(map(abs, pair)), -pair[0] * pair[1])

    def lost(decoder: str, seed: int) -> float:
        losses = []
        for code in ("bump", "ramp"):
            for depth in shared:
                wanted = {"decoder": decoder, "code": code, "depth": depth, "seed": seed}
                values = [r["factorization"] for r in rows if all(r[k] == v for k, v in wanted.items())]
                losses.append(values[0] - values[-1])
        return mean(losses)

    return {
        "C14.opposite_bump": by_seed(lambda s: opposite("bump", s)),
        "C14.opposite_ramp": by_seed(lambda s: opposite("ramp", s)),
        "C14.factorization": by_seed(lambda s: lost("mlp", s) - lost("cnn", s)),
    }


@dataclass(frozen=True)
class Need:
    """What a part needs.

    Attributes:
        mean, sd: Of the pilot's three seeds.
        at_face: Seeds for a power of 0.8 if the pilot's spread is the true one; None beyond 200.
        safely: The same with the upper 80 % limit of the spread.
        chosen: Seeds of the standard profile that this part asks for.
    """

    mean: float
    sd: float
    at_face: int | None
    safely: int | None
    chosen: int


def need(part: ClaimPart, family: int, values: list[float]) -> Need:
    """Seeds of a part: 5 where that is safe, else the least of 8, 12, 16 that suffices at the pilot's spread.

    Where even 16 would not decide at the pilot's distance from the threshold, more seeds are no remedy: 8. Tests of
    medians get 10 seeds, or 12 where more than four parts share the error: then one seed may go astray.
    """
    bounds = part.threshold if isinstance(part.threshold, tuple) else (part.threshold,)
    centre, sd = mean(values), stdev(values)
    distance = min(abs(centre - bound) for bound in bounds)
    at_face, safely = (seeds_needed(distance, s, ALPHA / family) for s in (sd, sd_upper(sd, len(values))))
    if part.test == Test.MEDIAN:
        return Need(centre, sd, None, None, 10 if family <= 4 else 12)
    enough = (5,) if safely is not None and safely <= 5 else (n for n in (8, 12, 16) if at_face and at_face <= n)
    return Need(centre, sd, at_face, safely, next(iter(enough), 8))


def needs() -> dict[str, Need]:
    """Part → what it needs, for the parts that the pilot says something about."""
    values, _ = pilot()
    found = {}
    for claim in CLAIMS.values():
        for part in claim.parts:
            name = f"{claim.id}.{part.name}"
            if name in values:
                family = sum(other.decides == part.decides for other in claim.parts)
                found[name] = need(part, family, values[name])
    return found


def markdown() -> str:
    """The table of docs/statistics-power.md."""
    values, stand_ins = pilot()
    lines = [
        "| part | required | pilot, seeds 0, 1, 2 | mean ± sd | seeds at face value | seeds, safely | chosen |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in needs().items():
        claim, _, part = name.partition(".")
        shown = ", ".join(f"{value:.3g}" for value in values[name])
        counts = ["–" if CLAIMS[claim].part(part).test == Test.MEDIAN else "> 200" if n is None else str(n)
                  for n in (found.at_face, found.safely)]  # fmt: skip
        cells = [f"{name}{' *' if name in stand_ins else ''}", str(CLAIMS[claim].part(part)), shown,
                 f"{found.mean:.3g} ± {found.sd:.2g}", *counts, str(found.chosen)]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
