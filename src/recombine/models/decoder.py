"""The interface of decoders: seeded weights, named layers, saving and loading."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.core.errors import InputError, StoreError
from recombine.core.files import read_json, read_tensors, write_json, write_tensors
from recombine.core.images import image_axes
from recombine.core.limits import check_sizes
from recombine.core.registry import Family
from recombine.core.task import Shapes, Task
from recombine.models.activations import capture, nonlinearities

DECODERS = Family("decoder", (Task, Shapes))
D = TypeVar("D", bound="Decoder")


class Decoder(nn.Module):
    """A network from code (batch, code) to output (batch, *output_shape): an image or a vector.

    Layer l, the activation after the l-th nonlinearity, is the output of the module named `layers.l.act`.

    Attributes:
        stacks: Whether several seeds train faster together, as one batched program, than one after the other.
        inverse: Whether the network maps images to codes.
        fast_paths: Methods that compute the same as `forward`, but faster (see `recombine.models.fast_paths.choice`).
            `training_forward(inputs)` has first derivatives in reverse mode only. `stacked_forward(parameters, inputs)`
            computes several seeds together, from stacked parameters by name and inputs (seed, batch, …) to outputs
            (seed, batch, …). Fast paths are not inherited.
    """

    config: dict[str, Any]
    kind: ClassVar[str]
    stacks: ClassVar[bool] = False
    inverse: ClassVar[bool] = False
    fast_paths: ClassVar[tuple[str, ...]] = ()
    built_parts: list[tuple[Any, ...]]

    def __init__(self, shapes: Task | Shapes) -> None:
        super().__init__()
        self.shapes = shapes.shapes if isinstance(shapes, Task) else shapes

    @property
    def image_axes(self) -> tuple[int, int, int]:
        """(channels, rows, columns) of the image. Raises if the output is not an image."""
        axes = image_axes(self.shapes.output_shape)
        if axes is None:
            raise InputError(
                f"{type(self).__name__} requires images of shape (row, column) or (channel, row, column). Got outputs "
                f"of shape {self.shapes.output_shape}. Use decoder.kind=mlp, which supports any shape.",
                "decoder.kind",
            )
        return axes

    def as_output(self, image: Float[Tensor, "batch channel row column"]) -> Float[Tensor, "batch ..."]:
        """An image in the shape of the task's outputs, which may have no channel axis."""
        return image.squeeze(1) if len(self.shapes.output_shape) == 2 else image

    def describe(self, names: Sequence[str]) -> dict[str, dict[str, list[float]]]:
        """Quantities of the trained network to report besides its scores: quantity → factor → one number per value.

        Args:
            names: Names of the factors.
        """
        return {}

    def initialize(self: D, seed: int) -> D:
        """Set all weights to the initial weights of a seed. torch's global random state is left unchanged."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            for module in self.modules():
                if module is not self and hasattr(module, "reset_parameters"):
                    module.reset_parameters()  # type: ignore[operator]
        return self

    def activations(self, inputs: Float[Tensor, "batch ..."]) -> dict[str, Tensor]:
        """Every layer's activation: "in", "1", "2", …, "out"."""
        names = nonlinearities(self)
        with capture(self, names) as seen:
            out = self(inputs)
        return {"in": inputs, **{str(i): seen[name] for i, name in enumerate(names, 1)}, "out": out}

    def check_input(self, given: Tensor, expected: tuple[int, ...], what: str) -> None:
        """Raise `InputError` unless `given` has shape (batch, *expected)."""
        if tuple(given.shape[1:]) != expected:
            raise InputError(
                f"This {type(self).__name__} takes {what} of shape (batch, {', '.join(map(str, expected))}). "
                f"Got {tuple(given.shape)}. Build it from the task that provides its {what}."
            )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors; `recombine.models.decoders.load` or `from_pretrained` reads them."""
        folder = Path(folder)
        write_tensors(folder / "model.safetensors", self.state_dict())
        write_json(
            folder / "config.json",
            {
                "shapes": {k: list(v) if isinstance(v, tuple) else v for k, v in self.shapes._asdict().items()},
                **self.config,
            },
        )

    @classmethod
    def from_pretrained(cls: type[D], folder: str | Path) -> D:
        """Read what `save_pretrained` wrote."""
        model = load(folder)
        if not isinstance(model, cls):
            raise StoreError(f"{folder} contains a {type(model).__name__}, not a {cls.__name__}.")
        return model


def _numbers(settings: dict[str, Any], shapes: Shapes) -> int:
    """The number of parameters of a decoder, computed without allocating them; 0 if unknown."""
    with torch.device("meta"):
        try:
            return sum(p.numel() for p in DECODERS.build(settings, shapes).parameters())
        except RuntimeError:  # its constructor looks at numbers, which are not there
            return 0


def load(folder: str | Path) -> Decoder:
    """Load a decoder of any kind that `save_pretrained` wrote, in evaluation mode. Nothing there is executed."""
    folder = Path(folder)
    config = read_json(folder / "config.json")
    tensors, _ = read_tensors(folder / "model.safetensors")
    try:
        given = config["shapes"]
        output_shape, factor_sizes = (tuple(map(int, given[key])) for key in ("output_shape", "factor_sizes"))
        shapes = Shapes(int(given["code_size"]), output_shape, factor_sizes)
        if not output_shape or min(shapes.code_size, *output_shape, *factor_sizes) < 1:
            raise ValueError(f"shapes must be at least 1, got {shapes}")
        settings = {k: v for k, v in config.items() if k != "shapes"}
        check_sizes(settings, "decoder")
        told, held = _numbers(settings, shapes), sum(t.numel() for t in tensors.values())
        if told > held:  # before anything of that size is made
            raise StoreError(
                f"{folder / 'model.safetensors'} does not fit its config.json: it has {held} numbers, but such a "
                f"decoder has {told}."
            )
        model: Decoder = DECODERS.build(settings, shapes)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, RuntimeError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{folder / 'config.json'} does not describe a decoder: {error}") from error
    model.to(next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.get_default_dtype()))
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise StoreError(f"{folder / 'model.safetensors'} does not fit its config.json: {error}") from error
    return model.eval()
