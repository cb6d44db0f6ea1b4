"""Diagnose any decoder: what does it do with an unseen combination, and where in the network does it go wrong?

    diagnosis = recombine.diagnose(model, space, encode, holdout, target=scene)
    diagnosis.verdict                       # composes, superposes, fails otherwise or cannot tell, and why
    diagnosis.to_pandas("probes")           # a tidy table per part
    diagnosis.plot("geometry")              # a figure per part
    diagnosis.save("folder"), Diagnosis.load("folder")

The parts, each in a module of its own: outputs, errors, geometry, probes, kernels, superposition, tuning, complexity,
embeddings. What cannot be computed is marked as missing, with its reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from recombine.core import holdouts
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.progress import ProgressBar
from recombine.diagnostics.diagnosis_files import read_diagnosis, write_diagnosis
from recombine.diagnostics.findings import PartResult, json_able
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.layer_parts import LAYERWISE, LayerStudy, geometry_part
from recombine.diagnostics.model.grid_activations import MEMORY, LayerRows, collect, fits
from recombine.diagnostics.model.layers import OUT, Encode, Subject, examine
from recombine.diagnostics.model.observing import Model, observing
from recombine.diagnostics.model.sanity_notes import sanity_notes
from recombine.diagnostics.model.truth import truth_over_grid
from recombine.diagnostics.numerics.superposition import PICTURES
from recombine.diagnostics.output_parts import errors_part, kernels_part, outputs_part, superposition_part
from recombine.diagnostics.verdict import Evidence, Verdict, judge

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_WORK: dict[str, Callable[[DiagnosisInputs], PartResult]] = {
    "outputs": outputs_part,
    "errors": errors_part,
    "superposition": superposition_part,
    "kernels": kernels_part,
    "geometry": geometry_part,
}
PARTS = ("outputs", "errors", "superposition", "kernels", "geometry", *LAYERWISE)
NOT_CHOSEN = "it was not among the parts asked for"
NOT_WRITTEN = "the files were written before this part existed; diagnose the model again"


def diagnose(
    model: Model,
    space: FactorSpace,
    encode: Encode | None = None,
    holdout: Holdout | Tensor | np.ndarray | None = None,
    *,
    target: Any = None,
    layers: str | Sequence[str] | None = None,
    parts: str | Sequence[str] = PARTS,
    geometry: str = "exact",
    seed: int = 0,
    memory: int = MEMORY,
    pictures: int | Sequence[int] = PICTURES,
    progress: bool | None = None,
) -> Diagnosis:
    """Look at what a model does with trained and unseen combinations, layer by layer.

    Args:
        model: A module or any callable, codes (cell, …) → outputs (cell, …). Run in eval mode and left as it was.
        space: The factor space.
        encode: Factor values (cell, factor) → codes; None if the model takes the factor values themselves.
        holdout: Which combinations were never trained on: a hold-out, or True where held out over the grid. Without
            it, what compares the two is missing.
        target: The truth: a scene, a function of factor values (cell, factor) → (cell, …), or an array of shape
            (cell, …) or (values of the first factor, of the second, …, …). Without it the parts that need it are
            missing and the verdict rests on structure alone.
        layers: Names or patterns of modules, "in", "out"; None for the code, every nonlinearity and the output. See
            `recombine.diagnostics.model.layers`.
        parts: Which parts to compute.
        geometry: Metric tensors by derivatives ("exact") or by differences on the grid ("finite difference").
        seed: Of all draws.
        memory: Bytes of activations kept at a time, beside the outputs over the grid and the truth (a large one that
            a function makes is made anew where it is needed). Where layers do not fit they are computed one after the
            other, and a layer that does not fit alone is represented by a seeded draw of its units; the result says so.
        pictures: Of how many OOD cells the superposition part keeps pictures, or of which (numbers of cells).
        progress: Show a bar; None for only on a terminal.

    Raises:
        InputError: for what cannot be meant: unknown parts or layers, codes the model does not take, an output that is
            no tensor, holds NaN or does not depend on the code, a target of the wrong size.
    """
    chosen = _chosen(parts)
    held = holdout if holdout is None or isinstance(holdout, Holdout) else holdouts.mask(space, np.asarray(holdout))
    pictures = pictures if isinstance(pictures, int) else list(pictures)
    wanted = layers if layers is None or isinstance(layers, str) else list(layers)
    _check(space, held, wanted, geometry, memory, pictures)
    with torch.inference_mode(False), observing(model, encode, target):
        subject = examine(model, space, encode, layers=wanted)
        notes = sanity_notes(subject, wanted)
        steps = len([name for name in chosen if name in _WORK]) + len(subject.layers) + 2
        with ProgressBar("diagnose", steps, show=progress) as bar:
            told = _Teller(bar)
            told("outputs")
            activations = _activations(subject, memory, seed, inner=any(name in LAYERWISE for name in chosen))
            inputs = _inputs(model, subject, held, target, activations, wanted, geometry, memory, seed, pictures)
            found = {name: PartResult.absent(name, NOT_CHOSEN) for name in PARTS}
            for name, work in _WORK.items():
                if name in chosen:
                    told(name)
                    try:
                        found[name] = work(inputs)
                    except InputError as error:
                        found[name] = PartResult.absent(name, str(error))
            layerwise = [name for name in chosen if name in LAYERWISE]
            if layerwise:
                found |= LayerStudy(inputs, layerwise).run(told)
    facts = _facts(subject, inputs, seed, memory)
    facts |= {"row_0": getattr(target, "row_0", "bottom"), "notes": notes}
    return Diagnosis(space, held, subject.names, found, _verdict(found, inputs), facts)


def _check(
    space: FactorSpace,
    holdout: Holdout | None,
    layers: Any,
    geometry: str,
    memory: Any,
    pictures: int | list[int],
) -> None:
    """Refuse options that cannot be meant, before anything is computed; they may be of any type."""
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
        raise InputError(f"The memory is a number of bytes, at least 1, such as 2**30. Got {memory!r}.")
    if geometry not in ("exact", "finite difference"):
        raise InputError(f"The geometry is exact or finite difference. Got {geometry!r} instead.")
    if holdout is not None and holdout.space != space:
        raise InputError(f"The hold-out belongs to another space. Got {holdout.space}, expected {space}.")
    if not isinstance(pictures, int):
        if holdout is None:
            raise InputError("Pictures are of OOD cells, and no hold-out was given.")
        known = set(holdout.ood_cells.tolist())
        strange = [cell for cell in pictures if cell not in known]
        if strange:
            raise InputError(f"Pictures are of OOD cells. Not held out: {', '.join(map(repr, strange))}.")
    odd = [name for name in layers or () if not isinstance(name, str)]
    if odd:
        raise InputError(f"Layers are chosen by names or patterns, such as '1' or 'layers.*.act'. Got {odd[0]!r}.")


class _Teller:
    """Counts steps on a progress bar."""

    def __init__(self, bar: AbstractContextManager[Any]) -> None:
        self.bar, self.step = bar, 0

    def __call__(self, note: str) -> None:
        self.bar.update(self.step, note)  # type: ignore[attr-defined]
        self.step += 1


def _chosen(parts: str | Sequence[str]) -> list[str]:
    asked = [parts] if isinstance(parts, str) else list(parts)
    unknown = [name for name in asked if name not in PARTS]
    if not asked:
        raise InputError(f"No part was chosen. Leave the choice out for all, or give some of: {', '.join(PARTS)}.")
    if unknown:
        close = difflib.get_close_matches(str(unknown[0]), PARTS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"There is no part {', '.join(map(repr, unknown))}{hint}. Parts: {', '.join(PARTS)}.")
    return [name for name in PARTS if name in asked]


def _activations(subject: Subject, memory: int, seed: int, *, inner: bool) -> dict[str, LayerRows]:
    """The outputs over the grid, with all chosen layers if they are wanted and fit into memory."""
    whole = subject
    if OUT not in subject.layers:
        out = examine(subject.model, subject.space, subject.encode, layers=[OUT])
        whole = Subject(**{**vars(subject), "layers": {**subject.layers, **out.layers}})
    names = list(whole.layers) if inner and fits(whole, memory) else [OUT]
    found = collect(whole, names, memory=2**62, seed=seed)
    outputs = found[OUT].rows
    if bool((outputs == outputs[0]).all()):
        raise InputError(
            "The model's output does not depend on the code: it is the same at every cell. Is it detached, constant, "
            "or are all its units dead?"
        )
    return found


def _inputs(
    model: Model,
    subject: Subject,
    holdout: Holdout | None,
    target: Any,
    activations: dict[str, LayerRows],
    layers: str | list[str] | None,
    geometry: str,
    memory: int,
    seed: int,
    pictures: int | Sequence[int],
) -> DiagnosisInputs:
    outputs = activations[OUT].rows
    shape = (subject.layers[OUT].shape if OUT in subject.layers else tuple(outputs.shape[1:])) or (1,)
    truth = None if target is None else truth_over_grid(target, subject.space, shape, outputs.dtype)
    shape = shape if truth is None else truth.shape
    held = {name: rows for name, rows in activations.items() if name in subject.layers}
    return DiagnosisInputs(
        model, subject.space, subject.encode, holdout, subject, outputs.reshape(len(outputs), *shape), truth,
        held if len(held) == len(subject.layers) else None, layers, geometry, memory, seed, pictures,
    )  # fmt: skip


def _facts(subject: Subject, inputs: DiagnosisInputs, seed: int, memory: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "memory": memory,
        "geometry": inputs.geometry,
        "dtype": str(subject.dtype).removeprefix("torch."),
        "output_shape": list(inputs.outputs.shape[1:]),
        "target": inputs.truth is not None,
        "layers": {name: list(layer.shape) for name, layer in subject.layers.items()},
    }


def _verdict(parts: dict[str, PartResult], inputs: DiagnosisInputs) -> Verdict:
    """Gather the evidence from the parts and judge it; the errors count also where they were not asked for."""
    superposition = parts["superposition"]
    if not superposition.computed:
        return Verdict("cannot tell", f"the superposition test is missing: {superposition.missing['superposition']}")
    [row] = [r for r in superposition.table("summary") if r["side"] == "output" and r["centred"]]
    [sums] = superposition.table("remembered")
    numbers: dict[str, Any] = {
        "ood_cells": row["n_cells"],
        "cosine_truth": row["cosine_truth"],
        "superposition": sums["share"],
        "unrelated": sums["unrelated"],
        "trained": sums["trained"],
        "truth_superposition": sums["truth"],
        "blank": sums["blank"],
    }
    if inputs.truth is not None:
        errors = parts["errors"] if parts["errors"].computed else errors_part(inputs)
        relative = {r["cells"]: r["relative"] for r in errors.rows}
        numbers |= {"id_error": relative["id"], "ood_error": relative["ood"]}
    if parts["kernels"].computed:
        for agreeing in parts["kernels"].table("agreement"):
            if agreeing["similarity"] == "cosine":
                numbers |= {"agreement": agreeing["correlation"], "agreement_p": agreeing["p_value"]}
    return judge(Evidence(**numbers))


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found out about a model. Made by `diagnose`, or read from files by `load`.

    Attributes:
        space: The factor space.
        holdout: Which combinations are OOD; None if none was given.
        layers: Names of the layers, in the order in which the model computes them.
        parts: All parts by name; `diagnosis["probes"]` is one. Those not computed say why.
        verdict: What the model does with unseen combinations.
        facts: Settings, and the shapes of layers and outputs.
        source: Where the model came from, such as a run and the digest of its weights; empty if it was given.
    """

    space: FactorSpace
    holdout: Holdout | None
    layers: tuple[str, ...]
    parts: dict[str, PartResult]
    verdict: Verdict
    facts: dict[str, Any]
    source: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, part: str) -> PartResult:
        [name] = _chosen(part)
        return self.parts[name]

    @property
    def missing(self) -> dict[str, dict[str, str]]:
        """Part → what of it is missing → why. Parts that were not asked for are left out."""
        return {
            name: part.missing for name, part in self.parts.items() if part.missing.get(name) != NOT_CHOSEN
            and part.missing
        }  # fmt: skip

    @property
    def notes(self) -> list[str]:
        """What a reader should know before trusting the numbers."""
        return list(self.facts.get("notes", []))

    def noted(self, note: str) -> Diagnosis:
        """The same with one more note."""
        return replace(self, facts={**self.facts, "notes": [*self.notes, note]})

    def with_parts_of(self, earlier: Diagnosis) -> Diagnosis | None:
        """This diagnosis, with the parts that were not asked for taken from an earlier one of the same model.

        If the settings differ, parts of both cannot stand side by side: then this one alone, if it lacks none of the
        earlier one's parts, or else None.
        """
        lacking = [name for name, part in self.parts.items() if part.missing.get(name) == NOT_CHOSEN]
        lacking = [name for name in lacking if earlier.parts[name].computed]
        if not lacking:
            return self
        settings = {"geometry": "exact"}  # what older files do not say
        now, before = ({**settings, **d.facts, "notes": None} for d in (self, earlier))
        masks = [None if d.holdout is None else d.holdout.mask.tolist() for d in (self, earlier)]
        if json_able(now) != json_able(before) or self.space != earlier.space or masks[0] != masks[1]:
            return None
        parts = {name: (earlier if name in lacking else self).parts[name] for name in self.parts}
        verdict = earlier.verdict if "superposition" in lacking else self.verdict
        return replace(self, parts=parts, verdict=verdict)

    def to_pandas(self, part: str | None = None, table: str | None = None) -> pandas.DataFrame:
        """A table of a part, its main one unless named. Without a part: all numbers by layer, one per row."""
        if part is not None:
            return self[part].to_pandas(table)
        import pandas

        return pandas.DataFrame([
            {"part": name, "layer": row["layer"], "quantity": _quantity(row, key), "value": float(value)}
            for name, found in self.parts.items() if found.computed and found.rows and "layer" in found.rows[0]
            for row in found.rows for key, value in row.items()
            if isinstance(value, int | float) and key != "units"
        ], columns=["part", "layer", "quantity", "value"])  # fmt: skip

    def plot(self, part: str) -> Figure:
        """The figure of a part."""
        from recombine.diagnostics.plots import plot

        return plot(self, part)

    def save(self, folder: str | Path) -> Path:
        """Write JSON, CSV and safetensors files, see docs/diagnose.md; `Diagnosis.load` reads them."""
        return write_diagnosis(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, partial: bool = False) -> Diagnosis:
        """Read what `save` wrote. Nothing in the files is ever executed.

        A file that is missing or was changed is an error, or with `partial` makes its part a missing one.
        """
        fields = read_diagnosis(Path(folder), partial=partial)
        fields["parts"] = {name: PartResult.absent(name, NOT_WRITTEN) for name in PARTS} | fields["parts"]
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        """The verdict, the main tables by layer and what is missing; JSON-able."""
        from recombine.diagnostics.summary import as_json

        return as_json(self)

    def __str__(self) -> str:
        from recombine.diagnostics.summary import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from recombine.diagnostics.summary import as_html

        return as_html(self)


def _quantity(row: dict[str, Any], key: str) -> str:
    """The column's name with what distinguishes the row: its cells, pair of factors, factor, way of scoring."""
    return ", ".join([key, *(str(row[k]) for k in ("cells", "pair", "factor", "score") if isinstance(row.get(k), str))])
