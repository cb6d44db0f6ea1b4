"""A handwritten digit, rotated about the image's centre (Liang et al. 2025, rotation study)."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float, Real, UInt8
from pydantic import Field
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.scenes.mnist import CLASSES, SIDE, packaged_digits
from recombine.core.scenes.scene import SCENES, Scene
from recombine.core.scenes.structure import Composition, Structure

ANGLE, DIGIT = "angle", "digit"
Digit = Annotated[int, Field(ge=0, lt=CLASSES)]
EDGE = 1e-4  # pixels: what rounding may put a point beyond the image's border


@SCENES.register("rotated_digit")
class RotatedDigit(Scene):
    """A digit rotated counter-clockwise (with row 0 on top) by factor `angle`, in degrees.

    The image is sampled bilinearly at the source position of every pixel; positions outside the image are black. This
    equals scipy.ndimage.rotate(image, angle, reshape=False, order=1, mode="constant", cval=0) with the centre at ((N −
    1)/2, (N − 1)/2). It is differentiable in the angle except where a source position crosses the centre of a pixel, as
    at multiples of 90°. There the derivative is one-sided. The factor `digit` has no derivative: between two values,
    the nearer digit is shown.

    Args:
        space: A space with factor `angle`, and optionally a discrete factor `digit`.
        digits: The digits to show: the i-th value of factor `digit` shows digits[i]. Without that factor, give one
            digit.
        images: Custom images, one for each entry of `digits`, as `packed` writes them; by default the MNIST digits of
            the package. They are part of the configuration, so that a run can be repeated without the files they came
            from.
        inverted: Whether to draw dark digits on a bright background.
    """

    # not from 0 on: where a source point crosses a pixel's centre, a rotated image has a kink
    example: ClassVar[dict[str, Any] | None] = {"angle": {"kind": "cyclic", "size": 12, "low": 7.0, "step": 30.0}}

    def __init__(
        self,
        space: FactorSpace,
        digits: Annotated[list[Digit], Field(min_length=1)] = [4],  # noqa: B006 (validated into a copy)
        images: list[str] | None = None,
        inverted: bool = False,
    ) -> None:
        if set(space.names) not in ({ANGLE}, {ANGLE, DIGIT}):
            raise InputError(
                f"A rotated digit requires a factor 'angle' and may have 'digit'. Got {', '.join(space.names)}. "
                'Example: scene.factors={"angle": {"kind": "cyclic", "size": 360}}.'
            )
        angle = space.factors[ANGLE]
        if angle.categorical:
            raise InputError(f"Factor 'angle' is in degrees. Got labels: {angle.range}.")
        if angle.kind == "cyclic" and not math.isclose(angle.extent, 360, rel_tol=1e-6):
            raise InputError(
                f"Factor 'angle' is in degrees, so it wraps around at 360. Got a period of {angle.extent:g}."
            )
        shown = space.factors[DIGIT].size if DIGIT in space.names else 1
        if shown != len(digits) or (
            DIGIT in space.names and space.factors[DIGIT].kind not in ("discrete", "categorical")
        ):
            raise InputError(
                "Give one digit for each value of a discrete factor 'digit' (or its labels), or one digit without "
                f"that factor. Got digits={digits} for {space}."
            )
        if images is not None and len(images) != len(digits):
            raise InputError(f"Give one image for each of digits={digits}. Got {len(images)} images.")
        self.space = space
        self.inverted = inverted
        self.output_shape = (SIDE, SIDE)
        pixels = packaged_digits()[digits] if images is None else torch.stack([unpacked(text) for text in images])
        self._digits = pixels.flatten(1).double() / 255

    @property
    def structure(self) -> Structure | None:
        """The angle turns the digit, which is neither a sum nor a product of pixels."""
        if DIGIT not in self.space.names:
            return None
        return Structure(Composition.OTHER, tuple((name,) for name in self.space.names))

    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape row column"]:
        if present is not None and not bool(present.all()):
            raise InputError(
                "A rotated digit cannot be drawn without its angle or its digit, so it has no single-factor scenes. "
                "Remove the example source that uses them."
            )
        values = self.space.checked(values)
        which = self._which(values)
        row, column = self._sources(values[..., self.space.axis(ANGLE)])
        inside = (row.abs() <= SIDE / 2 - 0.5 + EDGE) & (column.abs() <= SIDE / 2 - 0.5 + EDGE)
        row, column = ((at + (SIDE - 1) / 2).clamp(0, SIDE - 1) for at in (row, column))
        top, left = (at.detach().floor().clamp(max=SIDE - 2) for at in (row, column))
        below, right = row - top, column - left
        digits = self._digits.to(values)
        first = which.unsqueeze(-1) * SIDE**2 + (top * SIDE + left).long()  # the pixel above and to the left
        corners = [digits.take(first + step) for step in (0, 1, SIDE, SIDE + 1)]
        upper, lower = (a + (b - a) * right for a, b in (corners[:2], corners[2:]))
        flat = torch.where(inside, upper + (lower - upper) * below, 0.0)
        image = flat.unflatten(-1, self.output_shape)
        return 1 - image if self.inverted else image

    def _which(self, values: Float[Tensor, "*shape factor"]) -> Tensor:
        """Index of the digit shown, for each combination of values."""
        if DIGIT not in self.space.names:
            return torch.zeros(values.shape[:-1], dtype=torch.long, device=values.device)
        axis = self.space.axis(DIGIT)
        position = self.space.factors[DIGIT].position(values[..., axis].detach())
        return position.round().long().clamp(0, len(self._digits) - 1)

    def _sources(
        self, degrees: Float[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape pixel"], Float[Tensor, "*shape pixel"]]:
        """Where each pixel comes from: (row, column) from the centre."""
        middle = torch.arange(SIDE, dtype=degrees.dtype, device=degrees.device) - (SIDE - 1) / 2
        row, column = middle.repeat_interleave(SIDE), middle.repeat(SIDE)
        turn = (degrees * (math.pi / 180)).unsqueeze(-1)
        cosine, sine = turn.cos(), turn.sin()
        return cosine * row + sine * column, cosine * column - sine * row


def packed(image: UInt8[Tensor, "28 28"]) -> str:
    """An image as text for a configuration: its bytes in base64."""
    return base64.b64encode(image.contiguous().numpy().tobytes()).decode()


def unpacked(text: str) -> UInt8[Tensor, "28 28"]:
    """The inverse of `packed`."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if len(content) != SIDE**2:
        raise InputError(
            f"An image must consist of {SIDE}×{SIDE} bytes in base64. Got {text[:20]!r} ({len(text)} characters)."
        )
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(SIDE, SIDE)
