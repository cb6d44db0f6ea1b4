"""Scenes: the contract every one keeps, and images written out by hand."""

import json

import numpy as np
import pytest
import torch

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, continuous, cyclic, discrete
from recombine.core.scenes import SCENES, Bump, RotatedDigit, Scene, Stripe
from recombine.core.scenes.rotated_digit import packed

SPACES = {
    "plane": FactorSpace(x=12, y=9),
    "y first": FactorSpace(y=9, x=12),
    "continuous": FactorSpace(x=continuous(0.0, 12.0, 24), y=continuous(0.0, 9.0, 18)),
    "n=3": FactorSpace(x=12, size=discrete(3, low=0.5, step=0.5), y=9),
    "n=4": FactorSpace(x=12, y=9, size=discrete(3, low=0.5, step=0.5), brightness=discrete(4, low=0.25, step=0.25)),
    "unequal": FactorSpace(x=12, y=[0, 1, 3, 4, 5, 7, 8], size=[0.5, 0.7, 1.5]),
}
TURNS = {  # not from 0 on: where a source point crosses a pixel's centre, a rotated image has a kink
    "angle": FactorSpace(angle=cyclic(360.0, 14, low=7.0)),
    "angle, not cyclic": FactorSpace(angle=continuous(-31.0, 70.0, 13)),
}
TURNS_OF_DIGITS = {
    "digit": FactorSpace(angle=cyclic(360.0, 5, low=7.0), digit=3),
    "labelled digit": FactorSpace(angle=cyclic(360.0, 5, low=7.0), digit=["four", "seven", "one"]),
    "digit first": FactorSpace(digit=discrete(3, low=4.0, step=2.0), angle=cyclic(360.0, 5, low=7.0)),
}
# Every kind is under contract with its defaults and its example by being registered; and with these configurations.
CONFIGS = [
    *(
        ({"kind": kind}, {"example": FactorSpace.from_config(scene.example)})
        for kind, scene in SCENES.components.items()
        if scene.example is not None
    ),
    ({"kind": "bump"}, SPACES),
    ({"kind": "bump", "sigma": 2.0, "pixel_centres": "half"}, SPACES),
    ({"kind": "bump", "rows": 14, "columns": 13}, SPACES),
    ({"kind": "stripe", "factor": "x"}, SPACES),
    ({"kind": "stripe", "factor": "y", "sigma": 0.7}, SPACES),
    ({"kind": "rotated_digit"}, TURNS),
    ({"kind": "rotated_digit", "digits": [4, 7, 1]}, TURNS_OF_DIGITS),
    ({"kind": "rotated_digit", "digits": [0], "images": [packed(torch.arange(784).reshape(28, 28).byte())]}, TURNS),
]
CASES = {
    "-".join([*(str(v)[:20] for v in config.values()), name]): (config, space)
    for config, spaces in CONFIGS
    for name, space in spaces.items()
}
MOVABLE = ("bump", "stripe")  # the kinds whose factors x and y are pixels
cases = pytest.mark.parametrize(("config", "space"), CASES.values(), ids=CASES)
movable = pytest.mark.parametrize(
    ("config", "space"), [pytest.param(*case, id=name) for name, case in CASES.items() if case[0]["kind"] in MOVABLE]
)


def grid(space: FactorSpace) -> torch.Tensor:
    return space.values(torch.arange(len(space))).double()


def some(space: FactorSpace) -> torch.Tensor:
    """A few values off the grid."""
    chosen = grid(space)[:: max(1, len(space) // 6)]
    off = [0.0 if f.categorical else 0.31 * f.spacing for f in space.factors.values()]
    return chosen + torch.tensor(off, dtype=torch.double)


# --- contract ---------------------------------------------------------------------------------------------------


def test_every_kind_is_under_contract():
    """By its example, or, if it has none, by an entry in CONFIGS or in a test file of its own."""
    without = {kind for kind, scene in SCENES.components.items() if scene.example is None}
    assert set(SCENES.components) - without <= {config["kind"] for config, _ in CONFIGS}


@cases
@pytest.mark.parametrize("inverted", [False, True])
def test_images_lie_in_the_range_of_values(config, space, inverted):
    if "inverted" not in SCENES.models[config["kind"]].model_fields:
        pytest.skip("it has no inverse")
    scene: Scene = SCENES.build({**config, "inverted": inverted}, space)
    images = scene(grid(space).float())
    assert images.shape == (len(space), *scene.output_shape)
    assert images.dtype == torch.float
    low, high = scene.value_range
    assert images.min() >= low
    assert images.max() <= high
    assert (images.flatten(1).amax(1) - images.flatten(1).amin(1)).min() > 0.1 * (high - low)


@cases
def test_a_scene_says_what_it_has(config, space):
    scene: Scene = SCENES.build(config, space)
    values = some(space)
    present = torch.ones_like(values, dtype=torch.bool)
    assert torch.equal(scene(values, present), scene(values))
    present[:] = False
    if scene.has_absent:
        assert not torch.equal(scene(values, present), scene(values))
    else:
        with pytest.raises(InputError):
            scene(values, present)
    assert scene.available is None or scene.available.shape == space.shape
    assert scene.row_0 in ("top", "bottom")
    pixels = torch.zeros(len(values), 2, dtype=values.dtype)
    offsets = scene.pixel_offsets(pixels, values)
    assert (offsets is not None) == scene.has_position
    assert offsets is None or offsets.shape == pixels.shape


@cases
def test_inverted_is_one_minus_upright(config, space):
    if "inverted" not in SCENES.models[config["kind"]].model_fields:
        pytest.skip("it has no inverse")
    upright = SCENES.build(config, space)
    inverted = SCENES.build({**config, "inverted": True}, space)
    assert inverted.inverted
    assert not upright.inverted
    assert torch.equal(inverted(some(space)), 1 - upright(some(space)))


@movable
@pytest.mark.parametrize(("right", "up"), [(1, 0), (0, 2), (3, -2), (-2, 1)])
def test_translation_equivariant(config, space, right, up):
    """Moving the factors by whole pixels moves the image; what enters over the border is not compared."""
    scene: Scene = SCENES.build(config, space)
    values = some(space)
    moved = values.clone()
    moved[:, space.axis("x")] += right
    moved[:, space.axis("y")] += up
    before, after = scene(values), scene(moved)
    rows, columns = scene.output_shape
    old = before[:, max(0, -up) : rows - max(0, up), max(0, -right) : columns - max(0, right)]
    new = after[:, max(0, up) : rows - max(0, -up), max(0, right) : columns - max(0, -right)]
    assert torch.allclose(new, old, rtol=1e-9, atol=1e-12)
    if right and up:  # a stripe does not show a move along itself
        assert not torch.allclose(before, after)


@cases
def test_differentiable(config, space):
    for points in (grid(space)[:: len(space) // 2], some(space)[:2]):
        assert torch.autograd.gradcheck(SCENES.build(config, space), (points.clone().requires_grad_(),), fast_mode=True)


@cases
def test_any_leading_shape(config, space):
    scene = SCENES.build(config, space)
    values = grid(space)[:12]
    assert torch.equal(scene(values.reshape(3, 4, -1)), scene(values).unflatten(0, (3, 4)))
    assert torch.equal(scene(values[5]), scene(values)[5])


@cases
def test_whole_numbers_count_as_values(config, space):
    scene = SCENES.build(config, space)
    whole = grid(space)[:: max(1, len(space) // 6)].ceil().long()
    assert torch.equal(scene(whole), scene(whole.float()))


def test_a_continuous_brightness_may_reach_one():
    space = FactorSpace(x=5, y=5, brightness=continuous(0.1, 1.0, 9))
    assert Bump(space)(grid(space)).max() == pytest.approx(0.9)


@cases
def test_configuration_rebuilds_the_same_scene(config, space):
    scene = SCENES.build(config, space)
    again = SCENES.build(json.loads(json.dumps(scene.config)), space)
    assert again.config == scene.config
    assert torch.equal(again(some(space)), scene(some(space)))
    assert "×".join(map(str, scene.output_shape)) in repr(scene)


@movable
def test_the_brightest_pixel_is_where_the_object_is(config, space):
    scene: Scene = SCENES.build(config, space)
    values = grid(space)
    rows, columns = scene.output_shape
    image = scene(values).flatten(1)
    peak = image.argmin(1) if scene.inverted else image.argmax(1)
    pixels = torch.stack([peak % columns, peak // columns], dim=-1).to(values.dtype)
    offsets = scene.pixel_offsets(pixels, values)
    if offsets is None:
        assert config["kind"] == "stripe"
        return
    truth = pixels - offsets
    inside = (truth >= 0).all(1) & (truth[:, 0] < columns) & (truth[:, 1] < rows)
    assert offsets[inside].abs().max() <= 0.5
    assert inside.float().mean() > 0.7


def test_offsets_go_the_short_way_round_a_cyclic_factor():
    scene = Bump(FactorSpace(x=cyclic(12.0, 12), y=12))
    offsets = scene.pixel_offsets(torch.tensor([11.0, 11.0]), torch.tensor([0.0, 0.0]))
    assert offsets.tolist() == [-1.0, 11.0]


# --- closed forms -----------------------------------------------------------------------------------------------


def gaussian(pixels: int, centre: float, sigma: float) -> np.ndarray:
    return np.exp(-((np.arange(pixels) - centre) ** 2) / (2 * sigma**2))


@pytest.mark.parametrize("sigma", [1.0, 2.5])
def test_bump_formula(sigma):
    values = np.random.default_rng(0).uniform(0, 20, (30, 2))
    u, v = np.meshgrid(np.arange(28), np.arange(20))  # u is the column, v the row
    x, y = values[:, 0, None, None], values[:, 1, None, None]
    expected = np.exp(-((u - x) ** 2 + (v - y) ** 2) / (2 * sigma**2))
    scene = Bump(FactorSpace(x=28, y=20), sigma=sigma)
    assert scene.output_shape == (20, 28)
    assert np.allclose(scene(torch.from_numpy(values)).numpy(), expected, rtol=1e-10, atol=1e-300)


def test_half_pixel_centres():
    scene = Bump(FactorSpace(x=28, y=20), pixel_centres="half")
    image = scene(torch.tensor([3.5, 7.25], dtype=torch.double)).numpy()
    assert np.allclose(image, np.outer(gaussian(20, 6.75, 1), gaussian(28, 3.0, 1)))
    assert scene.pixel_offsets(torch.zeros(2), torch.tensor([3.5, 7.25])).tolist() == [-3.0, -6.75]


def test_a_bump_is_the_product_of_its_stripes():
    space = FactorSpace(x=28, y=20)
    values = some(space)
    x_stripe, y_stripe = Stripe(space, factor="x")(values), Stripe(space, factor="y")(values)
    assert torch.allclose(Bump(space)(values), x_stripe * y_stripe, rtol=1e-12, atol=0)
    assert (x_stripe == x_stripe[:, :1, :]).all()  # the same in every row: vertical
    assert (y_stripe == y_stripe[:, :, :1]).all()
    assert np.allclose(x_stripe[0, 0].numpy(), gaussian(28, values[0, 0].item(), 1))
    assert np.allclose(y_stripe[0, :, 0].numpy(), gaussian(20, values[0, 1].item(), 1))


def test_a_stripe_is_a_bump_with_an_absent_factor():
    space = FactorSpace(x=28, y=20)
    values = some(space)
    for axis, factor in enumerate(("x", "y")):
        present = torch.zeros_like(values, dtype=torch.bool)
        present[:, axis] = True
        assert torch.equal(Bump(space)(values, present), Stripe(space, factor=factor)(values))
    nothing = torch.zeros_like(values, dtype=torch.bool)
    assert (Bump(space)(values, nothing) == 1).all()
    assert (Bump(space, inverted=True)(values, nothing) == 0).all()


def test_present_differs_from_image_to_image():
    space = FactorSpace(x=12, y=9)
    values = some(space)[:3]
    present = torch.tensor([[True, True], [True, False], [False, True]])
    images = Bump(space)(values, present)
    expected = [Bump(space)(values)[0], Stripe(space, factor="x")(values)[1], Stripe(space, factor="y")(values)[2]]
    assert torch.equal(images, torch.stack(expected))


def test_size_widens_and_brightness_scales():
    space = SPACES["n=4"]
    image = Bump(space, sigma=2.0)(torch.tensor([4.0, 3.0, 1.5, 0.75], dtype=torch.double)).numpy()
    assert np.allclose(image, 0.75 * np.outer(gaussian(9, 3, 3.0), gaussian(12, 4, 3.0)))
    present = torch.tensor([True, True, False, False])
    plain = Bump(space)(torch.tensor([4.0, 3.0, 1.5, 0.75], dtype=torch.double), present)
    assert np.allclose(plain.numpy(), np.outer(gaussian(9, 3, 1), gaussian(12, 4, 1)))


def test_a_cyclic_position_wraps():
    space = FactorSpace(x=cyclic(12.0, 12), y=9)
    image = Bump(space)(torch.tensor([0.0, 4.0], dtype=torch.double))
    assert torch.allclose(image[:, 11], image[:, 1])
    moved = Bump(space)(torch.tensor([7.0, 4.0], dtype=torch.double))
    assert torch.allclose(moved, image.roll(7, dims=1))


@pytest.mark.parametrize("size", [14, 25, 28, 41, 43, 100])
def test_the_image_is_as_wide_as_the_range_whatever_the_grid(size):
    space = FactorSpace(x=continuous(0.0, 28.0, size), y=20)
    assert Bump(space).output_shape == (20, 28)


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Bump(FactorSpace(x=5)),
            "A bump requires the factors x and y and may have size and brightness. Got x.",
        ),
        (lambda: Stripe(FactorSpace(x=5, y=5, hue=3)), "may have size and brightness. Got x, y, hue."),
        (
            lambda: Bump(FactorSpace(x=5, y=5, size=4)),
            "Factor 'size' multiplies the bump, so its values must be above 0. Got values from 0. Set its low",
        ),
        (
            lambda: Bump(FactorSpace(x=5, y=5, brightness=discrete(4, low=0.5, step=0.25))),
            "Factor 'brightness' must stay in (0, 1], so that images stay in [0, 1]. Got values up to 1.25.",
        ),
        (
            lambda: Bump(FactorSpace(x=5, y=5, brightness=continuous(0.5, 1.5, 2))),
            "Factor 'brightness' must stay in (0, 1], so that images stay in [0, 1]. Got values up to 1.5.",
        ),
        (lambda: Bump(FactorSpace(x=5, y=5))(torch.zeros(2, 3)), "one column per factor (x, y). Got shape (2, 3)."),
        (lambda: Bump(FactorSpace(x=5, y=5))(torch.zeros(2, 1)), "one column per factor (x, y). Got shape (2, 1)."),
        (lambda: Stripe(FactorSpace(x=5, y=5))(torch.zeros(2, 1)), "one column per factor (x, y). Got shape (2, 1)."),
        (
            lambda: RotatedDigit(FactorSpace(angle=cyclic(360.0, 5)))(torch.zeros(2, 2)),
            "one column per factor (angle). Got shape (2, 2).",
        ),
        (lambda: Bump(FactorSpace(x=5, y=5), sigma=-1.0), "greater than or equal to 0.001. Got -1.0 instead."),
        (lambda: Stripe(FactorSpace(x=5, y=5), factor="z"), "'x' or 'y'. Got 'z' instead."),  # type: ignore[arg-type]
        (lambda: Bump(FactorSpace(x=5, y=5), pixel_centers="half"), "(did you mean 'pixel_centres'?)"),  # type: ignore[call-arg]
    ],
)
def test_bad_input_is_explained(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)


def test_labels_are_refused_where_numbers_are_needed():
    for space, name in ((FactorSpace(x=["left", "right"], y=3), "x"), (FactorSpace(x=3, y=3, size=["s", "l"]), "size")):
        with pytest.raises(InputError, match=f"labels for {name}"):
            Bump(space)
    with pytest.raises(InputError, match="in degrees"):
        RotatedDigit(FactorSpace(angle=["up", "down"]))


def test_positions_may_be_unequally_spaced():
    scene = Bump(FactorSpace(x=[0, 2.5, 9], y=[1, 2, 4.5]))
    assert scene.output_shape == (5, 10)
    assert Bump(FactorSpace(x=[0, 2.5, 9], y=4), columns=12).output_shape == (4, 12)


def test_factors_that_leave_the_image_are_refused():
    with pytest.raises(InputError, match=r"values 5 … 16 do not fit into 12 pixels"):
        Bump(FactorSpace(x=discrete(12, low=5.0), y=12))
    assert Bump(FactorSpace(x=discrete(12, low=5.0), y=12), columns=17).output_shape == (12, 17)
