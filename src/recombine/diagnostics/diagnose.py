"""Diagnose any decoder: what does it do with unseen combinations, and in which layers does it go wrong?

    diagnosis = recombine.diagnose(model, space, encode, holdout, target=scene)
    diagnosis.verdict                       # what the model does with unseen combinations, and why
    diagnosis.to_pandas("probes")           # a tidy table per part
    diagnosis.plot("geometry")              # a figure per part
    diagnosis.save("folder"), Diagnosis.load("folder")

The parts are the modules of `recombine.diagnostics.parts`. Results that cannot be computed are marked as missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from recombine.core.data_task import HoldoutLike, holdout_of
from recombine.core.errors import InputError, Missing
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.progress import ProgressBar
from recombine.diagnostics.computing import compute_parts
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.draws import notes_on_draws, verdict_of_draws
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.model.batches import refused_batch
from recombine.diagnostics.model.codes import Encode, Given
from recombine.diagnostics.model.grid_activations import LayerRows, collect, fits
from recombine.diagnostics.model.layers import (
    OUT,
    Subject,
    examine,
    existing_cells,
    grid_values,
    precision_of,
    spread_cells,
)
from recombine.diagnostics.model.observing import Model, keeping_weights, observing
from recombine.diagnostics.model.sanity_notes import sanity_notes
from recombine.diagnostics.model.truth import Truth, nearest_truth, truth_over_grid
from recombine.diagnostics.part import PARTS, LayerPart, Need, chosen_parts
from recombine.diagnostics.request import DiagnosisRequest, RequestOptions
from recombine.diagnostics.verdict import Undecided, verdict_of
from recombine.models.adapted import Key
from recombine.scoring.scales import LOOKED_AT, check_scale


def diagnose(
    model: Model,
    space: FactorSpace,
    encode: Encode | str | None = None,
    holdout: HoldoutLike | None = None,
    *,
    target: Any = None,
    output: Key | None = None,
    request: DiagnosisRequest | None = None,
    progress: bool | None = None,
    **options: Unpack[RequestOptions],
) -> Diagnosis:
    """Analyse what a model does with trained and unseen combinations, layer by layer.

    Args:
        model: A module or any callable, codes (cell, …) → outputs (cell, …). It runs in eval mode, and its state is
            restored. See `recombine.adapt` for models that take noise.
        space: The factor space.
        encode: Factor values (cell, factor) → codes: a tensor, a tuple for a model of several arguments, or a mapping
            for keywords. Or a name: "labels" for integers (cell, factor), the index of each factor's value, or the
            kind of an encoding. None if the model takes the factor values themselves.
        holdout: The combinations that were never trained on, as in `Task.from_arrays`: a hold-out, its configuration, a
            list of cells, a function of the space, or an array over the grid that is True where held out. Without it,
            results that compare trained and unseen combinations are missing.
        target: The truth: a scene (that of a data set with `several="nearest"` gives the picture nearest to the
            output), a function of factor values (cell, factor) → (cell, …), or an array of shape
            (cell, …) or (values of the first factor, of the second, …, …). Without it the parts that need it are
            missing and the verdict rests on structure alone.
        output: Key, attribute or position of the output tensor, if the model returns something else than a tensor.
        request: What to compute.
        progress: Whether to show a progress bar. None shows it only on a terminal.
        options: Fields of `DiagnosisRequest` (parts, layers, geometry, seed, memory, pictures, budget, draws) in place
            of `request`'s.

    Raises:
        InputError: for invalid arguments: unknown parts or layers, codes that the model does not accept, an output that
            is not a tensor, contains NaN or does not depend on the code, a target of the wrong size, or a model that
            changes its own weights (which are restored).
    """
    request = replace(request or DiagnosisRequest(), **options)
    parts = chosen_parts(request)
    split = None if holdout is None else holdout_of(holdout, space)
    _check_holdout(space, split, request)
    available = getattr(target, "available", None)
    if split is not None:
        split = split if available is None else split.within(available)
        available = split.available
    reached = (model, encode, target)
    with torch.inference_mode(False), keeping_weights(*reached), observing(*reached):
        given, subject, notes = _examined(model, space, encode, output, request, available)
        steps = 2 + len(subject.layers) + sum(not isinstance(part, LayerPart) for part in parts)
        with ProgressBar("diagnose", steps, show=progress) as bar:
            bar.advance("outputs")
            inner = any(Need.LAYERS in part.needs for part in parts)
            inputs = replace(_inputs(subject, split, target, request, inner=inner), draw=_drawing(given, subject))
            found = {name: PartResult.absent(name, Missing.NOT_REQUESTED, "not requested") for name in PARTS}
            found |= compute_parts(parts, inputs, bar.advance)
            verdict = verdict_of_draws(found["draws"], verdict_of(found, split))
            notes += notes_on_draws(found["draws"])
            if verdict.reason is Undecided.DIFFERENT_SCALES:
                notes.append(_ranges(inputs))
    facts = {**_facts(inputs), **_how_to_show(target), "notes": notes}
    return Diagnosis(space, split, subject.names, found, verdict, facts)


def _examined(
    model: Model, space: FactorSpace, encode: Encode | str | None, output: Key | None, request: DiagnosisRequest,
    available: Bool[np.ndarray, "..."] | None,
) -> tuple[Given, Subject, list[str]]:  # fmt: skip
    """The arguments, the model as a function of tensors with its layers, and notes for the reader of the results."""
    _, dtype, device = precision_of(model)
    few = grid_values(space, spread_cells(existing_cells(space, available), 3), dtype).to(device)
    given = Given(model, space, encode, output, few, request.seed, several=request.draws > 1)
    chosen = {"layers": request.layers, "available": available}
    first, codes = given.draw()
    subject = examine(first, space, codes, **chosen)
    notes = sanity_notes(subject, request.layers)
    refused = refused_batch(subject)
    if refused is not None:
        most, reason = refused
        notes.append(
            f"the model was given at most {most} codes at a time, because it rejects larger batches ({reason})."
        )
        given = replace(given, most_cells=most)
        first, codes = given.draw()
        subject = examine(first, space, codes, **chosen)
    return given, subject, notes


def _drawing(given: Given, subject: Subject) -> Callable[[int], Subject]:
    """The same model with other draws of its noise."""

    def draw(number: int) -> Subject:
        model, encode = given.draw(number)
        return replace(subject, model=model, encode=encode)

    return draw


def _check_holdout(space: FactorSpace, holdout: Holdout | None, request: DiagnosisRequest) -> None:
    """Reject a hold-out of another space, and pictures of cells that are not held out, before computing anything."""
    if holdout is not None and holdout.space != space:
        raise InputError(f"The hold-out belongs to another space. Got {holdout.space}, expected {space}.", "holdout")
    if isinstance(request.pictures, int):
        return
    if holdout is None:
        raise InputError("Pictures show OOD cells, but no hold-out was given.", "pictures")
    held = set(holdout.ood_cells.tolist())
    strange = [cell for cell in request.pictures if cell not in held]
    if strange:
        exist = holdout.available.ravel()
        named = [
            f"{cell} ({space.label(cell)}, {'trained' if exist[cell] else 'unavailable'})"
            if cell < len(space)
            else f"{cell}"
            for cell in strange
        ]
        raise InputError(f"Pictures must show OOD cells. Not held out: {', '.join(named)}.", "pictures")


def _inputs(
    subject: Subject, holdout: Holdout | None, target: Any, request: DiagnosisRequest, *, inner: bool
) -> DiagnosisInputs:
    """Run the model over the grid, and keep its layers if they are needed and fit into memory."""
    activations = _activations(subject, request, inner=inner)
    outputs = activations[OUT].rows
    shape = (subject.layers[OUT].shape if OUT in subject.layers else tuple(outputs.shape[1:])) or (1,)
    truth_of = _truth_of(target, subject, shape)
    truth = truth_of(outputs)
    if truth is not None:
        some = subject.cells[:LOOKED_AT]
        check_scale(truth.rows(some), outputs[some])
        shape = truth.shape
    held = {name: rows for name, rows in activations.items() if name in subject.layers}
    return DiagnosisInputs(
        subject, request, holdout, outputs.reshape(len(outputs), *shape), truth,
        held if len(held) == len(subject.layers) else None, truth_of=truth_of if _nearest(target) else None,
    )  # fmt: skip


def _truth_of(target: Any, subject: Subject, shape: tuple[int, ...]) -> Callable[[Tensor], Truth | None]:
    """Outputs (cell, number) → their truth, which depends on them for a data set with `several="nearest"`."""

    def truth(outputs: Tensor) -> Truth | None:
        if target is None:
            return None
        scene, given = _scene_of(target), target
        if _nearest(target) and outputs.shape[1] == math.prod(scene.output_shape):
            given = nearest_truth(scene, subject.space, outputs.reshape(-1, *scene.output_shape), subject.cells)
        return truth_over_grid(given, subject.space, shape, outputs.dtype, subject.cells)

    return truth


def _nearest(target: Any) -> bool:
    """Whether the truth of a cell is the nearest of several pictures."""
    scene = _scene_of(target)
    inverse = getattr(getattr(target, "__self__", target), "inverse", False)
    return getattr(scene, "several", "mean") == "nearest" and scene.shows_several and not inverse


def _activations(subject: Subject, request: DiagnosisRequest, *, inner: bool) -> dict[str, LayerRows]:
    """The outputs over the grid, with all chosen layers if they are needed and fit into memory."""
    whole = subject
    if OUT not in subject.layers:
        out = examine(subject.model, subject.space, subject.encode, layers=[OUT], available=subject.existing)
        whole = replace(subject, layers={**subject.layers, **out.layers})
    names = list(whole.layers) if inner and fits(whole, request.memory) else [OUT]
    found = collect(whole, names, memory=2**62, seed=request.seed)
    outputs = found[OUT].rows
    if bool((outputs[subject.cells] == outputs[subject.cells[0]]).all()):
        raise InputError(
            "The model returns the same output at every cell, so the output does not depend on the code. Check "
            "whether it is detached or constant, or whether all units are dead.",
            "model",
        )
    return found


def _ranges(inputs: DiagnosisInputs) -> str:
    """The ranges of truth and outputs over the trained cells, for scales that differ."""
    cells = inputs.split.id_cells
    spans = []
    for numbers in (inputs.known_truth.rows(cells), inputs.outputs[cells]):
        spans.append(f"from {float(numbers.min()):.3g} to {float(numbers.max()):.3g}")
    return (
        f"on the trained combinations the truth ranges {spans[0]}, the outputs {spans[1]}. Bring both to the same "
        "range first: for example, target=(target + 1) / 2 turns [−1, 1] into [0, 1]."
    )


def _how_to_show(target: Any) -> dict[str, Any]:
    """The position of row 0 and the range of values of images, if the target or its task defines them."""
    scene = _scene_of(target)
    shown = {"row_0": getattr(scene, "row_0", "top"), "value_range": getattr(scene, "value_range", None)}
    return {**shown, "several": "nearest"} if _nearest(target) else shown


def _scene_of(target: Any) -> Any:
    """The scene behind a target: itself, or that of the task whose method it is."""
    owner = getattr(target, "__self__", target)
    return getattr(owner, "scene", owner)


def _facts(inputs: DiagnosisInputs) -> dict[str, Any]:
    subject, request = inputs.subject, inputs.request
    return {
        "request": {**request.shared, "memory": request.memory},
        "dtype": str(subject.dtype).removeprefix("torch."),
        "output_shape": list(inputs.outputs.shape[1:]),
        "target": inputs.truth is not None,
        "layers": {name: list(layer.shape) for name, layer in subject.layers.items()},
    }
