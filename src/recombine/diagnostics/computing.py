"""Compute the parts of a diagnosis. Results that do not exist are marked as missing; other errors propagate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recombine.core.errors import Missing, NotComputable
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.inputs import NO_HOLDOUT, NO_TARGET, DiagnosisInputs
from recombine.diagnostics.layer_activations import LayerActivations, layers_of
from recombine.diagnostics.part import SETTINGS, LayerPart, Need, Part

Tell = Callable[[str], None]


def compute_parts(parts: Sequence[Part], inputs: DiagnosisInputs, tell: Tell) -> dict[str, PartResult]:
    """The results of some parts by name; `tell` is called before each part and layer."""
    found: dict[str, PartResult] = {}
    layerwise: list[LayerPart] = []
    for part in parts:
        unmet = _unmet_need(part, inputs)
        if unmet is not None:
            found[part.name] = PartResult.absent(part.name, *unmet)
        elif isinstance(part, LayerPart):
            layerwise.append(part)
        else:
            tell(part.name)
            found[part.name] = _computed(part, inputs)
    if layerwise:
        found |= compute_layer_parts(layerwise, inputs, tell)
    for part in parts:
        if part.settings and found[part.name].computed:
            found[part.name].facts[SETTINGS] = part.chosen(inputs.request)
    return {part.name: found[part.name] for part in parts}


def _unmet_need(part: Part, inputs: DiagnosisInputs) -> Absence | None:
    if Need.TRUTH in part.needs and inputs.truth is None:
        return Absence(Missing.NO_TRUTH, f"This part needs the truth, but {NO_TARGET}.")
    if Need.HOLDOUT in part.needs and inputs.holdout is None:
        return Absence(Missing.NO_HOLDOUT, f"This part compares held-out with trained combinations, but {NO_HOLDOUT}.")
    return None


def _computed(part: Part, inputs: DiagnosisInputs) -> PartResult:
    try:
        return part.compute(inputs)
    except NotComputable as error:
        return PartResult.absent(part.name, error.state, error.reason)


def compute_layer_parts(
    parts: Sequence[LayerPart], inputs: DiagnosisInputs, tell: Tell = lambda note: None
) -> dict[str, PartResult]:
    """Layerwise parts, all of them at one layer before the next, so that each layer is computed once."""
    found = {part.name: PartResult(part.name) for part in parts}
    drawn: dict[str, str] = {}
    for layer in layers_of(inputs):
        tell(f"layer {layer.name}")
        if layer.drawn is not None:
            drawn[layer.name] = f"{len(layer.drawn)} of {layer.units} units, sampled with the seed"
        for part in parts:
            _add_layer(found[part.name], part, layer, inputs)
    return {part.name: _finished(part, found[part.name], drawn, inputs) for part in parts}


def _add_layer(result: PartResult, part: LayerPart, layer: LayerActivations, inputs: DiagnosisInputs) -> None:
    try:
        here = part.study(layer, inputs)
    except NotComputable as error:
        result.missing[layer.name] = Absence.of(error)
        return
    for table, rows in here.tables.items():
        result.tables.setdefault(table, []).extend(rows)
    result.arrays.update(here.arrays)
    result.facts.update(here.facts)
    result.missing.update(here.missing)


def _finished(part: LayerPart, result: PartResult, drawn: dict[str, str], inputs: DiagnosisInputs) -> PartResult:
    if drawn:
        result.facts.setdefault("drawn", drawn)
    try:
        result = part.finish(result, inputs)
    except NotComputable as error:
        return PartResult.absent(part.name, error.state, error.reason)
    if result.computed and not any(result.tables.values()):
        reasons = list(dict.fromkeys(result.missing.values()))
        state = reasons[0].state if reasons else Missing.NOT_APPLICABLE
        text = "; ".join(dict.fromkeys(absence.reason for absence in reasons)) or "no layer could be analysed"
        result.missing[part.name] = Absence(state, text)
    return result
