"""What is minimized: a loss plus loss terms; for one model or for several seeds at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.module import _has_any_global_hook

from recombine.core.errors import InputError
from recombine.models.decoders import Decoder
from recombine.training.loss_terms.term import Batch, LossTerm
from recombine.training.losses import Loss


class Objective(nn.Module):
    """Loss of one batch under one model: the column of the total, of the loss itself and of each term."""

    def __init__(self, model: nn.Module, loss: Loss, terms: Sequence[LossTerm]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.terms = tuple(terms)

    @property
    def names(self) -> list[str]:
        return ["loss", self.loss.name, *(term.name for term in self.terms)]

    def forward(
        self,
        inputs: Tensor,
        targets: Tensor,
        progress: float,
        outputs: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Float[Tensor, " column"]:
        """The columns; the model is not called if its outputs are given."""
        if outputs is None:
            outputs = self.model(inputs)
        assert outputs is not None
        error = self.loss(outputs, targets, weights)
        batch = Batch(inputs, targets, outputs, progress)
        extra = [_number(term.name, term(self.model, batch)) for term in self.terms]
        total = torch.stack([error, *extra]).sum() if extra else error
        return torch.stack([total, error, *extra])


def _number(name: str, value: object) -> Float[Tensor, ""]:
    if not isinstance(value, Tensor) or value.ndim:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"The loss term {name!r} must give a single number as a tensor. Got {got}.")
    return value


class Single:
    """One seed: the model itself.

    A model that knows a quicker way to its outputs and their gradients has a method `training_forward(inputs)`, which
    gives what `forward` gives. The model itself is called if there are loss terms, which may want derivatives that the
    method does not have, or frozen weights, whose gradients it would compute all the same.
    """

    def __init__(self, model: nn.Module, loss: Loss, terms: Sequence[LossTerm]) -> None:
        self.objective = Objective(model, loss, terms)
        self.parameters = dict(model.named_parameters())
        self.buffers = dict(model.named_buffers())
        frozen = not all(p.requires_grad for p in model.parameters())
        self._quicker = None if terms or frozen else _quicker(model, "training_forward")

    def losses(
        self, inputs: Tensor, targets: Tensor, progress: float, weights: Tensor | None = None
    ) -> Float[Tensor, "seed column"]:
        outputs = None if self._quicker is None else self._quicker(inputs[0])
        own = None if weights is None else weights[0]
        return self.objective(inputs[0], targets[0], progress, outputs, own).unsqueeze(0)

    def outputs(self, inputs: Tensor) -> Float[Tensor, "seed batch ..."]:
        return self.objective.model(inputs).unsqueeze(0)

    def tensors(self, index: int) -> dict[str, Tensor]:
        """Parameters and buffers of a seed, sharing memory with the program's."""
        assert index == 0
        return {**self.parameters, **self.buffers}

    def seed_part(self, tensor: Tensor, index: int) -> Tensor:
        """The part of a program-wide tensor that belongs to a seed."""
        return tensor

    def mode(self, training: bool) -> None:
        self.objective.train(training)


class Stacked:
    """Several seeds: their parameters stacked along a first dimension, one vectorized program for all.

    The seeds never mix: the summed loss has block-diagonal gradients, and the optimizer is elementwise. Results equal
    those of single runs up to the rounding of batched matrix products. A model that knows a quicker way than vmap
    to run several seeds has a method `stacked_forward(parameters, inputs)`: stacked parameters by name and inputs
    (seed, batch, …) → outputs (seed, batch, …).
    """

    def __init__(self, models: Sequence[nn.Module], loss: Loss, terms: Sequence[LossTerm]) -> None:
        self.objective = Objective(copy.deepcopy(models[0]), loss, terms)
        parameters, buffers = stack_module_state([Objective(model, loss, terms) for model in models])
        trained = {name for name, p in models[0].named_parameters() if p.requires_grad}
        names = {key: key.removeprefix("model.") for key in parameters}
        self.parameters = {
            name: nn.Parameter(parameters[key].detach().clone(), requires_grad=name in trained)
            for key, name in names.items()
        }
        self.buffers = {k.removeprefix("model."): v for k, v in buffers.items()}
        self._losses = vmap(self._one_loss, in_dims=(0, 0, 0, None), randomness="different")
        self._outputs = vmap(self._one_output, in_dims=0, randomness="different")
        self._quicker = _quicker(self.objective.model, "stacked_forward")

    def _one_loss(self, p: dict, b: dict, batch: dict[str, Tensor], progress: float) -> Float[Tensor, " column"]:
        state = {f"model.{k}": v for k, v in {**p, **b}.items()}
        return functional_call(self.objective, state, (), {**batch, "progress": progress})

    def _one_output(self, p: dict, b: dict, inputs: Tensor) -> Tensor:
        return functional_call(self.objective.model, {**p, **b}, (inputs,))

    def _forward(self, inputs: Float[Tensor, "seed batch ..."]) -> Float[Tensor, "seed batch ..."]:
        if self._quicker is not None:
            return self._quicker(self.parameters, inputs)
        return self._outputs(self.parameters, self.buffers, inputs)

    def losses(
        self, inputs: Tensor, targets: Tensor, progress: float, weights: Tensor | None = None
    ) -> Float[Tensor, "seed column"]:
        outputs = self._forward(inputs)
        if not self.objective.terms:  # all seeds at once, which is quicker than under vmap
            error = self.objective.loss.of_seeds(outputs, targets, weights)
            return torch.stack([error, error], dim=1)
        batch = {"inputs": inputs, "targets": targets, "outputs": outputs}
        batch |= {} if weights is None else {"weights": weights}
        return self._losses(self.parameters, self.buffers, batch, progress)

    def outputs(self, inputs: Tensor) -> Float[Tensor, "seed batch ..."]:
        seeds = len(next(iter(self.parameters.values())))
        return self._forward(inputs.expand(seeds, *inputs.shape))

    def tensors(self, index: int) -> dict[str, Tensor]:
        return {k: v[index] for k, v in {**self.parameters, **self.buffers}.items()}

    def seed_part(self, tensor: Tensor, index: int) -> Tensor:
        return tensor[index]

    def mode(self, training: bool) -> None:
        self.objective.train(training)


def _quicker(model: nn.Module, method: str) -> Callable[..., Tensor] | None:
    """A method that does the work of `forward`, unless a class below changes what is built or computed."""
    meant = {"__init__", "__call__", "forward", method}
    owners = [owner for owner in type(model).__mro__ if meant & set(vars(owner))]
    if not owners or method not in vars(owners[0]) or not _is_as_built(model):
        return None
    return getattr(model, method)


def _is_as_built(model: nn.Module) -> bool:
    """Whether a decoder has the parts that its configuration gives it, and nothing is hooked in between."""
    if not isinstance(model, Decoder):
        return False
    if _has_any_global_hook() or any(_is_changed(module) for module in model.modules()):
        return False
    try:
        with torch.device("meta"):  # neither memory nor random numbers
            built = type(model)(model.shapes, **{key: v for key, v in model.config.items() if key != "kind"})
    except (AttributeError, TypeError):  # a subclass that is made in another way
        return False
    return _anatomy(model) == _anatomy(built)


def _is_changed(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or module._compiled_call_impl is not None


def _anatomy(model: nn.Module) -> list[object]:
    modules = [(name, type(module), module.extra_repr()) for name, module in model.named_modules()]
    return [modules, [(name, tuple(p.shape)) for name, p in model.named_parameters()]]
