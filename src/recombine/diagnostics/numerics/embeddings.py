"""Embeddings of a layer's activations as points in a few dimensions.

```python
embed(activations, space)                     # UMAP if umap-learn is installed, PCA otherwise; `method` says which
embed_pca(activations, space, dimensions=3)
```
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import FactorSpace
from recombine.diagnostics.numerics.grids import BLOCK, GridArray, as_rows, blocks, enumerate_blocks

NEIGHBOURS, MIN_DIST = 15, 0.1
EXACT_SIDE = 4096  # if both cells and units exceed this number, PCA uses seeded subspace iteration
NO_UMAP = "umap-learn is not installed (pip install 'recombine[umap]')."


@dataclass(frozen=True, eq=False)
class Embedding:
    """Points in the order of the cells.

    Attributes:
        method: "pca" or "umap".
        points: One point per cell, of shape (cells, dimensions).
        explained: Share of the variance along each dimension (PCA), largest first, each in [0, 1]; None for UMAP.
        note: A remark, such as the reason why UMAP was not used; may be empty.
    """

    method: Literal["pca", "umap"]
    points: Float[np.ndarray, "cell dimension"]
    explained: Float[np.ndarray, " dimension"] | None
    note: str = ""


def embed_pca(
    activations: GridArray, space: FactorSpace, *, dimensions: int = 2, seed: int = 0, block: int = BLOCK
) -> Embedding:
    """Principal components: scores of the centred activations along the directions of largest variance.

    They are computed exactly from the eigenvectors of the covariance or Gram matrix, whichever is smaller, or by seeded
    subspace iteration if cells and units both exceed 4096. Signs are chosen such that the point farthest from 0 is
    positive in every dimension. Directions without variance (such as those of constant activations) have scores and
    shares of 0, and the note reports it.

    Raises:
        InputError: If `dimensions` exceeds the number of cells or units.
    """
    rows = as_rows(activations, space, "activations")
    if not 1 <= dimensions <= min(rows.shape):
        raise InputError(
            f"PCA of {rows.shape[0]} cells × {rows.shape[1]} units can have 1 to {min(rows.shape)} dimensions. Got "
            f"{dimensions}."
        )
    means, total, scale = _moments(rows, block)
    if min(rows.shape) > EXACT_SIDE:
        scores = _scores_by_iteration(rows, means, dimensions, seed)
    elif rows.shape[1] > rows.shape[0]:
        scores = _scores_by_gram(rows, means, dimensions, block)
    else:
        scores = _scores_by_covariance(rows, means, dimensions)
    energy = scores.square().sum(0)
    flat = energy <= max(1e-13 * total, 1e-24 * scale)  # only rounding error
    scores[:, flat], energy[flat] = 0.0, 0.0
    scores = with_signs(scores)
    explained = energy / total if total > 1e-24 * scale else torch.zeros_like(energy)
    note = "The activations vary along fewer dimensions than shown." if bool(flat.any()) else ""
    return Embedding("pca", scores.numpy(), explained.clamp(0, 1).numpy(), note)


def with_signs(scores: Float[Tensor, "cell dimension"]) -> Float[Tensor, "cell dimension"]:
    """The scores with signs such that the point farthest from 0 is positive in every dimension."""
    if scores.shape[1] == 0:
        return scores
    farthest = scores.gather(0, scores.abs().argmax(0, keepdim=True))
    return scores * torch.where(farthest < 0, -1.0, 1.0)


def _moments(rows: Shaped[Tensor, "cell unit"], block: int) -> tuple[Float[Tensor, " unit"], float, float]:
    """Means of the units, sum of squared deviations from them, and sum of squares, over all cells and units."""
    means, centred, raw = torch.empty(rows.shape[1], dtype=torch.float64), 0.0, 0.0
    for start, slab in enumerate_blocks(rows, block):
        mean = slab.mean(0)
        means[start : start + slab.shape[1]] = mean
        centred += float((slab - mean).square().sum())
        raw += float(slab.square().sum())
    return means, centred, raw


def _scores_by_gram(
    rows: Shaped[Tensor, "cell unit"], means: Float[Tensor, " unit"], dimensions: int, block: int
) -> Float[Tensor, "cell dimension"]:
    gram = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for start, slab in enumerate_blocks(rows, block):
        slab -= means[start : start + slab.shape[1]]
        gram.addmm_(slab, slab.T)
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values.flip(0)[:dimensions], vectors.flip(1)[:, :dimensions]
    return vectors * values.clamp_min(0).sqrt()


def _scores_by_covariance(
    rows: Shaped[Tensor, "cell unit"], means: Float[Tensor, " unit"], dimensions: int
) -> Float[Tensor, "cell dimension"]:
    covariance = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for slab in blocks(rows.T):  # blocks of cells
        slab -= means[:, None]
        covariance.addmm_(slab, slab.T)
    vectors = torch.linalg.eigh(covariance).eigenvectors.flip(1)[:, :dimensions]
    return torch.cat([(slab - means[:, None]).T @ vectors for slab in blocks(rows.T)])


def _scores_by_iteration(
    rows: Shaped[Tensor, "cell unit"], means: Float[Tensor, " unit"], dimensions: int, seed: int
) -> Float[Tensor, "cell dimension"]:
    centred = rows.double() - means
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        u, s, _ = torch.pca_lowrank(centred, q=min(dimensions + 8, *centred.shape), center=False, niter=6)
    return u[:, :dimensions] * s[:dimensions]


def embed_umap(
    activations: GridArray,
    space: FactorSpace,
    *,
    dimensions: int = 2,
    neighbours: int = NEIGHBOURS,
    min_dist: float = MIN_DIST,
    seed: int = 0,
) -> Embedding:
    """UMAP of the activations (Liang et al. 2025: 15 neighbours, min_dist 0.1). A fixed seed makes it single-threaded.

    Raises:
        NotComputable: If umap-learn is not installed.
        InputError: If there are not more cells than neighbours.
    """
    rows = as_rows(activations, space, "activations")
    if not 2 <= neighbours < len(rows) or not 1 <= dimensions < len(rows) - 1:
        raise InputError(
            f"UMAP of {len(rows)} cells needs 2 to {len(rows) - 1} neighbours and fewer dimensions than cells. "
            f"Got neighbours={neighbours}, dimensions={dimensions}."
        )
    points = umap_points(rows, dimensions, neighbours=neighbours, min_dist=min_dist, seed=seed)
    return Embedding("umap", points, None)


def umap_points(
    rows: Shaped[Tensor, "cell unit"],
    dimensions: int = 2,
    *,
    neighbours: int = NEIGHBOURS,
    min_dist: float = MIN_DIST,
    seed: int = 0,
) -> Float[np.ndarray, "cell dimension"]:
    """UMAP of rows of any cells. See `embed_umap`."""
    try:
        from umap import UMAP  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise NotComputable(Missing.NOT_INSTALLED, f"{NO_UMAP} ({error})") from error
    # On a grid, many neighbours are equidistant. Rounding errors, which differ between calls, must not break these
    # ties, so distances are rounded to six digits of the largest one.
    numbers = rows.double()
    distances = torch.cdist(numbers, numbers, compute_mode="donot_use_mm_for_euclid_dist")
    largest = float(distances.max()) or 1.0
    given = np.round((distances / largest).numpy(), 6)
    reducer = UMAP(
        n_components=dimensions,
        n_neighbors=neighbours,
        min_dist=min_dist,
        metric="precomputed",
        random_state=seed,
        n_jobs=1,  # a seed requires a single job; setting it avoids a warning
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="using precomputed metric")  # the inverse is not used
        return np.asarray(reducer.fit_transform(given), dtype=np.float64)


def embed(activations: GridArray, space: FactorSpace, *, dimensions: int = 2, seed: int = 0) -> Embedding:
    """UMAP if umap-learn is installed and there are enough cells, otherwise PCA with a note that gives the reason."""
    from importlib.util import find_spec

    if find_spec("umap") is None:
        note = f"{NO_UMAP} PCA is shown instead."
    elif len(space) <= NEIGHBOURS:
        note = f"{len(space)} cells are too few for UMAP with {NEIGHBOURS} neighbours, so PCA is shown instead."
    else:
        try:
            return embed_umap(activations, space, dimensions=dimensions, seed=seed)
        except NotComputable as error:  # installed but cannot be imported
            note = f"UMAP failed, so PCA is shown instead: {error}"
    found = embed_pca(activations, space, dimensions=dimensions, seed=seed)
    return Embedding(found.method, found.points, found.explained, " ".join(filter(None, [note, found.note])))
