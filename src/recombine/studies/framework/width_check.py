"""Checks whether a number depends on the width of the networks, by training some seeds at another width.

If a claim is decided by narrow networks to save time, the study also trains some of its seeds at the profile's full
width. Its rows contain both, distinguished by the column `width`. Verdicts use one of the two, and the table
`width_check` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from recombine.diagnostics.findings import PartResult
from recombine.studies.framework.claims import ClaimPart
from recombine.studies.framework.edition_2 import CLAIMS
from recombine.studies.framework.verdicts import Effects

Row = Mapping[str, Any]
TABLE = "width_check"


def at_width(part: PartResult, width: int, keep: Callable[[Row], bool] = lambda row: True) -> PartResult:
    """The rows of networks of one width that `keep` selects, without the table `width_check`."""
    tables = {
        name: [row for row in rows if row["width"] == width and keep(row)]
        for name, rows in part.tables.items()
        if name != TABLE
    }
    return replace(part, tables=tables)


def width_check(
    part: PartResult,
    effects: Callable[[PartResult], Effects],
    *,
    narrow: int,
    wide: int,
    keep: Callable[[Row], bool] = lambda row: True,
) -> list[dict[str, Any]]:
    """Compare every part of a claim at both widths, for the seeds that were trained at both.

    Args:
        part: Rows of both widths.
        effects: Computes the evidence from rows.
        narrow, wide: The widths.
        keep: Selects the rows of narrow networks that have a counterpart.
    """
    if narrow == wide:
        return []
    own, others = effects(at_width(part, narrow, keep)), effects(at_width(part, wide, keep))
    found = []
    for name, evidence in others.items():
        claim, _, asked = name.partition(".")
        for seed, value in evidence.values.items():
            if name not in own or seed not in own[name].values:
                continue
            here = own[name].values[seed]
            sides = {_beyond(CLAIMS[claim].part(asked), number) for number in (here, value)}
            found.append({"part": name, "seed": seed, "narrow": narrow, "wide": wide, "value_narrow": here,
                          "value_wide": value, "same_side": len(sides) == 1})  # fmt: skip
    return found


def _beyond(part: ClaimPart, number: float) -> bool:
    """Whether a number lies on the claimed side."""
    if isinstance(part.threshold, tuple):
        return part.threshold[0] < number < part.threshold[1]
    return number > part.threshold if part.direction == "above" else number < part.threshold
