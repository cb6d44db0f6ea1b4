"""The result of `diagnose`: the parts and the verdict, with saving and loading."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from recombine.core.errors import InputError, Missing
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import Holdout
from recombine.diagnostics.diagnosis_files import read_diagnosis, write_diagnosis
from recombine.diagnostics.findings import Absence, PartResult, json_able
from recombine.diagnostics.part import PARTS
from recombine.diagnostics.verdict import Verdict

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

NOT_KEPT = "the files contain no such part; diagnose the model again"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The results of diagnosing a model. Created by `diagnose`, or read from files by `load`.

    Attributes:
        space: The factor space.
        holdout: Which combinations are OOD; None if none was given.
        layers: Names of the layers, in the order in which the model computes them.
        parts: All parts by name; `diagnosis["probes"]` is one. Parts that were not computed state the reason.
        verdict: What the model does with unseen combinations.
        facts: Settings, and the shapes of layers and outputs.
        source: The origin of the model, such as a run and the digest of its weights; empty for a model that was passed
            to `diagnose`.
    """

    space: FactorSpace
    holdout: Holdout | None
    layers: tuple[str, ...]
    parts: dict[str, PartResult]
    verdict: Verdict
    facts: dict[str, Any]
    source: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, part: str) -> PartResult:
        if part not in self.parts:
            return PartResult.absent(PARTS[part].name, Missing.NOT_REQUESTED, NOT_KEPT)  # raises for a wrong name
        return self.parts[part]

    @property
    def missing(self) -> dict[str, dict[str, Absence]]:
        """Part → missing result → reason. Parts that were not requested are omitted."""
        return {
            name: part.missing
            for name, part in self.parts.items()
            if part.missing and part.state is not Missing.NOT_REQUESTED
        }

    @property
    def held_out(self) -> Bool[np.ndarray, " cell"]:
        """True at OOD cells; nowhere without a hold-out."""
        return np.zeros(len(self.space), bool) if self.holdout is None else self.holdout.ood_mask.ravel()

    @property
    def notes(self) -> list[str]:
        """Remarks that a reader should know before trusting the numbers."""
        return list(self.facts.get("notes", []))

    def noted(self, note: str) -> Diagnosis:
        """The same with one more note."""
        return replace(self, facts={**self.facts, "notes": [*self.notes, note]})

    def with_parts_of(self, earlier: Diagnosis) -> Diagnosis | None:
        """This diagnosis, completed by the parts of an earlier one of the same model that were not requested.

        If the shared settings differ, the parts of both cannot be combined. The result is then this diagnosis alone if
        it has all parts of the earlier one, and None otherwise.
        """
        lacking = [
            name for name, part in earlier.parts.items()
            if part.computed and self[name].state is Missing.NOT_REQUESTED
        ]  # fmt: skip
        if not lacking:
            return self
        if self._settings() != earlier._settings():
            return None
        parts = {**self.parts, **{name: earlier.parts[name] for name in lacking}}
        verdict = earlier.verdict if "superposition" in lacking else self.verdict
        return replace(self, parts=parts, verdict=verdict)

    def _settings(self) -> Any:
        """The settings that parts must share to be combined; the amount of memory does not matter."""
        request = {**self.facts["request"], "memory": None, "layers": None}  # the layers are there by name
        cells = None if self.holdout is None else [self.holdout.id_mask.tolist(), self.holdout.ood_mask.tolist()]
        return json_able({**self.facts, "notes": None, "request": request, "space": self.space.to_config(),
                          "cells": cells, "layers": self.layers})  # fmt: skip

    def to_pandas(self, part: str | None = None, table: str | None = None) -> pandas.DataFrame:
        """A table of a part (by default its main table). Without a part: all numbers by layer, one per row."""
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
        """The figure of a part. A missing part raises an error with the reason."""
        found = self[part]
        found.table()  # raises if missing
        if part not in PARTS:
            raise InputError(f"The part {part!r} is unknown. To draw it, load the plug-in that defines it.")
        return PARTS[part].plot(found, self)

    def save(self, folder: str | Path) -> Path:
        """Write JSON, CSV and safetensors files, see docs/diagnose.md; `Diagnosis.load` reads them."""
        return write_diagnosis(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, partial: bool = False) -> Diagnosis:
        """Read the files that `save` wrote. Nothing in them is ever executed.

        A file that is missing or was changed raises an error; with `partial`, its part is marked as missing instead.
        Parts that this version does not know are read unchanged.
        """
        fields = read_diagnosis(Path(folder), partial=partial)
        known = {name: PartResult.absent(name, Missing.NOT_REQUESTED, NOT_KEPT) for name in PARTS}
        return cls(**{**fields, "parts": known | fields["parts"]})

    def to_json(self) -> dict[str, Any]:
        """The verdict, the main tables by layer and the missing results, as JSON values."""
        from recombine.diagnostics.overview import as_json

        return as_json(self)

    def __str__(self) -> str:
        from recombine.diagnostics.overview import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from recombine.diagnostics.overview import as_html

        return as_html(self)


def _quantity(row: dict[str, Any], key: str) -> str:
    """The column's name, followed by whatever distinguishes the row: cells, pair of factors, factor, score."""
    return ", ".join([key, *(str(row[k]) for k in ("cells", "pair", "factor", "score") if isinstance(row.get(k), str))])
