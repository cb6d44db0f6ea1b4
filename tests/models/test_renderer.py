"""Forced rendering: maps, mixing, penalties; inside our loop and outside it."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError
from recombine.models.decoders import FactorRendered, FactorRenderer
from recombine.models.fast_paths.low_rank import quick_low_rank
from recombine.models.fast_paths.prelu import quick_prelu
from recombine.models.forced_rendering.renderer import _whole_numbers, low_rank
from recombine.training.loss_terms import Entropy, Variance


@pytest.fixture
def renderer():
    torch.manual_seed(0)
    return FactorRenderer((3, 4), (5, 6), rank=2, channels=2).double()


def test_maps_are_sums_of_scaled_unit_outer_products(renderer):
    maps = renderer.maps()
    assert maps.shape == (7, 2, 5, 6)
    for value, channel in ((0, 0), (6, 1)):
        expected = torch.zeros(5, 6, dtype=torch.float64)
        for n in range(2):
            v, u = renderer.rows[value, channel, n], renderer.columns[value, channel, n]
            expected += renderer.strengths[value, channel, n] * torch.outer(v / v.norm(), u / u.norm())
        torch.testing.assert_close(maps[value, channel], expected)
    assert torch.linalg.matrix_rank(maps).max() == 2


def test_maps_do_not_depend_on_the_length_of_the_vectors(renderer):
    before = renderer.maps()
    with torch.no_grad():
        renderer.rows.mul_(3)
    torch.testing.assert_close(renderer.maps(), before)


def test_indices_and_one_hot_codes_pick_the_same_maps(renderer):
    indices = torch.tensor([[0, 3], [2, 0]])
    code = torch.zeros(2, 7, dtype=torch.float64)
    code[[0, 0, 1, 1], [0, 6, 2, 3]] = 1
    picked = renderer(indices)
    assert picked.shape == (2, 4, 5, 6)
    torch.testing.assert_close(picked, renderer(code))
    torch.testing.assert_close(picked[0, :2], renderer.maps()[0])
    torch.testing.assert_close(picked[0, 2:], renderer.maps()[6])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_indices_of_any_whole_number_type_pick_the_same_maps(renderer, dtype):
    indices = torch.tensor([[0, 3], [2, 0], [1, 1]])
    torch.testing.assert_close(renderer(indices.to(dtype)), renderer(indices))


def test_other_codes_mix_neighbours(renderer):
    code = torch.tensor([[0.5, 0.5, 0, 0, 0, 0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(renderer(code)[0, :2], renderer.maps()[:2].mean(0))


def test_initial_values_are_distributed_as_in_the_paper():
    torch.manual_seed(0)
    renderer = FactorRenderer((32, 32), (32, 32))
    assert renderer.rank == 32
    assert renderer.strengths.std().item() == pytest.approx(1 / math.sqrt(32), rel=0.05)
    torch.testing.assert_close(renderer.rows.norm(dim=-1), torch.ones(64, 1, 32))


def test_effective_rank_and_banding_of_known_maps():
    renderer = FactorRenderer((2,), (8, 8), rank=4)
    with torch.no_grad():
        renderer.strengths.copy_(torch.tensor([[[1.0, 0, 0, 0]], [[1.0, 1, 1, 1]]]))
        renderer.rows[0, 0, 0] = 1.0  # the first value's map is a vertical stripe
        renderer.columns[0, 0, 0] = torch.exp(-((torch.arange(8.0) - 3) ** 2) / 2)
    torch.testing.assert_close(renderer.effective_ranks().flatten(), torch.tensor([1.0, 4.0]))
    assert renderer.banding()[0, 0].item() == pytest.approx(1, abs=1e-5)
    assert renderer.banding()[1, 0] < 0.7


def test_penalties_follow_their_formulas(renderer):
    squares = renderer.strengths.detach() ** 2
    shares = squares / squares.sum(-1, keepdim=True)
    entropy = -(shares * shares.log()).sum()
    torch.testing.assert_close(Entropy(0.1)(renderer).detach(), 0.1 * entropy)
    variance = sum(x.var() for t in (renderer.rows, renderer.columns) for x in t.detach().flatten(0, 2))
    torch.testing.assert_close(Variance(0.01)(renderer).detach(), 0.01 * variance)


def test_a_vanishing_mode_has_finite_entropy_and_gradient():
    renderer = FactorRenderer((2,), (4, 4))
    with torch.no_grad():
        renderer.strengths.zero_()
        renderer.strengths[..., 0] = 1
    value = Entropy(1.0)(renderer)
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-6)
    assert renderer.strengths.grad is not None
    assert renderer.strengths.grad.isfinite().all()


@pytest.mark.parametrize("strength", [0.0, 1e-25, 2e-19, 1e-15])
def test_an_empty_map_has_finite_entropy_and_gradient(strength):
    renderer = FactorRenderer((2,), (4, 4))
    with torch.no_grad():
        renderer.strengths.zero_()
        renderer.strengths[..., 0] = strength
    value = Entropy(1.0)(renderer)
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-6)
    assert renderer.strengths.grad is not None
    assert renderer.strengths.grad.isfinite().all()


def test_images_one_pixel_high_do_not_vary_along_it():
    renderer = FactorRenderer((3,), (1, 4)).double()
    expected = sum(u.var() for u in renderer.columns.detach().flatten(0, 2))
    torch.testing.assert_close(Variance(1.0)(renderer).detach(), expected)


def test_weights_rise_and_fall_as_scheduled():
    term = Entropy(2.0, warmup=0.2, anneal_from=0.5)
    assert [term.weight_at(p) for p in (0.0, 0.1, 0.2, 0.5, 0.75, 1.0)] == pytest.approx([0, 1, 2, 2, 1, 0])
    assert Variance(3.0).weight_at(0.4) == 3.0


def test_the_decoder_has_the_papers_head():
    space = rc.FactorSpace(x=32, y=32)
    task = rc.Task(
        rc.scenes.Bump(space, sigma=1.5, pixel_centres="half"),
        rc.encodings.OneHot(space),
        rc.holdouts.corner(space, 12),
    )
    model = FactorRendered(task)
    kinds = [type(m).__name__ for m in model.layers.modules() if not isinstance(m, nn.Sequential)]
    assert kinds == ["PReLU", "ConvTranspose2d", "PReLU", "ConvTranspose2d", "PReLU", "Conv2d"]
    assert sum(p.numel() for p in model.layers.parameters()) == 3 + 2 * (2 * 2 * 9 + 2) + (2 * 9 + 1)


def test_penalties_reach_a_stacked_and_a_single_run_alike():
    space = rc.FactorSpace(x=8, y=8)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.OneHot(space), rc.holdouts.corner(space, 4))
    training = rc.recipe("low_rank", steps=10)
    model = FactorRendered(task, rank=3)
    together = rc.train_seeds(model, task, [0, 1], training=training, together=True)
    alone = rc.train_seeds(model, task, [0, 1], training=training, together=False)
    assert together[0].loss_names == ["loss", "mse", "entropy", "variance"]
    for a, b in zip(together, alone):
        torch.testing.assert_close(a.losses, b.losses, rtol=1e-4, atol=1e-7)
    assert together[0].losses[-1, 2] < together[0].losses[0, 2]


def test_a_renderer_works_in_a_plain_loop_of_ones_own():
    torch.manual_seed(0)
    renderer = FactorRenderer((8, 8), (8, 8), rank=4)
    model = nn.Sequential(renderer, nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    indices = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    space = rc.FactorSpace(x=8, y=8)
    images = rc.scenes.Bump(space)(indices.float()).unsqueeze(1)
    losses = []
    for _ in range(60):
        error = (model(indices) - images).square().mean()
        optimizer.zero_grad()
        (error + Entropy(1e-4)(model) + Variance(1e-4)(model)).backward()
        optimizer.step()
        losses.append(error.item())
    assert losses[-1] < 0.2 * losses[0]


def test_replicated_borders_let_bands_go_on():
    """A vertical band through every channel stays one to the last row; zeros would end it there."""
    space = rc.FactorSpace(x=8, y=8)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.OneHot(space), rc.holdouts.corner(space, 4))
    band = torch.rand(1, 2, 1, 8).expand(1, 2, 8, 8)
    outputs = {p: FactorRendered(task, padding=p).initialize(0).layers(band).detach() for p in ("zeros", "replicate")}
    assert outputs["replicate"].shape == outputs["zeros"].shape == (1, 1, 8, 8)
    assert (outputs["replicate"] - outputs["replicate"][:, :, :1]).abs().max() < 1e-6
    assert (outputs["zeros"] - outputs["zeros"][:, :, :1]).abs().max() > 1e-3
    torch.testing.assert_close(outputs["replicate"][..., 3:5, 3:5], outputs["zeros"][..., 3:5, 3:5])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FactorRenderer((4, 4), (5, 6), rank=6), r"5×6 maps must be in 1 … 5. Got 6"),
        (lambda: FactorRenderer((), (5, 6)), "at least one factor"),
        (lambda: FactorRenderer((4, 0), (5, 6)), "at least one value"),
        (lambda: FactorRenderer((4,), (5, 6), channels=0), "at least one channel"),
        (lambda: FactorRenderer((4,), (8, 8, 8)), r"image_shape must be \(rows, columns\).*Got \(8, 8, 8\)"),
        (lambda: FactorRenderer((4,), (8,)), r"image_shape.*Got \(8,\)"),
        (lambda: FactorRenderer((4,), (0, 8)), r"image_shape.*at least 1. Got \(0, 8\)"),
        (lambda: FactorRenderer((4,), (5, 6))(torch.tensor([[True]])), r"Got torch.bool of shape \(1, 1\)"),
        (lambda: FactorRenderer((4,), (5, 6))(torch.tensor([1])), r"indices \(batch, factor\).*shape \(1,\)"),
        (lambda: FactorRenderer((4,), (5, 6))(torch.zeros(4)), r"code \(batch, Σ sizes\).*shape \(4,\)"),
        (lambda: FactorRenderer((4,), (5, 6))(torch.zeros(2, 3, 4)), r"shape \(2, 3, 4\)"),
        (lambda: FactorRenderer((4,), (5, 6))(torch.tensor([[4]])), r"values 0 … 3. Got index 4"),
        (lambda: FactorRenderer((4,), (5, 6))(torch.tensor([[-1]])), r"Got index -1"),
        (lambda: FactorRenderer((4, 4), (5, 6))(torch.tensor([[1]])), "2 columns, one per factor. Got 1"),
        (lambda: FactorRenderer((4, 4), (5, 6))(torch.zeros(1, 7)), "has 8 entries. Got 7"),
        (lambda: FactorRenderer((4,), (5, 6), rank=True), "rank must be integers. Got \\[True\\]"),
        (lambda: Entropy(-1.0), "greater than or equal to 0"),
        (lambda: Variance(0.1)(nn.Linear(2, 2)), "requires a FactorRenderer"),
        (lambda: rc.recipe("low_rank", terms={"entropi": {}}), "did you mean 'entropy'"),
        (lambda: rc.recipe("low_rank", terms={"entropy": {"weight": -1.0}}), "greater than or equal to 0"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_sizes_may_be_numpys_or_torchs_whole_numbers():
    for sizes in (np.array([4, 3]), torch.tensor([4, 3])):
        assert _whole_numbers(sizes, "factor_sizes") == [4, 3]
    for wrong in (2.5, [2.5], [1, True], "ab", None):
        with pytest.raises(InputError, match="channels must be integers"):
            _whole_numbers(wrong, "channels")


def test_a_code_in_double_precision_is_drawn(renderer):
    code = torch.eye(sum(renderer.factor_sizes))[:2]
    torch.testing.assert_close(renderer(code.double()), renderer(code))


def test_a_code_without_an_entry_per_value_is_refused():
    space = rc.FactorSpace(x=8, y=8)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.Ramp(space), rc.holdouts.corner(space, 4))
    with pytest.raises(InputError, match=r"one entry per factor value \(16\), such as onehot or bump. Got 2 entries"):
        FactorRendered(task)


def test_hand_written_gradients_are_those_of_the_plain_functions():
    torch.manual_seed(0)
    modes = [torch.randn(*shape, dtype=torch.float64) for shape in ((2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 6))]
    modes[1][0, 0, 0] = 0  # a vector that has no direction
    image = torch.randn(3, 2, 5, 4, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    for quick, plain, given in (
        (quick_low_rank, low_rank, modes),
        (quick_prelu, nn.functional.prelu, [image, torch.tensor([0.25, -0.5], dtype=torch.float64)]),
    ):
        sides = []
        for function in (quick, plain):
            leaves = [tensor.clone().requires_grad_() for tensor in given]
            output = function(*leaves)
            (output * torch.arange(output.numel(), dtype=torch.float64).view_as(output).cos()).sum().backward()
            sides.append([output, *(leaf.grad for leaf in leaves)])
        for one, other in zip(*sides):
            torch.testing.assert_close(one, other)


def test_vanishing_vectors_give_finite_maps_in_single_precision():
    strengths, vectors = torch.ones(1, 2, requires_grad=True), torch.zeros(1, 2, 3, requires_grad=True)
    maps = quick_low_rank(strengths, vectors, vectors)
    maps.sum().backward()
    assert (maps == 0).all()
    assert all(t.grad is not None and t.grad.isfinite().all() for t in (strengths, vectors))
