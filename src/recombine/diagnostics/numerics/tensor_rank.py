"""Rank of a tensor: by SVD for two modes, and by CP fits (alternating least squares, tensorly) for more modes.

The rank found by fitting is an upper bound, because a better fit with fewer terms may have been missed. The lower bound
is rigorous: a sum of R products has unfoldings of matrix rank at most R, so its error is at least that of the best
rank-R matrix for every unfolding. If both bounds agree, the rank is proven.

Fits take most of the time, which grows with the number of entries. A `Budget` bounds the time by using fewer steps and
fewer starts. The result records this.
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

EXACT = 1e-6  # relative error that counts as exact; alternating least squares rarely goes far below
INITS = 4
ITERATIONS = 200
LEAST_ITERATIONS = 20  # minimum number of iterations of a fit that a budget cuts short
POLISH_SHARE = 2  # alternating steps use 1 / POLISH_SHARE of the remaining budget
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
    """Result of a search for the smallest number of products that add up to a tensor within a relative error ε.

    Attributes:
        rank: Smallest number found; None if no number in `tried` was enough. 0 for the zero tensor.
        lower_bound: Lower bound of the rank.
        epsilon: Tolerated relative error, ‖t − t_R‖ / scale, where scale is ‖t‖ by default.
        tried: The numbers of terms that were tried.
        errors: For each of them, the smallest relative error.
        weights: Weights of the terms for the last number tried, largest first.
        complete: False if a budget left out fits or steps, so that a smaller rank is not ruled out.
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
        """Whether a smaller rank is impossible."""
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
    """The best of several CP fits of `rank` terms. Stops at the first fit with a relative error of at most `enough`.

    The first fit starts from simultaneous diagonalization, which solves exact tensors directly if two modes have a
    length of at least `rank`. The other fits start with alternating least squares, initialized with singular vectors
    (if every mode is long enough) and with seeded random factors. With up to 1500 unknowns, each fit ends with damped
    Gauss–Newton steps on all factors jointly, which converge where alternating steps are slow (similar or weak terms).
    The zero tensor has error 0. At least one fit is made, even if it exceeds the budget.
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


# The constants below were fitted to timings on one core for tensors of 32 to 500 000 entries and 1 to 8 terms.


def _iteration_cost(tensor: Float[Tensor, "*mode"], rank: int) -> int | float:
    """Operations of one iteration of alternating least squares: unfolding, product with the other factors, solution."""
    return tensor.ndim * (50 * CALL + tensor.numel() * (200 + 15 * rank))


def _diagonalizing_cost(tensor: Float[Tensor, "*mode"], rank: int) -> int | float:
    return 150 * CALL + tensor.numel() * (4000 + 500 * rank)


def _polishing_cost(tensor: Float[Tensor, "*mode"], unknowns: int, rank: int) -> int | float:
    """Operations of one Gauss–Newton step: the normal equations, their solution, a new residual."""
    solving = unknowns**2 * 20 + unknowns**3 / 2
    return 10 * tensor.ndim**2 * CALL + solving + tensor.ndim * tensor.numel() * (400 + 250 * rank)


def _diagonalize(tensor: Float[Tensor, "*mode"], rank: int, seed: int) -> list[Float[Tensor, "_ term"]] | None:
    """Factors of an exact tensor from the eigenvectors of two mixtures of its slices (Jennrich's algorithm).

    For other tensors, the result is a rough initialization. Two random mixtures of the slices along the two longest
    modes are A D Bᵀ and A D′ Bᵀ with diagonal D, D′. The columns of A are therefore eigenvectors of the product of one
    with the inverse of the other. The remaining modes follow by least squares.
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
        # real and imaginary parts represent a conjugate pair, whose real parts are equal
        vectors = torch.where(eigen.eigenvalues.imag < 0, eigen.eigenvectors.imag, eigen.eigenvectors.real)
        a = left @ vectors
        b = right @ torch.linalg.lstsq(vectors, small[0]).solution.T
        pairs = (a[:, None] * b[None]).flatten(0, 1)
        rest = torch.linalg.lstsq(pairs, slices.flatten(0, 1)).solution  # of shape (term, other modes flattened)
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
    """One alternating least-squares fit to a tensor of norm 1. Returns the factors and the number of iterations.

    `ends` gives the maximum number of iterations and the error at which the fit stops. If the equations become
    singular, no factors are returned.
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
    """Levenberg–Marquardt on all factors of a tensor of norm 1. Returns factors, error, and whether it converged.

    It stops when the gain of a step is small compared with the tolerated error. A fit with a tolerance of 1/20 does not
    need seven digits, and a step with a thousand unknowns takes a tenth of a second.
    """
    least_gain = max(1e-7, 0.02 * enough)
    factors = _balanced(factors)
    residual = tensor - _composed(factors)
    error = float(torch.linalg.vector_norm(residual))
    sizes, rank = [len(factor) for factor in factors], factors[0].shape[1]
    unknowns = sum(sizes) * rank
    damping = 1e-3
    cost = _polishing_cost(tensor, unknowns, rank)
    hessian = gradient = None  # reused if a step is repeated with more damping
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
    """JᵀJ and Jᵀ·residual, where J is the derivative of Σ_r ⊗_m a_m^(r) with respect to all factors (row by row)."""
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
    """Search for the smallest number of products that add up to the tensor within a relative error of `epsilon`.

    Args:
        tensor: A tensor with one mode per factor.
        epsilon: Tolerated relative error in the Frobenius norm.
        scale: The error is relative to this number; by default ‖t‖.
        largest: Largest number of terms to try with three or more modes. For two modes, the SVD gives all ranks at
            once.
        inits: Number of fits per number of terms.
        seed: Seed of the random starts.
        iterations: Maximum number of iterations per fit.
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
        )  # half of the remaining budget, because small ranks are the most informative
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
    """The largest rank that any unfolding needs: each mode against the others, and leading against trailing modes."""
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
    """The smallest rank of an approximation of every matrix, for each tolerated Frobenius error."""
    tails = _tails(torch.linalg.svdvals(matrices))
    return [_least_rank(tails, error).numpy() for error in allowed]


def _tails(singular_values: Float[Tensor, "*matrix rank"]) -> Float[Tensor, "*matrix ranks"]:
    """Frobenius error of the best approximation by 0, 1, … terms."""
    squares = singular_values.square()
    tails = squares.flip(-1).cumsum(-1).flip(-1).sqrt()
    return torch.nn.functional.pad(tails, (0, 1))


def _least_rank(tails: Float[Tensor, "*matrix ranks"], allowed: float) -> Int[Tensor, "*matrix"]:
    return (tails <= allowed).int().argmax(-1)
