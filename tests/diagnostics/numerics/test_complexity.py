"""Ranks of functions, distributions and kernels; partial factorization and groupings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorly
import torch

from recombine import FactorSpace
from recombine.core.errors import InputError, NotComputable
from recombine.diagnostics.numerics.complexity import (
    distribution_complexity,
    fit_mixture,
    function_complexity,
    kernel_complexity,
)
from recombine.diagnostics.numerics.kernels import binary_factorized_kernel
from recombine.diagnostics.numerics.partial_factorization import (
    find_grouping,
    partial_factorization,
    partial_factorization_of_kernel,
    set_partitions,
)
from recombine.diagnostics.numerics.tensor_rank import cp_terms, rank_search


def sum_of_products(shape: tuple[int, ...], rank: int, seed: int = 0, *, positive: bool = False) -> np.ndarray:
    random = np.random.default_rng(seed)
    total = np.zeros(shape)
    for _ in range(rank):
        factors = [random.normal(size=n) for n in shape]
        if positive:
            factors = [np.exp(2 * f) / np.exp(2 * f).sum() for f in factors]
        product = factors[0]
        for factor in factors[1:]:
            product = np.multiply.outer(product, factor)
        total += product
    return total


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("shape", [(7, 6), (5, 6, 4), (4, 3, 4, 5)])
def test_a_sum_of_r_products_has_rank_r(shape: tuple[int, ...], rank: int) -> None:
    found = rank_search(torch.from_numpy(sum_of_products(shape, rank)))
    assert found.rank == rank
    assert found.proven
    assert found.errors[found.tried.index(rank)] < 1e-6


def test_a_rank_above_all_sizes_is_found_but_not_proven() -> None:
    found = rank_search(torch.from_numpy(sum_of_products((3, 3, 3), 4)))
    assert (found.rank, found.lower_bound) == (4, 3)
    assert not found.proven
    assert found.errors[0] > 1e-3


def test_cp_error_and_weights_of_an_orthogonal_tensor() -> None:
    tensor = torch.zeros(4, 4, 4, dtype=torch.float64)
    for r, weight in enumerate((5.0, 3.0, 2.0)):
        tensor[r, r, r] = weight
    found = cp_terms(tensor, 3)
    np.testing.assert_allclose(found.weights, [5, 3, 2], rtol=1e-6)
    search = rank_search(tensor, epsilon=2.0 / math.sqrt(38) + 1e-9)
    assert search.rank == 2  # leaving the smallest term out is an error of 2/‖t‖
    assert rank_search(tensor, epsilon=2.0 / math.sqrt(38) - 1e-6).rank == 3


def test_ranks_do_not_change_tensorlys_backend_and_are_seeded() -> None:
    tensor = torch.from_numpy(sum_of_products((4, 4, 4), 3) + 0.01 * sum_of_products((4, 4, 4), 30, seed=1))
    before = tensorly.get_backend()
    first, again = (cp_terms(tensor, 3, inits=2, iterations=30, seed=5) for _ in range(2))
    assert first.error == again.error
    assert tensorly.get_backend() == before == "numpy"


def test_matrix_rank_errors_are_those_of_the_svd() -> None:
    matrix = np.random.default_rng(0).normal(size=(6, 9))
    found = rank_search(torch.from_numpy(matrix), epsilon=0.3)
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    for rank in range(7):
        error = np.linalg.norm(matrix - (u[:, :rank] * s[:rank]) @ v[:rank]) / np.linalg.norm(matrix)
        assert found.errors[rank] == pytest.approx(error, abs=1e-9)
        if rank < found.rank:
            assert error > 0.3
    assert found.errors[found.rank] <= 0.3


def test_degenerate_tensors() -> None:
    assert rank_search(torch.zeros(3, 4, 5)).rank == 0
    assert rank_search(torch.ones(3, 4, 5)).rank == 1
    assert rank_search(torch.ones(6)).rank == 1
    assert rank_search(torch.rand(4, 1, 5)).rank == 4
    nothing = rank_search(torch.from_numpy(sum_of_products((4, 4, 4), 5)), largest=3)
    assert nothing.rank is None
    assert nothing.lower_bound == 4
    with pytest.raises(InputError, match="finite"):
        rank_search(torch.full((2, 2), torch.nan))


def test_complexity_of_a_bump_and_of_a_diagonal() -> None:
    space = FactorSpace(x=8, y=8)
    x, y = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    bump = np.exp(-((x - 3) ** 2 + (y - 4) ** 2) / 2)
    ramp_sum = (x + y).astype(float)  # x·1 + 1·y
    diagonal = np.eye(8)
    found = function_complexity(np.stack([bump.ravel(), ramp_sum.ravel(), diagonal.ravel()], axis=1), space)
    assert found.exact_ranks.tolist() == [1, 2, 8]
    assert found.exact == 8
    assert found.proven
    alone = function_complexity(diagonal.ravel(), space, epsilon=0.5 + 1e-9)
    assert (alone.exact, alone.approximate) == (8, 6)  # 2 of 8 equal terms left out: an error of √(2/8)
    faint = function_complexity(np.stack([bump.ravel(), 1e-9 * diagonal.ravel()], axis=1), space)
    assert faint.exact_ranks.tolist() == [1, 0]  # errors are relative to the largest output
    constant = function_complexity(np.zeros(64), space)
    assert (constant.exact, constant.approximate) == (0, 0)


def test_complexity_over_three_factors() -> None:
    space = FactorSpace(x=5, y=4, z=3)
    main, faint = sum_of_products(space.shape, 2), sum_of_products(space.shape, 1, seed=3)
    values = main + 1e-3 * np.linalg.norm(main) / np.linalg.norm(faint) * faint
    found = function_complexity(values.ravel(), space, epsilon=0.01)
    assert (found.exact, found.approximate) == (3, 2)
    assert found.proven
    with pytest.raises(InputError, match="between 0 and 1"):
        function_complexity(values.ravel(), space, epsilon=0.0)
    with pytest.raises(InputError, match="values contain NaN"):
        function_complexity(values.ravel() * np.nan, space)


@pytest.mark.parametrize("shape", [(8, 7), (5, 4, 6)])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("measure", ["kl", "tv"])
def test_a_mixture_of_r_products_has_rank_r(shape: tuple[int, ...], rank: int, measure) -> None:
    space = FactorSpace(**dict(zip("xyz", shape)))
    joint = sum_of_products(shape, rank, seed=2, positive=True)
    found = distribution_complexity(joint.ravel(), space, measure=measure, epsilon=1e-3 if measure == "kl" else 5e-3)
    assert found.rank == rank
    assert found.lower_bound <= rank
    assert found.weights.sum() == pytest.approx(1)
    if rank > 1:
        divergence = found.kl if measure == "kl" else found.tv
        assert divergence[-2] > found.epsilon >= divergence[-1]


def test_one_product_is_fitted_by_the_marginals() -> None:
    space = FactorSpace(x=5, y=4)
    joint = np.random.default_rng(0).random((5, 4))
    joint /= joint.sum()
    independent = np.outer(joint.sum(1), joint.sum(0))
    found = fit_mixture(joint.ravel(), space, 1)
    assert found.kl == pytest.approx(np.sum(joint * np.log(joint / independent)), rel=1e-9)  # mutual information
    assert found.tv == pytest.approx(0.5 * np.abs(joint - independent).sum())
    np.testing.assert_allclose(found.factors[0][:, 0], joint.sum(1))


def test_em_never_goes_up_and_gives_distributions() -> None:
    space = FactorSpace(x=5, y=4, z=3)
    joint = np.random.default_rng(0).random(60) ** 3
    joint[:5] = 0
    found = fit_mixture(joint, space, 3, seed=1, iterations=300)
    assert all(b <= a + 1e-13 for a, b in zip(found.history, found.history[1:]))
    assert found.history[-1] < found.history[0]
    for factor in found.factors:
        np.testing.assert_allclose(factor.sum(0), 1)
        assert factor.min() >= 0
    mixed = np.einsum("r,ir,jr,kr->ijk", found.weights, *found.factors).ravel()
    p = joint / joint.sum()
    kl = np.sum(p[p > 0] * np.log(p[p > 0] / mixed[p > 0]))
    assert kl == pytest.approx(found.kl, abs=1e-4)


def test_the_diagonal_distribution_needs_a_product_per_value() -> None:
    space = FactorSpace(x=4, y=4)
    found = distribution_complexity(np.eye(4).ravel(), space, measure="tv", epsilon=1e-3)
    assert found.rank == 4
    assert found.proven
    assert found.kl[0] == pytest.approx(math.log(4))
    assert distribution_complexity(np.eye(4).ravel(), space, epsilon=1e-3, largest=2).rank is None


def test_lower_bounds_hold_for_every_fit() -> None:
    space = FactorSpace(x=6, y=6)
    joint = np.eye(6) + 0.05
    for measure in ("kl", "tv"):
        for epsilon in (0.02, 0.1, 0.3):
            found = distribution_complexity(joint.ravel(), space, measure=measure, epsilon=epsilon)
            assert found.rank is not None
            assert found.lower_bound <= found.rank


def test_bad_distributions_are_refused() -> None:
    space = FactorSpace(x=3, y=3)
    for bad in (-np.ones(9), np.zeros(9), np.ones((9, 2))):
        with pytest.raises(InputError, match="one non-negative number per cell"):
            distribution_complexity(bad, space)
    with pytest.raises(InputError, match="probabilities contain NaN"):
        distribution_complexity(np.full(9, np.nan), space)
    with pytest.raises(InputError, match="epsilon > 0"):
        distribution_complexity(np.ones(9), space, epsilon=0.0)


def test_kernel_ranks() -> None:
    two, three = FactorSpace(x=4, y=5), FactorSpace(x=3, y=3, z=4)
    for space in (two, three):
        cells = torch.arange(len(space))
        assert kernel_complexity(binary_factorized_kernel(space, cells, cells), space).rank == 2
        assert kernel_complexity(torch.eye(len(space)).double(), space).rank == 1  # memorization: Π δ


def additive(space: FactorSpace, groups: list[list[int]], units: int = 6, seed: int = 0) -> np.ndarray:
    """A sum of random functions, each of one group of factors."""
    random = np.random.default_rng(seed)
    total = np.zeros((*space.shape, units))
    for group in groups:
        total += random.normal(size=[n if a in group else 1 for a, n in enumerate(space.shape)] + [units])
    return total.reshape(len(space), units)


def test_pf_of_single_factor_terms_is_one_and_of_memorization_is_counting() -> None:
    space = FactorSpace(x=6, y=5)
    pure = partial_factorization(additive(space, [[0], [1]]) + 3, space)
    np.testing.assert_allclose(pure.cumulative, [1, 1])
    memorized = partial_factorization(np.eye(30), space)
    assert memorized.cumulative[0] == pytest.approx((5 + 4) / 29)
    assert memorized.coefficient([["x"]]) == pytest.approx(5 / 29)
    assert memorized.coefficient([["y", "x"]]) == pytest.approx(20 / 29)
    squared = partial_factorization(np.eye(30), space, weight="square")
    assert squared.cumulative[0] == pytest.approx((25 + 16) / (25 + 16 + 400))
    with pytest.raises(InputError, match="Unknown terms"):
        pure.coefficient([["z"]])
    with pytest.raises(NotComputable, match="does not vary"):
        partial_factorization(np.full((30, 2), 0.1), space)


def test_pf_of_a_representation_equals_pf_of_its_kernel() -> None:
    space = FactorSpace(x=4, y=3, z=2)
    rows = np.random.default_rng(0).normal(size=(24, 7)) + 2
    direct, through = partial_factorization(rows, space), partial_factorization_of_kernel(rows @ rows.T, space)
    assert direct.terms == through.terms
    np.testing.assert_allclose(direct.theta, through.theta, rtol=1e-10)
    assert direct.theta.sum() == pytest.approx(rows.var(0).sum())
    assert np.all(np.diff(direct.cumulative) >= 0)
    assert direct.cumulative[-1] == pytest.approx(1)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
    np.testing.assert_allclose(partial_factorization(rows @ rotation, space).theta, direct.theta)
    with pytest.raises(NotComputable, match="same for all pairs"):
        partial_factorization_of_kernel(np.full((24, 24), 0.3), space)


def test_there_are_bell_number_many_partitions() -> None:
    for n, bell in ((1, 1), (2, 2), (3, 5), (4, 15), (6, 203)):
        partitions = list(set_partitions(range(n)))
        assert len(partitions) == len({frozenset(map(frozenset, p)) for p in partitions}) == bell
        assert all(sorted(a for group in p for a in group) == list(range(n)) for p in partitions)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([[0], [1], [2]], {("x",), ("y",), ("z",)}),
        ([[0, 1], [2]], {("x", "y"), ("z",)}),
        ([[0, 2], [1]], {("x", "z"), ("y",)}),
        ([[0, 1], [1, 2]], {("x", "y", "z")}),
        ([[0, 1, 2]], {("x", "y", "z")}),
    ],
)
def test_groupings_are_found(groups: list[list[int]], expected: set[tuple[str, ...]]) -> None:
    space = FactorSpace(x=5, y=4, z=4)
    found = find_grouping(additive(space, groups), space)
    assert set(found.groups) == expected
    assert found.score == pytest.approx(1)
    assert len(found.candidates) == 5


def test_tolerance_decides_between_groupings() -> None:
    space = FactorSpace(x=5, y=4, z=4)
    rows = additive(space, [[0, 1], [2]]) + 0.2 * additive(space, [[0, 1, 2]], seed=1)
    loose, strict = find_grouping(rows, space, tolerance=0.1), find_grouping(rows, space, tolerance=0.001)
    assert set(loose.groups) == {("x", "y"), ("z",)}
    assert 0.9 < loose.score < 0.999
    assert set(strict.groups) == {("x", "y", "z")}
    assert strict.score == pytest.approx(1)
    with pytest.raises(InputError, match="below 1"):
        find_grouping(rows, space, tolerance=1.0)
    with pytest.raises(NotComputable, match="8 factors"):
        find_grouping(np.ones((2, 1)), FactorSpace(a=2, **{f"f{i}": 1 for i in range(8)}))
