"""Binary cross-entropy, for outputs and targets in [0, 1]."""

from __future__ import annotations

from torch import Tensor

from recombine.core.errors import InputError
from recombine.training.losses.loss import LOSSES, Loss

SMALLEST = 1e-7  # outputs are kept this far from 0 and 1


@LOSSES.register("bce")
class BCE(Loss):
    """−t ln o − (1 − t) ln (1 − o), averaged over the entries of an example.

    The outputs o must be probabilities, not logits: the model must end in a sigmoid, like the decoder `deconv`.
    """

    def __init__(self) -> None: ...

    def per_example(self, outputs: Tensor, targets: Tensor) -> Tensor:
        inside = outputs.clamp(SMALLEST, 1 - SMALLEST)
        return -(targets * inside.log() + (1 - targets) * (1 - inside).log()).flatten(1).mean(1)

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        for what, numbers, advice in (
            ("outputs", outputs, "End the model with a sigmoid, like decoder.kind=deconv, or choose another loss."),
            ("targets", targets, "Scale the images to [0, 1], or choose another loss."),
        ):
            if bool((numbers < 0).any() | (numbers > 1).any()):
                low, high = float(numbers.min()), float(numbers.max())
                raise InputError(
                    f"The loss 'bce' requires {what} in [0, 1]. Got values from {low:.3g} to {high:.3g}. {advice}",
                    "training.loss",
                )
