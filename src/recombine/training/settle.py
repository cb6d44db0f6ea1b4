"""The last step of training a composer: exact operators, then a fit without penalty.

    settle(model, inputs, images)                           # after a training with the penalty `Composition`

The penalty finds out what each factor does, but it also biases the operators, and a stochastic optimizer leaves noise
on entries that should be zero. `settle` replaces the operators by the exact ones that their roles name
(`recombine.models.composed.simplify`) and fits what is left to the trained images by L-BFGS, first with the background
fixed. The result is kept only if it fits the trained images at least as well as before. Held-out images play no part.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.simplify import simplify

HISTORY = 20  # gradients that L-BFGS remembers
STUCK = 1e-10  # change of the error, in units of the images' energy, at which the fit ends


@dataclass(frozen=True)
class Settled:
    """What `settle` did.

    Attributes:
        before, after: Mean squared error on the given images. `after` is that of the simplified model, kept or not.
        kept: Whether the simplified model was kept.
    """

    before: float
    after: float
    kept: bool


def settle(
    model: nn.Module, inputs: Tensor, images: Tensor, *, iterations: int = 100, tolerance: float = 1e-7
) -> Settled:
    """Simplify every `FactorComposer` of a model and fit the model to images, in place.

    Args:
        model: Any network with composers in it. One whose operators include no kernels is left as it is.
        inputs: Of trained examples, as the model takes them.
        images: Their targets. Give trained ones only.
        iterations: Of L-BFGS, with the background fixed and again with all that is not fixed.
        tolerance: The fit ends when the squared error is below this share of the images' energy.
    """
    composers = [module for module in model.modules() if isinstance(module, FactorComposer) and module.kernels]
    before = _error(model, inputs, images)
    if not composers or not iterations:
        return Settled(before, before, kept=False)
    saved = copy.deepcopy(model.state_dict())
    free: dict[nn.Parameter, Tensor] = {}
    for composer in composers:
        free |= simplify(composer)
    energy = torch.stack([composer.energy for composer in composers]).mean()
    reached = _fit(model, free, inputs, images, energy=energy, iterations=iterations, tolerance=tolerance)
    if not reached:
        for composer in composers:
            free[composer.background] = torch.ones_like(composer.background)
        _fit(model, free, inputs, images, energy=energy, iterations=iterations, tolerance=tolerance)
    after = _error(model, inputs, images)
    kept = after <= before
    if not kept:
        model.load_state_dict(saved)
    return Settled(before, after, kept)


class _Reached(Exception):
    """The error is small enough."""


def _fit(
    model: nn.Module,
    free: dict[nn.Parameter, Tensor],
    inputs: Tensor,
    images: Tensor,
    *,
    energy: Tensor,
    iterations: int,
    tolerance: float,
) -> bool:
    """Minimize the squared error over the entries that are free. Whether it came below the tolerance."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=iterations,
        history_size=HISTORY,
        tolerance_grad=0,
        tolerance_change=STUCK,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (model(inputs) - images).square().mean() / energy
        if loss.detach() <= tolerance:
            raise _Reached
        loss.backward()
        for parameter, mask in free.items():
            if parameter.grad is not None:
                parameter.grad *= mask
        return loss

    try:
        optimizer.step(closure)  # pyright: ignore[reportArgumentType] (torch's stubs ask for a float)
    except _Reached:  # the parameters are those of the last evaluation
        return True
    finally:
        optimizer.zero_grad()
    return False


def _error(model: nn.Module, inputs: Tensor, images: Tensor) -> float:
    with torch.no_grad():
        return float((model(inputs) - images).square().mean())
