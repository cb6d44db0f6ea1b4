"""Fits a model with composers to images by L-BFGS, over the entries of its composers that are free.

fit = ExactFit(inputs, images, energy, iterations=100, tolerance=1e-16)
error = fit(model, simplify(model.composer))            # in units of the images' energy
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recombine.models.composed.composer import FactorComposer

HISTORY = 100  # gradients that L-BFGS remembers
STUCK = 1e-16  # change of the error, in units of the images' energy, at which the fit ends


class _Reached(Exception):
    """The error is small enough."""


@dataclass(frozen=True)
class ExactFit:
    """Minimizes the squared error on images.

    Attributes:
        inputs, images: Of trained examples.
        energy: Unit of the error.
        iterations: Of L-BFGS.
        tolerance: Error at which the fit ends.
        penalty: Added to the error while it is minimized.
    """

    inputs: Tensor
    images: Tensor
    energy: float
    iterations: int
    tolerance: float
    penalty: Callable[[nn.Module], Tensor] | None = None

    def __call__(self, model: nn.Module, free: Mapping[Tensor, Tensor]) -> float:
        """Fit a model in place.

        Args:
            model: The model.
            free: For tensors of its composers, ones at the entries to fit and zeros at the others. Parameters that
                are not named are fitted, and so are shifts and warps that have free entries.

        Returns:
            The mean squared error, in units of `energy`.
        """
        buffers = [own for composer in composers_of(model) for own in (composer.shifts, composer.warps)]
        shifts = [own.requires_grad_() for own in buffers if own is not None and own in free and free[own].any()]
        parameters = [p for p in model.parameters() if p.requires_grad and (p not in free or free[p].any())] + shifts
        optimizer = torch.optim.LBFGS(
            parameters,
            max_iter=self.iterations,
            history_size=HISTORY,
            tolerance_grad=0,
            tolerance_change=STUCK,
            line_search_fn="strong_wolfe",
        )

        def closure() -> Tensor:
            loss = (model(self.inputs) - self.images).square().mean() / self.energy
            if self.penalty is not None:
                loss = loss + self.penalty(model)
            if loss.detach() <= self.tolerance:
                raise _Reached
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True)):
                parameter.grad = gradient * free[parameter] if gradient is not None and parameter in free else gradient
            return loss.detach()

        try:
            optimizer.step(closure)  # pyright: ignore[reportArgumentType] (torch's stubs ask for a float)
        except _Reached:  # the parameters are those of the last evaluation
            pass
        finally:
            for own in shifts:
                own.requires_grad_(False)
        return self.error(model)

    def error(self, model: nn.Module) -> float:
        return mean_squared_error(model, self.inputs, self.images) / self.energy


def composers_of(model: nn.Module) -> list[FactorComposer]:
    """The composers with kernels that a model has."""
    return [module for module in model.modules() if isinstance(module, FactorComposer) and module.kernels]


def mean_squared_error(model: nn.Module, inputs: Tensor, images: Tensor) -> float:
    with torch.no_grad():
        return float((model(inputs) - images).square().mean())
