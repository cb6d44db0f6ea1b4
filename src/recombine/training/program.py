"""The computation of losses in a step: for one model, or for several seeds stacked into one program."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from recombine.models.fast_paths.choice import fast_path
from recombine.training.loss_terms import LossTerm
from recombine.training.losses import Loss
from recombine.training.objective import Objective


class Single:
    """One seed: the model itself.

    The fast path `training_forward` is used unless there are loss terms, which may need derivatives that it lacks.
    """

    def __init__(self, model: nn.Module, loss: Loss, terms: Sequence[LossTerm]) -> None:
        self.objective = Objective(model, loss, terms)
        self.parameters = dict(model.named_parameters())
        self.buffers = dict(model.named_buffers())
        self.faster = None if terms else fast_path(model, "training_forward")

    def losses(
        self, inputs: Tensor, targets: Tensor, progress: float, weights: Tensor | None = None
    ) -> Float[Tensor, "seed column"]:
        outputs = None if self.faster is None else self.faster(inputs[0])
        own = None if weights is None else weights[0]
        return self.objective(inputs[0], targets[0], progress, outputs, own).unsqueeze(0)

    def outputs(self, inputs: Tensor) -> Float[Tensor, "seed batch ..."]:
        return self.objective.model(inputs).unsqueeze(0)

    def tensors(self, index: int) -> dict[str, Tensor]:
        """Parameters and buffers of a seed, which share memory with the program."""
        assert index == 0
        return {**self.parameters, **self.buffers}

    def seed_part(self, tensor: Tensor, index: int) -> Tensor:
        """The part of a program-wide tensor that belongs to a seed."""
        return tensor

    def mode(self, training: bool) -> None:
        self.objective.train(training)


class Stacked:
    """Several seeds: their parameters are stacked along a first dimension, in one vectorized program.

    The seeds never mix: the summed loss has block-diagonal gradients, and the optimizer is elementwise. Results equal
    those of single runs up to the rounding of batched matrix products. If the model has a fast path `stacked_forward`,
    it replaces vmap.
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
        self.faster = fast_path(self.objective.model, "stacked_forward")
        self._losses = vmap(self._one_loss, in_dims=(0, 0, 0, None), randomness="different")
        self._outputs = vmap(self._one_output, in_dims=0, randomness="different")

    def _one_loss(self, p: dict, b: dict, batch: dict[str, Tensor], progress: float) -> Float[Tensor, " column"]:
        state = {f"model.{k}": v for k, v in {**p, **b}.items()}
        return functional_call(self.objective, state, (), {**batch, "progress": progress})

    def _one_output(self, p: dict, b: dict, inputs: Tensor) -> Tensor:
        return functional_call(self.objective.model, {**p, **b}, (inputs,))

    def _forward(self, inputs: Float[Tensor, "seed batch ..."]) -> Float[Tensor, "seed batch ..."]:
        if self.faster is not None:
            return self.faster(self.parameters, inputs)
        return self._outputs(self.parameters, self.buffers, inputs)

    def losses(
        self, inputs: Tensor, targets: Tensor, progress: float, weights: Tensor | None = None
    ) -> Float[Tensor, "seed column"]:
        outputs = self._forward(inputs)
        if not self.objective.terms:  # all seeds at once, which is faster than vmap
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
