"""Hold-outs made of hold-outs: `a | b`, `a & b`, `~a`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from recombine.core.factors import FactorSpace
from recombine.core.holdouts.holdout import HOLDOUTS, Holdout, combined
from recombine.core.registry import member_of

Part = Annotated[dict[str, Any], member_of(HOLDOUTS)]


@HOLDOUTS.register("any_of")
def any_of(space: FactorSpace, parts: Annotated[list[Part], Field(min_length=1)]) -> Holdout:
    """Held out by at least one part (`a | b`)."""
    return combined("any_of", [HOLDOUTS.build(part, space) for part in parts])


@HOLDOUTS.register("all_of")
def all_of(space: FactorSpace, parts: Annotated[list[Part], Field(min_length=1)]) -> Holdout:
    """Held out by every part (`a & b`)."""
    return combined("all_of", [HOLDOUTS.build(part, space) for part in parts])


@HOLDOUTS.register("all_but")
def all_but(space: FactorSpace, part: Part) -> Holdout:
    """Held out iff the part does not hold it out (`~a`)."""
    return combined("all_but", [HOLDOUTS.build(part, space)])
