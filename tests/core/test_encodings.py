"""Encodings: the contract every one keeps, and the codes written out by hand."""

import json

import numpy as np
import pytest
import torch

from recombine.core.encodings import ENCODINGS, Bump, Encoding, Mixed, OneHot, Positional, Ramp
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, continuous, cyclic, discrete

# The rings are odd: exactly opposite to a unit, where the way round changes, a wide bump has a small kink.
SPACES = {
    "n=1": FactorSpace(x=9),
    "n=2": FactorSpace(x=9, y=7),
    "n=3": FactorSpace(x=7, angle=cyclic(390.0, 13), size=discrete(4, low=0.5, step=0.25)),
    "n=4": FactorSpace(x=5, y=4, size=continuous(-1.0, 2.0, 6), angle=cyclic(1.0, 9, low=-0.5)),
    "unequal": FactorSpace(x=6, size=[0.5, 0.7, 1.0, 4.0]),
}
LABELLED = FactorSpace(x=5, colour=["red", "green", "blue"], size=[0.5, 0.7, 1.0])
# Every kind is under contract with its defaults by being registered, and with these settings.
SETTINGS = [
    {"kind": "bump", "width": 2.5},
    {"kind": "positional", "frequencies": 3, "base": 50.0},
    {"kind": "ramp", "normalized": False},
    {"kind": "ramp", "flag": True},
]
CONFIGS = [*({"kind": kind} for kind in ENCODINGS.components), *SETTINGS]
PARTS = ({"kind": "bump", "width": 2.0}, {"kind": "ramp", "flag": True}, {"kind": "onehot"}, {"kind": "positional"})
spaces = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
configs = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: "-".join(str(v) for v in c.values()))


def build(config: dict, space: FactorSpace) -> Encoding:
    if config["kind"] == "mixed":
        config = {**config, "factors": dict(zip(space.names, PARTS))}
    return ENCODINGS.build(config, space)


def has_absent_code(encode: Encoding) -> bool:
    return not (isinstance(encode, Ramp) and not encode.flag)


def grid(space: FactorSpace) -> torch.Tensor:
    return space.values(torch.arange(len(space))).double()


def off_grid(space: FactorSpace) -> torch.Tensor:
    """A few values between grid values, none of them half-way between or opposite to a unit."""
    inner = space.values(torch.arange(len(space))[:: max(1, len(space) // 5)]).double()
    return inner + torch.tensor([0.37 * f.spacing for f in space.factors.values()], dtype=torch.double)


# --- contract ---------------------------------------------------------------------------------------------------


@configs
@spaces
def test_blocks_fill_the_code(config, space):
    encode = build(config, space)
    code = encode(grid(space))
    assert code.shape == (len(space), encode.size)
    assert code.dtype == torch.double
    assert list(encode.blocks) == list(space.names)
    ends = [0] + [encode.blocks[name].stop for name in space.names]
    assert [encode.blocks[name].start for name in space.names] == ends[:-1]
    assert ends[-1] == encode.size
    assert encode(grid(space).float()).dtype == torch.float


@configs
@spaces
def test_each_factor_drives_only_its_own_block(config, space):
    encode = build(config, space)
    values = off_grid(space)
    for axis, name in enumerate(space.names):
        moved = values.clone()
        moved[:, axis] += 0.2 * space.factors[name].spacing
        changed = (encode(moved) != encode(values)).any(0)
        own = torch.zeros(encode.size, dtype=torch.bool)
        own[encode.blocks[name]] = True
        assert changed.any()
        assert not changed[~own].any()


@configs
@spaces
def test_codes_of_the_grid_differ(config, space):
    codes = build(config, space)(grid(space).float())
    assert torch.cdist(codes, codes).add(torch.eye(len(codes)) * 9).min() > 1e-3


@configs
@spaces
def test_decode_is_the_inverse_of_encode(config, space):
    encode = build(config, space)
    for dtype in (torch.float, torch.double):
        values = grid(space).to(dtype)
        assert torch.equal(encode.decode(encode(values)), values)
    assert encode.decode(encode(values[:4].reshape(2, 2, -1))).shape == (2, 2, space.n_factors)


@configs
@spaces
@pytest.mark.parametrize("points", [grid, off_grid], ids=["grid", "off-grid"])
def test_differentiable(config, space, points):
    if points is grid and any(factor.listed for factor in space.factors.values()):
        pytest.skip("between unequal intervals positions have a kink at the grid value")
    values = points(space)
    values = values[:: max(1, len(values) // 5)].clone().requires_grad_()
    if points is grid and config["kind"] in ("onehot", "mixed"):
        # the kernel's curvature jumps at grid values, so that a finite difference is off by its step size
        assert torch.autograd.gradcheck(build(config, space), (values,), eps=1e-7, atol=1e-5, fast_mode=True)
    else:
        assert torch.autograd.gradcheck(build(config, space), (values,), fast_mode=True)


@configs
@spaces
def test_absent_factors_have_an_all_zero_block_that_no_value_has(config, space):
    encode = build(config, space)
    values = grid(space)
    for axis, name in enumerate(space.names):
        present = torch.ones_like(values, dtype=torch.bool)
        present[1::2, axis] = False
        if not has_absent_code(encode):
            with pytest.raises(InputError, match=r"cannot represent an absent factor.*use Ramp\(space, flag=True\)"):
                encode(values, present)
            continue
        code, full = encode(values, present), encode(values)
        block = encode.blocks[name]
        assert (code[1::2, block] == 0).all()
        assert torch.equal(code[::2], full[::2])
        others = [i for other in space.names if other != name for i in range(encode.size)[encode.blocks[other]]]
        assert torch.equal(code[:, others], full[:, others])
        assert (full[:, block] != 0).any(1).all()


@configs
@spaces
def test_nothing_absent_changes_nothing(config, space):
    encode = build(config, space)
    values = grid(space)
    assert torch.equal(encode(values, torch.ones_like(values, dtype=torch.bool)), encode(values))


@configs
@spaces
def test_configuration_rebuilds_the_same_code(config, space):
    encode = build(config, space)
    again = ENCODINGS.build(json.loads(json.dumps(encode.config)), space)
    assert again.config == encode.config
    assert torch.equal(again(grid(space)), encode(grid(space)))
    assert repr(again) == repr(encode)
    assert f"{encode.size} units" in repr(encode)


@configs
def test_any_leading_shape(config):
    space = SPACES["n=2"]
    encode = build(config, space)
    values = grid(space)[:12]
    assert torch.equal(encode(values.reshape(3, 4, 2)), encode(values).reshape(3, 4, -1))
    assert torch.equal(encode(values[5]), encode(values)[5])


@configs
def test_population_codes_of_cyclic_factors_wrap(config):
    if config["kind"] in ("ramp", "mixed"):
        pytest.skip("a ramp does not wrap")
    encode = build(config, FactorSpace(angle=cyclic(360.0, 12)))
    values = torch.tensor([[-30.0], [7.0], [345.0]], dtype=torch.double)
    assert torch.allclose(encode(values), encode(values + 360), atol=1e-12)


@pytest.mark.parametrize("kind", ENCODINGS.components)
def test_labels_have_a_code_or_are_refused(kind):
    if kind == "mixed":
        parts = {"x": {"kind": "bump"}, "colour": {"kind": "onehot"}, "size": {"kind": "ramp"}}
        encode = Mixed(LABELLED, factors=parts)
        with pytest.raises(InputError, match="'colour' are labels"):
            Mixed(LABELLED, factors={**parts, "colour": {"kind": "bump"}})
    elif not ENCODINGS.components[kind].takes_labels:
        with pytest.raises(InputError, match="'colour' are labels") as caught:
            ENCODINGS.build({"kind": kind}, LABELLED)
        assert caught.value.key == "encoding.kind"
        return
    else:
        encode = ENCODINGS.build({"kind": kind}, LABELLED)
    values = grid(LABELLED)
    assert torch.equal(encode.decode(encode(values)).float(), values.float())
    named = [LABELLED.describe(row) for row in encode.decode(encode(values)).tolist()]
    assert named == [LABELLED.label(cell) for cell in range(len(LABELLED))]
    encode.check()
    present = torch.ones_like(values, dtype=torch.bool)
    present[:, 1] = False
    assert (encode(values, present)[:, encode.blocks["colour"]] == 0).all()


# --- closed forms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1.0, 3**0.5, 11**0.5])
def test_bump_formula(width):
    space = FactorSpace(x=28, y=20)
    values = np.random.default_rng(0).uniform(0, 19, (50, 2))
    expected = np.concatenate(
        [np.exp(-((np.arange(n) - values[:, [a]]) ** 2) / (2 * width**2)) for a, n in enumerate((28, 20))], axis=1
    )
    code = Bump(space, width=width)(torch.from_numpy(values))
    assert np.allclose(code.numpy(), expected, rtol=1e-12, atol=1e-300)


def test_bump_counts_its_width_in_grid_steps():
    fine = FactorSpace(x=continuous(0.0, 14.0, 28))
    coarse = FactorSpace(x=28)
    positions = torch.tensor([[3.3], [7.0]], dtype=torch.double)
    assert torch.allclose(Bump(fine)(positions / 2), Bump(coarse)(positions), atol=1e-12)


def test_bump_on_a_ring():
    code = Bump(FactorSpace(angle=cyclic(360.0, 8)))(torch.tensor([[0.0]], dtype=torch.double))[0]
    d = np.array([0, 1, 2, 3, 4, 3, 2, 1])
    assert np.allclose(code.numpy(), np.exp(-(d**2) / 2))


def test_onehot_is_exact_on_the_grid():
    space = FactorSpace(x=6, angle=cyclic(360.0, 5))
    code = OneHot(space)(grid(space))
    x, angle = torch.meshgrid(torch.arange(6), torch.arange(5), indexing="ij")
    expected = torch.cat([torch.eye(6)[x.flatten()], torch.eye(5)[angle.flatten()]], dim=1).double()
    assert torch.equal(code, expected)


def test_onehot_of_labels_and_unequal_values():
    code = OneHot(LABELLED)(grid(LABELLED))
    where = LABELLED.coordinates(torch.arange(len(LABELLED)))
    expected = torch.cat([torch.eye(n)[where[:, axis]] for axis, n in enumerate(LABELLED.shape)], dim=1).double()
    assert torch.allclose(code, expected, atol=1e-6)
    assert torch.equal(code[:, 5:8], expected[:, 5:8])
    space = FactorSpace(size=[0.5, 0.7, 1.0, 4.0])
    bump = Bump(space)(torch.tensor([[0.7], [2.5]], dtype=torch.double))
    steps = torch.tensor([[1.0, 0, 1, 2], [2.5, 1.5, 0.5, 0.5]], dtype=torch.double)
    assert torch.allclose(bump, torch.exp(-steps.square() / 2))
    assert torch.allclose(Ramp(space)(torch.tensor([[2.5]])), torch.tensor([[2.5 / 3]]))


def test_onehot_slope_is_the_central_difference():
    space = FactorSpace(x=6)
    encode = OneHot(space)
    jacobian = torch.autograd.functional.jacobian(encode, torch.tensor([3.0], dtype=torch.double)).squeeze(-1)
    expected = (torch.eye(6)[4] - torch.eye(6)[2]).double() / 2
    assert torch.equal(jacobian, expected)
    ring = OneHot(FactorSpace(x=cyclic(6.0, 6)))
    jacobian = torch.autograd.functional.jacobian(ring, torch.tensor([0.0], dtype=torch.double)).squeeze(-1)
    assert torch.equal(jacobian, (torch.eye(6)[1] - torch.eye(6)[5]).double() / 2)


def test_onehot_between_grid_values_adds_up_to_one():
    values = torch.linspace(2, 5, 31, dtype=torch.double).unsqueeze(-1)
    code = OneHot(FactorSpace(x=8))(values)
    assert torch.allclose(code.sum(-1), torch.ones(31, dtype=torch.double))
    assert torch.allclose(code @ torch.arange(8, dtype=torch.double), values.squeeze(-1))  # reproduces the value


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_onehot_on_a_ring_of_any_size_adds_up_to_one(size):
    encode = OneHot(FactorSpace(a=cyclic(float(size), size)))
    values = torch.linspace(-1, size + 1, 121, dtype=torch.double).unsqueeze(-1)
    assert torch.allclose(encode(values).sum(-1), torch.ones(121, dtype=torch.double))
    assert torch.equal(encode(torch.arange(size).double().unsqueeze(-1)), torch.eye(size).double())


def test_positional_of_an_angle_is_its_sine_and_cosine():
    space = FactorSpace(angle=cyclic(360.0, 36))
    degrees = torch.tensor([[0.0], [30.0], [90.0], [123.4]], dtype=torch.double)
    code = Positional(space, frequencies=1)(degrees)
    theta = np.radians(degrees.numpy())
    assert np.allclose(code.numpy(), np.concatenate([np.sin(theta), np.cos(theta)], axis=1))


def test_positional_frequencies_are_geometric():
    values = np.array([0.0, 1.0, 13.5])
    rates = 100.0 ** (-np.arange(4) / 4)
    phase = values[:, None] * rates
    code = Positional(FactorSpace(x=28), frequencies=4, base=100.0)(torch.from_numpy(values).unsqueeze(-1))
    assert np.allclose(code.numpy(), np.concatenate([np.sin(phase), np.cos(phase)], axis=1))


def test_ramp_holds_the_coordinate():
    space = FactorSpace(x=5, size=discrete(4, low=0.5, step=0.25))
    values = torch.tensor([[1.0, 0.75], [4.0, 1.25]], dtype=torch.double)
    assert torch.allclose(Ramp(space, normalized=False)(values), torch.tensor([[1, 1], [4, 3]]).double())
    assert torch.allclose(Ramp(space)(values), torch.tensor([[0.25, 1 / 3], [1, 1]]).double())
    present = torch.tensor([[True, False], [True, True]])
    assert torch.allclose(
        Ramp(space, flag=True)(values, present), torch.tensor([[0.25, 1, 0, 0], [1, 1, 1, 1]]).double()
    )


def test_mixed_is_made_of_its_parts():
    space = FactorSpace(x=9, y=7)
    mixed = Mixed(space, factors={"x": {"kind": "bump", "width": 2.0}, "y": {"kind": "ramp"}})
    values = grid(space)
    parts = [Bump(FactorSpace(x=9), width=2.0)(values[:, :1]), Ramp(FactorSpace(y=7))(values[:, 1:])]
    assert torch.equal(mixed(values), torch.cat(parts, dim=1))
    assert mixed.size == 10
    present = torch.tensor([[False, True]]).expand(len(values), -1)
    assert (mixed(values, present)[:, :9] == 0).all()
    with pytest.raises(InputError, match="cannot represent an absent factor"):
        mixed(values, ~present)


# --- bad input --------------------------------------------------------------------------------------------------

PLANE = FactorSpace(x=9, y=7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bump(PLANE)(torch.zeros(3, 3)), "one column per factor (x, y). Got shape (3, 3)."),
        (
            lambda: Bump(PLANE, width=0.0),
            "'width' parameter of encoding 'bump' is wrong: input should be greater than or equal to 0.001",
        ),
        (lambda: Bump(PLANE, widht=1.0), "Unknown parameter 'widht' of encoding 'bump' (did you mean 'width'?)."),  # type: ignore[call-arg]
        (lambda: OneHot(PLANE, width=1.0), "Unknown parameter 'width' of encoding 'onehot'. It takes no parameters."),  # type: ignore[call-arg]
        (lambda: Positional(PLANE, frequencies=0), "greater than or equal to 1. Got 0 instead."),
        (
            lambda: Mixed(PLANE, factors={"x": {"kind": "bump"}, "z": {"kind": "ramp"}}),
            "one entry per factor ['x', 'y']. Got ['x', 'z'].",
        ),
        (
            lambda: Mixed(PLANE, factors={"x": {"kind": "bum"}, "y": {"kind": "ramp"}}),
            "kind 'bum' (did you mean 'bump'?).",
        ),
        (
            lambda: ENCODINGS.build({"kind": "one-hot"}, PLANE),
            "kind 'one-hot' (did you mean 'onehot'?). Kinds: ",
        ),
    ],
)
def test_bad_input_is_explained(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
