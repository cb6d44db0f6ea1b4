"""S6, a side result: do stripes make the penalties of the factor-rendered decoder unnecessary?

It compares R7's four variants with and without all stripes in the training data, at the same number of epochs. The
questions and statistics are those of docs/statistics-side.md, written down before the runs. Decides no claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.request import DiagnosisRequest
from recombine.plotting.style import BLUE, VERMILION
from recombine.runs.config import RunConfig
from recombine.studies.framework.figure_style import SMALL, seeds_note, tidy
from recombine.studies.framework.inference import sign_test
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study, record_undiagnosed
from recombine.studies.paper import r07_rendering as rendering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REQUEST = DiagnosisRequest(parts=("maps",))
SEEDS = {"smoke": 1, "quick": 1, "standard": 6, "paper": 5}  # number of the profile's seeds that are used
LITTLE = 0.5  # decades; "little" in the sense of C7
DATA = {False: ("bumps only", VERMILION, "s"), True: ("bumps and all stripes", BLUE, "o")}


def wanted(profile: Profile, seeds: Sequence[int]) -> dict[tuple[bool, str, int], RunConfig]:
    """Map (with stripes, variant, seed) to runs; those without stripes are R7's."""
    settings = profile.of(rendering.SETTINGS)
    return {
        (stripes, variant, seed): rendering.config(settings, variant, seed, stripes=stripes)
        for stripes in DATA
        for variant in rendering.VARIANTS
        for seed in seeds[: profile.of(SEEDS)]
    }


def rows(runs: Runs, profile: Profile, seeds: Sequence[int]) -> PartResult:
    """Errors and maps of every run, and the answers to the questions."""
    facts = {"epochs": profile.of(rendering.SETTINGS).epochs}
    found = PartResult("stripes_and_penalties", {"runs": [], "questions": []}, facts=facts)
    for (stripes, variant, seed), run in runs.labelled(wanted(profile, seeds)):
        with record_undiagnosed(found, f"run {run.id} ({variant}, stripes {stripes}, seed {seed})"):
            [maps] = runs.diagnosis(run)["maps"].table("summary")
            about = {"stripes": stripes, "variant": variant, "seed": seed, "run": run.id}
            found.tables["runs"].append({**about, **run.summary, **maps})
    found.tables["questions"] = questions(found.tables["runs"])
    return found


def questions(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each penalty, the decades of OOD error it gains without and with stripes: median, exact sign test."""
    error = {(row["stripes"], row["variant"], row["seed"]): row["ood_mse"] for row in rows}
    found = []
    for variant in ("entropy", "variance", "both"):
        for stripes in DATA:
            seeds = [s for with_stripes, v, s in error if (with_stripes, v) == (stripes, variant)]
            gains = [
                float(np.log10(error[stripes, "none", seed] / error[stripes, variant, seed]))
                for seed in seeds
                if (stripes, "none", seed) in error
            ]
            tested = sign_test(gains, LITTLE)
            found.append(
                {"penalties": variant, "stripes": stripes, "seeds": len(gains), "decades_gained": tested.estimate,
                 "low": tested.low, "high": tested.high, "p_much": tested.p_above, "p_little": tested.p_below}
            )  # fmt: skip
    return found


def plot(part: PartResult) -> dict[str, Figure]:
    """Plot OOD error and banding by variant, with and without stripes."""
    from recombine.plotting.style import new_figure

    if not part.rows:
        return {}
    figure = new_figure(8.4, 3.4)
    panels = {"ood_mse": "OOD mean squared error", "ood_localization": "unseen pairs in the correct place",
              "banding": "banding of the maps (1: bands)"}  # fmt: skip
    variants = [v for v in rendering.VARIANTS if any(row["variant"] == v for row in part.rows)]
    for ax, (column, label) in zip(figure.subplots(1, 3), panels.items()):
        for shift, (stripes, (name, colour, marker)) in zip((-0.14, 0.14), DATA.items()):
            for place, variant in enumerate(variants):
                values = [r[column] for r in part.rows if (r["stripes"], r["variant"]) == (stripes, variant)]
                text = name if place == 0 else None
                ax.plot([place + shift] * len(values), values, marker, color=colour, ms=4, alpha=0.6, label=text)
                if values:
                    ax.plot([place + shift], [np.median(values)], "_", color=colour, ms=14, mew=2)
        ax.set_xticks(range(len(variants)), variants, fontsize=SMALL)
        ax.set_title(label, fontsize=9)
        ax.set_xlim(-0.5, len(variants) - 0.5)
        tidy(ax)
        if column == "ood_mse":
            ax.set_yscale("log")
            ax.legend(frameon=False, fontsize=7)
        else:
            ax.set_ylim(-0.04, 1.04)
    figure.supxlabel(
        f"factor-rendered decoder, one column per penalty, {part.facts['epochs']} epochs · dots: "
        f"{seeds_note(row['seed'] for row in part.rows)}, bars: median",
        fontsize=SMALL,
    )
    return {"S06_stripes_and_penalties": figure}


STUDY = Study(
    key="stripes_and_penalties",
    title="penalties of the factor-rendered decoder with and without stripes",
    results=("S6",),
    version=1,
    seeds={"standard": 6},
    wanted=wanted,
    request=REQUEST,
    rows=rows,
    plot=plot,
)
