"""A decoder that can only add up what the single factors contribute.

This kind was added after the first result on the half kept apart. It comes last, because the seeds of a case contain
the place of its kind.
"""

from __future__ import annotations

import numpy as np

from benchmarks.verdicts.expected import NEAR, Decoder, Unsuitable, same
from benchmarks.verdicts.grid import Grid
from benchmarks.verdicts.kinds.everywhere import ANY, NOT_LEARNT
from benchmarks.verdicts.kinds.kind import Kind
from benchmarks.verdicts.kinds.right import blur

BLURS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
FEW_LEARNT = 0.2


def best_additive_fit(grid: Grid, random: np.random.Generator) -> Decoder:
    """One image per factor value, added up, fitted to the trained cells: crosses where the truth is a spot.

    Drawn again where more than a fifth of the trained outputs are nearly the truth, perhaps blurred.
    """
    codes = np.concatenate([np.eye(size)[grid.at[:, axis]] for axis, size in enumerate(grid.sizes)], axis=1)
    outputs = codes @ np.linalg.lstsq(codes[grid.trained], grid.truth[grid.trained], rcond=None)[0]
    if np.mean(_distance_from_blurred(grid, outputs) < NEAR) > FEW_LEARNT:
        raise Unsuitable
    return Decoder(outputs, NOT_LEARNT, same(len(grid.unseen), *ANY), None, gap=False)


def _distance_from_blurred(grid: Grid, outputs: np.ndarray) -> np.ndarray:
    """Squared distance of each trained output from the truth, blurred and scaled as it fits all of them best.

    Relative to the energy of that blurred truth.
    """
    given = outputs[grid.trained] - grid.mean
    fits = []
    for sigma in BLURS:
        rendered = (blur(grid, grid.truth, sigma) if sigma else grid.truth)[grid.trained]
        rendered = rendered - rendered.mean(0)
        rendered *= (given * rendered).sum() / (rendered**2).sum()
        fits.append((((given - rendered) ** 2).sum(1), (rendered**2).sum(1)))
    left, energy = min(fits, key=lambda fit: fit[0].sum())
    return np.asarray(left / np.maximum(energy, 1e-12))


KINDS = (Kind(best_additive_fit),)
