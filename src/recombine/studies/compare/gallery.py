"""Galleries of a comparison: what every remedy draws for the same unseen cells of a scene and a split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int

from recombine.core.images import Row0, as_pictures, image_axes, tone_of
from recombine.diagnostics.cells.classes import CellClass
from recombine.plotting.images import tone_note
from recombine.plotting.style import GREEN, OUTLINE, new_figure
from recombine.runs.store import Store
from recombine.runs.stored import StoredRun
from recombine.studies.compare.planning import Status
from recombine.studies.compare.remedy import REMEDIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12  # unseen cells in a gallery
GAP = 2  # pixels between pictures
CELL_INCHES = 0.52
FRAMES = {True: GREEN, False: OUTLINE, None: "0.6"}  # by whether the output is right


@dataclass(frozen=True, eq=False)
class Line:
    """One remedy's outputs for the cells of a gallery.

    Attributes:
        name: The remedy.
        right: Share of all unseen cells that are right.
        outputs: Its outputs for the shown cells.
        judged: Whether each shown output is right; None for cells that the verdict did not classify.
    """

    name: str
    right: float
    outputs: Float[np.ndarray, "shown ..."]
    judged: Sequence[bool | None]


@dataclass(frozen=True, eq=False)
class Gallery:
    """Truth and outputs of one scene and split, from the runs of one seed."""

    scene: str
    split: str
    cells: Int[np.ndarray, " shown"]
    truth: Float[np.ndarray, "shown ..."]
    lines: Sequence[Line]
    row_0: Row0
    value_range: tuple[float, float]


def galleries(store: Store, rows: Sequence[Mapping[str, Any]], seed: int = 0) -> Iterator[Gallery]:
    """A gallery of every scene and split whose outputs are images, with all runs that have a row of results."""
    for scene, split in dict.fromkeys((row["scene"], row["split"]) for row in rows):
        here = [row for row in rows if (row["scene"], row["split"], row["seed"]) == (scene, split, seed)]
        found = [(row, store.load(row["run"])) for row in here if row["status"] == Status.DONE]
        if found and image_axes(found[0][1].task.target_shape) is not None:
            yield _gallery(scene, split, found)


def _gallery(scene: str, split: str, found: Sequence[tuple[Mapping[str, Any], StoredRun]]) -> Gallery:
    task = found[0][1].task
    cells = drawn(np.logical_and.reduce([run.holdout.ood_mask.ravel() for _, run in found]))
    values = task.space.values(torch.from_numpy(cells))
    lines = []
    for row, run in found:
        judged: list[bool | None] = [False] * len(cells)
        if row["id_error"] is not None:  # else the model gives the same output for every code, which is wrong
            parts = run.load_diagnosis(partial=True)
            classes = {one["cell"]: one["class"] for one in parts["superposition"].tables["classes"]}
            judged = [classes[cell] == CellClass.RIGHT if cell in classes else None for cell in cells.tolist()]
        try:
            with torch.no_grad():
                outputs = run.model(run.task.inputs(values)).numpy()
        except (Exception, SystemExit):
            if not REMEDIES.is_foreign(REMEDIES[row["remedy"]]):
                raise
            continue
        lines.append(Line(row["remedy"], row["right"], outputs, judged))
    return Gallery(scene, split, cells, task.targets(values).numpy(), lines, task.scene.row_0, task.scene.value_range)


def drawn(held: np.ndarray, most: int = SHOWN) -> Int[np.ndarray, " shown"]:
    """At most `most` held-out cells, drawn at random but always the same, in order."""
    cells = np.flatnonzero(held)
    return np.sort(np.random.default_rng(0).permutation(cells)[:most])


def draw(gallery: Gallery) -> Figure:
    """Draw a gallery: the truth, then one row per remedy. Frames are green where an output is right."""
    from matplotlib.patches import Rectangle

    tone = tone_of(gallery.truth, gallery.value_range)
    rows = [gallery.truth, *(line.outputs for line in gallery.lines)]
    tiles = [[_tile(picture, gallery.row_0) for picture in tone(_pictures(row))] for row in rows]
    height, width, _ = tiles[0][0].shape
    down, across = height + GAP, width + GAP
    sheet = np.ones((len(tiles) * down, len(tiles[0]) * across, 3))
    for i, line in enumerate(tiles):
        for j, tile in enumerate(line):
            sheet[i * down : i * down + height, j * across : j * across + width] = tile
    unit = CELL_INCHES / max(down, across)
    figure = new_figure(sheet.shape[1] * unit + 2.4, sheet.shape[0] * unit + 0.9)
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="nearest")
    for i, line in enumerate(gallery.lines, 1):
        for j, judged in enumerate(line.judged):
            corner = (j * across - 0.5, i * down - 0.5)
            frame = Rectangle(corner, width, height, fill=False, edgecolor=FRAMES[judged], linewidth=1.2)
            axes.add_patch(frame)
    middles = [i * down + (height - 1) / 2 for i in range(len(rows))]
    axes.set_xticks([])
    axes.set_yticks(middles, ["truth", *(f"{line.name}  {line.right:.2f}" for line in gallery.lines)], fontsize=8)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(
        f"{gallery.scene}, {gallery.split}: the same {len(gallery.cells)} unseen cells of every remedy", fontsize=9
    )
    axes.set_xlabel(
        f"beside the names: share of right unseen cells of this seed; green frame: right, red: not{tone_note(tone)}",
        fontsize=7,
    )
    return figure


def _pictures(outputs: Float[np.ndarray, "shown ..."]) -> Float[np.ndarray, "shown row column *channel"]:
    pictures = as_pictures(outputs)
    assert pictures is not None
    return pictures


def _tile(picture: Float[np.ndarray, "row column *channel"], row_0: Row0) -> Float[np.ndarray, "row column 3"]:
    """A picture in colour with its first row on top; grey where it is not finite."""
    colour = np.repeat(picture[..., None], 3, axis=-1) if picture.ndim == 2 else picture[..., :3]
    colour = np.where(np.isfinite(colour), colour, 0.5)
    return colour[::-1] if row_0 == "bottom" else colour
