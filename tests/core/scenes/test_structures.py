"""What scenes of objects draw, and their stated composition, checked pixel by pixel over whole grids."""

import itertools

import pytest
import torch

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, categorical, cyclic, discrete
from recombine.core.scenes import SCENES, Composition, Scene, Shapes, Sprites, Square, Structure
from recombine.core.scenes.drawing import COLOURS, SHAPES

X = {"kind": "discrete", "size": 4, "low": 3.0, "step": 2.0}
Y = {"kind": "discrete", "size": 3, "low": 3.0, "step": 2.0}
SIZE = [3, 4, 6]
HUE = {"kind": "cyclic", "size": 3, "low": 0.05, "step": 1 / 3}
COLOUR = ["red", "blue", "white"]
BALLS = {"x1": Y, "y1": Y, "x2": Y, "y2": Y}
CASES = {
    "bump": ({"kind": "bump"}, {"x": 6, "y": 5}),
    "bump, brightness": ({"kind": "bump"}, {"x": 6, "y": 5, "brightness": [0.2, 0.5, 1.0]}),
    "bump, size": ({"kind": "bump"}, {"x": 6, "y": 5, "size": [0.5, 1.0], "brightness": [0.2, 0.5, 1.0]}),
    "inverted bump": ({"kind": "bump", "inverted": True}, {"x": 6, "y": 5}),
    "stripe": ({"kind": "stripe", "inverted": True}, {"x": 6, "y": 5}),
    "square": ({"kind": "square", "side": 4.0}, {"x": X, "y": Y}),
    "inverted square": ({"kind": "square", "inverted": True}, {"x": X, "y": Y}),
    "shapes": ({"kind": "shapes"}, {"shape": 4, "x": X, "y": Y, "size": SIZE, "hue": HUE}),
    "shapes, colour": ({"kind": "shapes"}, {"x": X, "colour": COLOUR}),
    "shapes, square": ({"kind": "shapes", "shape": "square"}, {"x": X, "y": Y, "hue": HUE}),
    "shapes, square, size": ({"kind": "shapes", "shape": "square"}, {"x": X, "y": Y, "size": SIZE, "hue": HUE}),
    "shapes on grey": ({"kind": "shapes", "ground": "grey"}, {"shape": 3, "x": X, "hue": HUE}),
    "concepts": (
        {"kind": "shapes"},
        {"shape": ["circle", "triangle"], "x": X, "size": SIZE, "colour": COLOUR, "background": ["green", "black"]},
    ),
    "balls": ({"kind": "balls"}, BALLS),
    "three balls on black": ({"kind": "balls", "ground": "black"}, {"y1": Y, "y2": Y, "y3": Y}),
    "balls, occlusion": ({"kind": "balls", "occlusion": True}, BALLS),
    "sprites": ({"kind": "sprites", "diameter": 5.0}, {"x1": X, "y1": Y, "x2": X, "y2": Y, "hue2": HUE}),
    "sprites, shapes": ({"kind": "sprites"}, {"x1": X, "shape1": 2, "x2": X, "shape2": 3}),
    "digits": (
        {"kind": "rotated_digit", "digits": [3, 4]},
        {"angle": {"kind": "cyclic", "size": 6, "low": 7.0, "step": 60.0}, "digit": 2},
    ),
    "arrow": (
        {"kind": "arrow"},
        {"angle": {"kind": "cyclic", "size": 8, "low": 0.0, "step": 45.0}, "x": X, "hue": HUE},
    ),
}
cases = pytest.mark.parametrize(("config", "factors"), CASES.values(), ids=CASES)


def build(config: dict, factors: dict) -> Scene:
    return SCENES.build(config, FactorSpace.from_config(factors))


def structure_of(scene: Scene) -> Structure:
    assert scene.structure is not None
    return scene.structure


def by_block(scene: Scene) -> torch.Tensor:
    """All images of the grid, (combination of the first block, of the second, …, number)."""
    space, structure = scene.space, structure_of(scene)
    images = scene(space.values(torch.arange(len(space))).double()).reshape(*space.shape, -1)
    order = [space.axis(name) for block in structure.blocks for name in block]
    sizes = [int(torch.tensor([space.factors[name].size for name in block]).prod()) for block in structure.blocks]
    return images.permute(*order, -1).reshape(*sizes, -1)


def mixed_differences(images: torch.Tensor) -> torch.Tensor:
    """f(a, b) − f(0, b) − f(a, 0) + f(0, 0) for each pair of blocks, all others at any value."""
    found = []
    for one, other in itertools.combinations(range(images.ndim - 1), 2):
        difference = images - images.narrow(one, 0, 1)
        found.append((difference - difference.narrow(other, 0, 1)).abs().max())
    return torch.stack(found).max()


def largest_rank(images: torch.Tensor, block: int) -> int:
    """The largest rank of a pixel's matrix: one block against all others."""
    pixels = images.movedim(block, 0).flatten(1, -2).movedim(-1, 0)
    values = torch.linalg.svdvals(pixels)
    return int((values > 1e-9 * values[:, :1].clamp(min=1e-6)).sum(-1).max())


@cases
def test_blocks_divide_the_factors(config, factors):
    scene = build(config, factors)
    structure = structure_of(scene)
    assert sorted(name for block in structure.blocks for name in block) == sorted(scene.space.names)
    assert len(structure.blocks) > 1


@cases
def test_additive_means_no_mixed_differences(config, factors):
    scene = build(config, factors)
    images = by_block(scene)
    additive = structure_of(scene).composition is Composition.ADDITIVE
    alone = config["kind"] == "stripe"  # depends on one block
    assert (mixed_differences(images) < 1e-12) == (additive or alone)


@cases
def test_the_cp_rank_is_that_of_the_pixels(config, factors):
    """No matrix of a pixel has a larger rank, and one reaches it: exact for two blocks, and for products of more."""
    scene = build(config, factors)
    rank, images = structure_of(scene).cp_rank, by_block(scene)
    if rank is None:
        pytest.skip("not stated")
    assert max(largest_rank(images, block) for block in range(images.ndim - 1)) == rank


@cases
def test_a_product_has_rank_one_above_its_ground(config, factors):
    scene = build(config, factors)
    if structure_of(scene).composition is not Composition.PRODUCT:
        pytest.skip("no product")
    ground = torch.tensor(getattr(scene, "ground", (float(scene.inverted),)), dtype=torch.double)
    images = by_block(scene)
    images = (images.unflatten(-1, (len(ground), -1)) - ground[:, None]).flatten(-2)
    assert all(largest_rank(images, block) == 1 for block in range(images.ndim - 1))


@pytest.mark.parametrize("name", ["balls, occlusion", "sprites"])
def test_an_occluding_scene_shows_the_last_object_of_a_pixel(name):
    config, factors = CASES[name]
    scene = build(config, factors)
    values = scene.space.values(torch.arange(len(scene.space))).double()
    front = torch.zeros_like(values, dtype=torch.bool)
    front[:, [scene.space.axis(factor) for factor in structure_of(scene).blocks[-1]]] = True
    whole, last, first = scene(values), scene(values, front), scene(values, ~front)
    nothing = scene(values, torch.zeros_like(front))
    covering = (last - nothing).abs().amax(1, keepdim=True) > 0
    assert torch.equal(torch.where(covering, 0, whole), torch.where(covering, 0, first))
    inside = -torch.nn.functional.max_pool2d(-(covering.double()), 3, 1, 1) > 0
    assert (inside & (first != nothing)).any()  # some object is hidden
    assert torch.equal(torch.where(inside, whole, 0), torch.where(inside, last, 0))


def test_an_object_hides_the_background_as_a_whole():
    scene = build(*CASES["concepts"])
    assert structure_of(scene).blocks[0] == ("background",)
    images = by_block(scene).unflatten(-1, (3, -1))  # (background, object, channel, pixel)
    ground = images[:, :, :, 0][:, :1]  # the corner that no object covers, for any object
    shown = (images[0] - images[1]).abs().amax(1) / (ground[0] - ground[1]).abs().amax()  # 1 where it is seen
    covered, seen = shown < 1e-9, shown > 1 - 1e-9
    assert covered.any(-1).all()
    assert seen.any(-1).all()
    assert (~covered & ~seen).double().mean() < 0.2  # edges
    assert torch.allclose(images[0].movedim(1, -1)[covered], images[1].movedim(1, -1)[covered])
    for behind, colour in zip(images, ground[:, 0]):
        assert torch.allclose(behind.movedim(1, -1)[seen], colour.expand(int(seen.sum()), -1))


def test_a_turned_digit_is_neither_a_sum_nor_a_product():
    images = by_block(build(*CASES["digits"]))
    assert structure_of(build(*CASES["digits"])).composition is Composition.OTHER
    assert mixed_differences(images) > 0.1
    assert largest_rank(images, 0) > 1
    assert (
        SCENES.build(
            {"kind": "rotated_digit"},
            FactorSpace.from_config({"angle": {"kind": "cyclic", "size": 6, "low": 7.0, "step": 60.0}}),
        ).structure
        is None
    )


@cases
def test_images_lie_in_the_range_of_values(config, factors):
    scene = build(config, factors)
    images = scene(scene.space.values(torch.arange(len(scene.space))))
    low, high = scene.value_range
    assert low - 1e-6 <= images.min()
    assert images.max() <= high + 1e-6


def test_an_absent_ball_is_not_drawn_and_balls_add_up():
    scene = build(*CASES["balls"])
    values = scene.space.values(torch.tensor([0, 40, 80])).double()
    first = torch.tensor([True, True, False, False]).expand(values.shape)
    nothing = scene(values, torch.zeros_like(first))
    assert (nothing == 1).all()
    assert torch.allclose(scene(values), scene(values, first) + scene(values, ~first) - nothing, atol=1e-12)


def test_a_square_with_an_absent_place_is_a_band():
    scene = Square(FactorSpace(x=discrete(4, low=4.0), y=discrete(4, low=4.0)))
    values = torch.tensor([[5.0, 6.0]], dtype=torch.double)
    bands = [scene(values, torch.tensor([[x, y]])) for x, y in ((True, False), (False, True))]
    assert torch.equal(bands[0] * bands[1], scene(values))
    assert (bands[0] == bands[0][:, :1]).all()
    assert (bands[1] == bands[1][..., :1]).all()


def test_the_published_square_has_hard_edges_and_81_pixels():
    place = discrete(56, low=4.0)
    scene = Square(FactorSpace(x=place, y=place))
    assert scene.output_shape == (64, 64)
    assert len(scene.space) == 3136
    images = scene(scene.space.values(torch.arange(0, 3136, 50)))
    assert set(images.unique().tolist()) == {0.0, 1.0}
    assert (images.sum((1, 2)) == 81).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_their_place_size_and_colour(shape):
    scene = Shapes(FactorSpace(x=discrete(20), y=discrete(20), size=[8, 12]), shape=shape, colour="red")  # type: ignore[arg-type]
    image = scene(torch.tensor([11.0, 9.0, 8.0], dtype=torch.double))
    covered = (image[0] > 0.4).nonzero().double()
    middle, reach = covered.mean(0), covered.amax(0) - covered.amin(0)
    assert middle.tolist() == pytest.approx([9, 11], abs=1.5)  # that of a triangle is below
    assert ((reach >= 6) & (reach <= 8)).all()  # its corners are thin
    assert image[:, 9, 11].tolist() == pytest.approx(COLOURS["red"])
    assert (image[:, 0, 0] == 0).all()


def test_xyobject_and_concepts_are_settings_of_shapes():
    place = discrete(25, low=8.0, step=2.0)
    hue = cyclic(1.0, 24)
    xyobject = Shapes(FactorSpace(x=place, y=place, size=[7, 9, 11, 13, 15], hue=hue), 64, 64, shape="square")
    assert xyobject(xyobject.space.values(torch.arange(3))).shape == (3, 3, 64, 64)
    space = FactorSpace(
        shape=["circle", "triangle"], x=discrete(8, low=8.0, step=2.0), y=discrete(8, low=8.0, step=2.0),
        size=[8, 12], colour=["red", "blue"], background=["black", "grey"],
    )  # fmt: skip
    concepts = Shapes(space, rows=32, columns=32)
    assert structure_of(concepts).composition is Composition.OCCLUDING
    grounds = concepts(space.values(torch.tensor([0, 1])))[:, :, 0, 0]
    assert grounds.tolist() == [[0, 0, 0], [0.5, 0.5, 0.5]]


def test_an_arrow_turns_counter_clockwise():
    scene = build(*CASES["arrow"])
    side = scene.output_shape[-1]
    middle = torch.arange(scene.output_shape[-2]).double() - (scene.output_shape[-2] - 1) / 2
    upwards = scene(torch.tensor([90.0, 5.0, 0.05], dtype=torch.double)).sum(0)
    assert torch.allclose(upwards.flip(-1)[:, side - 11 :], upwards[:, :11], atol=1e-12)  # symmetric about x = 5
    widths = (upwards > 0.5).sum(-1)
    assert (widths * middle).sum() < 0 < widths[widths > 0][-1] <= 3 < widths.max()  # the tip is above, and thin


def test_large_batches_are_drawn_in_parts():
    scene = build(*CASES["sprites"])
    values = scene.space.values(torch.arange(len(scene.space))).repeat(20, 1)
    present = torch.rand(values.shape, generator=torch.Generator().manual_seed(0)) > 0.3
    some = torch.tensor([0, 777, len(values) - 1])
    assert torch.equal(scene(values, present)[some], scene(values[some], present[some]))


@pytest.mark.parametrize(
    ("config", "factors", "message"),
    [
        ({"kind": "shapes"}, {"shape": ["circle", "sqare"]}, "no shape 'sqare' (did you mean 'square'?)"),
        ({"kind": "shapes"}, {"shape": 5, "x": 4}, "There are 4 shapes"),
        ({"kind": "shapes"}, {"x": 4, "colour": ["red", "gren"]}, "no colour 'gren' (did you mean 'green'?)"),
        ({"kind": "shapes"}, {"x": 4, "colour": 3}, "takes labels among"),
        ({"kind": "shapes"}, {"x": ["left", "right"]}, "Factor 'x' takes numbers"),
        ({"kind": "shapes"}, {"x": 4, "size": 3}, "must be above 0"),
        ({"kind": "shapes"}, {"x": 4, "sise": [1, 2]}, "Got sise (did you mean 'size'?)"),
        ({"kind": "shapes"}, {"x": 4, "hue": 3, "colour": ["red"]}, "not both"),
        ({"kind": "shapes", "ground": "blak"}, {"x": 4}, "did you mean 'black'?"),
        ({"kind": "shapes", "columns": 3}, {"x": 4}, "values 0 … 3 do not fit into 3 pixels"),
        ({"kind": "balls"}, {"x": 4, "y": 4}, "named by property and number"),
        ({"kind": "balls"}, {"x1": 4, "y3": 4}, "numbered from 1 without gaps"),
        ({"kind": "square"}, {"x": 4, "hue": 4}, "may have the factors x, y. Got hue"),
        ({"kind": "arrow"}, {"x": 4}, "requires a factor 'angle'"),
        ({"kind": "arrow"}, {"angle": {"kind": "cyclic", "size": 4}}, "wraps around at 360"),
    ],
)
def test_bad_input_is_explained(config, factors, message):
    with pytest.raises(InputError) as caught:
        build(config, factors)
    assert message in str(caught.value)


def test_a_scene_with_a_shape_has_no_single_factor_scenes():
    with_shape = FactorSpace(shape=categorical(["circle", "square"]), x=6)
    assert not Shapes(with_shape).has_absent
    assert Shapes(FactorSpace(x=6, y=6)).has_absent
    assert not Sprites(FactorSpace(shape1=2, x1=6)).has_absent
    assert Sprites(FactorSpace(x1=6, x2=6)).has_absent
