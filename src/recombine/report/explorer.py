"""The content of the explorer for each model: outputs, scores, and the parts of its diagnosis.

Models that can be compared cell by cell (same factors, hold-out and truth) form a group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from recombine.core.errors import Missing, StoreError
from recombine.core.factors import FactorSpace
from recombine.core.images import Tone, image_axes, tone_of
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.page_content import PageContent
from recombine.diagnostics.part import PARTS, Columns
from recombine.report.arrays import Blobs, Block, BlockPacker
from recombine.report.collect import Model
from recombine.scoring.scores import axis_label, on_log_scale, short_label

Contents = Mapping[str, PageContent]  # maps parts to their content
SHOWN_ROWS = 60  # maximum number of rows shown of a part's table


@dataclass(frozen=True, eq=False)
class Group:
    """Models over the same factors and hold-out, with the same truth."""

    models: list[Model]

    @property
    def space(self) -> FactorSpace:
        """The factor space of the models."""
        return self.models[0].diagnosis.space

    @property
    def held(self) -> Bool[np.ndarray, " cell"]:
        """True at held-out cells."""
        return _held(self.models[0].diagnosis)

    @property
    def truth(self) -> Float[np.ndarray, "cell ..."] | None:
        """The true outputs of all cells; None if no model has them."""
        return next((t for t in map(_truth, self.models) if t is not None), None)

    @property
    def available(self) -> Bool[np.ndarray, " cell"]:
        """True at cells that exist."""
        return _available(self.models[0].diagnosis)

    @property
    def row_0(self) -> str:
        """Position of row 0 of an image: "bottom", or "top" as in photographs."""
        return str(self.models[0].diagnosis.facts.get("row_0", "top"))

    @property
    def tone(self) -> Tone:
        """The mapping of numbers to brightness, or the axis limits of a vector."""
        diagnosis, truth = self.models[0].diagnosis, self.truth
        outputs = [found for model in self.models if (found := _outputs(model)) is not None]
        if truth is None or image_axes(truth.shape[1:]) is None:  # vectors are not clipped
            shown = [*outputs, *([] if truth is None else [truth])]
            return tone_of(np.concatenate(shown)) if shown else Tone()
        return tone_of(truth[self.available], diagnosis.facts.get("value_range"))

    @property
    def title(self) -> str:
        """Factors with their sizes, and the number of held-out combinations."""
        factors = " × ".join(f"{name} {size}" for name, size in zip(self.space.names, self.space.shape))
        held, gone = int(self.held.sum()), int((~self.available).sum())
        said = f"{held} of {len(self.space) - gone} combinations held out" if held else "no hold-out"
        return f"{factors}, {said}" + (f", {gone} unavailable" if gone else "")

    def start_among(self, chosen: Bool[np.ndarray, " cell"] | None) -> list[int]:
        """The initially selected cell: the one closest to the middle of the hold-out, or of the grid.

        It is a held-out cell, if there are any, and one of the chosen cells, if not all of them are.
        """
        places = np.stack(np.unravel_index(np.arange(len(self.space)), self.space.shape), axis=1)
        among = self.held if self.held.any() else np.ones(len(self.space), bool)
        middle = places[among].mean(0)
        if chosen is not None:
            among = among & chosen if (among & chosen).any() else chosen
        places = places[among]
        return places[np.square(places - middle).sum(1).argmin()].tolist()


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
    """Group models by factor space, hold-out and truth. A model without truth joins the first group that matches."""
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


def drawn(group: Group, most: int | None) -> Bool[np.ndarray, " cell"] | None:
    """True at the cells whose images are stored: a random draw, held-out cells first. None if all of them are."""
    if most is None or group.available.sum() <= most:
        return None
    order = np.random.default_rng(0).permutation(len(group.space))
    order = order[np.argsort(~group.held[order], kind="stable")]
    chosen = np.zeros(len(group.space), bool)
    chosen[order[group.available[order]][:most]] = True
    return chosen


def group_json(
    group: Group, blobs: Blobs, most: Mapping[str, int] | None = None, cells: int | None = None
) -> dict[str, Any]:
    """A group as JSON for the page.

    Args:
        most: Maps parts to the maximum number of items in their panel; 0 omits it.
        cells: Maximum number of cells whose images are stored. See `drawn`.
    """
    truth, gone, chosen = group.truth, ~group.available, drawn(group, cells)
    split, true_images = (BlockPacker(blobs, Block(kind)) for kind in ("hold-out", "truth"))
    return {
        "title": group.title,
        "start": group.start_among(chosen),
        "row_0": group.row_0,
        "tone": asdict(group.tone),
        "factors": [
            {"name": name, "size": f.size, "kind": f.kind, "labels": list(f.labels), "step": f.step}
            for name, f in group.space.factors.items()
        ],
        "held": split.add(group.held.astype(float)),
        "gone": split.add(gone.astype(float)) if gone.any() else None,
        "drawn": None if chosen is None else split.add(chosen.astype(float)),
        "truth": None if truth is None else true_images.add_pictures(_only(truth, chosen)),
        "models": [model_json(model, blobs, most or {}, chosen) for model in group.models],
    }


def _only(
    images: Float[np.ndarray, "cell ..."], chosen: Bool[np.ndarray, " cell"] | None
) -> Float[np.ndarray, "cell ..."]:
    """Images with NaN at all cells but the chosen ones. NaN takes nearly no space after compression."""
    if chosen is None:
        return images
    return np.where(chosen.reshape(-1, *[1] * (images.ndim - 1)), images, np.nan)


def model_json(
    model: Model, blobs: Blobs, most: Mapping[str, int], chosen: Bool[np.ndarray, " cell"] | None = None
) -> dict[str, Any]:
    """A model as JSON for the page. `missing` lists missing results with their reasons."""
    diagnosis, contents, panels = _contents(model, blobs, most)
    maps = BlockPacker(blobs, Block("maps", model.name))
    outputs, pictures = _outputs(model), BlockPacker(blobs, Block("outputs", model.name))
    return {
        "name": model.name,
        "run": None if model.run is None else model.run.id,
        "verdict": {"kind": diagnosis.verdict.kind, "explanation": diagnosis.verdict.explanation},
        "layers": list(diagnosis.layers),
        "missing": {name: diagnosis[name].reason for name in PARTS if not diagnosis[name].computed},
        "landscapes": landscapes(model, contents, maps),
        "maps": layer_maps(diagnosis, contents, maps),
        "tables": part_tables(diagnosis, contents),
        "panels": panels,
        "output": None if outputs is None else pictures.add_pictures(_only(outputs, chosen)),
    }


def _contents(
    model: Model, blobs: Blobs, most: Mapping[str, int]
) -> tuple[Diagnosis, dict[str, PageContent], dict[str, Any]]:
    """The page content of each part. A part that is inconsistent with the rest of the diagnosis counts as damaged."""
    diagnosis = model.diagnosis
    contents, panels, parts = {}, {}, dict(diagnosis.parts)
    for name, part in PARTS.items():
        if not diagnosis[name].computed:
            continue
        items = most.get(name, part.panel_items)
        try:
            contents[name] = part.page(diagnosis[name], diagnosis)
            if part.panel_items and items:
                pack = BlockPacker(blobs, Block(name, model.name))
                panels[name] = part.panel(diagnosis[name], diagnosis, pack, items)
        except (LookupError, TypeError, ValueError) as error:
            reason = f"its numbers are inconsistent with the rest of the diagnosis ({type(error).__name__}: {error})"
            parts[name] = PartResult.absent(name, Missing.DAMAGED, reason)
            contents.pop(name, None)
    return replace(diagnosis, parts=parts), contents, panels


def landscapes(model: Model, contents: Contents, pack: BlockPacker) -> dict[str, Any]:
    """Maps over the grid with their means over ID and OOD cells.

    They are the metrics of a run (or the error of a diagnosis), followed by the maps of the parts that have one number
    per cell.
    """
    found = {
        name: _landscape(model, column, axis_label(name), short=short_label(name), log=on_log_scale(name))
        for name, column in _scores(model).items()
    }
    for name, content in contents.items():
        for one in content.maps:
            if one.values.ndim == 1:
                found[f"{name}: {one.title}"] = _landscape(model, one.values, one.title, classes=one.classes)
    return {name: about | {"map": pack.add(values, bits=16, curve="log" if about["log"] else "linear")}
            for name, (about, values) in found.items()}  # fmt: skip


def _landscape(
    model: Model,
    values: np.ndarray,
    label: str,
    *,
    short: str = "",
    log: bool = False,
    classes: Sequence[str] = (),
) -> tuple[dict[str, Any], Float[np.ndarray, " cell"]]:
    """The description of a map on the page, and its values at existing cells."""
    held, available = _held(model.diagnosis), _available(model.diagnosis)
    splits = {} if classes else {"id": available & ~held, "ood": available & held}
    means = {split: float(np.mean(values[mask])) for split, mask in splits.items() if mask.any()}
    about = {"label": label, "short": short or label, "log": log, "means": means, "classes": list(classes) or None}
    return about, np.where(available, values, np.nan)


def _scores(model: Model) -> dict[str, Float[np.ndarray, " cell"]]:
    """The scores of a run, or the error of the diagnosis for other models."""
    if model.run is not None:
        try:
            return model.run.scores.columns
        except StoreError:
            pass  # the facts of the run report the damage
    errors = model.diagnosis["errors"]
    return {"mse": errors.arrays["mse"]} if errors.computed else {}


def layer_maps(diagnosis: Diagnosis, contents: Contents, pack: BlockPacker) -> list[dict[str, Any]]:
    """Maps of shape (layer, cell) with their descriptions and the parts that they belong to."""
    available = _available(diagnosis)
    return [
        {"part": name, "title": one.title, "factor": one.factor, "about": one.about, "limits": one.limits,
         "least_steps": one.least_steps,
         "map": pack.add(np.where(available, one.values, np.nan), bits=16, curve=one.curve)}
        for name, content in contents.items() for one in content.maps if one.values.ndim == 2
    ]  # fmt: skip


def part_tables(diagnosis: Diagnosis, contents: Contents) -> list[dict[str, Any]]:
    """The tables of the parts with the meaning of every column, truncated to `SHOWN_ROWS` rows."""
    found = []
    for name, content in contents.items():
        for table in content.tables:
            rows = diagnosis[name].tables.get(table, [])
            columns = list(rows[0]) if rows else []
            meanings = [meaning_of(PARTS[name].tables.get(table, {}), column) for column in columns]
            found.append({"name": f"{name}: {table}", "columns": columns, "meanings": meanings, "of": len(rows),
                          "rows": [[row.get(column) for column in columns] for row in rows[:SHOWN_ROWS]]})  # fmt: skip
    return found


def meaning_of(columns: Columns, column: str) -> str:
    """The meaning of a column. The column may belong to a family such as `length_*`."""
    return next((meaning for name, meaning in columns.items() if fnmatchcase(column, name)), "")
