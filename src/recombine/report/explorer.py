"""The explorer's view of each model: outputs, scores, maps by layer, and sampled units.

Models that can be compared cell by cell (same factors, hold-out and truth) form a group.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from recombine.core.errors import Missing, StoreError
from recombine.core.factors import FactorSpace
from recombine.core.images import Tone, as_pictures, image_axes, tone_of
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.part import PARTS, PageContent
from recombine.report.arrays import Blobs, Curve
from recombine.report.collect import Model
from recombine.report.memories import memories_json
from recombine.scoring.scores import axis_label, on_log_scale

Contents = Mapping[str, PageContent]  # by part
UNITS = 64  # shown per layer, of the 128 that a diagnosis stores


@dataclass(frozen=True, eq=False)
class Group:
    """Models over the same factors and hold-out, with the same truth."""

    models: list[Model]

    @property
    def space(self) -> FactorSpace:
        return self.models[0].diagnosis.space

    @property
    def held(self) -> Bool[np.ndarray, " cell"]:
        return _held(self.models[0].diagnosis)

    @property
    def truth(self) -> Float[np.ndarray, "cell ..."] | None:
        return next((t for t in map(_truth, self.models) if t is not None), None)

    @property
    def available(self) -> Bool[np.ndarray, " cell"]:
        return _available(self.models[0].diagnosis)

    @property
    def row_0(self) -> str:
        """Whether row 0 of a picture is at the bottom or, as in photographs, at the top."""
        return str(self.models[0].diagnosis.facts.get("row_0", "top"))

    @property
    def tone(self) -> Tone:
        """How numbers map to brightness, or the limits of a vector's axis."""
        diagnosis, truth = self.models[0].diagnosis, self.truth
        outputs = [found for model in self.models if (found := _outputs(model)) is not None]
        if truth is None or image_axes(truth.shape[1:]) is None:  # vectors are not clipped
            shown = [*outputs, *([] if truth is None else [truth])]
            return tone_of(np.concatenate(shown)) if shown else Tone()
        return tone_of(truth[self.available], diagnosis.facts.get("value_range"))

    @property
    def title(self) -> str:
        factors = " × ".join(f"{name} {size}" for name, size in zip(self.space.names, self.space.shape))
        held, gone = int(self.held.sum()), int((~self.available).sum())
        said = f"{held} of {len(self.space) - gone} combinations held out" if held else "no hold-out"
        return f"{factors}, {said}" + (f", {gone} unavailable" if gone else "")

    @property
    def start(self) -> list[int]:
        """The initial cell: the held-out cell closest to the middle of the hold-out, or of the grid."""
        places = np.stack(np.unravel_index(np.arange(len(self.space)), self.space.shape), axis=1)
        places = places[self.held] if self.held.any() else places
        away = np.square(places - places.mean(0)).sum(1)
        return places[away.argmin()].tolist()


def _held(diagnosis: Diagnosis) -> Bool[np.ndarray, " cell"]:
    return diagnosis.held_out


def _available(diagnosis: Diagnosis) -> Bool[np.ndarray, " cell"]:
    if diagnosis.holdout is None:
        return np.ones(len(diagnosis.space), bool)
    return np.asarray(diagnosis.holdout.available).ravel()


def _truth(model: Model) -> Float[np.ndarray, "cell ..."] | None:
    return model.diagnosis["outputs"].arrays.get("truth")


def _outputs(model: Model) -> Float[np.ndarray, "cell ..."] | None:
    return model.diagnosis["outputs"].arrays.get("output")


def grouped(models: Sequence[Model]) -> list[Group]:
    """Group models by factor space, hold-out and truth. A model without truth joins the first fitting group."""
    groups: list[tuple[Any, dict[str, Group]]] = []
    for model in models:
        splits = (_held(model.diagnosis).tobytes(), _available(model.diagnosis).tobytes())
        key = (model.diagnosis.space, *splits, model.diagnosis.facts.get("row_0"))
        truth = _truth(model)
        digest = "" if truth is None else hashlib.sha256(truth.tobytes()).hexdigest()
        same = next((found for known, found in groups if known == key), None)
        if same is None:
            same = {}
            groups.append((key, same))
        fitting = digest if digest in same or not same else next((d for d in same if not (d and digest)), digest)
        if fitting in same:
            same[fitting].models.append(model)
            if digest and not fitting:  # from now on the group has a truth
                same[digest] = same.pop(fitting)
        else:
            same[digest] = Group([model])
    return [group for _, found in groups for group in found.values()]


def group_json(group: Group, blobs: Blobs, *, units: int = UNITS, kernel: Any = None) -> dict[str, Any]:
    """A group for the page. `kernel(model, blobs)` describes the kernel view of a model; None omits it."""
    truth = group.truth
    models = [model_json(model, blobs, units) for model in group.models]
    if kernel is not None:
        models = [given | {"kernel": kernel(model, blobs)} for given, model in zip(models, group.models)]
    gone = ~group.available
    return {
        "title": group.title,
        "start": group.start,
        "row_0": group.row_0,
        "tone": asdict(group.tone),
        "factors": [
            {"name": name, "size": f.size, "kind": f.kind, "labels": list(f.labels), "step": f.step}
            for name, f in group.space.factors.items()
        ],
        "held": blobs.add(group.held.astype(float), "hold-out"),
        "gone": blobs.add(gone.astype(float), "hold-out") if gone.any() else None,
        "truth": None if truth is None else blobs.add(pictures(truth), "truth", curve="root"),
        "models": models,
    }


def pictures(outputs: Float[np.ndarray, "cell ..."]) -> Float[np.ndarray, "cell ..."]:
    """Outputs in the page's layout: (cell, row, column), (cell, row, column, colour), or (cell, n) for vectors."""
    found = as_pictures(outputs)
    return outputs.reshape(len(outputs), -1) if found is None else found


def model_json(model: Model, blobs: Blobs, units: int = UNITS) -> dict[str, Any]:
    """One model for the page. `missing` lists absent parts with the reason."""
    diagnosis, block = model.diagnosis, f"model {model.name!r}"
    diagnosis, contents = _contents(diagnosis)
    parts = {name: diagnosis[name] for name in ("outputs", "errors", "superposition", "geometry", "probes", "tuning")}
    content: dict[str, Any] = {
        "name": model.name,
        "run": None if model.run is None else model.run.id,
        "verdict": {"kind": diagnosis.verdict.kind, "explanation": diagnosis.verdict.explanation},
        "layers": list(diagnosis.layers),
        "missing": {name: part.reason for name, part in parts.items() if not part.computed},
        "landscapes": landscapes(model, contents, blobs, f"{block}, maps"),
        "maps": layer_maps(diagnosis, contents, blobs, f"{block}, maps"),
    }
    if parts["outputs"].computed:
        content["output"] = blobs.add(pictures(parts["outputs"].arrays["output"]), f"{block}, outputs", curve="root")
    if parts["superposition"].computed:
        alone = parts["superposition"].by_layer("mean codes")
        if set(alone) == set(diagnosis.space.names):
            content["alone"] = [
                blobs.add(pictures(alone[name]), f"{block}, superposition", bits=16, curve="root")
                for name in diagnosis.space.names
            ]
        else:
            missing = parts["superposition"].missing.get("input side")
            content["missing"]["input side"] = missing.reason if missing else "its files contain none"
        content["memories"] = memories_json(parts["superposition"], blobs, f"{block}, memories")
    if parts["tuning"].computed:
        content["units"] = _units(diagnosis, blobs, f"{block}, units", units)
    return content


def _contents(diagnosis: Diagnosis) -> tuple[Diagnosis, Contents]:
    """The page's content of each part. A part of a foreign file whose numbers do not fit the diagnosis is missing."""
    contents, parts = {}, dict(diagnosis.parts)
    for name in PARTS:
        if diagnosis[name].computed:
            try:
                contents[name] = PARTS[name].page(diagnosis[name], diagnosis)
            except (LookupError, TypeError, ValueError) as error:
                reason = f"its numbers cannot be shown ({type(error).__name__})"
                parts[name] = PartResult.absent(name, Missing.NOT_APPLICABLE, reason)
    return replace(diagnosis, parts=parts), contents


def landscapes(model: Model, contents: Contents, blobs: Blobs, block: str) -> dict[str, Any]:
    """Numbers over the grid with their means over ID and OOD cells.

    These are the run's metrics, or the error of the diagnosis, followed by the per-cell numbers of other parts.
    """
    found = {
        name: _landscape(model, column, axis_label(name), log=on_log_scale(name))
        for name, column in _scores(model).items()
    }
    for name, content in contents.items():
        for title, values in content.maps.items():
            if values.ndim == 1 and name != "errors":
                found[f"{name}: {title}"] = _landscape(model, values, title, classes=content.classes.get(title))
    return {name: about | {"map": blobs.add(values, block, bits=16, curve="log" if about["log"] else "linear")}
            for name, (about, values) in found.items()}  # fmt: skip


def _landscape(
    model: Model, values: np.ndarray, label: str, *, log: bool = False, classes: Sequence[str] | None = None
) -> tuple[dict[str, Any], Float[np.ndarray, " cell"]]:
    """The page's description of numbers over the grid, and the numbers at existing cells."""
    held, available = _held(model.diagnosis), _available(model.diagnosis)
    splits = {} if classes else {"id": available & ~held, "ood": available & held}
    means = {split: float(np.mean(values[mask])) for split, mask in splits.items() if mask.any()}
    about = {"label": label, "log": log, "means": means, "classes": None if classes is None else list(classes)}
    return about, np.where(available, values, np.nan)


def _scores(model: Model) -> dict[str, Float[np.ndarray, " cell"]]:
    """The scores of a run, or the error of the diagnosis for other models."""
    if model.run is not None:
        try:
            return model.run.scores.columns
        except StoreError:
            pass  # the facts of the run report what is wrong with it
    errors = model.diagnosis["errors"]
    return {"mse": errors.arrays["mse"]} if errors.computed else {}


def layer_maps(diagnosis: Diagnosis, contents: Contents, blobs: Blobs, block: str) -> dict[str, Any]:
    """Map titles to numbers (layer, cell), with the part they belong to."""
    available = _available(diagnosis)
    found: dict[str, Any] = {}
    for name, content in contents.items():
        curve: Curve = "root" if name == "probes" else "linear"
        for title, values in content.maps.items():
            if values.ndim == 2:
                known = np.where(available, values, np.nan)
                found[title] = {"part": name, "map": blobs.add(known, block, bits=16, curve=curve)}
    return found


def _units(diagnosis: Diagnosis, blobs: Blobs, block: str, most: int) -> dict[str, Any]:
    """Map layers to the maps of some of their units, each with its own scale, and their properties."""
    tuning, found = diagnosis["tuning"], {}
    if "sampled" not in tuning.tables:
        return {}
    maps = tuning.by_layer("sampled maps")
    for name in diagnosis.layers:
        rows = [row for row in tuning.table("sampled") if row["layer"] == name]
        if not rows or name not in maps or most < 1:
            continue
        kept = sorted(range(len(rows)), key=lambda i: -_known(rows[i]["variance"]))[:most]
        kept.sort(key=lambda i: rows[i]["unit"])
        found[name] = {
            "maps": blobs.add(maps[name].reshape(len(rows), -1)[kept], block, by_row=True),
            "of": rows[0]["of_units"],
            **{key: [_short(rows[i][key]) for i in kept] for key in ("unit", "stripe", "bump", "variance")},
        }
    return found


def _known(value: int | float) -> int | float:
    return -math.inf if math.isnan(value) else value


def _short(value: int | float) -> int | float | None:
    return value if isinstance(value, int) else None if math.isnan(value) else float(f"{value:.4g}")
