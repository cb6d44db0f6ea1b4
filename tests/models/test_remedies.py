"""Decoders of the field: what defines each, checked by closed forms; two short trainings reach their known limits."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import recombine as rc
from recombine.core.encodings import OneHot, Ramp
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, discrete
from recombine.core.holdouts import centre, comb
from recombine.core.scenes import Balls, Bump, Square
from recombine.core.task import Shapes, Task
from recombine.models.decoders import (
    CP,
    MLP,
    Additive,
    CoordConv,
    CrossAttention,
    Decoder,
    FiLM,
    MaskedSlots,
    OcclusionSum,
    SpatialBroadcast,
)
from recombine.training.recipe import recipe

SHAPES = Shapes(9, (3, 10, 7), (5, 4))
SLOTTED = (Additive, MaskedSlots, OcclusionSum, CP, CrossAttention)


def grid_codes(shapes: Shapes) -> torch.Tensor:
    """One-hot codes of all cells, (first, second, code)."""
    first, second = (torch.eye(size, dtype=torch.double) for size in shapes.factor_sizes)
    return torch.cat([first[:, None].expand(-1, len(second), -1), second.expand(len(first), -1, -1)], -1)


def over_grid(model: Decoder) -> torch.Tensor:
    codes = grid_codes(model.shapes)
    with torch.no_grad():
        return model.double()(codes.flatten(0, 1)).unflatten(0, codes.shape[:2])


def mixed_difference(images: torch.Tensor) -> float:
    difference = images - images[:1]
    return float((difference - difference[:, :1]).abs().max())


def test_only_the_additive_decoder_has_no_mixed_differences():
    assert mixed_difference(over_grid(Additive(SHAPES, width=8).initialize(0))) < 1e-12
    for other in (MaskedSlots, OcclusionSum, CP, FiLM, CoordConv, SpatialBroadcast):
        assert mixed_difference(over_grid(other(SHAPES, width=8).initialize(0))) > 1e-6


@pytest.mark.parametrize("maps", ["free", "shared"])
@pytest.mark.parametrize("rank", [1, 3])
def test_pixels_of_cp_have_its_rank(maps, rank):
    images = over_grid(CP(SHAPES, rank=rank, maps=maps, width=8).initialize(0)).flatten(2).movedim(-1, 0)
    values = torch.linalg.svdvals(images)
    assert int((values > 1e-10 * values[:, :1]).sum(-1).max()) == rank


def test_free_maps_of_rank_one_are_the_stripes_of_a_bump():
    space = FactorSpace(x=7, y=5)
    scene, model = Bump(space), CP(Shapes(12, (5, 7), (7, 5)), rank=1, maps="free").double()
    stripes = [
        scene(torch.tensor([[x, y]]).double(), torch.tensor([[x >= 0, y >= 0]]))
        for x, y in [*((float(x), -1.0) for x in range(7)), *((-1.0, float(y)) for y in range(5))]
    ]
    with torch.no_grad():
        model.out.weight.copy_(torch.stack(stripes))
    truth = scene(space.values(torch.arange(35)).double())
    assert torch.allclose(over_grid(model).flatten(0, 1), truth, atol=1e-12)


def test_masks_weigh_pictures():
    model = MaskedSlots(SHAPES, width=4).initialize(0)
    with torch.no_grad():
        model.out.weight[-1] = 0  # the mask's kernel: equal masks
        drawn = model.out(model.layers(torch.eye(9)[:2]))[:, :, :-1]
    assert torch.allclose(model(torch.eye(9)[:2]), drawn[..., :10, :7].mean(1), atol=1e-6)


@pytest.mark.parametrize("cover", ["alpha", "sum"])
def test_the_last_slot_covers_the_first(cover):
    model = OcclusionSum(SHAPES, width=4, cover=cover).initialize(0)
    a, b = model.out(model.layers(torch.eye(9)[:3]))[..., :10, :7].unbind(1)
    if cover == "sum":
        back = a.sum(1, keepdim=True).sigmoid() * a
        expected = b * b.sum(1, keepdim=True).sigmoid() + back * (-b.sum(1, keepdim=True)).sigmoid()
    else:
        back = a[:, -1:].sigmoid() * a[:, :-1]
        expected = b[:, :-1] * b[:, -1:].sigmoid() + back * (-b[:, -1:]).sigmoid()
    assert torch.allclose(model(torch.eye(9)[:3]), expected, atol=1e-6)


def test_film_without_modulation_sees_the_first_factor_only():
    model = FiLM(SHAPES, width=4).initialize(0)
    with torch.no_grad():
        for layer in model.layers.values():
            layer["film"].linear.weight.zero_()
    images = over_grid(model)
    assert torch.equal(images, images[:, :1].expand_as(images))
    assert not torch.allclose(images[0], images[1])


def test_a_painter_is_a_convolution_over_code_and_coordinates():
    model = CoordConv(SHAPES, width=4).initialize(0)
    code = torch.rand(2, 9)
    first = model.layers[0].conv
    tiled = torch.cat([code[..., None, None].expand(-1, -1, 10, 7), first.grid.expand(2, -1, -1, -1)], 1)
    assert torch.allclose(first(code), F.conv2d(tiled, first.convolution.weight, first.convolution.bias), atol=1e-6)
    assert first.grid[0, :, 0].tolist() == pytest.approx(torch.linspace(-1, 1, 10).tolist())
    assert first.grid[1, 0].tolist() == pytest.approx(torch.linspace(-1, 1, 7).tolist())


def test_attention_sums_to_one_and_decides_the_image():
    model = CrossAttention(SHAPES, depth=2, width=8, heads=2).initialize(0)
    weights = model.attention(torch.rand(3, 9))
    assert weights.shape == (3, 2, 2, 70, 2)
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)


@pytest.mark.parametrize("decoder", SLOTTED, ids=lambda d: d.kind)
def test_slots_may_hold_several_factors(decoder):
    three = Shapes(9, (10, 8), (3, 2, 4))
    model = decoder(three, width=8, slots=[[2, 0], [1]]).initialize(0)
    assert model(torch.rand(2, 9)).shape == (2, 10, 8)
    with pytest.raises(InputError, match="list each factor once"):
        decoder(three, width=8, slots=[[0], [1]])
    with pytest.raises(InputError, match="one entry per factor value") as caught:
        decoder(Shapes(4, (10, 8), (3, 2, 4)), width=8)
    assert caught.value.key == "encoding.kind"


# --- short trainings ----------------------------------------------------------------------------------------------


def trained(decoder: Decoder, task: Task, steps: int, rate: float = 3e-3) -> rc.Run:
    plan = recipe("recommended", steps=steps, batch=32, learning_rate=rate, schedule="cosine", evaluate_every=steps)
    return rc.train(decoder, task, training=plan, progress=False)


def error(model: Decoder, task: Task, cells: torch.Tensor) -> float:
    values = task.space.values(cells)
    with torch.no_grad():
        return float((model(task.inputs(values)) - task.targets(values)).square().mean())


def additive_floor(task: Task) -> float:
    """Mean squared ID error of the least-squares fit a_x + b_y."""
    values = task.space.values(task.holdout.id_cells).double()
    codes, targets = task.encoding(values), task.scene(values).flatten(1)
    fit = torch.linalg.lstsq(codes, targets, driver="gelsd").solution
    return float((codes @ fit - targets).square().mean())


def bumps() -> Task:
    space = FactorSpace(x=8, y=8)
    return Task(Bump(space), OneHot(space), centre(space, 3, 4))


def test_an_additive_decoder_meets_its_floor_on_bumps():
    task = bumps()
    model = trained(Additive(task, width=8).initialize(0), task, 400).model
    floor = additive_floor(task)
    assert floor * (1 - 1e-6) <= error(model, task, task.holdout.id_cells) < 1.25 * floor


def balls() -> Task:
    """Two balls, of which the upper places never occur together (an L-shaped support)."""
    place = discrete(5, low=2.0, step=2.0)
    space = FactorSpace(y1=place, y2=place)
    held_out = rc.holdouts.cells(space, [{"y1": [8, 10], "y2": [8, 10]}])
    return Task(Balls(space, ground="black"), OneHot(space), held_out)


def test_the_best_sum_over_factors_is_exact_on_unseen_balls_and_not_on_bumps():
    for task, exact in ((balls(), True), (bumps(), False)):
        trained_values, unseen = (
            task.space.values(cells).double() for cells in (task.holdout.id_cells, task.holdout.ood_cells)
        )
        targets = task.scene(trained_values).flatten(1)
        fit = torch.linalg.lstsq(task.encoding(trained_values), targets, driver="gelsd").solution
        residual = task.encoding(unseen) @ fit - task.scene(unseen).flatten(1)
        assert (float(residual.square().mean()) < 1e-20) == exact


@pytest.mark.long
def test_an_additive_decoder_extrapolates_on_balls():
    task = balls()
    model = trained(Additive(task, width=8).initialize(0), task, 2000).model
    truth = task.scene(task.space.values(task.holdout.ood_cells))
    assert error(model, task, task.holdout.ood_cells) < 0.1 * float(truth.var())


@pytest.mark.long
def test_rank_one_composes_bumps_on_a_covered_split():
    space = FactorSpace(x=12, y=12)
    task = Task(Bump(space), OneHot(space), comb(space, 5))
    model = trained(CP(task, rank=1, maps="free").initialize(0), task, 2000, 1e-2).model
    truth = task.scene(space.values(task.holdout.ood_cells))
    assert error(model, task, task.holdout.ood_cells) < 0.05 * float(truth.var())


# --- published results at a small size ------------------------------------------------------------------------------


def unseen_relative_error(run: rc.Run) -> float:
    return float(run.scores.columns["relative_error"][run.scores.is_ood].mean())


@pytest.mark.long
def test_a_painter_with_coordinates_composes_where_a_plain_network_fails():
    """Liu et al. 2018 on Not-so-Clevr: one quadrant of the places is held out, the input is (x, y)."""
    place = discrete(12, low=2.0, step=1.0)
    space = FactorSpace(x=place, y=place)
    upper = [float(value) for value in range(8, 14)]
    task = Task(Square(space, side=5.0), Ramp(space), rc.holdouts.cells(space, [{"x": upper, "y": upper}]))
    painter = trained(CoordConv(task, width=32).initialize(0), task, 2000)
    plain = trained(MLP(task, depth=3, width=128).initialize(0), task, 2000)
    assert unseen_relative_error(painter) < 0.05
    assert unseen_relative_error(plain) > 0.5


@pytest.mark.long
def test_known_composition_generalizes_from_little_support_in_the_published_order():
    """Wiedemer et al. 2023: known composition generalizes from orthogonal support, where one object moves at a time,
    and from wide diagonal bands, but not from a narrow one. A monolithic network does not from orthogonal support.
    """
    place = discrete(8, low=3.0, step=1.5)
    space = FactorSpace(y1=place, y2=place)
    scene = Balls(space, ground="black", occlusion=True, diameter=12.0)
    first, second = np.indices((8, 8))
    supports = {"orthogonal": (first > 0) & (second > 0), "narrow": first != second, "wide": abs(first - second) > 3}
    found = {}
    for split, held in supports.items():
        task = Task(scene, OneHot(space), rc.holdouts.mask(space, held))
        found[split] = unseen_relative_error(trained(OcclusionSum(task, width=16).initialize(0), task, 1500))
        if split == "orthogonal":
            monolithic = unseen_relative_error(trained(MLP(task, depth=3, width=96).initialize(0), task, 1500))
    assert max(found["orthogonal"], found["wide"]) < 0.05
    assert found["narrow"] > 0.2
    assert monolithic > 0.3


@pytest.mark.parametrize("floor", [2.55e-3, 5.9e-3, 4.0e-3, 3.0e-3])
def test_the_additive_floor_of_bumps(floor):
    """N = 28, centre [6, 22]: ID and OOD error of the best sum, OOD error of black images, and of the best sum over
    all cells."""
    space = FactorSpace(x=28, y=28)
    task = Task(Bump(space), OneHot(space), centre(space, 6, 22))
    seen, unseen = (space.values(cells).double() for cells in (task.holdout.id_cells, task.holdout.ood_cells))
    everything = space.values(torch.arange(len(space))).double()

    def error_of(fitted: torch.Tensor, scored: torch.Tensor) -> float:
        codes = task.encoding(fitted)
        fit = torch.linalg.lstsq(codes, task.scene(fitted).flatten(1), driver="gelsd").solution
        return float((task.encoding(scored) @ fit - task.scene(scored).flatten(1)).square().mean())

    black = float(task.scene(unseen).square().mean())
    found = {2.55e-3: error_of(seen, seen), 5.9e-3: error_of(seen, unseen), 4.0e-3: black,
             3.0e-3: error_of(everything, unseen)}  # fmt: skip
    assert found[floor] == pytest.approx(floor, rel=0.01)
