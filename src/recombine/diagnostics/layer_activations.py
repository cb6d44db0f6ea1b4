"""One layer over the grid, with the quantities that several parts share: variance components and Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.model.grid_activations import LayerRows, stream
from recombine.diagnostics.model.layers import OUT, Layer
from recombine.diagnostics.numerics.anova import Term, variance_components
from recombine.diagnostics.numerics.probes import Features, features_of_rows


@dataclass(frozen=True, eq=False)
class LayerActivations:
    """The activations of one layer at every cell. Passed to every layerwise part, then freed.

    Attributes:
        layer: Its name and shape.
        found: Its activations, possibly of a sample of its units only.
        inputs: The inputs of the diagnosis.
    """

    layer: Layer
    found: LayerRows
    inputs: DiagnosisInputs
    _features: dict[bytes, Features] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.layer.name

    @property
    def rows(self) -> Shaped[Tensor, "cell unit"]:
        return self.found.rows

    @property
    def units(self) -> int:
        """The number of units of the layer, including those that were not sampled."""
        return self.found.units

    @property
    def drawn(self) -> Int[Tensor, " unit"] | None:
        """Indices of the sampled units, ascending; None for all units."""
        return self.found.drawn

    @cached_property
    def components(self) -> tuple[list[Term], Float[Tensor, "term unit"]]:
        """The variance of every unit by set of factors."""
        return variance_components(self.rows, self.inputs.space)

    def features(self, cells: Int[Tensor, " cell"]) -> Features:
        """The activations at some cells up to rotation and shift: rows, or the Gram matrix of a wide layer."""
        key = cells.numpy().tobytes()
        if key not in self._features:
            self._features[key] = features_of_rows(self.rows[cells])
        return self._features[key]

    def unit_number(self, row: int) -> int:
        """Converts the index of a unit in `rows` (memory order) to its index in the flattened activation."""
        place = row if self.drawn is None else int(self.drawn[row])
        shape, order = self.layer.shape, self.layer.memory_order
        if self.name == OUT or not shape:
            return place
        indices = np.unravel_index(place, [shape[axis] for axis in order])
        return int(np.ravel_multi_index([indices[order.index(axis)] for axis in range(len(shape))], shape))


def layers_of(inputs: DiagnosisInputs) -> Iterator[LayerActivations]:
    """Every chosen layer, from memory or with as many layers per forward pass as the memory allows."""
    subject = inputs.subject
    held = inputs.held
    found = stream(subject, memory=inputs.request.memory // 4, seed=inputs.seed) if held is None else held.items()
    for name, rows in found:
        yield LayerActivations(subject.layers[name], rows, inputs)
