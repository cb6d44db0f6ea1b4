"""A penalty that makes each factor of a composer choose a single kind of operator."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.registry import NonNegative, Share
from recombine.models.composed.composer import FactorComposer
from recombine.training.loss_terms.penalty import ModulePenalty
from recombine.training.loss_terms.term import TERMS

SMALLEST = 1e-6  # norm below which the gradient is cut off


@TERMS.register("composition")
class Composition(ModulePenalty[FactorComposer]):
    """μ · energy · [Σ over terms, factors and kinds of operators of φ(norm of the group) + s · Σ φ(|entry|)].

    The norm of a group is √(mean over values of ‖deviation from the identity‖²). It is not squared, so that unneeded
    groups vanish entirely: a hue learns to have no kernels, and a position to have no gains. The sum over the entries
    of kernels and maps (mean over values) keeps them sparse. Both are in units of the training images' energy, so that
    one weight suits all scales: see `FactorComposer.fit_background`.

    φ(a) = a / (1 + κ a), initially with κ = 0, which is a plain norm. From `sharpen_from` on, κ rises linearly to
    `sharpness`: values far from 0 are then hardly penalized, and zeros stay zero.

    Args:
        weight: μ.
        sparsity: s.
        sharpness: κ at the end of training.
        sharpen_from: Share of training after which κ rises.
        warmup, anneal_from: See ModulePenalty.
    """

    name = "composition"
    acts_on = FactorComposer
    decoder = "composed"

    def __init__(
        self,
        weight: NonNegative = 0.02,
        sparsity: NonNegative = 0.1,
        sharpness: NonNegative = 10.0,
        sharpen_from: Share = 1 / 3,
        warmup: Share = 0.0,
        anneal_from: Share = 0.9,
    ) -> None:
        super().__init__(weight, warmup, anneal_from)
        self.sparsity, self.sharpness, self.sharpen_from = sparsity, sharpness, sharpen_from

    def sharpness_at(self, progress: float) -> float:
        if progress <= self.sharpen_from:
            return 0.0
        return self.sharpness * (progress - self.sharpen_from) / (1 - self.sharpen_from)

    def of(self, module: FactorComposer, progress: float) -> Float[Tensor, ""]:
        kappa = self.sharpness_at(progress)
        groups = [_bent(_norms(own), kappa).sum() for own in (*module.kernels, *module.gains, *module.maps)]
        entries = [_bent(own.abs(), kappa).sum() / len(own) for own in (*module.kernels, *module.maps)]
        total = torch.stack(groups).sum()
        if entries:
            total = total + self.sparsity * torch.stack(entries).sum()
        return module.energy * total


def _bent(amounts: Float[Tensor, "..."], kappa: float) -> Float[Tensor, "..."]:
    """a / (1 + κ a)."""
    return amounts / (1 + kappa * amounts) if kappa else amounts


def _norms(own: Float[Tensor, "value term ..."]) -> Float[Tensor, " term"]:
    """The norm of each term's group."""
    return (own.square().flatten(2).sum(-1).mean(0) + SMALLEST**2).sqrt()
