"""The parts of a diagnosis that look inside the model: geometry, probes, tuning, complexity and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.seeds import generator
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.model.grid_activations import LayerRows, stream
from recombine.diagnostics.model.layers import OUT
from recombine.diagnostics.numerics.anova import variance_components
from recombine.diagnostics.numerics.embeddings import EXACT_SIDE, NEIGHBOURS, NO_UMAP, embed_umap, with_signs
from recombine.diagnostics.numerics.geometry import TANGENT_MEMORY, metric_tensor_exact, metric_tensor_finite_difference
from recombine.diagnostics.numerics.grids import draw_cells
from recombine.diagnostics.numerics.partial_factorization import grouping_of, partial_factorization
from recombine.diagnostics.numerics.probes import (
    MOST_CELLS,
    Features,
    features_of_rows,
    linear_probes,
    probes_of_features,
)
from recombine.diagnostics.numerics.tuning import TuningCurves, tuning_curves, unit_maps
from recombine.diagnostics.output_parts import distribution_rows, function_rows

LAYERWISE = ("probes", "tuning", "complexity", "embeddings")
TYPICAL_UNITS = 4
SAMPLED_UNITS = 128  # kept with their maps, for looking through
SAMPLED_NUMBERS = 2**21  # in the maps of one layer, at most
DIMENSIONS = 3
SHAPES: tuple[Literal["stripe", "bump"], ...] = ("stripe", "bump")


def geometry_part(inputs: DiagnosisInputs) -> PartResult:
    """The metric tensor of every layer, and the scores read off it on ID and OOD cells."""
    given = (inputs.model, inputs.space, inputs.encode)
    if inputs.geometry == "exact":
        within = min(inputs.memory, TANGENT_MEMORY)
        found = metric_tensor_exact(*given, layers=inputs.layers, memory=within)
    else:
        found = metric_tensor_finite_difference(*given, layers=inputs.layers, memory=inputs.memory)
    arrays = {f"metric/{name}": layer.metric for name, layer in found.layers.items()}
    arrays |= {f"log_volume/{name}": layer.log_volume for name, layer in found.layers.items()}
    facts = {"method": found.method, "derivative_method": found.derivative_method, "cells_at_once": found.cells_at_once}
    return PartResult("geometry", {"layers": found.rows(inputs.masks)}, arrays, facts)


class LayerStudy:
    """Collects what is found out about one layer after the other, so that each is computed once."""

    def __init__(self, inputs: DiagnosisInputs, wanted: Collection[str]) -> None:
        self.inputs, self.wanted = inputs, wanted
        whole = inputs.space.n_factors >= 1 and len(inputs.space) <= MOST_CELLS
        self.shared = whole and inputs.held is not None  # then probes and embeddings use one Gram matrix
        self.parts = {name: PartResult(name) for name in LAYERWISE if name in wanted}
        self.features: dict[str, Features] = {}
        self.order = _id_first(inputs)
        self.drawn: dict[str, str] = {}

    def run(self, tell: Callable[[str], None]) -> dict[str, PartResult]:
        """Go through all layers; `tell` hears the name of each."""
        inputs = self.inputs
        alone = "probes" in self.wanted and not self.shared
        if alone:
            tell("probes")
            self._absorb("probes", lambda: self._probes_alone())
        others = [name for name in self.parts if name != "probes"]
        if others or self.shared:
            for name, found in self._layers():
                tell(f"layer {name}")
                self._study(name, found)
        if "probes" in self.wanted and self.shared:
            self._absorb("probes", lambda: self._probes_shared())
        if "complexity" in self.parts:
            part = self.parts["complexity"]
            for table, found in (("functions", function_rows), ("distributions", distribution_rows)):
                part.tables[table], missing = found(inputs)
                part.missing.update(missing)
        for part in self.parts.values():
            if self.drawn and part.name != "probes":
                part.facts["drawn"] = self.drawn
            if part.computed and not any(part.tables.values()):
                part.missing[part.name] = "; ".join(dict.fromkeys(part.missing.values())) or "no layer could be studied"
        return self.parts

    def _layers(self) -> Iterable[tuple[str, LayerRows]]:
        inputs = self.inputs
        if inputs.held is not None:
            return [(name, inputs.held[name]) for name in inputs.subject.layers]
        return stream(inputs.subject, memory=inputs.memory // 4, seed=inputs.seed)

    def _absorb(self, name: str, work: Callable[[], PartResult]) -> None:
        try:
            self.parts[name] = work()
        except InputError as error:
            self.parts[name] = PartResult.absent(name, str(error))

    def _probes_alone(self) -> PartResult:
        m = self.inputs
        found = linear_probes(m.model, m.space, m.encode, m.holdout, layers=m.layers, seed=m.seed, memory=m.memory // 2)
        return self._probe_part(found)

    def _probes_shared(self) -> PartResult:
        m = self.inputs
        units = {name: layer.units for name, layer in m.subject.layers.items()}
        n_id = len(m.space) if m.holdout is None else m.holdout.n_id
        return self._probe_part(probes_of_features(self.features, units, m.space, self.order, n_id, seed=m.seed))

    def _probe_part(self, found: Any) -> PartResult:
        rows = [asdict(probe) for probe in found.table]
        facts = {"cells": len(found.cells), "grid_cells": found.grid_cells, "drawn": found.subsampled}
        missing = {f"{r['score']} of {r['factor']}": r["missing"] for r in rows if r["missing"]}
        arrays = {"cells": found.cells, **{f"error/{name}": a.astype(np.float32) for name, a in found.errors.items()}}
        return PartResult("probes", {"scores": rows}, arrays, facts, missing)

    def _study(self, name: str, found: LayerRows) -> None:
        """All parts that are read off one layer's activations."""
        if found.drawn is not None:
            self.drawn[name] = f"{len(found.drawn)} of {found.units} units, drawn by seed"
        space, rows = self.inputs.space, found.rows
        components = None
        if space.n_factors > 1 and {"tuning", "complexity"} & set(self.wanted):
            components = variance_components(rows, space)
        for part, study in (("tuning", self._tuning), ("complexity", self._grouping)):
            if part in self.parts:
                try:
                    study(name, found, components)
                except InputError as error:
                    self.parts[part].missing[name] = str(error)
        if ("probes" in self.parts and self.shared) or "embeddings" in self.parts:
            self._features(name, rows)

    def _tuning(self, name: str, found: LayerRows, components: Any) -> None:
        part, space = self.parts["tuning"], self.inputs.space
        curves = tuning_curves(found.rows, space, components=components)
        summary = asdict(curves.summary())
        preferred = summary.pop("preferred")
        part.tables.setdefault("layers", []).append(
            {"layer": name, **summary, **{f"prefers_{factor}": share for factor, share in preferred.items()}}
        )
        part.arrays[f"stripe/{name}"] = curves.stripe.astype(np.float32)
        part.arrays[f"bump/{name}"] = curves.bump.astype(np.float32)
        for kind in SHAPES:
            units = curves.most_typical(kind, TYPICAL_UNITS, strong=True)
            part.arrays[f"{kind} maps/{name}"] = unit_maps(found.rows, space, units)
            index = getattr(curves, kind)
            part.tables.setdefault("typical", []).extend(
                {"layer": name, "kind": kind, "index": float(index[unit]), "unit": self._own_number(name, found, unit)}
                for unit in units.tolist()
            )
            for factor, curve in curves.marginals.items():
                part.arrays[f"{kind} marginals of {factor}/{name}"] = curve[units]
        self._sample(name, found, curves)

    def _sample(self, name: str, found: LayerRows, curves: TuningCurves) -> None:
        """Keep the maps of the most typical units and of a seeded draw of the others."""
        part, space, count = self.parts["tuning"], self.inputs.space, found.rows.shape[1]
        most = max(1, min(SAMPLED_UNITS, SAMPLED_NUMBERS // len(space)))
        typical = [unit for kind in SHAPES for unit in curves.most_typical(kind, TYPICAL_UNITS, strong=True).tolist()]
        drawn = torch.randperm(count, generator=generator(self.inputs.seed, "sampled units", name)).tolist()
        units = sorted(list(dict.fromkeys([*typical, *drawn]))[:most])
        part.arrays[f"sampled maps/{name}"] = unit_maps(found.rows, space, units).astype(np.float32)
        part.tables.setdefault("sampled", []).extend(
            {"layer": name, "unit": self._own_number(name, found, unit), "stripe": float(curves.stripe[unit]),
             "bump": float(curves.bump[unit]), "variance": float(curves.variance[unit]), "of_units": found.units}
            for unit in units
        )  # fmt: skip

    def _own_number(self, name: str, found: LayerRows, row: int) -> int:
        """The unit's place in its flattened activation, from its place among the rows, which is that in memory."""
        place = row if found.drawn is None else int(found.drawn[row])
        layer = self.inputs.subject.layers[name]
        if name == OUT or not layer.shape:
            return place
        indices = np.unravel_index(place, [layer.shape[axis] for axis in layer.memory_order])
        return int(np.ravel_multi_index([indices[layer.memory_order.index(a)] for a in range(len(layer.shape))],
                                        layer.shape))  # fmt: skip

    def _grouping(self, name: str, found: LayerRows, components: Any) -> None:
        part, space = self.parts["complexity"], self.inputs.space
        expansion = partial_factorization(found.rows, space, components=components)
        row: dict[str, Any] = {"layer": name, "units": found.units}
        row |= {f"up_to_{order}": float(share) for order, share in enumerate(expansion.cumulative, 1)}
        if space.n_factors > 1:
            grouping = grouping_of(expansion)
            groups = " ".join("{" + ",".join(group) + "}" for group in grouping.groups)
            row |= {"grouping": groups, "grouping_score": grouping.score, "tolerance": grouping.tolerance}
        part.tables.setdefault("layers", []).append(row)
        part.tables.setdefault("terms", []).extend(
            {"layer": name, "term": ",".join(term), "order": len(term), "theta": float(theta)}
            for term, theta in zip(expansion.terms, expansion.theta)
        )

    def _features(self, name: str, rows: Tensor) -> None:
        """Features for the probes, and the embedding from the same matrix."""
        m = self.inputs
        cells = self.order
        if len(m.space) > EXACT_SIDE and rows.shape[1] > EXACT_SIDE:
            cells = _embedded_cells(m)
        features = features_of_rows(rows[cells])
        if self.shared:
            self.features[name] = features
        if "embeddings" in self.parts:
            self._embed(name, features, cells)

    def _embed(self, name: str, features: Features, cells: Int[Tensor, " cell"]) -> None:
        part, space = self.parts["embeddings"], self.inputs.space
        scores = _scores(features)
        total = float(scores.square().sum())
        if total == 0:  # also if there is no direction at all
            part.missing[name] = "the activations do not vary"
            return
        shares = (scores.square().sum(0) / total).tolist()
        points = {"pca": torch.nn.functional.pad(scores, (0, max(0, DIMENSIONS - scores.shape[1])))[:, :DIMENSIONS]}
        if find_spec("umap") is None:
            part.missing["umap"] = NO_UMAP.removesuffix("; this is PCA.") + "."
        elif len(cells) < len(space) or len(space) <= NEIGHBOURS:
            part.missing["umap"] = "the grid is too large or too small"
        else:
            try:
                found = embed_umap(scores[self.order.argsort()], space, seed=self.inputs.seed)
                points["umap"] = torch.from_numpy(found.points)[self.order]
            except InputError as error:  # installed, and yet not to be imported
                part.missing["umap"] = str(error)
        for method, place in points.items():
            part.arrays[f"{method}/{name}"] = place.numpy()
        part.arrays["cells"] = cells.numpy()
        explained = {f"explained_{i + 1}": share for i, share in enumerate([*shares, 0.0, 0.0, 0.0][:DIMENSIONS])}
        part.tables.setdefault("layers", []).append({"layer": name, "cells": len(cells), **explained})


def _scores(features: Features) -> Float[Tensor, "cell dimension"]:
    """All principal component scores, largest first, with the signs of `embed_pca`; none if nothing varies."""
    whole = features.whole
    order = whole.sizes.argsort(descending=True)
    order = order[whole.sizes[order].square() > 1e-13 * whole.sizes.square().sum()]
    return with_signs(whole.left[:, order] * whole.sizes[order])


def _id_first(inputs: DiagnosisInputs) -> Int[Tensor, " cell"]:
    if inputs.holdout is None:
        return torch.arange(len(inputs.space))
    return torch.cat([inputs.holdout.id_cells, inputs.holdout.ood_cells])


def _embedded_cells(inputs: DiagnosisInputs) -> Int[Tensor, " cell"]:
    """As many cells as an exact embedding allows, drawn by seed."""
    if inputs.holdout is not None:
        return draw_cells(inputs.holdout, EXACT_SIDE, seed=inputs.seed)
    order = torch.randperm(len(inputs.space), generator=generator(inputs.seed, "cells"))
    return order[:EXACT_SIDE].sort().values
