"""Superposition tests on decoders whose answer is known, and against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recombine import FactorSpace
from recombine.core.encodings import Bump, OneHot, Ramp
from recombine.core.errors import InputError, NotComputable
from recombine.core.holdouts import Holdout, centre, corner, mask, random
from recombine.diagnostics.numerics.superposition import superposition, superposition_of_inputs

SPACES = [FactorSpace(x=7, y=6), FactorSpace(x=4, y=3, z=5)]


def images(space: FactorSpace) -> Tensor:
    """Upright bumps over the first two factors."""
    c = space.coordinates(torch.arange(len(space))).double()
    gx, gy = (torch.exp(-((torch.arange(space.shape[a]) - c[:, a, None]) ** 2) / 2) for a in (0, 1))
    return gy[:, :, None] * gx[:, None, :]


def sharing(space: FactorSpace, cell: int, holdout: Holdout, axes: list[int]) -> list[int]:
    """ID cells that share a value of one of the axes, one by one."""
    at = space.coordinates(torch.tensor(cell))
    return [
        other
        for other in holdout.id_cells.tolist()
        if any(space.coordinates(torch.tensor(other))[a] == at[a] for a in axes)
    ]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("centred", [False, True])
def test_output_side_equals_loops(space: FactorSpace, centred: bool) -> None:
    holdout = random(space, 0.3, seed=1)
    random_numbers = np.random.default_rng(0)
    outputs, truth = random_numbers.normal(size=(2, len(space), 3, 2)) + 0.5
    found = superposition(outputs, space, holdout, truth=truth, centred=centred, block=100)
    background = outputs[holdout.id_cells.numpy()].mean(0).ravel() if centred else 0.0
    flat, true = outputs.reshape(len(space), -1) - background, truth.reshape(len(space), -1)
    true = true - true[holdout.id_cells.numpy()].mean(0) if centred else true
    axes = list(range(space.n_factors))
    assert found.cells.tolist() == holdout.ood_cells.tolist()
    for row, cell in enumerate(found.cells):
        shared = sharing(space, cell, holdout, axes)
        mean = flat[shared].mean(0)
        parts = np.array([flat[sharing(space, cell, holdout, [a])].mean(0) for a in axes])
        assert found.shared[row] == len(shared)
        assert found.cosine[row] == pytest.approx(cosine(flat[cell], mean))
        assert found.cosine_truth is not None
        assert found.truth_superposition is not None
        assert found.cosine_truth[row] == pytest.approx(cosine(flat[cell], true[cell]))
        assert found.truth_superposition[row] == pytest.approx(cosine(true[cell], mean))
        scale = max(0.0, flat[cell] @ mean / (mean @ mean))
        energy = 1 - np.sum((flat[cell] - scale * mean) ** 2) / np.sum(flat[cell] ** 2)
        assert found.scale[row] == pytest.approx(scale)
        assert found.energy[row] == pytest.approx(energy, abs=1e-12)
        scales, *_ = np.linalg.lstsq(parts.T, flat[cell], rcond=None)
        left = np.sum((flat[cell] - scales @ parts) ** 2) / np.sum(flat[cell] ** 2)
        np.testing.assert_allclose(found.factor_scales[row], scales, rtol=1e-8)
        assert found.factor_energy[row] == pytest.approx(1 - left)
        np.testing.assert_allclose(found.factor_cosine[row], [cosine(flat[cell], part) for part in parts])


def test_a_sum_of_memorized_images_is_a_superposition() -> None:
    space = FactorSpace(x=14, y=14)
    holdout = centre(space, 4.0, 9.0)
    truth = images(space)
    outputs = truth.clone()
    for cell in holdout.ood_cells.tolist():
        outputs[cell] = 0.3 * truth[sharing(space, cell, holdout, [0, 1])].sum(0)
    found = superposition(outputs, space, holdout, truth=truth)
    np.testing.assert_allclose(found.cosine, 1, atol=1e-12)
    np.testing.assert_allclose(found.energy, 1, atol=1e-12)
    np.testing.assert_allclose(found.scale, 0.3 * found.shared)
    np.testing.assert_allclose(found.factor_energy, 1, atol=1e-12)
    assert found.cosine_truth is not None
    assert found.cosine_truth.max() < 0.6


def test_a_true_product_is_no_superposition() -> None:
    space = FactorSpace(x=14, y=14)
    truth = images(space)
    found = superposition(truth, space, centre(space, 4.0, 9.0), truth=truth)
    assert found.cosine_truth is not None
    assert found.truth_superposition is not None
    np.testing.assert_allclose(found.cosine_truth, 1)
    np.testing.assert_allclose(found.cosine, found.truth_superposition)
    assert found.cosine.max() < 0.6
    assert found.factor_energy.max() < 0.5


def test_centring_undoes_a_bright_background() -> None:
    space = FactorSpace(x=14, y=14)
    holdout = centre(space, 4.0, 9.0)
    upright, inverted = images(space), 1 - images(space)
    assert superposition(inverted, space, holdout).cosine.min() > 0.9
    np.testing.assert_allclose(
        superposition(inverted, space, holdout, centred=True).cosine,
        superposition(upright, space, holdout, centred=True).cosine,
    )


def test_results_do_not_depend_on_blocks_or_precision_of_storage() -> None:
    space = FactorSpace(x=7, y=6)
    holdout = centre(space, 2.0, 4.0)
    outputs = torch.rand(42, 5, 5, generator=torch.Generator().manual_seed(0))
    whole = superposition(outputs, space, holdout, truth=outputs)
    small = superposition(outputs.double(), space, holdout, truth=outputs.numpy(), block=1)
    np.testing.assert_allclose(small.cosine, whole.cosine, rtol=1e-12)
    np.testing.assert_allclose(small.factor_scales, whole.factor_scales, rtol=1e-9)
    np.testing.assert_allclose(small.pictures.superposition, whole.pictures.superposition, rtol=1e-12)


def test_pictures_are_of_the_cells_asked_for() -> None:
    space = FactorSpace(x=7, y=6)
    holdout = centre(space, 2.0, 4.0)
    truth = images(space)
    outputs = truth + 0.1
    for centred in (False, True):
        found = superposition(outputs, space, holdout, truth=truth, pictures=[14, 22], centred=centred)
        assert found.pictures.cells.tolist() == [14, 22]
        np.testing.assert_allclose(found.pictures.output, outputs[[14, 22]])
        assert found.pictures.truth is not None
        np.testing.assert_allclose(found.pictures.truth, truth[[14, 22]], atol=1e-15)
        column = outputs[sharing(space, 14, holdout, [0])].mean(0)
        np.testing.assert_allclose(found.pictures.parts[0, 0], column)
    plain = superposition(outputs, space, holdout, pictures=[14])
    best = plain.scale[plain.cells == 14] * outputs[sharing(space, 14, holdout, [0, 1])].mean(0).numpy()
    np.testing.assert_allclose(plain.pictures.superposition[0], best)
    assert plain.pictures.truth is None
    assert len(superposition(outputs, space, holdout, pictures=3).pictures.cells) == 3
    assert len(superposition(outputs, space, holdout, pictures=0).pictures.cells) == 0
    with pytest.raises(InputError, match="Not held out: 0"):
        superposition(outputs, space, holdout, pictures=[0])


def test_cells_without_a_number_are_marked() -> None:
    space = FactorSpace(x=4, y=4)
    held = np.zeros((4, 4))
    held[2:, :], held[:, 2:] = 1, 1  # the cells (2…3, 2…3) share no value with any ID cell
    outputs = torch.rand(16, 5, dtype=torch.float64) + 0.1
    outputs[2] = 0
    found = superposition(outputs, space, mask(space, held))
    by_cell = dict(zip(found.cells.tolist(), found.cosine))
    assert np.isnan(by_cell[10])
    assert np.isnan(by_cell[15])
    assert np.isnan(by_cell[2])
    assert np.isfinite(by_cell[3])
    assert found.shared[found.cells == 10] == 0
    constant = superposition(np.full((16, 5), 0.3), space, mask(space, held), centred=True)
    assert np.isnan(constant.cosine).all()
    assert np.isnan(constant.energy).all()


def test_bad_arrays_are_refused() -> None:
    space = FactorSpace(x=4, y=4)
    outputs = np.ones((16, 5))
    with pytest.raises(InputError, match=r"as many numbers per cell as the outputs, 5\. Got 6"):
        superposition(outputs, space, corner(space, 2.0), truth=np.ones((16, 6)))
    with pytest.raises(InputError, match="true outputs contain NaN"):
        superposition(outputs, space, corner(space, 2.0), truth=np.full((16, 5), np.nan))
    with pytest.raises(InputError, match="outputs contain NaN"):
        superposition(outputs * np.nan, space, corner(space, 2.0))


def additive_decoder(code_size: int, out: int = 20) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(code_size, out, bias=False)).double()


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("encoding", [OneHot, Bump])
def test_input_side_equals_mean_codes_by_block(space: FactorSpace, encoding) -> None:
    holdout = random(space, 0.3, seed=1)
    encode = encoding(space)
    model = nn.Sequential(nn.Linear(encode.size, 30), nn.ReLU(), nn.Dropout(), nn.Linear(30, 8)).double()
    codes = encode(space.values(torch.arange(len(space)))).double()
    model.eval()
    outputs = model(codes).detach()
    model.train()
    found = superposition_of_inputs(outputs, model, encode, space, holdout, block=50)
    assert all(module.training for module in model.modules())
    mean = codes[holdout.id_cells].mean(0)
    model.eval()
    for row, cell in enumerate(found.cells):
        total = torch.zeros(8).double()
        for block in encode.blocks.values():
            mixed = mean.clone()
            mixed[block] = codes[cell][block]
            total += model(mixed[None])[0].detach()
        assert found.cosine[row] == pytest.approx(cosine(outputs[cell].numpy(), total.numpy()), abs=1e-6)
    assert found.side == "input"


def test_a_linear_decoder_superposes_its_inputs() -> None:
    space = FactorSpace(x=8, y=8)
    holdout = centre(space, 2.0, 5.0)
    encode = OneHot(space)
    model = additive_decoder(encode.size)
    with torch.no_grad():
        outputs = model(encode(space.values(torch.arange(64))).double())
    found = superposition_of_inputs(outputs, model, encode, space, holdout, centred=True)
    np.testing.assert_allclose(found.cosine, 1, atol=1e-6)
    np.testing.assert_allclose(found.scale, 1, atol=1e-6)


def test_input_side_refuses_bad_models_and_codes_and_restores_the_model() -> None:
    space = FactorSpace(x=8, y=8)
    holdout = centre(space, 2.0, 5.0)
    outputs = torch.rand(64, 20)
    encode = Ramp(space)

    class Broken(nn.Module):
        def forward(self, code: Tensor) -> Tensor:
            raise RuntimeError("no")

    broken = Broken()
    with pytest.raises(RuntimeError, match="no"):
        superposition_of_inputs(outputs, broken, encode, space, holdout)
    assert broken.training
    with pytest.raises(InputError, match=r"20 numbers.*Got shape \(8, 2\)"):
        superposition_of_inputs(outputs, lambda code: code, encode, space, holdout)
    with pytest.raises(NotComputable, match="NaN or infinite numbers for mean codes"):
        superposition_of_inputs(outputs, lambda c: torch.full((len(c), 20), torch.nan), encode, space, holdout)
    with pytest.raises(NotComputable, match="Use the output side"):
        superposition_of_inputs(outputs, lambda code: code, lambda v: v.long(), space, holdout)
    with pytest.raises(InputError, match="one code per row"):
        superposition_of_inputs(outputs, lambda code: code, lambda v: v[:3], space, holdout)


def test_input_side_leaves_random_numbers_alone() -> None:
    space = FactorSpace(x=8, y=8)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    superposition_of_inputs(
        np.ones((64, 2)), lambda c: torch.rand(len(c), 2), Ramp(space), space, centre(space, 2.0, 5.0)
    )
    torch.testing.assert_close(torch.rand(2), expected)
