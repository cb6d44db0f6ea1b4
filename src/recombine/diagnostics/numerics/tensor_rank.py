"""How many products of single-mode vectors add up to a tensor: SVD for two modes, CP by alternating least squares
(tensorly) for more.

The rank found by fitting is an upper bound: a better fit with fewer terms may have been missed. A lower bound is
certain: a sum of R products has unfoldings of matrix rank at most R, so its error is at least that of the best
rank-R matrix for every unfolding. Where both bounds meet the rank is proven.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.seeds import generator

EXACT = 1e-6  # relative error that counts as none; alternating least squares seldom gets far below
INITS = 4
ITERATIONS = 200
POLISH_STEPS, POLISH_UNKNOWNS = 200, 1500


@dataclass(frozen=True, eq=False)
class CPTerms:
    """Σ_r weight_r · v_1^(r) ⊗ … ⊗ v_n^(r) with vectors of length 1, largest weight first, and its relative error."""

    weights: Float[np.ndarray, " term"]
    error: float


@dataclass(frozen=True, eq=False)
class RankSearch:
    """The least number of products that add up to a tensor within a relative error ε.

    Attributes:
        rank: The least number found; None if none up to the last of `tried` was enough. 0 for the zero tensor.
        lower_bound: No smaller number can do.
        epsilon: The error allowed, ‖t − t_R‖ / scale, scale being ‖t‖ unless another was given.
        tried: Numbers of terms tried.
        errors: The best relative error with each.
        weights: Weights of the terms of the last one tried, largest first.
    """

    rank: int | None
    lower_bound: int
    epsilon: float
    tried: tuple[int, ...]
    errors: Float[np.ndarray, " rank"]
    weights: Float[np.ndarray, " term"]

    @property
    def proven(self) -> bool:
        """True if no smaller rank is possible."""
        return self.rank == self.lower_bound


def cp_terms(
    tensor: Float[Tensor, "*mode"],
    rank: int,
    *,
    enough: float = 0.0,
    inits: int = INITS,
    seed: int = 0,
    iterations: int = ITERATIONS,
) -> CPTerms:
    """The best of several CP fits of `rank` terms; stops at the first with a relative error of at most `enough`.

    The first starts from simultaneous diagonalization, which solves exact tensors outright if two modes are at least
    `rank` long; the others from alternating least squares, begun at singular vectors (where every mode is long
    enough) and at seeded random factors. Each is finished, up to 1500 unknowns, by damped Gauss–Newton steps on all
    factors at once, where alternating ones crawl (terms that are alike, or faint beside others). The zero tensor has
    error 0.
    """
    norm = float(torch.linalg.vector_norm(tensor))
    if norm == 0:
        return CPTerms(np.zeros(rank), 0.0)
    sizes = sorted(tensor.shape)
    starts = ["diagonalize"] * (rank <= sizes[-2]) + ["svd"] * (rank <= sizes[0]) + ["random"] * inits
    best = CPTerms(np.zeros(rank), 1.0)
    for attempt, start in enumerate(starts[: inits + 1]):
        if start == "diagonalize":
            factors = _diagonalize(tensor / norm, rank, seed)
        else:
            factors = _alternate(tensor / norm, rank, start, 1000 * seed + attempt, iterations)
        if factors is None:
            continue
        factors, error = _polish(tensor / norm, factors, enough)
        if error < best.error:
            weights = torch.stack([torch.linalg.vector_norm(factor, dim=0) for factor in factors]).prod(0)
            best = CPTerms((norm * weights).sort(descending=True).values.numpy(), error)
        if best.error <= enough:
            break
    return best


def _diagonalize(tensor: Float[Tensor, "*mode"], rank: int, seed: int) -> list[Float[Tensor, "_ term"]] | None:
    """Factors of an exact tensor from the eigenvectors of two of its slices (Jennrich); a rough start for others.

    Two random mixtures of the slices along the two longest modes are A D Bᵀ and A D′ Bᵀ with diagonal D, D′, so the
    columns of A are eigenvectors of one times the inverse of the other. The other modes follow by least squares.
    """
    modes = sorted(range(tensor.ndim), key=lambda mode: -tensor.shape[mode])
    arranged = tensor.permute(modes)
    slices = arranged.flatten(2)
    left = torch.linalg.svd(slices.flatten(1), full_matrices=False)[0][:, :rank]
    right = torch.linalg.svd(slices.transpose(0, 1).flatten(1), full_matrices=False)[0][:, :rank]
    mixtures = torch.randn(slices.shape[2], 2, dtype=torch.float64, generator=generator(seed, "slices", rank))
    small = torch.einsum("ijk,kc,ip,jq->cpq", slices, mixtures, left, right)
    try:
        vectors = torch.linalg.eig(torch.linalg.solve(small[1].T, small[0].T).T).eigenvectors.real
        a = left @ vectors
        b = right @ torch.linalg.lstsq(vectors, small[0]).solution.T
        pairs = (a[:, None] * b[None]).flatten(0, 1)
        rest = torch.linalg.lstsq(pairs, slices.flatten(0, 1)).solution  # (term, the other modes together)
    except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]
        return None
    factors = [a, b]
    for axis in range(2, tensor.ndim):  # each row of the rest is a product of vectors
        one = rest.reshape(rank, *arranged.shape[2:]).movedim(axis - 1, 1).reshape(rank, arranged.shape[axis], -1)
        u = torch.linalg.svd(one, full_matrices=False)[0]
        factors.append(u[..., 0].T)
    columns = factors[0]
    for factor in factors[1:]:
        columns = columns.unsqueeze(-2) * factor
    lengths = torch.linalg.lstsq(columns.flatten(0, -2), arranged.reshape(-1, 1)).solution  # and signs
    factors[0] = factors[0] * lengths.T
    ordered = [factors[modes.index(mode)] for mode in range(tensor.ndim)]
    return ordered if all(bool(factor.isfinite().all()) for factor in ordered) else None


def _alternate(
    tensor: Float[Tensor, "*mode"], rank: int, start: str, seed: int, iterations: int
) -> list[Float[Tensor, "_ term"]] | None:
    """Factors of one alternating least-squares fit to a tensor of norm 1; None where its equations became singular."""
    from tensorly.backend import backend_context  # pyright: ignore[reportAttributeAccessIssue]
    from tensorly.decomposition import parafac

    with backend_context("pytorch", local_threadsafe=True):
        try:
            weights, factors = parafac(
                tensor,
                rank,
                n_iter_max=iterations,
                init=start,
                tol=1e-12,
                random_state=seed,
                normalize_factors=True,
                linesearch=True,
            )
        except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]
            return None
    factors = [factors[0] * weights, *factors[1:]]
    return factors if all(bool(factor.isfinite().all()) for factor in factors) else None


def _polish(
    tensor: Float[Tensor, "*mode"], factors: list[Float[Tensor, "_ term"]], enough: float
) -> tuple[list[Float[Tensor, "_ term"]], float]:
    """Levenberg–Marquardt on all factors of a tensor of norm 1; returns them with their error.

    It ends where a step gains less than a share of the error that is small beside the error allowed: a fit to within
    a twentieth needs no seven digits, and a step on a thousand unknowns takes a tenth of a second.
    """
    least_gain = max(1e-7, 0.02 * enough)
    factors = _balanced(factors)
    residual = tensor - _composed(factors)
    error = float(torch.linalg.vector_norm(residual))
    sizes, rank = [len(factor) for factor in factors], factors[0].shape[1]
    unknowns = sum(sizes) * rank
    damping = 1e-3
    hessian = gradient = None  # kept where a step is tried again with more damping
    for _ in range(POLISH_STEPS if unknowns <= POLISH_UNKNOWNS else 0):
        if error <= max(enough / 10, 1e-13) or damping > 1e8:
            break
        if hessian is None or gradient is None:
            hessian, gradient = _normal_equations(factors, residual)
        triangle, failed = torch.linalg.cholesky_ex(hessian + damping * torch.eye(unknowns, dtype=torch.float64))
        if bool(failed):
            damping *= 4
            continue
        step = torch.cholesky_solve(gradient.unsqueeze(-1), triangle).squeeze(-1)
        moved = [f + d.reshape(-1, rank) for f, d in zip(factors, step.split([n * rank for n in sizes]))]
        left = tensor - _composed(moved)
        new_error = float(torch.linalg.vector_norm(left))
        if not new_error < error:
            damping *= 4
            continue
        gain = error - new_error
        factors, residual, error, damping = _balanced(moved), left, new_error, max(damping / 5, 1e-14)
        hessian = gradient = None
        if gain <= least_gain * error:
            break
    return factors, error


def _normal_equations(
    factors: list[Float[Tensor, "_ term"]], residual: Float[Tensor, "*mode"]
) -> tuple[Float[Tensor, "unknown unknown"], Float[Tensor, " unknown"]]:
    """JᵀJ and Jᵀ·residual for the derivatives J of Σ_r ⊗_m a_m^(r) with respect to all factors (row by row)."""
    grams = [factor.T @ factor for factor in factors]
    modes = range(len(factors))
    eyes = [torch.eye(len(factor), dtype=torch.float64) for factor in factors]
    rows, gradient = [], []
    for m in modes:
        blocks = []
        for k in modes:
            rest = torch.ones_like(grams[0])
            for other in modes:
                if other not in (m, k):
                    rest = rest * grams[other]
            if m == k:
                block = torch.einsum("ij,rs->irjs", eyes[m], rest)
            else:
                block = torch.einsum("is,jr,rs->irjs", factors[m], factors[k], rest)
            blocks.append(block.flatten(2).flatten(0, 1))
        rows.append(torch.cat(blocks, dim=1))
        contracted = residual.movedim(m, 0).unsqueeze(-1)
        for other in reversed([mode for mode in modes if mode != m]):
            factor = factors[other]
            contracted = (contracted * factor).sum(-2)
        gradient.append(contracted.flatten())
    return torch.cat(rows), torch.cat(gradient)


def _composed(factors: list[Float[Tensor, "_ term"]]) -> Float[Tensor, "*mode"]:
    """Σ_r a_1^(r) ⊗ … ⊗ a_n^(r)."""
    product = factors[0]
    for factor in factors[1:-1]:
        product = product.unsqueeze(-2) * factor
    return product @ factors[-1].T


def _balanced(factors: list[Float[Tensor, "_ term"]]) -> list[Float[Tensor, "_ term"]]:
    """The same terms with vectors of equal length in every mode."""
    norms = torch.stack([torch.linalg.vector_norm(factor, dim=0) for factor in factors])
    common = norms.prod(0) ** (1 / len(factors))
    return [factor * (common / norm.clamp_min(1e-300)) for factor, norm in zip(factors, norms)]


def rank_search(
    tensor: Float[Tensor, "*mode"],
    *,
    epsilon: float = EXACT,
    scale: float | None = None,
    largest: int = 16,
    inits: int = INITS,
    seed: int = 0,
    iterations: int = ITERATIONS,
) -> RankSearch:
    """The least number of products that add up to the tensor within a relative error of `epsilon`.

    Args:
        tensor: One mode per factor.
        epsilon: Relative Frobenius error allowed.
        scale: What the error is relative to; ‖t‖ if not given.
        largest: The most terms tried for three modes and more (two modes are solved for all numbers at once).
        inits: Fits per number of terms.
        seed: Of the random starts.
        iterations: The most per fit.
    """
    if not epsilon >= 0 or not math.isfinite(epsilon) or largest < 1 or inits < 1:
        raise InputError(f"Needs epsilon ≥ 0, largest ≥ 1, inits ≥ 1. Got {epsilon}, {largest}, {inits}.")
    if tensor.numel() == 0 or not bool(tensor.isfinite().all()):
        raise InputError(f"A rank needs a tensor of finite numbers. Got shape {tuple(tensor.shape)} with NaN or none.")
    tensor = tensor.double()
    norm = float(torch.linalg.vector_norm(tensor))
    scale = norm if scale is None else scale
    if norm == 0 or norm <= epsilon * scale:
        return RankSearch(0, 0, epsilon, (0,), np.array([norm / scale if scale > 0 else 0.0]), np.zeros(0))
    kept = [size for size in tensor.shape if size > 1]
    tensor = tensor.reshape(kept or [1])
    allowed = epsilon * scale
    if tensor.ndim <= 2:
        return _by_svd(tensor.reshape(len(tensor), -1), scale, epsilon)
    bound = max(int(_least_rank(_tails(torch.linalg.svdvals(unfolding)), allowed)) for unfolding in _unfoldings(tensor))
    tried, errors, found, weights = [], [], None, np.zeros(0)
    for rank in range(min(bound, largest), largest + 1):
        terms = cp_terms(tensor, rank, enough=allowed / norm, inits=inits, seed=seed, iterations=iterations)
        tried.append(rank)
        errors.append(terms.error * norm / scale)
        weights = terms.weights
        if rank >= bound and errors[-1] <= epsilon:
            found = rank
            break
    return RankSearch(found, bound, epsilon, tuple(tried), np.array(errors), weights)


def _by_svd(matrix: Float[Tensor, "row column"], scale: float, epsilon: float) -> RankSearch:
    values = torch.linalg.svdvals(matrix)
    tails = _tails(values)
    rank = int(_least_rank(tails, epsilon * scale))
    return RankSearch(rank, rank, epsilon, tuple(range(len(tails))), (tails / scale).numpy(), values.numpy())


def _unfoldings(tensor: Float[Tensor, "*mode"]) -> list[Float[Tensor, "row column"]]:
    return [tensor.movedim(mode, 0).flatten(1) for mode in range(tensor.ndim)]


def least_ranks(
    matrices: Float[Tensor, "matrix row column"], allowed: Sequence[float]
) -> list[Int[np.ndarray, " matrix"]]:
    """For each Frobenius error allowed, the least rank of an approximation of every matrix that keeps to it."""
    tails = _tails(torch.linalg.svdvals(matrices))
    return [_least_rank(tails, error).numpy() for error in allowed]


def _tails(singular_values: Float[Tensor, "*matrix rank"]) -> Float[Tensor, "*matrix ranks"]:
    """Error of the best approximation by 0, 1, … terms."""
    squares = singular_values.square()
    tails = squares.flip(-1).cumsum(-1).flip(-1).sqrt()
    return torch.nn.functional.pad(tails, (0, 1))


def _least_rank(tails: Float[Tensor, "*matrix ranks"], allowed: float) -> Int[Tensor, "*matrix"]:
    return (tails <= allowed).int().argmax(-1)
