"""The suites: scenes, splits, seeds and the budget that all remedies share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recombine.core.errors import InputError
from recombine.core.registry import nearest
from recombine.core.scenes.drawn import places
from recombine.studies.compare.remedy import REMEDIES
from recombine.studies.compare.splits import SPLITS
from recombine.studies.framework.inference import MOST_SEEDS


@dataclass(frozen=True)
class Budget:
    """The budget of every remedy.

    Attributes:
        parameters: Number of parameters of the decoder, within `tolerance`.
        steps: Number of training steps.
        batch: Images per step.
        trial_steps: Number of training steps of a trial.
        inner: Share of the cells that a trial holds out to select settings.
    """

    parameters: int
    steps: int
    batch: int
    trial_steps: int
    inner: float = 0.2
    tolerance: float = 0.1


@dataclass(frozen=True)
class Suite:
    """The scenes, splits, remedies and seeds of a comparison.

    Attributes:
        name: mini (to try the command and custom remedies), small or full.
        scenes: Maps names to configurations of scenes with their factors.
        splits: Names of splits.
        seeds: Number of seeds.
        budget: The budget of every remedy.
        chosen: Names of remedies; None for those that belong to the suite.
    """

    name: str
    scenes: Mapping[str, Mapping[str, Any]]
    splits: Sequence[str]
    seeds: int
    budget: Budget
    chosen: Sequence[str] | None = None

    @property
    def remedies(self) -> Sequence[str]:
        """The names of the remedies that are compared."""
        if self.chosen is not None:
            return self.chosen
        return tuple(name for name, remedy in REMEDIES.items() if self.name in remedy.suites)


HUE = {"kind": "cyclic", "size": 4, "low": 0.0, "step": 0.25}
SMALL_SCENES: dict[str, dict[str, Any]] = {
    "bump": {"kind": "bump", "factors": {"x": 14, "y": 14}},
    "balls": {"kind": "balls", "ground": "black", "factors": {"y1": places(10, 3.0, 1.5), "y2": places(10, 3.0, 1.5)}},
    "shapes": {
        "kind": "shapes", "rows": 14, "columns": 20, "diameter": 7.0,
        "factors": {"shape": 4, "x": places(7, 4.0, 2.0), "hue": HUE},
    },
    "sprites": {
        "kind": "sprites", "rows": 12, "columns": 20, "diameter": 7.0,
        "factors": {"x1": places(9, 3.5, 1.5), "x2": places(9, 3.5, 1.5)},
    },
}  # fmt: skip
FULL_SCENES: dict[str, dict[str, Any]] = {
    "bump": {"kind": "bump", "factors": {"x": 28, "y": 28}},
    "inverted_bump": {"kind": "bump", "inverted": True, "factors": {"x": 28, "y": 28}},
    "square": {"kind": "square", "side": 9.0, "factors": {"x": places(20, 4.0, 1.0), "y": places(20, 4.0, 1.0)}},
    "balls": {"kind": "balls", "ground": "black", "factors": {"y1": places(14, 4.0, 1.8), "y2": places(14, 4.0, 1.8)}},
    "hidden_balls": {
        "kind": "balls", "ground": "black", "occlusion": True, "rows": 28, "columns": 28,
        "factors": {"x1": places(4, 8.0, 4.0), "y1": places(4, 8.0, 4.0), "x2": places(4, 8.0, 4.0),
                    "y2": places(4, 8.0, 4.0)},
    },
    "shapes": {
        "kind": "shapes", "rows": 28, "columns": 28, "diameter": 8.0,
        "factors": {"shape": 4, "x": places(6, 5.0, 3.0), "y": places(6, 5.0, 3.0), "hue": HUE},
    },
    "sprites": {
        "kind": "sprites", "rows": 28, "columns": 28, "diameter": 9.0,
        "factors": {"x1": places(5, 5.0, 4.0), "shape1": ["square", "triangle"], "x2": places(5, 5.0, 4.0),
                    "hue2": HUE},
    },
    "arrow": {
        "kind": "arrow", "rows": 24, "columns": 28, "length": 12.0,
        "factors": {"angle": {"kind": "cyclic", "size": 12, "low": 0.0, "step": 30.0}, "x": places(7, 6.0, 2.5),
                    "hue": HUE},
    },
}  # fmt: skip
MINI_SCENES: dict[str, dict[str, Any]] = {
    "bump": {"kind": "bump", "factors": {"x": 8, "y": 8}},
    "balls": {"kind": "balls", "ground": "black", "factors": {"y1": places(5, 2.0, 1.5), "y2": places(5, 2.0, 1.5)}},
}
SUITES = {
    suite.name: suite
    for suite in (
        Suite("mini", MINI_SCENES, ("random",), 1, Budget(4000, 200, 8, 100)),
        Suite("small", SMALL_SCENES, ("random", "comb", "range"), 3, Budget(24_000, 1000, 16, 400)),
        Suite(
            "full", FULL_SCENES, ("random", "comb", "diagonal", "connected", "range"), 5,
            Budget(100_000, 3000, 32, 1000),
        ),
    )
}  # fmt: skip


def suite(name: str) -> Suite:
    """Look up a suite by name."""
    return SUITES[_known(name, SUITES, "suite")]


def chosen(
    whole: Suite,
    *,
    remedies: Sequence[str] = (),
    scenes: Sequence[str] = (),
    splits: Sequence[str] = (),
    seeds: int | None = None,
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> Suite:
    """Select remedies, scenes, splits and a number of seeds for a suite. Omitted arguments leave it unchanged.

    Remedies and splits need not belong to the suite; scenes must. `own` are further scenes: names and configurations.
    They replace those of the suite, except for the ones that `scenes` selects.
    """
    for remedy in remedies:
        REMEDIES[remedy]
    own = own or {}
    wanted = scenes or (() if own else whole.scenes)
    selected = {name: whole.scenes[_known(name, whole.scenes, "scene")] for name in wanted}
    for name in selected.keys() & own.keys():
        raise InputError(
            f"{name!r} is the name of a scene of the suite and of your own. Name yours, as in --data mine=PATH.", "data"
        )
    return replace(
        whole,
        chosen=tuple(dict.fromkeys(remedies)) or whole.chosen,
        scenes={**selected, **own},
        splits=tuple(dict.fromkeys(_known(name, SPLITS, "split") for name in splits or whole.splits)),
        seeds=whole.seeds if seeds is None else _checked(seeds),
    )


def _checked(seeds: int) -> int:
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"--seeds must be between 1 and {MOST_SEEDS}. Got {seeds}.", "seeds")
    return seeds


def _known(name: str, known: Mapping[str, Any], what: str) -> str:
    if name not in known:
        raise InputError(f"There is no {what} {name!r}{nearest(name, known)}. Available: {', '.join(known)}.", what)
    return name
