"""What the explorer shows of each model: outputs, errors, maps by layer, sampled units.

Models that can be compared cell by cell (the same factors, hold-out and truth) make a group.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from recombine.core.factors import FactorSpace
from recombine.core.scenes.scene import SCENES
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.numerics.geometry import factorization_map
from recombine.report.arrays import Blobs
from recombine.report.collect import Model

UNITS = 64  # shown per layer, of the 128 that a diagnosis keeps


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
    def row_0(self) -> str:
        """Whether row 0 of a picture is drawn at the bottom or, as photographs have it, at the top."""
        return "top" if any(_row_0(model) == "top" for model in self.models) else "bottom"

    @property
    def title(self) -> str:
        factors = " × ".join(f"{name} {size}" for name, size in zip(self.space.names, self.space.shape))
        count = int(self.held.sum())
        return f"{factors}, " + (f"{count} of {len(self.space)} combinations held out" if count else "no hold-out")

    @property
    def start(self) -> list[int]:
        """Where a reader begins: the held-out cell nearest to the middle of the hold-out (or of the grid)."""
        places = np.stack(np.unravel_index(np.arange(len(self.space)), self.space.shape), axis=1)
        places = places[self.held] if self.held.any() else places
        away = np.square(places - places.mean(0)).sum(1)
        return places[away.argmin()].tolist()


def _held(diagnosis: Diagnosis) -> Bool[np.ndarray, " cell"]:
    if diagnosis.holdout is None:
        return np.zeros(len(diagnosis.space), bool)
    return np.asarray(diagnosis.holdout.ood_mask).ravel()


def _truth(model: Model) -> Float[np.ndarray, "cell ..."] | None:
    return model.diagnosis["outputs"].arrays.get("truth")


def _row_0(model: Model) -> str:
    """As the scene has it, of which a run's configuration or else the diagnosis tells."""
    if model.run is not None:
        scene = SCENES.components.get(str(model.run.config.scene.get("kind")))
        return getattr(scene, "row_0", "bottom")
    return str(model.diagnosis.facts.get("row_0", "bottom"))


def grouped(models: Sequence[Model]) -> list[Group]:
    """Models by factor space, hold-out and truth; one without truth joins the first group that fits otherwise."""
    groups: list[tuple[Any, dict[str, Group]]] = []
    for model in models:
        key = (model.diagnosis.space, _held(model.diagnosis).tobytes())
        truth = _truth(model)
        digest = "" if truth is None else hashlib.sha256(truth.tobytes()).hexdigest()
        same = next((found for known, found in groups if known == key), None)
        if same is None:
            same = {}
            groups.append((key, same))
        fitting = digest if digest in same or not same else next((d for d in same if not (d and digest)), digest)
        if fitting in same:
            same[fitting].models.append(model)
            if digest and not fitting:  # the group has a truth from now on
                same[digest] = same.pop(fitting)
        else:
            same[digest] = Group([model])
    return [group for _, found in groups for group in found.values()]


def group_json(group: Group, blobs: Blobs, *, units: int = UNITS, kernel: Any = None) -> dict[str, Any]:
    """A group for the page. `kernel(model, blobs)` says what the kernel view shows of a model; None leaves it out."""
    truth = group.truth
    models = [model_json(model, blobs, units) for model in group.models]
    if kernel is not None:
        models = [given | {"kernel": kernel(model, blobs)} for given, model in zip(models, group.models)]
    return {
        "title": group.title,
        "start": group.start,
        "row_0": group.row_0,
        "factors": [
            {"name": name, "size": f.size, "low": f.low, "step": f.step, "kind": f.kind}
            for name, f in group.space.factors.items()
        ],
        "held": blobs.add(group.held.astype(float), "hold-out"),
        "truth": None if truth is None else blobs.add(_pictures(truth), "truth", curve="root"),
        "models": models,
    }


def _pictures(outputs: Float[np.ndarray, "cell ..."]) -> Float[np.ndarray, "cell row column"]:
    """Outputs as pictures (cell, row, column): numbers become one row, channels stand above each other."""
    cells, *shape = outputs.shape
    return outputs.reshape(cells, math.prod(shape[:-1]), shape[-1] if shape else 1)


def model_json(model: Model, blobs: Blobs, units: int = UNITS) -> dict[str, Any]:
    """One model for the page; `missing` says what is not there, and why."""
    diagnosis, block = model.diagnosis, f"model {model.name!r}"
    parts = {name: diagnosis[name] for name in ("outputs", "errors", "superposition", "geometry", "probes", "tuning")}
    content: dict[str, Any] = {
        "name": model.name,
        "run": None if model.run is None else model.run.id,
        "verdict": {"kind": diagnosis.verdict.kind, "explanation": diagnosis.verdict.explanation},
        "layers": list(diagnosis.layers),
        "missing": {name: part.reason for name, part in parts.items() if not part.computed},
    }
    if parts["outputs"].computed:
        content["output"] = blobs.add(_pictures(parts["outputs"].arrays["output"]), f"{block}, outputs", curve="root")
    if parts["errors"].computed:
        content["mse"] = blobs.add(parts["errors"].arrays["mse"], f"{block}, maps", bits=16, curve="log")
        content["errors"] = {row["cells"]: row["mse"] for row in parts["errors"].rows}
    if parts["superposition"].computed:
        alone = parts["superposition"].by_layer("mean codes")
        if set(alone) == set(diagnosis.space.names):
            content["alone"] = [
                blobs.add(_pictures(alone[name]), f"{block}, superposition", bits=16, curve="root")
                for name in diagnosis.space.names
            ]
        else:
            content["missing"]["input side"] = str(parts["superposition"].missing["input side"])
    content |= _maps(diagnosis, blobs, f"{block}, maps")
    if parts["tuning"].computed:
        content["units"] = _units(diagnosis, blobs, f"{block}, units", units)
    return content


def _maps(diagnosis: Diagnosis, blobs: Blobs, block: str) -> dict[str, Any]:
    """log₁₀ dv and factorization (layer, cell) and the probes' errors (layer, factor, cell)."""
    found: dict[str, Any] = {}
    cells, layers = len(diagnosis.space), diagnosis.layers
    geometry, probes = diagnosis["geometry"], diagnosis["probes"]
    if geometry.computed:
        nothing = np.full(cells, np.nan)
        volumes, metrics = geometry.by_layer("log_volume"), geometry.by_layer("metric")
        volume = np.stack([volumes.get(name, nothing).reshape(cells) for name in layers])
        factors = len(diagnosis.space.names)
        score = np.stack([
            factorization_map(metrics[name].reshape(cells, factors, factors)) if name in metrics else nothing
            for name in layers
        ])  # fmt: skip
        found["volume"] = blobs.add(volume, block, bits=16)
        found["factorization"] = blobs.add(score, block, bits=16)
    errors = probes.by_layer("error") if probes.computed else {}
    if errors:
        off = np.full((len(layers), diagnosis.space.n_factors, cells), np.nan)
        for row, name in enumerate(layers):
            if name in errors:
                off[row][:, probes.arrays["cells"]] = errors[name]
        found["probe"] = blobs.add(off, block, bits=16, curve="root")
    return found


def _units(diagnosis: Diagnosis, blobs: Blobs, block: str, most: int) -> dict[str, Any]:
    """Layer → the maps of some of its units, each on a scale of its own, with what is known about them."""
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
