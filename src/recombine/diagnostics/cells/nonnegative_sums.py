"""Best sums of vectors with weights ≥ 0, for many targets at once, from inner products alone.

    weights = nonnegative_weights(gram, cross)             # min_w ‖b − Σ_k w_k a_k‖², w ≥ 0
    few = sparse_weights(gram, cross, energy, weights, slack=…)

`gram` contains ⟨a_k, a_l⟩, `cross` ⟨a_k, b⟩ and `energy` ‖b‖². Zero vectors a_k have weight 0.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

RIDGE = 1e-9  # relative to the mean energy of the vectors
MOST_RAISED = 6  # times that a ridge is raised a hundredfold; then it exceeds the vectors
FEW = 6  # memories tried before all are allowed


def nonnegative_weights(
    gram: Float[Tensor, "target part part"], cross: Float[Tensor, "target part"]
) -> Float[Tensor, "target part"]:
    """The weights ≥ 0 that bring Σ_k w_k a_k closest to each target.

    Uses the active-set method of Lawson and Hanson on triangular matrices with the same inner products. A small ridge
    term handles dependent vectors.
    """
    from scipy.optimize import nnls

    count = cross.shape[1]
    own = gram.diagonal(dim1=1, dim2=2)
    lower = _triangular(gram, RIDGE * own.mean(1).clamp_min(1e-300))
    wanted = torch.linalg.solve_triangular(lower, cross[:, :, None], upper=False).squeeze(-1).numpy()
    parts = lower.mT.contiguous().numpy()
    return torch.from_numpy(np.stack([nnls(*pair, maxiter=100 * count)[0] for pair in zip(parts, wanted, strict=True)]))


def _triangular(
    gram: Float[Tensor, "target part part"], ridge: Float[Tensor, " target"]
) -> Float[Tensor, "target part part"]:
    """The Cholesky factors of Gram matrices. A ridge that does not outweigh the rounding error is raised."""
    for _ in range(MOST_RAISED):
        lower, failed = torch.linalg.cholesky_ex(_ridged(gram, ridge))
        if not bool((failed > 0).any()):
            return lower
        ridge = torch.where(failed > 0, 100 * ridge, ridge)
    return torch.linalg.cholesky(_ridged(gram, ridge))


def _ridged(gram: Tensor, ridge: Tensor) -> Tensor:
    return gram + torch.diag_embed(ridge[:, None].expand(-1, gram.shape[1]))


def unexplained(
    gram: Float[Tensor, "target part part"],
    cross: Float[Tensor, "target part"],
    energy: Float[Tensor, " target"],
    weights: Float[Tensor, "target part"],
) -> Float[Tensor, " target"]:
    """‖b − Σ_k w_k a_k‖²."""
    quadratic = (weights * (gram @ weights[:, :, None]).squeeze(-1)).sum(1)
    return (energy - 2 * (weights * cross).sum(1) + quadratic).clamp_min(0)


def sparse_weights(
    gram: Float[Tensor, "target part part"],
    cross: Float[Tensor, "target part"],
    energy: Float[Tensor, " target"],
    weights: Float[Tensor, "target part"],
    *,
    slack: Float[Tensor, " target"],
) -> Float[Tensor, "target part"]:
    """The fewest weights (at most six) whose residual exceeds that of the given ones by at most `slack`.

    Vectors are added one at a time, starting with the one that explains most of the residual. If six do not suffice,
    the given weights are returned.
    """
    goal = unexplained(gram, cross, energy, weights) + slack
    found, open_ = weights.clone(), torch.ones(len(weights), dtype=torch.bool)
    own = gram.diagonal(dim1=1, dim2=2)
    scale = torch.where(own > 0, own, torch.inf)
    chosen = torch.empty(len(weights), 0, dtype=torch.long)
    few = torch.zeros_like(weights)
    for _ in range(min(FEW, weights.shape[1])):
        pull = cross - (gram @ few[:, :, None]).squeeze(-1)
        gain = pull.clamp_min(0) / scale.sqrt()
        gain.scatter_(1, chosen, -1.0)
        chosen = torch.cat([chosen, gain.argmax(1, keepdim=True)], dim=1)
        inner = gram.gather(1, chosen[:, :, None].expand(-1, -1, gram.shape[2]))
        inner = inner.gather(2, chosen[:, None, :].expand(-1, chosen.shape[1], -1))
        few = torch.zeros_like(weights).scatter_(1, chosen, nonnegative_weights(inner, cross.gather(1, chosen)))
        reached = open_ & (unexplained(gram, cross, energy, few) <= goal)
        found[reached] = few[reached]
        open_ &= ~reached
        if not bool(open_.any()):
            break
    return found
