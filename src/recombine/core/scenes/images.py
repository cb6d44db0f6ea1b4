"""Pictures of a data set as a scene: every cell shows its pictures in the data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Bool, Float, Int, Real
from pydantic import Field
from torch import Tensor

from recombine.core.datasets import DATASETS, Dataset, open_dataset
from recombine.core.datasets.dataset import as_layout
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.core.registry import Finite, Since, member_of
from recombine.core.scenes.scene import SCENES, Scene

CHUNK_BYTES = 2**26  # of pictures averaged at a time
MOST_NAMED = 3  # unavailable cells in a message
SLACK = 1e-6  # by how much numbers may leave their range, relative to its length

Range = Annotated[list[Finite], Field(min_length=2, max_length=2)]


@SCENES.register("images")
class Images(Scene):
    """The pictures of a data set. Cells without a picture are unavailable.

    The configuration records where the files are and the checksums of their content; only the checksums name a run. A
    new configuration only needs `data` and optionally `keep`; factors and checksums are read from the files.

    Args:
        space: The factors, as the data have them.
        data: The layout and its files, see `recombine.core.datasets`: {"kind": "dsprites", "file": "dsprites.npz"}.
        keep: Factor → positions of the values kept. Factors that are not named keep all values.
        all_factors: The factors of all labels before values were selected; None if they equal those of the space, or if
            the layout defines them.
        sha256: Checksums of the files. Different content raises an error.
        several: The target of a cell with several pictures: their "mean", or the picture "nearest" to a given output.
            Training uses all of them.
        own_split: Whether the test part of the data set is excluded from training. False uses all pictures.
        row_0: Whether row 0 of a picture is at its "top" or "bottom".
        inverted: Whether the object is dark on a bright background.
        value_range: The lowest and the highest value of the outputs, as in [-1, 1]. By default [0, 1] for images, and
            for vectors the range of the data. Values outside raise an error.
    """

    factors_from_data = True
    example = None

    def __init__(
        self,
        space: FactorSpace,
        data: Annotated[dict[str, Any], member_of(DATASETS)],
        keep: dict[str, list[int]] = {},  # noqa: B006 (validated into a copy)
        all_factors: dict[str, Any] | None = None,
        sha256: dict[str, str] | None = None,
        several: Literal["mean", "nearest"] = "mean",
        own_split: bool = True,
        row_0: Literal["top", "bottom"] = "top",
        inverted: bool = False,
        value_range: Annotated[Range | None, Since(3)] = None,
    ) -> None:
        labelled = space if all_factors is None else FactorSpace.from_config(all_factors)
        self.dataset: Dataset = open_dataset(data, factors=labelled.factors, keep=keep, sha256=sha256)
        if self.dataset.space != space:
            raise InputError(
                f"The factors of the data are {self.dataset.space}. Got {space}. Omit scene.factors, or select values "
                "with scene.keep."
            )
        self.space = space
        self.several, self.row_0, self.inverted = several, row_0, inverted
        self.output_shape = self.dataset.picture_shape
        self.value_range = _checked_range(self.dataset, value_range)
        self.available = None if self.dataset.available.all() else self.dataset.available
        self.own_split = own_split
        self.test_cells = self.dataset.test_cells if own_split else None

    @classmethod
    def of(cls, dataset: Dataset, **options: Any) -> Images:
        """The scene of a data set that is open."""
        return cls(dataset.space, **recorded(dataset), **options)

    @classmethod
    def completed(cls, config: Mapping[str, Any], factors: Any) -> tuple[dict[str, Any], Any]:
        """A new configuration with the factors and checksums that only the files tell."""
        if config.get("sha256") is not None and factors is not None:
            return dict(config), factors
        data, keep = config.get("data"), config.get("keep", {})
        if not isinstance(data, str | Path | Mapping):
            raise InputError(
                "A scene of images requires data: the path of a file or folder, as in scene.data=dsprites.npz, or "
                'scene.data={"kind": "arrays", "images": "images.npy", "labels": "labels.npy"}.',
                "scene.data",
            )
        if not isinstance(keep, Mapping):
            told = f"scene.keep must map factors to values, as in scene.keep.x=0:9:2. Got {keep!r}."
            raise InputError(told, "scene.keep")
        given = None if factors is None else FactorSpace.from_config(factors)
        dataset = open_dataset(
            as_layout(data), factors=None if given is None else given.factors, keep=keep, sha256=config.get("sha256")
        )
        if given is not None and dataset.source.factors and given != dataset.space:
            raise InputError(
                f"Files of layout {dataset.config['kind']} define their own factors: {dataset.space}. Omit "
                "scene.factors, and select values with scene.keep.",
                "scene.factors",
            )
        return {**config, **recorded(dataset)}, dataset.space.to_config()

    def __call__(
        self, values: Real[Tensor, "*shape factor"], present: Bool[Tensor, "*shape factor"] | None = None
    ) -> Float[Tensor, "*shape ..."]:
        if present is not None and not bool(present.all()):
            raise InputError(
                "A data set has no single-factor scenes, because it has no pictures with an absent factor."
            )
        values = self.space.checked(values)
        cells = self._cells(values)
        images = torch.cat([self._mean(part) for part in cells.split(self._at_once(cells))] or [self._mean(cells)])
        return images.to(values).reshape(*values.shape[:-1], *self.output_shape)

    def target_for(
        self, values: Real[Tensor, "cell factor"], outputs: Float[Tensor, "cell ..."]
    ) -> Float[Tensor, "cell ..."]:
        """The targets of outputs: the mean of the cell's pictures, or the picture nearest to the output."""
        if self.several == "mean":
            return self(values)
        rows = []
        for cell, output in zip(self._cells(self.space.checked(values)).tolist(), outputs):
            pictures = self.dataset.pictures(self.dataset.of(cell)).to(output)
            rows.append(pictures[(pictures - output).square().flatten(1).sum(1).argmin()])
        return torch.stack(rows) if rows else outputs

    @property
    def shows_several(self) -> bool:
        """Whether some cell has several pictures."""
        return int(self.dataset.counts.max()) > 1

    def trained_pictures(self, holdout: Holdout) -> Int[Tensor, " picture"]:
        """Numbers of the pictures of ID cells that do not belong to the test part, in the order of their cells."""
        dataset = self.dataset
        trained = torch.from_numpy(holdout.id_mask.ravel())[dataset.cells]
        if self.own_split and dataset.is_test is not None:
            trained &= ~torch.from_numpy(dataset.is_test)
        numbers = trained.nonzero().squeeze(1)
        return numbers[torch.argsort(dataset.cells[numbers], stable=True)]

    def _cells(self, values: Float[Tensor, "*shape factor"]) -> Int[Tensor, " cell"]:
        """The cells of values, flat; an error if one has no picture."""
        cells = self.space.cells(values.detach()).reshape(-1).cpu()
        missing = cells[self.dataset.counts[cells] == 0].unique()
        if len(missing):
            named = "; ".join(self.space.label(cell) for cell in missing[:MOST_NAMED])
            more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
            raise InputError(f"The data have no picture of {named}{more}. Remove this combination.")
        return cells

    def _at_once(self, cells: Int[Tensor, " cell"]) -> int:
        most = int(self.dataset.counts.max()) * self.dataset.pictures(torch.tensor([0])).nbytes
        return max(1, CHUNK_BYTES // max(1, most))

    def _mean(self, cells: Int[Tensor, " cell"]) -> Float[Tensor, "cell ..."]:
        counts = self.dataset.counts[cells]
        if int(counts.max() if len(counts) else 1) == 1:
            return self.dataset.pictures(self.dataset.first(cells))
        numbers = torch.cat([self.dataset.of(int(cell)) for cell in cells])
        owner = torch.repeat_interleave(torch.arange(len(cells)), counts)
        pictures = self.dataset.pictures(numbers)
        total = pictures.new_zeros(len(cells), *pictures.shape[1:]).index_add_(0, owner, pictures)
        return total / counts.reshape(-1, *[1] * len(self.output_shape))


def _checked_range(dataset: Dataset, given: list[float] | None) -> tuple[float, float]:
    """The range of a data set's numbers. Raises if they lie outside of it."""
    low, high = dataset.span
    if given is None and len(dataset.picture_shape) == 1:
        return low, high
    least, most = (0.0, 1.0) if given is None else given
    if least >= most:
        raise InputError(f"value_range must be [lowest, highest]. Got {given}.", "scene.value_range")
    slack = SLACK * (most - least)
    if low < least - slack or high > most + slack:
        bytes_ = given is None and low >= 0 and 1 < high <= 255
        raise InputError(
            f"Pictures must lie between {least:g} and {most:g} after division by {dataset.scale:g}. Got values from "
            f"{low:g} to {high:g}. "
            + ("Set scale=255." if bytes_ else f"Set their range, as in value_range=[{low:.4g}, {high:.4g}]."),
            "scene.value_range",
        )
    return least, most


def recorded(dataset: Dataset) -> dict[str, Any]:
    """The part of a scene's configuration that tells which data it shows."""
    whole = None if dataset.source.factors or dataset.whole == dataset.space else dataset.whole.to_config()
    return {"data": dataset.config, "keep": dataset.keep, "all_factors": whole, "sha256": dataset.sha256}
