"""The runs that several studies use, defined in one place so that they are identical.

```python
cnn(profile, "ramp", depth=4, seed=0)                    # bumps only, centre held out
cnn(profile, "bump", depth=4, seed=0, holdout="corner")
mlp(profile, "bump", depth=5, seed=0, epochs=200)
```
"""

from __future__ import annotations

from collections.abc import Sequence

from recombine.runs.config import RunConfig
from recombine.studies.framework.profiles import Profile

CODES = ("bump", "ramp", "onehot", "positional")
TWO_CODES = ("bump", "ramp")  # compared by the studies of layers and outputs
CODE_LABELS = {"bump": "bump code", "ramp": "ramp code", "onehot": "one-hot code", "positional": "positional code"}
HOLDOUTS = ("centre", "corner")
REMEDY = [  # shared by the studies of forced rendering by data
    "encoding.kind=bump",
    "holdout.kind=centre",
    "decoder.kind=cnn",
    "decoder.depth=4",
    "decoder.width=32",
    "training.kind=recommended",
]
PAPER_RECIPE = ("training.kind=paper",)  # used instead in the paper profile: batch size 32, constant learning rate 1e-3


def square(side: int) -> list[str]:
    """Overrides for an N × N factor grid."""
    return [f"scene.factors.x={side}", f"scene.factors.y={side}"]


def centre(side: int) -> list[str]:
    """Overrides that hold out the centre: values 6 to 22 at N = 28, scaled in proportion for other N."""
    return ["holdout.kind=centre", f"holdout.lo={round(6 * side / 28)}", f"holdout.hi={round(22 * side / 28)}"]


def corner(side: int) -> list[str]:
    """Overrides that hold out the corner: values from 12 at N = 32, scaled in proportion for other N."""
    return ["holdout.kind=corner", f"holdout.threshold={round(12 * side / 32)}"]


def scattered(side: int, held_out: int) -> list[str]:
    """Overrides that hold out cells scattered over the grid, so that every pixel is lit in training.

    All seeds hold out the same cells.
    """
    return ["holdout.kind=random", f"holdout.fraction={held_out / side**2!r}", "holdout.seed=0"]


def cnn(profile: Profile, code: str, depth: int, seed: int, holdout: str = "centre") -> RunConfig:
    """A CNN trained on bumps. "scattered" holds out as many cells as "centre"."""
    decoder = ["decoder.kind=cnn", f"decoder.depth={depth}", f"decoder.width={profile.width}"]
    recipe = profile.ramp_recipe if code == "ramp" else profile.recipe
    return _run(profile, code, holdout, [*decoder, *recipe], seed)


def inner_cnn(profile: Profile, code: str, depth: int, seed: int) -> RunConfig:
    """A CNN for the analysis of layers: trained on bumps, with the centre held out and the profile's `inner_width`."""
    decoder = ["decoder.kind=cnn", f"decoder.depth={depth}", f"decoder.width={profile.inner_width}"]
    recipe = profile.inner_ramp_recipe if code == "ramp" else profile.inner_recipe
    return _run(profile, code, "centre", [*decoder, *recipe], seed)


def two_widths(
    profile: Profile, seeds: Sequence[int], depths: Sequence[int], checked: Sequence[int], wide_seeds: Sequence[int]
) -> dict[tuple[int, str, int, int], RunConfig]:
    """Map (width, code, depth, seed) to CNNs for the analysis of layers.

    The `checked` depths of `wide_seeds` are also included at the profile's full width.
    """
    narrow = {
        (profile.inner_width, code, depth, seed): inner_cnn(profile, code, depth, seed)
        for code in TWO_CODES
        for depth in depths
        for seed in seeds
    }
    wide = {
        (profile.width, code, depth, seed): cnn(profile, code, depth, seed)
        for code in TWO_CODES
        for depth in checked
        for seed in wide_seeds
    }
    return narrow | wide


def two_codes(profile: Profile, seeds: Sequence[int]) -> dict[tuple[str, int], RunConfig]:
    """Map (code, seed) to a CNN of the standard depth, trained on bumps with the centre held out."""
    return {(code, seed): cnn(profile, code, profile.standard_depth, seed) for code in TWO_CODES for seed in seeds}


def published_mlp(profile: Profile, code: str, depth: int, seed: int) -> RunConfig:
    """An MLP as published: 20 epochs, width 128 with the ramp code. It does not always learn its training pairs."""
    width = profile.mlp_ramp_width if code == "ramp" else profile.mlp_width
    decoder = ["decoder.kind=mlp", f"decoder.depth={depth}", f"decoder.width={width}"]
    return _run(profile, code, "centre", [*decoder, *profile.mlp_recipe], seed)


def mlp(profile: Profile, code: str, depth: int, seed: int, epochs: int) -> RunConfig:
    """An MLP trained for `epochs` epochs with the `recommended` recipe, batches of 32 and one width for all codes."""
    decoder = ["decoder.kind=mlp", f"decoder.depth={depth}", f"decoder.width={profile.mlp_width}"]
    recipe = ["training.kind=recommended", "training.batch=32", f"training.epochs={epochs}"]
    return _run(profile, code, "centre", [*decoder, *recipe], seed)


def _run(profile: Profile, code: str, holdout: str, words: Sequence[str], seed: int) -> RunConfig:
    held = {"centre": centre, "corner": corner, "scattered": _scattered_like_centre}[holdout](profile.side)
    return RunConfig.parse([*square(profile.side), f"encoding.kind={code}", *held, *words, f"seed={seed}"])


def _scattered_like_centre(side: int) -> list[str]:
    return scattered(side, RunConfig.parse([*square(side), *centre(side)]).task().holdout.n_ood)
