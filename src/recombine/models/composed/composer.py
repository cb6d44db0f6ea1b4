"""Composing by operators: every value of every factor acts on the result of the other factors.

    composer = FactorComposer((4, 9, 5), image_shape=(3, 24, 24), images=training_images)
    composer(indices)                                      # (batch, factor) → (batch, channel, row, column)

A term t has an object, an image o_t with a colour a_t. Value v of factor k has a convolution kernel K, a shift d, a
gain c per channel and a map M, which are applied to the object one after the other:

    x̂ = b + s · Σ_t  a_t Π_k c_tk(v_k) · [Π_k M_tk(v_k)] ⊙ [o_t ∗ K_t1(v_1) ∗ K_t2(v_2) ∗ … moved by Σ_k d_tk(v_k)]

Terms that cover each other (blend="over") are opacities with a colour. The last term lies in front:

    x̂_0 = b,   x̂_t = x̂_{t−1} + A_t ⊙ (b̄ + a_t Π_k c_tk(v_k) − x̂_{t−1}),   A_t = [Π_k M_tk(v_k)] ⊙ [o_t ∗ K_t1(v_1) ∗ …]

with the mean colour b̄ of the background.

All operators start near the identity (a kernel with a single entry, ones). A factor that moves needs only kernels, a
factor that tints only gains, and a factor that draws kernels or maps. The loss term `Composition` makes each one
choose. Shifts are zero during training, in which kernels move objects. `recombine.training.settle` replaces kernels
that move by shifts, which may be fractions of a pixel, and gives factors that resize or turn the object warps W:

    [W(Σ_k w_tk(v_k)) (o_t ∗ K_t1(v_1) ∗ …)] moved by Σ_k d_tk(v_k)      (`recombine.models.composed.warp`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError
from recombine.core.images import image_axes
from recombine.models.composed.codes import entries_of
from recombine.models.composed.shift import shift_phases
from recombine.models.composed.warp import NUMBERS, warped
from recombine.models.fast_paths.torch_internals import is_transformed

Operator = Literal["kernel", "gain", "map"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)
Blend = Literal["add", "over"]
BLENDS: tuple[Blend, ...] = get_args(Blend)
START = 0.01  # standard deviation of the operators' first deviations from the identity
SMALLEST_SIDE = 3  # pixels: in a smaller image nothing can move to both sides
TINTED = 0.95  # share of the differences between images that gains must explain if there are no other operators
NEAR = 1e-3  # of the step between two values: closer to a value, slopes of both sides count
PADDING = 1.5  # side of the Fourier grid, in sides of the image
PRIMES = (2, 3, 5)  # of sides for which Fourier transforms are quick


class FactorComposer(nn.Module):
    """Composes images from one operator per factor value and kind.

    A code weights the deviations from the identity and the shifts: a one-hot block selects the operators of a value,
    and an absent factor (all zeros) has no effect. A code with one number in [0, 1] per factor is continuous: shifts,
    gains, kernels and maps are interpolated between two values. Other codes with an entry per value, such as bumps, are
    turned into weights of values first if their codes are known (`fit_codes`); otherwise they mix neighbouring values.

    Convolutions are products on a Fourier grid of 1.5 times the image's sides. Objects that the factors together move
    beyond the image by more than half its side reappear on the other side.

    Args:
        factor_sizes: Number of values of each factor.
        image_shape: (row, column) or (channel, row, column) of the images.
        terms: Number of images that are added, one per object that moves independently.
        operators: The kinds of operators that values have: "kernel", "gain", "map". With maps alone, values draw and
            the drawings are multiplied.
        images: Training images (image, …) for `fit_background`.
        blend: "add": terms add up. "over": later terms cover earlier ones and the background, as opaque objects do.

    Attributes:
        kernels, gains, maps: For each factor its values' deviations from the identity: (value, term, row, column) or
            (value, term, channel).
        shifts: Of the values of all factors, one factor after the other: (value, term, 2), rows and columns in pixels.
            A buffer, because training leaves them as they are.
        warps: Of the values of all factors, (value, term, 4): log-scale, angle, rows, columns. None, and not stored,
            unless some factor resizes or turns. A factor whose kernels and warps are all zero then keeps such kernels.
        entries, between: What the entries of a code, and values, mean; see `fit_codes`.
        drawing: The objects' deviations from the identity, (term, row, column).
        colours: The objects' gains minus 1, (term, channel).
        background: b, in units of the contrast.
        contrast: s, the typical largest difference of a training image from the background; 1 unless fitted.
        energy: Mean squared difference of the training images from the background; 1 unless fitted.
    """

    def __init__(
        self,
        factor_sizes: Sequence[int],
        image_shape: Sequence[int],
        terms: int = 1,
        operators: Sequence[Operator] = ("kernel", "gain"),
        images: Float[Tensor, "image ..."] | None = None,
        *,
        blend: Blend = "add",
    ) -> None:
        super().__init__()
        axes = image_axes(tuple(image_shape))
        _check(factor_sizes, image_shape, terms, operators)
        if blend not in BLENDS:
            raise InputError(f"blend must be {' or '.join(BLENDS)}. Got {blend!r}.", "blend")
        assert axes is not None
        self.factor_sizes = tuple(int(size) for size in factor_sizes)
        self.image_shape = tuple(int(side) for side in image_shape)
        self.terms = terms
        self.blend: Blend = blend
        self.operators = tuple(kind for kind in OPERATORS if kind in operators)
        channels, rows, columns = axes
        self.grid = (_quick_side(math.ceil(PADDING * rows)), _quick_side(math.ceil(PADDING * columns)))

        def per_factor(kind: Operator, *shape: int) -> nn.ParameterList:
            owners = self.factor_sizes if kind in self.operators else ()
            return nn.ParameterList(nn.Parameter(torch.empty(size, terms, *shape)) for size in owners)

        self.kernels = per_factor("kernel", rows, columns)
        self.gains = per_factor("gain", channels)
        self.maps = per_factor("map", rows, columns)
        self.drawing = nn.Parameter(torch.empty(terms, rows, columns))
        self.colours = nn.Parameter(torch.empty(terms, channels))
        self.background = nn.Parameter(torch.empty(channels, rows, columns))
        self.register_buffer("start", torch.zeros(channels, rows, columns))
        self.register_buffer("contrast", torch.ones(()))
        self.register_buffer("energy", torch.ones(()))
        values = sum(self.factor_sizes)
        self.register_buffer("entries", torch.eye(values))
        self.register_buffer("between", torch.eye(values))
        self.register_buffer("shifts", torch.zeros(values if self.kernels else 0, terms, 2))
        dot = torch.ones(rows, columns)
        if "kernel" in self.operators:
            dot = torch.zeros(rows, columns)
            dot[rows // 2, columns // 2] = 1
        self.register_buffer("identity", dot, persistent=False)
        self.start: Tensor
        self.contrast: Tensor
        self.energy: Tensor
        self.identity: Tensor
        self.entries: Tensor
        self.between: Tensor
        self.shifts: Tensor
        self.register_buffer("warps", None)
        self.warps: Tensor | None
        if images is not None:
            self.fit_background(images)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all operators to the identity plus small noise, and the background to that of `fit_background`."""
        with torch.no_grad():
            for parameter in (*self.kernels, *self.gains, *self.maps, self.drawing, self.colours):
                nn.init.normal_(parameter, std=START)
            self.shifts.zero_()
            self.warps = None
            self.background.copy_(self.start / self.contrast)

    def reorder(self, order: Sequence[int]) -> None:
        """Put the terms into another order, which matters if they cover each other."""
        with torch.no_grad():
            for own in (*self.kernels, *self.gains, *self.maps, self.shifts):
                own.copy_(own[:, list(order)])
            for own in (self.drawing, self.colours):
                own.copy_(own[list(order)])

    def fit_background(self, images: Float[Tensor, "image ..."]) -> None:
        """Estimate the background, the contrast and the energy from training images, and start at that background.

        The background starts at the median of each pixel, which is exact if every pixel is background most of the time.
        Behind terms that cover each other it starts at the colour of all pixels that never change, if they have the
        same. Pass training images only, never held-out ones.
        """
        if tuple(images.shape[1:]) != self.image_shape or not len(images):
            expected = ", ".join(map(str, self.image_shape))
            raise InputError(
                f"Training images must have shape (image, {expected}). Got {tuple(images.shape)}.", "images"
            )
        if not images.isfinite().all():
            raise InputError("Training images must be finite. Some are NaN or infinite.", "images")
        images = images.detach().to(self.start).reshape(len(images), *self.start.shape)
        if self.operators == ("gain",):
            _check_tints(images, self.terms)
        self.start.copy_(_behind(images) if self.blend == "over" else images.median(0).values)
        apart = images - self.start
        energy = apart.square().mean()
        if not energy > 0:
            raise InputError("All training images are the same, so there is nothing to compose.", "images")
        self.energy.copy_(energy)
        self.contrast.copy_(apart.flatten(1).abs().amax(1).square().mean().sqrt())
        with torch.no_grad():
            self.background.copy_(self.start / self.contrast)

    def fit_codes(
        self,
        codes: Sequence[Float[Tensor, "_value _value"]] | None = None,
        between: Sequence[Float[Tensor, "_value _value"]] | None = None,
    ) -> None:
        """State what codes mean.

        Args:
            codes: For each factor the codes of its values, (value, entry) with as many entries as values. By default
                one-hot codes.
            between: For each factor the weights of the values that stand for each value, such as the two trained
                neighbours of one that is not trained (`recombine.models.composed.codes`). By default itself.
        """
        for what, own in (("codes", codes), ("between", between)):
            expected = [(size, size) for size in self.factor_sizes]
            if own is not None and [tuple(matrix.shape) for matrix in own] != expected:
                got = ", ".join(str(tuple(matrix.shape)) for matrix in own)
                raise InputError(
                    f"{what} must have one square matrix per factor, of shapes {', '.join(map(str, expected))}. Got "
                    f"{got or 'none'}.",
                    what,
                )
        stand = torch.block_diag(*(torch.eye(size) for size in self.factor_sizes) if between is None else between)
        mean = stand.to(self.entries)
        if codes is not None:
            mean = torch.block_diag(*map(entries_of, codes)).to(mean) @ mean
        self.between.copy_(stand)
        self.entries.copy_(mean)

    def between_of(self, factor: int) -> Float[Tensor, "value value"]:
        """The weights of a factor's values that stand for each of its values."""
        return self.between.split(self.factor_sizes)[factor].split(self.factor_sizes, dim=1)[factor]

    def standing(self, factor: int) -> list[int]:
        """The values of a factor that stand for themselves. The others are interpolated between them."""
        return self.between_of(factor).diagonal().eq(1).nonzero()[:, 0].tolist()

    def shifts_of(self, factor: int) -> Float[Tensor, "value term 2"]:
        """The shifts of a factor's values, which share memory with `shifts`."""
        return self.shifts.split(self.factor_sizes)[factor]

    def warps_of(self, factor: int) -> Float[Tensor, "value term 4"]:
        """The warps of a factor's values, which share memory with `warps` if there are any."""
        warps = self.shifts.new_zeros(*self.shifts.shape[:2], NUMBERS) if self.warps is None else self.warps
        return warps.split(self.factor_sizes)[factor]

    def weights(self, given: Tensor) -> list[Float[Tensor, "batch _value"]]:
        """The weights of the values of each factor: for indices (batch, factor), for a code with an entry per
        value, or for a code with one number in [0, 1] per factor."""
        sizes = self.factor_sizes
        if given.ndim != 2 or given.dtype == torch.bool or given.is_complex():
            raise InputError(
                f"A composer takes integer indices (batch, factor) or a real code. Got {given.dtype} of shape "
                f"{tuple(given.shape)}."
            )
        if given.is_floating_point() and given.shape[1] == sum(sizes):
            return list((given.to(self.background.dtype) @ self.entries).split(sizes, dim=1))
        if given.shape[1] != len(sizes):
            raise InputError(
                f"For factors with {list(sizes)} values a composer takes {len(sizes)} indices, {len(sizes)} numbers in "
                f"[0, 1] or {sum(sizes)} weights per sample. Got {given.shape[1]}."
            )
        if given.is_floating_point():
            self._check_numbers(given)
            columns = given.to(self.background.dtype).unbind(1)
            chosen = (_interpolation(at * (size - 1), size) for at, size in zip(columns, sizes))
            return list((torch.cat(list(chosen), dim=1) @ self.between).split(sizes, dim=1))
        for factor, (column, size) in enumerate(zip(given.unbind(1), sizes)):
            if column.numel() and (column.min() < 0 or column.max() >= size):
                worst = int(column.min() if column.min() < 0 else column.max())
                raise InputError(f"Factor {factor} has values 0 … {size - 1}. Got index {worst}.")
        chosen = (F.one_hot(column, size) for column, size in zip(given.long().unbind(1), sizes))
        return list((torch.cat(list(chosen), dim=1).to(self.background.dtype) @ self.between).split(sizes, dim=1))

    def _check_numbers(self, given: Float[Tensor, "batch _factor"]) -> None:
        """Raise if numbers are beyond [0, 1] by more than half, such as indices that are not integers."""
        if _differentiated(given) or not given.numel():
            return
        least, most = given.min(), given.max()
        if least < -0.5 or most > 1.5:
            worst = float(least if least < -0.5 else most)
            raise InputError(
                f"One number per factor must lie in [0, 1], from the first to the last value. Got {worst:g}. Pass "
                "indices as integers (.long())."
            )

    def pictures(
        self, weights: Sequence[Float[Tensor, "batch _value"]]
    ) -> Float[Tensor, "batch term channel row column"]:
        """The terms without background and contrast."""
        gain, image = self._parts(weights)
        return gain[..., None, None] * image.unsqueeze(2)

    def blended(self, weights: Sequence[Float[Tensor, "batch _value"]]) -> Float[Tensor, "batch channel row column"]:
        """The terms on the background, without contrast."""
        if self.blend == "add":
            return self.background + self.pictures(weights).sum(1)
        gain, opacity = self._parts(weights)
        colours = self.background.mean((-2, -1)) + gain
        image = self.background.unsqueeze(0)
        for term in range(self.terms):
            image = image + opacity[:, term].unsqueeze(1) * (colours[:, term, :, None, None] - image)
        return image

    def background_shown(self, weights: Sequence[Float[Tensor, "batch _value"]]) -> Float[Tensor, "channel row column"]:
        """The largest share that the background has in each pixel of any image; ones if terms add up."""
        if self.blend == "add":
            return torch.ones_like(self.background)
        _, opacity = self._parts(weights)
        return (1 - opacity).prod(1).amax(0).expand_as(self.background)

    def _parts(
        self, weights: Sequence[Float[Tensor, "batch _value"]]
    ) -> tuple[Float[Tensor, "#batch term channel"], Float[Tensor, "#batch term row column"]]:
        """The colour and the image of each term."""
        image = self._convolved(weights) if self.kernels else (self.drawing + self.identity).unsqueeze(0)
        for block, deviations in zip(weights, self.maps):
            image = image * (1 + _mixed(block, deviations))
        gain = (1 + self.colours).unsqueeze(0)
        for block, deviations in zip(weights, self.gains):
            gain = gain * (1 + _mixed(block, deviations))
        return gain, image

    def _convolved(self, weights: Sequence[Float[Tensor, "batch _value"]]) -> Float[Tensor, "batch term row column"]:
        rows, columns = self.identity.shape
        if not len(weights[0]):  # torch transforms no empty batch
            return self.drawing.new_zeros(0, self.terms, rows, columns)
        dot = torch.fft.rfft2(self.identity, s=self.grid)
        # every kernel's origin is the image's centre, so that the product is off by a centre per factor
        off = [-len(self.kernels) * (side // 2) for side in (rows, columns)]
        padded = F.pad(self.drawing + self.identity, (0, self.grid[1] - columns, 0, self.grid[0] - rows))
        spectrum = torch.fft.rfft2(padded.roll(off, dims=(-2, -1))).unsqueeze(0)
        own_weights, which = list(weights), None
        if self.warps is not None and not any(_differentiated(block) for block in weights):
            own_weights, which = self._distinct(weights)
        for block, deviations in zip(own_weights, self.kernels):
            own = torch.view_as_real(torch.fft.rfft2(deviations, s=self.grid))
            spectrum = spectrum * (dot + torch.view_as_complex(_mixed(block, own)))
        if self.warps is not None:
            image = torch.fft.irfft2(spectrum, s=self.grid)[..., :rows, :columns]
            warps = _mixed(torch.cat(own_weights, dim=1), self.warps)
            image = warped(image.expand(len(warps), -1, -1, -1).flatten(0, 1), warps.flatten(0, 1))
            spectrum = torch.fft.rfft2(image.unflatten(0, (-1, self.terms)), s=self.grid)
            spectrum = spectrum if which is None else spectrum[which]
        spectrum = spectrum * shift_phases(_mixed(torch.cat(list(weights), dim=1), self.shifts), self.grid)
        return torch.fft.irfft2(spectrum, s=self.grid)[..., :rows, :columns]

    def _distinct(self, weights: Sequence[Float[Tensor, "batch _value"]]) -> tuple[list[Tensor], Tensor]:
        """The distinct weights of all factors that draw or warp, and which of them each sample has. Images that differ
        only in a shift are warped once. The weights of the other factors, whose kernels are all zero, are zeros."""
        assert self.warps is not None
        acts = [bool(own.any() or self.warps_of(k).any()) for k, own in enumerate(self.kernels)]
        blocks = [block if own else torch.zeros_like(block) for block, own in zip(weights, acts)]
        joined = torch.cat(blocks, dim=1)
        _, which = joined.detach().round(decimals=6).unique(dim=0, return_inverse=True)
        last = which.new_full((int(which.max()) + 1,), len(which))
        first = last.scatter_reduce(0, which, torch.arange(len(which)).to(which), "amin")
        return list(joined[first].split(self.factor_sizes, dim=1)), which

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Fill in what was not saved before shifts and other codes than one-hot ones existed."""
        alone = torch.eye(sum(self.factor_sizes))
        for name, value in (("shifts", torch.zeros_like(self.shifts)), ("entries", alone), ("between", alone)):
            state_dict.setdefault(prefix + name, value)
        saved = state_dict.get(prefix + "warps")
        self.warps = None if saved is None else torch.zeros_like(saved).to(self.shifts)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, given: Tensor) -> Float[Tensor, "batch ..."]:
        """Images of indices or codes, see `weights`."""
        image = self.contrast * self.blended(self.weights(given))
        return image.squeeze(1) if len(self.image_shape) == 2 else image


def _behind(images: Float[Tensor, "image channel row column"]) -> Float[Tensor, "channel row column"]:
    """The background of opaque objects: the one colour of all pixels that never change, or the median of each pixel.

    At a pixel that some object always covers, the median is an object."""
    median = images.median(0).values
    still = median[:, (images == images[:1]).all(0).all(0)]
    flat = still.numel() > 0 and bool((still == still[:, :1]).all())
    return still[:, :1, None].expand_as(median) if flat else median


def _differentiated(weights: Float[Tensor, "batch _value"]) -> bool:
    """Whether derivatives with respect to weights are taken, or functions of them are vectorized: samples with equal
    weights may then differ."""
    forward = torch.autograd.forward_ad.unpack_dual(weights).tangent is not None
    return weights.requires_grad or forward or is_transformed(weights)


def _mixed(weights: Float[Tensor, "batch _value"], own: Float[Tensor, "_value ..."]) -> Float[Tensor, "batch ..."]:
    return (weights @ own.flatten(1)).unflatten(1, own.shape[1:])


def _interpolation(at: Float[Tensor, " batch"], size: int) -> Float[Tensor, "batch _value"]:
    """Weights of the two nearest values, linear in between. The derivative at a value, where the slope changes, is the
    mean of the slopes on both sides; that at the first and the last value is the slope inside."""
    values = torch.arange(size, dtype=at.dtype, device=at.device)
    here = at.detach()
    below, above = here - NEAR, here + NEAR
    sides = (torch.where(below < 0, above, below), torch.where(above > size - 1, below, above))
    away = [side.unsqueeze(1) - values for side in sides]
    slopes = sum(-side.sign() * (side.abs() < 1) for side in away) / len(away)
    weights = (1 - (here.unsqueeze(1) - values).abs()).clamp(min=0)
    return weights + slopes * (at - here).unsqueeze(1)


def _quick_side(side: int) -> int:
    """The next number without large prime factors."""
    while True:
        rest = side
        for prime in PRIMES:
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return side
        side += 1


def _check_tints(images: Float[Tensor, "image channel row column"], terms: int) -> None:
    """Raise unless images differ only in the gains of as many pictures as there are terms."""
    apart = (images - images.mean(0)).flatten(2).transpose(0, 1)  # (channel, image, pixel)
    energies = torch.linalg.svdvals(apart).square()
    total = energies.sum()
    if total > 0 and energies[:, :terms].sum() < TINTED * total:
        raise InputError(
            f"With operators=['gain'], factors can only tint {terms} fixed {'image' if terms == 1 else 'images'}, but "
            f"gains explain only {float(energies[:, :terms].sum() / total):.0%} of the differences between the "
            "training images. Add 'kernel' if factors move or draw, or 'map' if they draw.",
            "operators",
        )


def _check(sizes: Sequence[int], shape: Sequence[int], terms: int, operators: Sequence[str]) -> None:
    if image_axes(tuple(shape)) is None or min(shape) < 1:
        raise InputError(
            f"image_shape must be (row, column) or (channel, row, column). Got {tuple(shape)}.", "image_shape"
        )
    if "kernel" in operators and max(shape[-2:]) < SMALLEST_SIDE:
        raise InputError(
            f"Kernels require at least {SMALLEST_SIDE} pixels along one axis of the image. Got {shape[-2]} × "
            f"{shape[-1]}. Omit the kernels: operators=['gain', 'map'].",
            "operators",
        )
    if not len(sizes) or min(sizes) < 1:
        raise InputError(f"A composer needs at least one factor with at least one value. Got {list(sizes)}.")
    if terms < 1:
        raise InputError(f"A composer needs at least one term. Got {terms}.", "terms")
    strange = [kind for kind in operators if kind not in OPERATORS]
    if strange or not operators or len(set(operators)) < len(operators):
        raise InputError(
            f"operators must be among {', '.join(OPERATORS)}, each at most once. Got {list(operators)}.", "operators"
        )
