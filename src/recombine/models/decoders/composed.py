"""The composed decoder: every factor acts on the result of the others by its own operators."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.registry import Count, Since
from recombine.core.task import Shapes, Task
from recombine.models.composed.codes import between_of, codes_of
from recombine.models.composed.composer import Blend, FactorComposer, Operator
from recombine.models.composed.determined import determination
from recombine.models.composed.roles import Roles, roles_of
from recombine.models.decoder import DECODERS, Decoder
from recombine.models.fast_paths.choice import parts_of

MOST_IMAGES = 4096  # of ID, from which the background is taken


@DECODERS.register("composed")
class Composed(Decoder):
    """A `FactorComposer`, optionally followed by a small network that sees all terms.

    If built from a task, it estimates the initial background, contrast and energy from the task's ID images. If built
    from shapes alone, it starts with a black background.

    Args:
        shapes: The task, or its shapes. The code has one entry per factor value (one-hot, bump) or one number in [0, 1]
            per factor (ramp).
        terms: Number of images that are added, one per object that moves independently.
        operators: The operators that values may have: "kernel" (move, blur, draw), "gain" (tint), "map" (draw where
            nothing moves).
        depth: Hidden 3×3 convolutions of the head; 0 for none. The head corrects the sum of the terms, and sees only
            the neighbourhood of each pixel.
        width: Channels of the head.
        allow_undetermined: Accept a task whose ID cells do not determine the operators of all OOD cells.
        blend: "add": terms add up. "over": later terms cover earlier ones and the background, as opaque objects do.
    """

    stacks = True

    def __init__(
        self,
        shapes: Task | Shapes,
        terms: Count = 1,
        operators: Annotated[list[Operator], Field(min_length=1)] = ["kernel", "gain"],  # noqa: B006 (validated)
        depth: Annotated[int, Field(ge=0, le=64)] = 0,
        width: Count = 16,
        allow_undetermined: bool = False,
        blend: Annotated[Blend, Since(2)] = "add",
    ) -> None:
        super().__init__(shapes)
        channels = self.image_axes[0]
        sizes = self.shapes.factor_sizes
        if self.shapes.code_size not in (sum(sizes), len(sizes)):
            raise InputError(
                f"The composed decoder requires a code with one entry per factor value ({sum(sizes)}; onehot, bump) "
                f"or one number per factor ({len(sizes)}; ramp). Got {self.shapes.code_size} entries.",
                "encoding.kind",
            )
        self.composer = FactorComposer(sizes, self.shapes.output_shape, terms, operators, blend=blend)
        self.layers = nn.Sequential()
        if depth:
            layers: OrderedDict[str, nn.Module] = OrderedDict()
            for i in range(1, depth + 1):
                convolution = nn.Conv2d(terms * channels if i == 1 else width, width, 3, padding=1)
                layers[str(i)] = nn.Sequential(OrderedDict([("conv", convolution), ("act", nn.GELU())]))
            self.layers = nn.Sequential(layers)
            self.out = Correction(width, channels, 3, padding=1)
        if isinstance(shapes, Task):
            self.composer.fit_codes(codes_of(shapes), between_of(shapes))
            if not allow_undetermined:
                check_determined(shapes)
            self.composer.fit_background(id_images(shapes))
        self.built_parts = parts_of(self)

    def forward(self, code: Float[Tensor, "batch code"]) -> Float[Tensor, "batch *channel row column"]:
        self.check_input(code, (self.shapes.code_size,), "codes")
        composer = self.composer
        weights = composer.weights(code)
        image = composer.blended(weights)
        if len(self.layers):
            image = image + self.out(self.layers(composer.pictures(weights).flatten(1, 2)))
        return self.as_output(composer.contrast * image)

    def roles(self, names: Sequence[str] | None = None) -> Roles:
        """The role of each factor in each term (moves, tints, scales, draws or nothing), with numbers.

        Args:
            names: Names of the factors; by default their indices.
        """
        return roles_of(self.composer, names)

    def describe(self, names: Sequence[str]) -> dict[str, dict[str, list[float]]]:
        """`kernel_change`, `gain_change`, …: factor → how far each value's operators are from the identity; `shift`:
        by how many pixels it moves; `warp`, if a factor resizes or turns: the norm of log-scale, angle and shift."""
        lists = {
            "kernel_change": self.composer.kernels,
            "gain_change": self.composer.gains,
            "map_change": self.composer.maps,
            "shift": self.composer.shifts.split(self.composer.factor_sizes) if self.composer.kernels else (),
            "warp": () if self.composer.warps is None else self.composer.warps.split(self.composer.factor_sizes),
        }
        with torch.no_grad():
            return {
                what: {name: own.flatten(1).norm(dim=1).tolist() for name, own in zip(names, operators)}
                for what, operators in lists.items()
                if len(operators)
            }


class Correction(nn.Conv2d):
    """A convolution that starts at almost zero, so that a head corrects nothing at first."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=1e-3)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def check_determined(task: Task) -> None:
    """Raise if training does not determine the factors on some OOD cells, and name the values concerned."""
    stand = [own.double().numpy() for own in between_of(task)]
    found = determination(task.holdout.id_mask, task.holdout.ood_mask, stand)
    if found.complete:
        return
    first = int(np.flatnonzero(found.undetermined)[0])
    labels = [factor.labels for factor in task.space.factors.values()]
    raise InputError(
        f"Training does not determine {int(found.undetermined.sum())} of {task.holdout.n_ood} held-out combinations, "
        f"such as {task.space.label(first)}. No chain of trained combinations connects the groups of values "
        f"{found.told(task.space.names, labels)}. Train on more combinations, or accept arbitrary outputs for these "
        "(decoder.allow_undetermined=true).",
        "holdout",
    )


def id_images(task: Task) -> Float[Tensor, "image ..."]:
    """Images of ID cells; if there are many, only some that are spread over the grid."""
    cells = task.holdout.id_cells
    spread = torch.linspace(0, len(cells) - 1, min(MOST_IMAGES, len(cells))).round().long()
    return task.scene(task.space.values(cells[spread]))
