"""The rank of a tensor: SVD for two modes, CP by alternating least squares (tensorly) for more.

The rank found by fitting is an upper bound, because a better fit with fewer terms may have been missed. The lower bound
is certain: a sum of R products has unfoldings of matrix rank at most R, so its error is at least that of the best
rank-R matrix for every unfolding. If both bounds agree, the rank is proven.

Fits take most of the time, which grows with the number of entries. A `Budget` bounds it: fits then use fewer steps and
fewer starts, and the result records this.
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
from recombine.diagnostics.numerics.budget import CALL, Budget

EXACT = 1e-6  # relative error that counts as none; alternating least squares seldom gets far below
INITS = 4
ITERATIONS = 200
LEAST_ITERATIONS = 20  # of a fit that a budget cuts short: fewer find nothing
POLISH_SHARE = 2  # the part of what a budget leaves that goes to alternating steps is 1 in so many
POLISH_STEPS, POLISH_UNKNOWNS = 200, 1500


@dataclass(frozen=True, eq=False)
class CPTerms:
    """Σ_r weight_r · v_1^(r) ⊗ … ⊗ v_n^(r) with vectors of length 1.

    Attributes:
        weights: Largest first.
        error: Relative error of the sum.
        complete: False if a budget left out fits or steps.
    """

    weights: Float[np.ndarray, " term"]
    error: float
    complete: bool = True


@dataclass(frozen=True, eq=False)
class RankSearch:
    """The least number of products that add up to a tensor within a relative error ε.

    Attributes:
        rank: The least number found; None if none up to the last of `tried` was enough. 0 for the zero tensor.
        lower_bound: No smaller number is possible.
        epsilon: The error allowed, ‖t − t_R‖ / scale, where scale is ‖t‖ by default.
        tried: Numbers of terms tried.
        errors: The best relative error with each.
        weights: Weights of the terms of the last one tried, largest first.
        complete: False if a budget left out fits or steps, and a smaller rank is not ruled out.
    """

    rank: int | None
    lower_bound: int
    epsilon: float
    tried: tuple[int, ...]
    errors: Float[np.ndarray, " rank"]
    weights: Float[np.ndarray, " term"]
    complete: bool = True

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
    budget: Budget | None = None,
) -> CPTerms:
    """The best of several CP fits of `rank` terms; stops at the first with a relative error of at most `enough`.

    The first starts from simultaneous diagonalization, which solves exact tensors outright if two modes are at least
    `rank` long; the others from alternating least squares, begun at singular vectors (where every mode is long
    enough) and at seeded random factors. Each is finished, up to 1500 unknowns, by damped Gauss–Newton steps on all
    factors at once, which converge where alternating steps are slow (similar terms, or faint ones). The zero tensor has
    error 0. At least one fit is made, even if it exceeds the budget.
    """
    norm = float(torch.linalg.vector_norm(tensor))
    if norm == 0:
        return CPTerms(np.zeros(rank), 0.0)
    budget = Budget() if budget is None else budget
    sizes = sorted(tensor.shape)
    starts = ["diagonalize"] * (rank <= sizes[-2]) + ["svd"] * (rank <= sizes[0]) + ["random"] * inits
    best, complete = CPTerms(np.zeros(rank), 1.0), True
    for attempt, start in enumerate(starts[: inits + 1]):
        cost = _iteration_cost(tensor, rank)
        steps = budget.affords(POLISH_SHARE * cost, iterations) if start != "diagonalize" else iterations
        if attempt > 0 and (steps < LEAST_ITERATIONS or budget.left <= 0):
            complete = False
            break
        if start == "diagonalize":
            budget.spend(_diagonalizing_cost(tensor, rank))
            factors = _diagonalize(tensor / norm, rank, seed)
        else:
            steps = max(steps, min(iterations, LEAST_ITERATIONS))
            factors, done = _alternate(tensor / norm, rank, start, 1000 * seed + attempt, (steps, enough))
            budget.spend(cost * done)
            complete &= done < steps or steps == iterations
        if factors is None:
            continue
        factors, error, finished = _polish(tensor / norm, factors, enough, budget)
        complete &= finished
        if error < best.error:
            weights = torch.stack([torch.linalg.vector_norm(factor, dim=0) for factor in factors]).prod(0)
            best = CPTerms((norm * weights).sort(descending=True).values.numpy(), error)
        if best.error <= enough:
            break
    return CPTerms(best.weights, best.error, complete)


# The numbers below were fitted to the time on one core for tensors of 32 to 500 000 entries and 1 to 8 terms.


def _iteration_cost(tensor: Float[Tensor, "*mode"], rank: int) -> int | float:
    """Operations of one round of alternating least squares: an unfolding, its product with the others, a solution."""
    return tensor.ndim * (50 * CALL + tensor.numel() * (200 + 15 * rank))


def _diagonalizing_cost(tensor: Float[Tensor, "*mode"], rank: int) -> int | float:
    return 150 * CALL + tensor.numel() * (4000 + 500 * rank)


def _polishing_cost(tensor: Float[Tensor, "*mode"], unknowns: int, rank: int) -> int | float:
    """Operations of one Gauss–Newton step: the normal equations, their solution, a new residual."""
    solving = unknowns**2 * 20 + unknowns**3 / 2
    return 10 * tensor.ndim**2 * CALL + solving + tensor.ndim * tensor.numel() * (400 + 250 * rank)


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
        eigen = torch.linalg.eig(torch.linalg.solve(small[1].T, small[0].T).T)
        # the real and imaginary parts stand for a conjugate pair, whose real parts alone are equal
        vectors = torch.where(eigen.eigenvalues.imag < 0, eigen.eigenvectors.imag, eigen.eigenvectors.real)
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
    tensor: Float[Tensor, "*mode"], rank: int, start: str, seed: int, ends: tuple[int, float]
) -> tuple[list[Float[Tensor, "_ term"]] | None, int]:
    """One alternating least-squares fit to a tensor of norm 1: its factors, and after how many iterations it ended.

    It ends after so many iterations or at such an error, given as `ends`. There are no factors where its equations
    became singular.
    """
    from tensorly.backend import backend_context  # pyright: ignore[reportAttributeAccessIssue]
    from tensorly.decomposition import parafac

    iterations, enough = ends
    errors: list[float] = []

    def stop(_: object, error: Tensor) -> bool:
        errors.append(float(error))
        return errors[-1] <= enough

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
                callback=stop,
            )
        except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage]
            return None, len(errors)
    factors = [factors[0] * weights, *factors[1:]]
    return factors if all(bool(factor.isfinite().all()) for factor in factors) else None, len(errors) - 1


def _polish(
    tensor: Float[Tensor, "*mode"], factors: list[Float[Tensor, "_ term"]], enough: float, budget: Budget
) -> tuple[list[Float[Tensor, "_ term"]], float, bool]:
    """Levenberg–Marquardt on all factors of a tensor of norm 1; returns them with their error, and whether it ended
    by itself.

    It ends when the gain of a step is small compared with the error allowed: a fit to within a twentieth does not need
    seven digits, and a step on a thousand unknowns takes a tenth of a second.
    """
    least_gain = max(1e-7, 0.02 * enough)
    factors = _balanced(factors)
    residual = tensor - _composed(factors)
    error = float(torch.linalg.vector_norm(residual))
    sizes, rank = [len(factor) for factor in factors], factors[0].shape[1]
    unknowns = sum(sizes) * rank
    damping = 1e-3
    cost = _polishing_cost(tensor, unknowns, rank)
    hessian = gradient = None  # kept where a step is tried again with more damping
    for _ in range(POLISH_STEPS if unknowns <= POLISH_UNKNOWNS else 0):
        if error <= max(enough / 10, 1e-13) or damping > 1e8:
            break
        if budget.left < cost:
            return factors, error, False
        budget.spend(cost)
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
    return factors, error, True


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
    budget: Budget | None = None,
    hopeless: bool = True,
) -> RankSearch:
    """The least number of products that add up to the tensor within a relative error of `epsilon`.

    Args:
        tensor: One mode per factor.
        epsilon: Relative Frobenius error allowed.
        scale: The error is relative to this number; by default ‖t‖.
        largest: Largest number of terms for three or more modes (two modes are solved for all numbers at once).
        inits: Fits per number of terms.
        seed: Seed of the random starts.
        iterations: Largest number of iterations per fit.
        budget: Bounds the fits; unlimited if not given.
        hopeless: Whether to fit `largest` terms even if the lower bound is larger, to obtain their error and weights.
    """
    if not epsilon >= 0 or not math.isfinite(epsilon) or largest < 1 or inits < 1:
        raise InputError(f"Requires epsilon ≥ 0, largest ≥ 1, inits ≥ 1. Got {epsilon}, {largest}, {inits}.")
    if tensor.numel() == 0 or not bool(tensor.isfinite().all()):
        raise InputError(
            f"The rank is defined for tensors of finite numbers. Got shape {tuple(tensor.shape)}, which is empty or "
            "contains NaN or infinite numbers."
        )
    tensor = tensor.double()
    norm = float(torch.linalg.vector_norm(tensor))
    scale = norm if scale is None else scale
    if norm == 0 or norm <= epsilon * scale:
        return RankSearch(0, 0, epsilon, (0,), np.array([norm / scale if scale > 0 else 0.0]), np.zeros(0))
    kept = [size for size in tensor.shape if size > 1]
    tensor = tensor.reshape(kept or [1])
    if tensor.ndim <= 2:
        return _by_svd(tensor.reshape(len(tensor), -1), scale, epsilon)
    budget = Budget() if budget is None else budget
    bound = _lower_bound(tensor, epsilon * scale, budget)
    tried, errors, found, weights, complete = [], [], None, np.zeros(0), True
    for rank in range(min(bound, largest) if hopeless or bound <= largest else largest + 1, largest + 1):
        share = budget.share(
            2 if rank < largest else 1
        )  # half of the remaining budget: small ranks are most informative
        enough = epsilon * scale / norm
        terms = cp_terms(tensor, rank, enough=enough, inits=inits, seed=seed, iterations=iterations, budget=share)
        tried.append(rank)
        errors.append(terms.error * norm / scale)
        weights = terms.weights
        if rank >= bound and errors[-1] <= epsilon:
            found = rank
            break
        complete &= terms.complete or rank < bound
        if budget.left <= 0 and rank < largest:
            complete = False
            break
    return RankSearch(found, bound, epsilon, tuple(tried), np.array(errors), weights, complete)


def _lower_bound(tensor: Float[Tensor, "*mode"], allowed: float, budget: Budget) -> int:
    """The largest rank that any unfolding needs: of each mode against the others, and of the first against the last."""
    bound = 0
    splits = [tensor.flatten(0, mode).flatten(1) for mode in range(1, tensor.ndim - 2)]
    for unfolding in [tensor.movedim(mode, 0).flatten(1) for mode in range(tensor.ndim)] + splits:
        budget.spend(5 * CALL + 4 * tensor.numel() * min(unfolding.shape))
        bound = max(bound, int(_least_rank(_tails(torch.linalg.svdvals(unfolding)), allowed)))
    return bound


def _by_svd(matrix: Float[Tensor, "row column"], scale: float, epsilon: float) -> RankSearch:
    values = torch.linalg.svdvals(matrix)
    tails = _tails(values)
    rank = int(_least_rank(tails, epsilon * scale))
    return RankSearch(rank, rank, epsilon, tuple(range(len(tails))), (tails / scale).numpy(), values.numpy())


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
