"""Profiles set the size of a reproduction: `quick` for a first look, `standard` for two cores overnight, `paper` for a
GPU.

A profile contains the settings that all studies share. Settings of a single study are in that study's file, by profile
name, and are selected by `profile.of(SETTINGS)`. `smoke` is for tests: it shows that everything runs, but says nothing
about the claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from recombine.core.errors import InputError
from recombine.core.registry import nearest
from recombine.studies.framework.inference import MOST_SEEDS

T = TypeVar("T")
FIRST_SEED = 100  # the pilot used smaller seeds


@dataclass(frozen=True)
class Profile:
    """The settings that all studies share.

    Attributes:
        name: Name of the profile.
        purpose: What the profile is for.
        seeds: Default number of seeds of a study. The seeds are 100, 101, …, which no earlier run used.
        side: Side N of the N × N factor grid.
        width: Channels of the CNNs.
        inner_width: Channels of the CNNs that are analysed layer by layer, which may be smaller.
        check_seeds: Number of seeds for which these CNNs are also trained at `width`, to check whether width matters.
        depths: Depths of the CNNs.
        mlp_depths: Depths of the MLPs.
        mlp_width, mlp_ramp_width: Units per layer of MLPs with population codes and with the ramp code.
        recipe: Training settings of CNNs on bumps.
        ramp_recipe: The same for the ramp code, which takes longer to learn.
        inner_recipe, inner_ramp_recipe: The same for CNNs of `inner_width`.
        mlp_recipe: The same for MLPs as published.
        mlp_epochs: Maps codes to numbers of epochs, tried in order until an MLP has learnt its training pairs.
        lengths: Multiples of a CNN's training length, tried in order until it has learnt its training pairs.
        digits: Images of the digits 0 … 9 for the study of rotation, packed as in a configuration; by default those of
            the package.
    """

    name: str
    purpose: str
    seeds: int
    side: int
    width: int
    depths: tuple[int, ...]
    mlp_depths: tuple[int, ...]
    mlp_width: int
    mlp_ramp_width: int
    recipe: tuple[str, ...]
    ramp_recipe: tuple[str, ...]
    inner_width: int
    inner_recipe: tuple[str, ...]
    inner_ramp_recipe: tuple[str, ...]
    mlp_recipe: tuple[str, ...]
    mlp_epochs: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {"bump": (100, 200, 400), "ramp": (500, 1000, 2000)}
    )
    lengths: tuple[int, ...] = (1, 2, 4)
    check_seeds: int = 0
    digits: tuple[str, ...] | None = None

    def of(self, settings: Mapping[str, T]) -> T:
        """Select a study's own settings for this profile."""
        return settings[self.name]

    @property
    def standard_depth(self) -> int:
        """The depth of studies that use a single depth: 4, or the available depth closest to it."""
        return min(self.depths, key=lambda depth: abs(depth - 4))


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="smoke",
            purpose="tests: everything runs, nothing is learnt",
            seeds=2,
            side=12,
            width=8,
            depths=(2, 3),
            mlp_depths=(2, 3),
            mlp_width=16,
            mlp_ramp_width=16,
            recipe=("training.kind=recommended", "training.steps=30"),
            ramp_recipe=("training.kind=recommended", "training.steps=30"),
            inner_width=6,
            inner_recipe=("training.kind=recommended", "training.steps=30"),
            inner_ramp_recipe=("training.kind=recommended", "training.steps=30"),
            check_seeds=1,
            mlp_recipe=("training.kind=recommended", "training.steps=30"),
            mlp_epochs={"bump": (1, 2), "ramp": (1, 2)},
            lengths=(1,),
        ),
        Profile(
            name="quick",
            purpose="the whole paper in about half an hour on two cores",
            seeds=3,
            side=28,
            width=32,
            depths=(2, 4, 6),
            mlp_depths=(4, 6),
            mlp_width=256,
            mlp_ramp_width=128,
            recipe=("training.kind=recommended",),
            ramp_recipe=("training.kind=recommended", "training.epochs=48"),
            inner_width=32,
            inner_recipe=("training.kind=recommended",),
            inner_ramp_recipe=("training.kind=recommended", "training.epochs=48"),
            mlp_recipe=("training.kind=paper", "training.epochs=20"),
        ),
        Profile(
            name="standard",
            purpose="a night on two cores",
            seeds=5,
            side=28,
            width=64,
            depths=(2, 3, 4, 5, 6),
            mlp_depths=(3, 4, 5, 6, 7),
            mlp_width=256,
            mlp_ramp_width=128,
            recipe=("training.kind=recommended", "training.epochs=32"),
            ramp_recipe=("training.kind=recommended", "training.epochs=96"),
            inner_width=32,
            inner_recipe=("training.kind=recommended",),
            inner_ramp_recipe=("training.kind=recommended", "training.epochs=48"),
            check_seeds=2,
            mlp_recipe=("training.kind=paper", "training.epochs=20"),
        ),
        Profile(
            name="paper",
            purpose="the paper's settings, for a GPU or a cluster",
            seeds=5,
            side=28,
            width=64,
            depths=(2, 3, 4, 5, 6, 7, 8, 9, 10),
            mlp_depths=(3, 4, 5, 6, 7),
            mlp_width=256,
            mlp_ramp_width=128,
            recipe=("training.kind=paper",),
            ramp_recipe=("training.kind=paper",),
            inner_width=64,
            inner_recipe=("training.kind=paper",),
            inner_ramp_recipe=("training.kind=paper",),
            mlp_recipe=("training.kind=paper", "training.epochs=20"),
        ),
    )
}


def profile(name: str) -> Profile:
    """Look up a profile by name."""
    if name not in PROFILES:
        raise InputError(f"There is no profile {name!r}{nearest(name, PROFILES)}. Profiles: {', '.join(PROFILES)}.")
    return PROFILES[name]


def consecutive_seeds(number: int, first: int = FIRST_SEED) -> list[int]:
    """The seeds of a reproduction.

    Raises:
        InputError: If the number is not between 1 and 200.
    """
    if not 1 <= number <= MOST_SEEDS:
        raise InputError(f"--seeds must be between 1 and {MOST_SEEDS}. Got {number}.", "seeds")
    return [first + i for i in range(number)]


def with_digits(profile: Profile, folder: Path) -> Profile:
    """The profile with the user's digits: the first image of each class in a folder of IDX files.

    If they equal the digits of the package, the profile is returned unchanged, so no run is trained again.
    """
    from recombine.core.scenes.mnist import first_of_each_class, packaged_digits
    from recombine.core.scenes.rotated_digit import packed

    digits = first_of_each_class(folder)
    if digits.equal(packaged_digits()):
        return profile
    return replace(profile, digits=tuple(packed(image) for image in digits))
