"""Gram matrices, the binary factorized kernel, kernel regression and kernel spectra."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

from recombine import FactorSpace
from recombine.core.errors import InputError, NotComputable
from recombine.core.factors import cyclic
from recombine.core.holdouts import Holdout, centre, corner, mask, random
from recombine.diagnostics.numerics.grids import draw_cells
from recombine.diagnostics.numerics.kernel_regression import factor_distances, kernel_regression
from recombine.diagnostics.numerics.kernel_spectra import effective_ranks, kernel_spectrum
from recombine.diagnostics.numerics.kernels import agreement, binary_factorized_kernel, gram_matrices

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def random_outputs(space: FactorSpace, features: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(len(space), features))


def bumps(space: FactorSpace, sigma: float = 1.0) -> torch.Tensor:
    values = space.values(torch.arange(len(space))).double()
    x, y = values[:, 0, None], values[:, 1, None]
    gx = torch.exp(-((torch.arange(space.shape[0]) - x) ** 2) / (2 * sigma**2))
    gy = torch.exp(-((torch.arange(space.shape[1]) - y) ** 2) / (2 * sigma**2))
    return gy[:, :, None] * gx[:, None, :]


def memorized(outputs: torch.Tensor, space: FactorSpace, holdout: Holdout) -> torch.Tensor:
    """Outputs whose OOD cells are sums of the ID outputs that share a value."""
    outputs = outputs.clone()
    shares = binary_factorized_kernel(space, holdout.ood_cells, holdout.id_cells)
    outputs[holdout.ood_cells] = torch.einsum("oi,i...->o...", shares, outputs[holdout.id_cells])
    return outputs


def test_gram_matrices_equal_double_loops() -> None:
    space = FactorSpace(x=6, y=5)
    holdout = centre(space, 2.0, 3.0)
    outputs = random_outputs(space)
    outputs[7] = outputs[8]  # two equal outputs: their distance is exactly 0
    outputs[9], outputs[11], outputs[13] = outputs[10] + 1e-9, outputs[12] + 1e-7, outputs[14] + 1e-5
    grams = gram_matrices(outputs, space, holdout)
    order = [*holdout.id_cells.tolist(), *holdout.ood_cells.tolist()]
    assert grams.cells.tolist() == order
    assert grams.n_id == holdout.n_id
    for i, a in enumerate(outputs[order]):
        for j, b in enumerate(outputs[order]):
            plus_a, plus_b = np.maximum(a, 0), np.maximum(b, 0)
            overlap = np.minimum(plus_a, plus_b).sum() / np.maximum(plus_a, plus_b).sum()
            assert grams["cosine"][i, j] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-12)
            assert grams["l2"][i, j] == pytest.approx(np.linalg.norm(a - b), rel=1e-9, abs=1e-20)
            assert grams["overlap"][i, j] == pytest.approx(overlap, abs=1e-12)


def test_gram_matrices_are_symmetric_in_range_and_ordered() -> None:
    space = FactorSpace(x=6, y=5)
    grams = gram_matrices(random_outputs(space), space, random(space, 0.4))
    for name, low, high in (("cosine", -1, 1), ("l2", 0, math.inf), ("overlap", 0, 1)):
        np.testing.assert_array_equal(grams[name], grams[name].T)
        assert low <= grams[name].min() <= grams[name].max() <= high
    np.testing.assert_array_equal(np.diag(grams["cosine"]), 1)
    np.testing.assert_array_equal(np.diag(grams["l2"]), 0)
    np.testing.assert_array_equal(np.diag(grams["overlap"]), 1)
    straight = gram_matrices(random_outputs(space), space, random(space, 0.4)).in_cell_order("l2")
    outputs = random_outputs(space)
    assert straight[3, 17] == pytest.approx(np.linalg.norm(outputs[3] - outputs[17]))
    assert grams.ood_by_id("l2").shape == (12, 18)


def test_gram_matrices_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    space = FactorSpace(x=6, y=5)
    whole = gram_matrices(random_outputs(space), space, centre(space, 2.0, 3.0))
    monkeypatch.setattr("recombine.diagnostics.numerics.grids.blocks.__defaults__", (40,))
    small = gram_matrices(random_outputs(space), space, centre(space, 2.0, 3.0))
    for name in whole.matrices:
        np.testing.assert_allclose(small[name], whole[name], **EXACT)


def test_dark_outputs_have_no_cosine_and_no_overlap_with_each_other() -> None:
    space = FactorSpace(x=3, y=3)
    outputs = random_outputs(space)
    outputs[0], outputs[4], outputs[1] = 0, 0, -1
    grams = gram_matrices(outputs, space, mask(space, np.eye(3)))
    at = {cell: row for row, cell in enumerate(grams.cells)}
    assert np.isnan(grams["cosine"][at[0]]).all()
    assert np.isnan(grams["overlap"][at[0], at[4]])
    assert np.isnan(grams["overlap"][at[1], at[1]])
    assert grams["overlap"][at[0], at[2]] == 0
    assert not np.isnan(grams["l2"]).any()


def test_gram_matrices_of_a_draw() -> None:
    space = FactorSpace(x=20, y=20)
    holdout = centre(space, 5.0, 14.0)
    cells = draw_cells(holdout, 40, seed=1)
    assert len(cells) == 40
    assert int(torch.from_numpy(holdout.mask.ravel())[cells].sum()) == 10
    torch.testing.assert_close(cells, draw_cells(holdout, 40, seed=1))
    assert not torch.equal(cells, draw_cells(holdout, 40, seed=2))
    outputs = random_outputs(space)
    drawn = gram_matrices(outputs, space, holdout, cells=cells, similarities=["cosine"])
    whole = gram_matrices(outputs, space, holdout, similarities=["cosine"])
    rows = [whole.cells.tolist().index(cell) for cell in drawn.cells.tolist()]
    np.testing.assert_allclose(drawn["cosine"], whole["cosine"][np.ix_(rows, rows)], **EXACT)
    assert drawn.n_id == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: o[:-1], "one row for each of the 30 cells"),
        (lambda o: o[:, :0], "at least one real number"),
        (lambda o: np.where(np.arange(30)[:, None] == 7, np.nan, o), r"cell 7 \(x=1, y=2\)"),
        (lambda o: np.where(np.arange(30)[:, None] == 29, np.inf, o), r"cell 29 \(x=5, y=4\)"),
    ],
)
def test_bad_outputs_are_refused(change, message: str) -> None:
    space = FactorSpace(x=6, y=5)
    with pytest.raises(InputError, match=message):
        gram_matrices(change(random_outputs(space)), space, centre(space, 2.0, 3.0))


def test_bad_hold_outs_similarities_and_cells_are_refused() -> None:
    space = FactorSpace(x=6, y=5)
    outputs = random_outputs(space)
    with pytest.raises(NotComputable, match="needs both"):
        gram_matrices(outputs, space, mask(space, np.zeros((6, 5))))
    with pytest.raises(InputError, match="another space"):
        gram_matrices(outputs, space, centre(FactorSpace(x=5, y=6), 2.0, 3.0))
    with pytest.raises(InputError, match="numbered 0 to 29"):
        gram_matrices(outputs, space, centre(space, 2.0, 3.0), cells=torch.tensor([0, 30]))
    with pytest.raises(InputError, match="similarity 'overlap' was not computed"):
        gram_matrices(outputs, space, centre(space, 2.0, 3.0), similarities=["l2"])["overlap"]


def test_kernel_matrices_are_much_faster_than_double_loops() -> None:
    space = FactorSpace(x=28, y=28)
    outputs = bumps(space).numpy()
    flat = outputs.reshape(784, -1)
    holdout = centre(space)
    gram_matrices(outputs, space, holdout)

    def fast() -> float:
        start = time.process_time()
        gram_matrices(outputs, space, holdout)
        return time.process_time() - start

    start = time.process_time()
    for a in flat[:10]:
        for b in flat:
            a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
            np.linalg.norm(a - b)
            np.minimum(np.maximum(a, 0), np.maximum(b, 0)).sum() / np.maximum(np.maximum(a, 0), np.maximum(b, 0)).sum()
    slow = (time.process_time() - start) * 78.4
    assert slow / min(fast() for _ in range(5)) > 40  # in processor time on one thread


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 0.1, 1e30, 1e-30])
def test_outputs_without_common_light_have_no_overlap_and_no_agreement(dtype: torch.dtype, scale: float) -> None:
    space = FactorSpace(x=5, y=5)
    holdout = centre(space, 1, 3)
    outputs = torch.zeros(len(space), 40, dtype=torch.float64)
    pixels = torch.rand(len(space), 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * scale
    outputs[holdout.ood_cells, :20] = pixels[holdout.ood_cells]
    outputs[holdout.id_cells, 20:] = pixels[holdout.id_cells]
    grams = gram_matrices(outputs, space, holdout, similarities=["overlap"], overlap_dtype=dtype)
    assert np.all(grams.ood_by_id("overlap") == 0)
    assert math.isnan(agreement(grams, "overlap", draws=20).correlation)


def test_overlap_in_single_precision_is_good_to_seven_digits() -> None:
    space = FactorSpace(x=10, y=10)
    outputs = random_outputs(space, 700)
    exact, rough = (
        gram_matrices(outputs, space, centre(space, 3.0, 6.0), similarities=["overlap"], overlap_dtype=dtype)["overlap"]
        for dtype in (torch.float64, torch.float32)
    )
    assert 0 < np.abs(exact - rough).max() < 1e-6


def test_binary_kernel_of_two_factors_is_the_formula() -> None:
    space = FactorSpace(x=4, y=3)
    cells = torch.arange(12)
    c = space.coordinates(cells)
    kx, ky = ((c[:, None, a] == c[None, :, a]).double() for a in (0, 1))
    torch.testing.assert_close(binary_factorized_kernel(space, cells, cells), kx + ky - kx * ky)
    three = FactorSpace(x=3, y=2, z=2)
    everything = binary_factorized_kernel(three, torch.arange(12), torch.arange(12))
    c = three.coordinates(torch.arange(12))
    product = torch.ones(12, 12).double()
    for a in range(3):
        product *= 1 - (c[:, None, a] == c[None, :, a]).double()
    torch.testing.assert_close(everything, 1 - product)


@pytest.mark.parametrize("space", [FactorSpace(x=7, y=6), FactorSpace(x=4, y=3, z=4)])
@pytest.mark.parametrize("similarity", ["cosine", "l2", "overlap"])
def test_agreement_equals_numpys_correlation(space: FactorSpace, similarity) -> None:
    holdout = random(space, 0.3, seed=3)
    grams = gram_matrices(random_outputs(space), space, holdout)
    expected = binary_factorized_kernel(space, holdout.ood_cells, holdout.id_cells).numpy()
    measured = grams.ood_by_id(similarity) * (-1 if similarity == "l2" else 1)
    found = agreement(grams, similarity, draws=50)
    assert found.correlation == pytest.approx(np.corrcoef(measured.ravel(), expected.ravel())[0, 1], abs=1e-12)
    assert found.pairs == measured.size


def test_agreement_under_a_renaming_equals_numpys_correlation() -> None:
    from recombine.diagnostics.numerics.kernels import _SharedSums

    space = FactorSpace(x=5, y=4, z=3)
    holdout = random(space, 0.3, seed=3)
    measured = torch.rand(holdout.n_ood, holdout.n_id, dtype=torch.float64)
    names = [torch.randperm(size)[None] for size in space.shape]
    coordinates = space.coordinates(holdout.ood_cells)
    renamed = torch.stack([names[a][0][coordinates[:, a]] for a in range(3)], dim=1)
    flat = (renamed * torch.tensor([12, 3, 1])).sum(1)
    expected = binary_factorized_kernel(space, flat, holdout.id_cells)
    found, _ = _SharedSums(space, measured, holdout.id_cells).correlation(coordinates, names)
    assert float(found) == pytest.approx(np.corrcoef(measured.ravel(), expected.ravel())[0, 1], abs=1e-12)


def test_memorized_outputs_agree_and_unrelated_ones_do_not() -> None:
    space = FactorSpace(x=12, y=12)
    holdout = centre(space, 3.0, 8.0)
    recalled = agreement(gram_matrices(memorized(bumps(space, 0.3), space, holdout), space, holdout), "cosine")
    assert recalled.correlation > 0.9
    assert recalled.null_high < 0.2 < recalled.low <= recalled.correlation <= recalled.high
    assert recalled.p_value == pytest.approx(1 / 1001)
    unrelated = agreement(gram_matrices(random_outputs(space), space, holdout), "cosine")
    assert unrelated.null_low <= unrelated.correlation <= unrelated.null_high
    assert unrelated.p_value > 0.05


def test_intervals_of_agreement_are_seeded_and_shrink_with_more_cells() -> None:
    small, large = FactorSpace(x=6, y=6), FactorSpace(x=14, y=14)
    widths = []
    for space in (small, large):
        grams = gram_matrices(random_outputs(space), space, random(space, 0.5))
        first, again, other = (agreement(grams, "cosine", seed=s, draws=300) for s in (0, 0, 1))
        assert first == again
        assert first != other
        widths.append((first.high - first.low, first.null_high - first.null_low))
    assert widths[1][0] < widths[0][0]
    assert widths[1][1] < widths[0][1]


def test_agreement_of_constant_and_dark_outputs() -> None:
    space = FactorSpace(x=5, y=5)
    holdout = centre(space, 1.0, 3.0)
    constant = agreement(gram_matrices(np.ones((25, 4)), space, holdout), "cosine", draws=20)
    assert math.isnan(constant.correlation)
    assert math.isnan(constant.p_value)
    outputs = random_outputs(space)
    outputs[12] = 0
    assert agreement(gram_matrices(outputs, space, holdout), "cosine", draws=20).missing == 1
    with pytest.raises(NotComputable, match="at least 2 ID and 2 OOD"):
        agreement(gram_matrices(np.zeros((25, 4)), space, holdout), "cosine")
    with pytest.raises(NotComputable, match="at least 2 ID and 2 OOD"):
        agreement(gram_matrices(outputs, space, corner(space, 4.0)), "l2")


def test_leave_one_out_and_ood_error_equal_scikit_learn() -> None:
    space = FactorSpace(x=6, y=5)
    holdout = centre(space, 2.0, 3.0)
    outputs = random_outputs(space)
    ridge = 1e-3
    found = kernel_regression(outputs, space, holdout, "factorized", lengths=(1.0, 2.0), ridge=ridge)
    coordinates = space.coordinates(torch.arange(30)).double().numpy()
    trained, held = holdout.id_cells.numpy(), holdout.ood_cells.numpy()
    for lengths, error in found.candidates:
        kernel = RBF(length_scale=lengths)(coordinates)
        residuals = []
        for out in trained:
            kept = trained[trained != out]
            model = KernelRidge(alpha=ridge, kernel="precomputed").fit(kernel[np.ix_(kept, kept)], outputs[kept])
            residuals.append(model.predict(kernel[np.ix_([out], kept)])[0] - outputs[out])
        assert error == pytest.approx(np.mean(np.square(residuals)), rel=1e-9)
    kernel = RBF(length_scale=tuple(found.lengths.values()))(coordinates)
    model = KernelRidge(alpha=ridge, kernel="precomputed").fit(kernel[np.ix_(trained, trained)], outputs[trained])
    expected = np.mean(np.square(model.predict(kernel[np.ix_(held, trained)]) - outputs[held]))
    assert found.ood_error == pytest.approx(expected, rel=1e-9)
    assert found.id_error == min(error for _, error in found.candidates)
    assert found.ood_relative == pytest.approx(found.ood_error / np.mean(outputs[held] ** 2))


def test_length_scales_are_chosen_on_id_cells_only() -> None:
    space = FactorSpace(x=10, y=10)
    holdout = centre(space, 3.0, 6.0)
    outputs = bumps(space)
    before = kernel_regression(outputs, space, holdout)
    changed = outputs.clone()
    changed[holdout.ood_cells] = torch.rand_like(changed[holdout.ood_cells])
    after = kernel_regression(changed, space, holdout)
    assert before.lengths == after.lengths
    assert before.candidates == after.candidates
    assert before.ood_error != after.ood_error


def test_a_kernel_with_a_length_per_factor_finds_the_smooth_factor() -> None:
    space = FactorSpace(x=12, y=12)
    holdout = random(space, 0.2, seed=0)
    values = space.coordinates(torch.arange(144)).double()
    rough = torch.rand(12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.5
    outputs = rough[values[:, 0].long()] * torch.cos(values[:, 1:] / 4)
    factorized = kernel_regression(outputs, space, holdout, "factorized")
    radial = kernel_regression(outputs, space, holdout, "radial")
    assert factorized.lengths["x"] < factorized.lengths["y"]
    assert factorized.id_error < 0.1 * radial.id_error
    assert factorized.ood_error < 0.1 * radial.ood_error
    assert len(factorized.candidates) == 16
    assert len(radial.candidates) == 4


def test_distances_along_a_cyclic_factor_are_chords() -> None:
    space = FactorSpace(x=4, angle=cyclic(360.0, 12))
    cells = torch.arange(48)
    _, squared = factor_distances(space, cells, cells)
    assert float(squared[0, 11]) == pytest.approx(float(squared[0, 1]))
    assert float(squared[0, 6]) == pytest.approx((12 / math.pi) ** 2)
    kernel = torch.exp(-squared / 2 / 4**2)
    assert float(torch.linalg.eigvalsh(kernel)[0]) > -1e-12


def test_kernel_regression_refuses_what_it_cannot_do() -> None:
    space = FactorSpace(x=3, y=3)
    outputs = random_outputs(space)
    with pytest.raises(NotComputable, match="at least 3 ID cells"):
        kernel_regression(outputs, space, mask(space, [[1, 1, 1], [1, 1, 1], [1, 0, 0]]))
    with pytest.raises(InputError, match="above 0"):
        kernel_regression(outputs, space, mask(space, np.eye(3)), lengths=(0.0,))
    zero = kernel_regression(np.zeros((9, 2)), space, mask(space, np.eye(3)))
    assert zero.ood_error == 0
    assert math.isnan(zero.ood_relative)


def test_schmidt_spectrum_of_known_kernels() -> None:
    space = FactorSpace(x=4, y=5)
    cells = torch.arange(20)
    generator = torch.Generator().manual_seed(0)
    kx, ky, lx, ly = (torch.rand(n, n, generator=generator, dtype=torch.float64) for n in (4, 5, 4, 5))
    one = kernel_spectrum(torch.kron(kx, ky), space)
    assert (one.method, one.rank) == ("schmidt", 1)
    assert one.weights[0] == pytest.approx(float(kx.norm() * ky.norm()))
    assert one.participation_ratio == pytest.approx(1)
    assert one.entropy_rank == pytest.approx(1)
    assert kernel_spectrum(torch.kron(kx, ky) + torch.kron(lx, ly), space).rank == 2
    binary = kernel_spectrum(binary_factorized_kernel(space, cells, cells), space)  # 1 − (1 − k_x)(1 − k_y)
    assert binary.rank == 2
    assert kernel_spectrum(torch.rand(20, 20, generator=generator, dtype=torch.float64), space).rank == 16


def test_cp_spectrum_of_a_binary_kernel_over_three_factors() -> None:
    space = FactorSpace(x=3, y=4, z=3)
    cells = torch.arange(36)
    found = kernel_spectrum(binary_factorized_kernel(space, cells, cells), space)
    assert (found.method, found.rank) == ("cp", 2)
    assert found.error < 1e-6
    assert 1 < found.participation_ratio <= found.entropy_rank <= 2


def test_effective_ranks() -> None:
    assert effective_ranks(np.ones(7)) == pytest.approx((7, 7))
    assert effective_ranks(np.array([2.0, 0.0])) == pytest.approx((1, 1))
    shares = np.array([0.8, 0.2])
    expected = (1 / (0.64 + 0.04), math.exp(-(0.8 * math.log(0.8) + 0.2 * math.log(0.2))))
    assert effective_ranks(np.sqrt(shares)) == pytest.approx(expected)
    assert all(math.isnan(rank) for rank in effective_ranks(np.zeros(3)))


def test_spectra_refuse_what_has_none() -> None:
    space = FactorSpace(x=3, y=3)
    with pytest.raises(InputError, match=r"must have shape \(9, 9\)"):
        kernel_spectrum(np.ones((8, 8)), space)
    with pytest.raises(NotComputable, match="zero everywhere"):
        kernel_spectrum(np.zeros((9, 9)), space)
    with pytest.raises(NotComputable, match="NaN"):
        kernel_spectrum(np.full((9, 9), np.nan), space)
    with pytest.raises(NotComputable, match="at least two factors"):
        kernel_spectrum(np.ones((3, 3)), FactorSpace(x=3))


def test_lengths_of_many_factors_are_searched_one_by_one() -> None:
    space = FactorSpace(a=3, b=3, c=3, d=2)
    outputs = random_outputs(space)
    holdout = random(space, 0.3)
    found = kernel_regression(outputs, space, holdout)
    assert not found.exhaustive
    assert len(found.candidates) < 4**4
    tried = dict(found.candidates)
    best = tuple(found.lengths.values())
    for axis in range(4):  # no change of a single length is better, by errors computed alone
        for length in (0.5, 1.0, 2.0, 4.0):
            assert tried[best] <= tried[best[:axis] + (length,) + best[axis + 1 :]]
    alone = kernel_regression(outputs, space, holdout, "radial")
    assert alone.exhaustive
    assert tried[best] <= min(error for _, error in alone.candidates)
