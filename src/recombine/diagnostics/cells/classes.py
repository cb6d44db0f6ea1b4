"""The class of every cell's output, determined by comparing the residuals of several explanations.

    found = classify(evidence.unseen, evidence)
    found.classes                   # one CellClass per cell
    found.options[i]                # the classes that explain an ambiguous cell equally well

Explanations are tried from the simplest to the most flexible; a flexible one is chosen only if simpler ones do not
suffice. All comparisons are made within one cell. Residuals that trained cells show as well (noise, blur) are no
evidence: twice their median residual is tolerated everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float, Int

from recombine.diagnostics.cells.evidence import CellEvidence, Evidence
from recombine.diagnostics.cells.memory_fit import MemoryFit
from recombine.diagnostics.cells.thresholds import THRESHOLDS, Thresholds

LEAST = 2e-4  # residual, relative to the truth's energy, below which nothing is compared


class CellClass(StrEnum):
    """The class of a cell's output."""

    RIGHT = "right"
    STRENGTH = "wrong strength"
    SUM = "sum"
    COPY = "copy"
    MEAN = "mean"
    BLANK = "blank"
    VALUE = "wrong value"
    OTHER = "other"
    AMBIGUOUS = "ambiguous"

    @property
    def meaning(self) -> str:
        """The class in words."""
        return MEANINGS[self]


MEANINGS = {
    CellClass.RIGHT: "right",
    CellClass.STRENGTH: "right form, wrong strength",
    CellClass.SUM: "sum of memories",
    CellClass.COPY: "copy of one memory",
    CellClass.MEAN: "mean of all",
    CellClass.BLANK: "blank",
    CellClass.VALUE: "wrong value of one factor",
    CellClass.OTHER: "other",
    CellClass.AMBIGUOUS: "ambiguous",
}


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of some cells.

    Attributes:
        cells: Indices of the cells.
        classes: One class per cell.
        options: For an ambiguous cell, the classes that explain it equally well; empty for the others.
        values_right: Whether the output shows the right value of each factor; None without truth.
        wrong_axis, wrong_value: For a wrong value, and for a copy that differs in one factor: the factor and the index
            of the value shown; −1 otherwise.
        memory: For a copy, the trained cell; −1 otherwise.
    """

    cells: Int[np.ndarray, " cell"]
    classes: tuple[CellClass, ...]
    options: tuple[tuple[CellClass, ...], ...]
    values_right: Bool[np.ndarray, "cell factor"] | None
    wrong_axis: Int[np.ndarray, " cell"]
    wrong_value: Int[np.ndarray, " cell"]
    memory: Int[np.ndarray, " cell"]

    def share(self, *classes: CellClass) -> float:
        """The share of cells in some classes; NaN without cells."""
        return float(np.mean([one in classes for one in self.classes])) if self.classes else np.nan


def classify(found: CellEvidence, evidence: Evidence, thresholds: Thresholds = THRESHOLDS) -> Classes:
    """The class of each cell."""
    compared = _Compared(found, evidence, thresholds)
    answers = [compared.decide(row) for row in range(len(found.cells))]
    classes = tuple(answer[0] if len(answer) == 1 else CellClass.AMBIGUOUS for answer in answers)
    options = tuple(() if len(answer) == 1 else answer for answer in answers)
    axis, value = np.full(len(classes), -1), np.full(len(classes), -1)
    memory = np.full(len(classes), -1)
    for row, one in enumerate(classes):
        if one is CellClass.COPY:
            memory[row] = compared.copied(row)
            there = np.array(np.unravel_index(memory[row], evidence.space.shape))
            differ = np.flatnonzero(there != found.at[row])
            if len(differ) == 1:
                axis[row], value[row] = differ[0], there[differ[0]]
        elif one is CellClass.VALUE and found.truth is not None:
            axis[row], value[row] = found.truth.value_axis[row], found.truth.value_index[row]
    right = None
    if found.truth is not None:
        is_right = np.array([one is CellClass.RIGHT for one in classes], dtype=bool)
        right = (found.truth.read == found.at) | is_right[:, None]
    return Classes(found.cells, classes, options, right, axis, value, memory)


class _Compared:
    """The comparisons, one number per cell."""

    def __init__(self, found: CellEvidence, evidence: Evidence, t: Thresholds) -> None:
        self.t, memory, truth = t, found.memory, found.truth
        self.floor = 0.0 if evidence.rendering is None else evidence.rendering.residual
        self.scale = np.full(len(found.cells), typical_energy(evidence)) if truth is None else truth.energy
        self.scale = np.maximum(self.scale, 1e-300)
        self.left: dict[CellClass, Float[np.ndarray, " cell"]] = {
            CellClass.MEAN: memory.energy,
            CellClass.BLANK: memory.blank,
            CellClass.COPY: memory.single,
            CellClass.SUM: memory.sum,
        }
        self.flat, self.strangers = memory.flat, memory.strangers
        self.single_cell = memory.single_cell
        self.enough: dict[CellClass, Bool[np.ndarray, " cell"]] = {
            CellClass.COPY: (memory.single_weight > 0) & self._suffices(memory.single, memory.flat),
        }
        self.right = np.zeros(len(found.cells), dtype=bool)
        if truth is not None:
            self._compare_truth(found, evidence)
        else:
            self.enough[CellClass.COPY] &= self._unusual(
                memory.single, evidence.control.memory.single, evidence.control.memory
            )
        self.collapsed = memory.flat <= self._tolerated(self.scale, t.exact if truth is None else t.right)
        self.sums = self._sums_are_clear(memory, evidence)

    def _tolerated(self, energy: np.ndarray, share: float) -> np.ndarray:
        return share * energy + 2 * self.floor

    def _suffices(self, left: np.ndarray, energy: np.ndarray, more: np.ndarray | float = 0.0) -> np.ndarray:
        """Whether a simple explanation explains most of an output and leaves little, or noise that no sum explains."""
        most = (left <= (1 - self.t.mostly) * energy) & (energy > LEAST * self.scale)
        noise = (left <= self.t.as_well * self.left[CellClass.SUM]) & (left <= self._tolerated(energy, self.t.right))
        return most & ((left <= self.t.right * energy + more) | noise)

    def _compare_truth(self, found: CellEvidence, evidence: Evidence) -> None:
        truth, memory = found.truth, found.memory
        assert truth is not None
        unseen = (truth.elsewhere_cell >= 0) & ~evidence.trained_cells[truth.elsewhere_cell]
        self.left |= {
            CellClass.RIGHT: truth.right,
            CellClass.STRENGTH: truth.form,
            CellClass.VALUE: truth.value,
            CellClass.OTHER: np.where(unseen, truth.elsewhere, np.inf),
        }
        blur = self.t.blur * self.floor
        self.enough |= {
            CellClass.STRENGTH: (truth.strength > 0)
            & self._suffices(truth.form, memory.flat, blur * truth.strength**2),
            CellClass.VALUE: self._suffices(truth.value, memory.energy, blur),
            CellClass.OTHER: self._suffices(self.left[CellClass.OTHER], memory.energy, blur),
        }
        self.value_cell = _value_cells(found, evidence)
        self.value_trained = evidence.trained_cells[self.value_cell] & (truth.value_axis >= 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            self.margins = {
                CellClass.VALUE: np.nan_to_num((truth.value - truth.right) / truth.value_apart, nan=1, posinf=1),
                CellClass.MEAN: (memory.energy - truth.right) / self.scale,
            }
            blank = (memory.blank - truth.right) / truth.blank
        energy = np.maximum(self.scale, typical_energy(evidence) / 2)
        self.margins[CellClass.BLANK] = np.where(truth.blank > LEAST * energy, blank, 1.0)  # 1 if the truth is blank
        self.right = truth.right <= self._tolerated(energy, self.t.right)
        self.instead_right = (truth.right > self.t.right * energy) & (memory.sum <= self.t.remains * truth.right)

    def _corrected(self, left: np.ndarray) -> np.ndarray:
        """The residual beyond that of trained cells."""
        return np.maximum(left - self.floor, 0) + LEAST * self.scale

    def _share(self, left: np.ndarray) -> np.ndarray:
        """Share of the non-flat part of an output that an explanation explains."""
        rest = np.maximum(np.maximum(self.flat - self.floor, LEAST * self.scale), 1e-300)
        return np.clip(1 - np.maximum(np.minimum(left, self.flat) - self.floor, 0) / rest, 0, 1)

    def _explain_more(self, left: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Whether one explanation explains clearly more than another, with or without the residual of trained cells."""
        plain = [
            1 - np.minimum(x, self.flat) / np.maximum(np.maximum(self.flat, LEAST * self.scale), 1e-300)
            for x in (left, other)
        ]
        pairs = [plain, [self._share(left), self._share(other)]]
        return np.any(
            [(a >= b + self.t.clearly) | ((b < 1) & (1 - a <= self.t.remains * (1 - b))) for a, b in pairs], axis=0
        )

    def _unusual(self, left: np.ndarray, control: np.ndarray, trained: MemoryFit) -> Bool[np.ndarray, " cell"]:
        """Without truth: whether outputs are explained clearly better than the best quarter of trained ones.

        Always false if that quarter is explained almost completely, because right outputs may be explained as well.
        """
        shares = np.minimum(control / np.maximum(trained.flat, 1e-300), 1)
        usual = float(np.quantile(shares, 0.25))
        return self._explain_more(left, usual * self.flat) & (usual > self.t.right)

    def _sums_are_clear(self, memory: MemoryFit, evidence: Evidence) -> Bool[np.ndarray, " cell"]:
        """Whether a sum of memories explains most of an output, and clearly more than other explanations do."""
        sums = self.left[CellClass.SUM]
        self.like_sums = (self._share(sums) >= self.t.mostly) & (
            (sums <= self.t.exact * self.flat) | self._explain_more(sums, self.strangers)
        )
        if CellClass.STRENGTH not in self.left:
            self.form_share = np.zeros_like(sums)
            return self.like_sums & self._unusual(sums, evidence.control.memory.sum, evidence.control.memory)
        haunted = self._corrected(memory.ghosts) <= self.t.remains * self._corrected(sums)
        self.like_sums &= ~(haunted & (memory.ghost_truth >= self.t.clearly * self.flat))
        form = self.left[CellClass.STRENGTH]
        self.form_share = self._share(form)
        return self.like_sums & self._explain_more(sums, form)

    def decide(self, row: int) -> tuple[CellClass, ...]:
        """The class of one cell, or several classes that explain it equally well."""
        if self.right[row] and not (self.instead_right[row] and self.sums[row]):
            rival, margin = min(((c, float(m[row])) for c, m in self.margins.items()), key=lambda pair: pair[1])
            if margin > self.t.margin:
                return (CellClass.RIGHT,)
            if margin > -self.t.margin:
                return (CellClass.RIGHT, rival)
        plain = self._plain(row)
        if not plain:
            return self._flexible(row)
        best = plain[0]
        if self._mean_or_sum(best, row):
            return (*plain, CellClass.SUM)
        if self.sums[row] and not self._exact(best, row):
            left = float(self._corrected(self.left[CellClass.SUM])[row])
            if left < self.t.remains * self._plain_left(best, row):
                return (CellClass.SUM,)
        return tuple(plain)

    def _mean_or_sum(self, best: CellClass, row: int) -> bool:
        """Whether, without truth, an output is nearly the mean, but a sum explains the rest."""
        if CellClass.RIGHT in self.left or best not in (CellClass.MEAN, CellClass.BLANK) or not self.like_sums[row]:
            return False
        left = float(self._corrected(self.left[CellClass.SUM])[row])
        return left < self.t.remains * self._plain_left(best, row)

    def copied(self, row: int) -> int:
        """The trained cell of a copy."""
        return int(self.single_cell[row] if self.enough[CellClass.COPY][row] else self.value_cell[row])

    def _exact(self, which: CellClass, row: int) -> bool:
        """Whether the residual of a simple explanation is so small that no other is needed."""
        if which in (CellClass.MEAN, CellClass.BLANK):
            return False
        plain = which in (CellClass.VALUE, CellClass.OTHER)
        energy = self.left[CellClass.MEAN] if plain else self.flat
        return bool(self.left[which][row] <= self.t.exact * energy[row] + (self.t.blur * self.floor if plain else 0))

    def _plain_left(self, which: CellClass, row: int) -> float:
        left = self.flat if which in (CellClass.MEAN, CellClass.BLANK) else self.left[which]
        return float(self._corrected(left)[row])

    def _plain(self, row: int) -> list[CellClass]:
        """The simple explanations that suffice and are about equally good, best first."""
        found = [one for one, enough in self.enough.items() if enough[row]]
        if self.collapsed[row]:
            found.append(CellClass.MEAN)
        if not found:
            return []
        best = min(found, key=lambda one: self._plain_left(one, row))
        least = self._plain_left(best, row)
        near = [one for one in found if one is best or self._plain_left(one, row) < self.t.as_well * least]
        if CellClass.VALUE in near and CellClass.OTHER in near:
            near.remove(CellClass.OTHER)  # the nearest truth of all differs in one factor
        if CellClass.VALUE in near and self.value_trained[row]:
            near = [CellClass.COPY if one is CellClass.VALUE else one for one in near]
        if CellClass.MEAN in near:
            near = [one for one in near if one is not CellClass.MEAN] + self._collapsed_to(row)
        return list(dict.fromkeys(near))

    def _collapsed_to(self, row: int) -> list[CellClass]:
        options = (CellClass.MEAN, CellClass.BLANK)
        left = {one: float(self._corrected(self.left[one])[row]) for one in options}
        best = min(left, key=left.__getitem__)
        return [one for one in options if left[one] < self.t.as_well * left[best]]

    def _flexible(self, row: int) -> tuple[CellClass, ...]:
        if self.sums[row]:
            return (CellClass.SUM,)
        if self.like_sums[row] and self.form_share[row] >= self.t.mostly:
            return (CellClass.STRENGTH, CellClass.SUM)
        return (CellClass.OTHER,)


def typical_energy(evidence: Evidence) -> float:
    """Mean energy of the truth around the mean output; without truth, of trained outputs."""
    truth = evidence.control.truth
    return float(np.mean(evidence.control.memory.energy if truth is None else truth.energy))


def _value_cells(found: CellEvidence, evidence: Evidence) -> Int[np.ndarray, " cell"]:
    """The combination with the best wrong value; the cell itself if there is none."""
    truth = found.truth
    assert truth is not None
    at = found.at.copy()
    exists = truth.value_axis >= 0
    at[exists, truth.value_axis[exists]] = truth.value_index[exists]
    return np.asarray(np.ravel_multi_index(tuple(at.T), evidence.space.shape))
