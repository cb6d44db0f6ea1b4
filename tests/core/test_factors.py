"""Factor spaces: grids, cell numbers, values and back, for any number and kind of factors."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recombine.core.errors import InputError
from recombine.core.factors import Factor, FactorSpace, categorical, continuous, cyclic, discrete

FACTORS = {
    "discrete": discrete(5),
    "shifted": discrete(4, low=0.5, step=0.25),
    "continuous": continuous(-1.0, 2.0, 6),
    "cyclic": cyclic(360.0, 12),
    "cyclic, shifted": cyclic(1.0, 7, low=-0.5),
    "single": discrete(1),
    "irregular": discrete([0.5, 0.7, 1.0, 4.0]),
    "labelled": categorical(["red", "green", "blue"]),
}
SPACES = {
    "one": FactorSpace(x=7),
    "two": FactorSpace(x=4, y=5),
    "three": FactorSpace(x=3, angle=cyclic(360.0, 12), size=discrete(4, low=0.5, step=0.25)),
    "four": FactorSpace(x=3, y=2, size=continuous(0.5, 1.5, 4), brightness=discrete(2, low=0.5, step=0.5)),
    "labelled": FactorSpace(colour=["red", "green"], size=[0.5, 0.7, 1.0], x=3),
}
CLOSED = ("discrete", "categorical")
factors = pytest.mark.parametrize("factor", FACTORS.values(), ids=FACTORS)
spaces = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


@factors
def test_grid_values_have_whole_positions(factor):
    assert torch.allclose(factor.position(factor.grid()), torch.arange(factor.size).float(), atol=1e-5)
    assert factor.grid()[0] == pytest.approx(factor.low)
    assert factor.grid()[-1].item() == pytest.approx(factor.high)
    assert factor.extent == pytest.approx(factor.size * factor.step)


@factors
def test_range_ends_after_the_last_grid_value(factor):
    half_a_step_on = factor.high + factor.spacing / 2
    assert factor.takes(factor.low)
    assert factor.takes(factor.high)
    assert factor.takes(half_a_step_on) == (factor.kind not in CLOSED)
    assert not factor.takes(factor.low + factor.extent)
    assert not factor.takes(factor.low - factor.spacing / 2)


def test_cyclic_difference_goes_the_short_way_round():
    angle = cyclic(360.0, 36)
    a, b = torch.tensor([350.0, 10.0, 180.0, 0.0, 90.0]), torch.tensor([10.0, 350.0, 0.0, 180.0, 80.0])
    assert angle.difference(a, b).tolist() == [-20.0, 20.0, -180.0, -180.0, 10.0]
    assert discrete(360).difference(a, b).tolist() == [340.0, -340.0, 180.0, -180.0, 10.0]


@spaces
def test_cells_are_numbered_in_row_major_order(space):
    cells = torch.arange(len(space))
    expected = list(itertools.product(*(range(n) for n in space.shape)))
    assert len(space) == len(expected)
    assert space.coordinates(cells).tolist() == [list(c) for c in expected]
    grids = [f.grid().tolist() for f in space.factors.values()]
    assert torch.allclose(space.values(cells), torch.tensor(list(itertools.product(*grids))))


@spaces
def test_cells_of_values_is_the_inverse_of_values_of_cells(space):
    cells = torch.arange(len(space))
    assert torch.equal(space.cells(space.values(cells)), cells)
    assert torch.equal(space.cells(space.values(cells).double()), cells)
    near = space.values(cells) + 0.3 * torch.tensor([f.spacing for f in space.factors.values()])
    assert torch.equal(space.cells(near), cells)
    square = cells[: len(cells) // 2 * 2].reshape(2, -1)
    assert space.values(square).shape == (*square.shape, space.n_factors)
    assert torch.equal(space.cells(space.values(square)), square)


@spaces
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_chunks_cover_the_grid_once_in_order(space, size):
    chunks = list(space.chunks(size))
    assert torch.equal(torch.cat(chunks), torch.arange(len(space)))
    assert all(len(chunk) <= size for chunk in chunks)


@spaces
def test_configuration_rebuilds_the_space(space):
    rebuilt = FactorSpace.from_config(json.loads(json.dumps(space.to_config())))
    assert rebuilt == space
    assert hash(rebuilt) == hash(space)
    assert rebuilt.to_config() == space.to_config()


def test_configuration_of_a_plain_factor_is_its_size():
    assert FactorSpace(x=28, y=discrete(28)).to_config() == {"x": 28, "y": 28}


def test_equal_factors_have_one_written_form():
    """Whole numbers for low and step, as users write them; a process of its own, since the type checks forbid them."""
    program = (
        "from recombine.core.factors import *\n"
        "import json\n"
        "print(json.dumps([FactorSpace(x=f).to_config() for f in (Factor('cyclic', 3, 0, 1), cyclic(3.0, 3))]))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    whole, real = done.stdout[1:-2].split("}}, ")  # as text: 0 and 0.0 are equal as numbers
    assert whole + "}}" == real


def test_wrong_types_are_explained_factor_by_factor():
    """In a process of its own, since the type checks forbid them."""
    program = (
        "from recombine.core.factors import *\n"
        "given = {'a': {'kind': 'cyclic', 'size': 2.5}, 'b': {'kind': 'cyclc', 'size': 3}, 4: 4}\n"
        "lows = {'c': None, 'd': '1', 'e': True, 'f': 10**400}\n"
        "given |= {name: {'kind': 'cyclic', 'size': 3, 'low': low} for name, low in lows.items()}\n"
        "try: FactorSpace.from_config(given)\n"
        "except InputError as error: print(*(problem.key for problem in error.problems), sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["a", "b", "", "c", "d", "e", "f"]  # the name 4 is no text


def test_listed_values_and_labels():
    space = SPACES["labelled"]
    assert space.shape == (2, 3, 3)
    assert space.to_config() == {"colour": ["red", "green"], "size": [0.5, 0.7, 1.0], "x": 3}
    assert repr(space) == "FactorSpace(colour=[red, green], size=[0.5, 0.7, 1], x=3)"
    assert space.differentiable == ("size", "x")
    assert space.factors["colour"].grid().tolist() == [0.0, 1.0]
    assert [f.labels for f in space.factors.values()] == [("red", "green"), ("0.5", "0.7", "1"), ("0", "1", "2")]
    cell = space.cell(colour="green", size=0.7, x=2)
    assert cell == 1 * 9 + 1 * 3 + 2
    assert (
        space.label(cell) == space.describe(space.values(torch.tensor(cell)).tolist()) == "colour=green, size=0.7, x=2"
    )
    assert space.cell(x="2", size="0.7", colour=1) == cell
    assert space.cell(x=np.int64(2), size=np.float32(0.7), colour=np.str_("green")) == cell


def test_configurations_may_name_the_kind_of_a_list():
    given = {
        "colour": {"kind": "categorical", "labels": ["red", "green"]},
        "size": {"kind": "discrete", "values": [1, 2, 4]},
    }
    assert FactorSpace.from_config(given) == FactorSpace(colour=["red", "green"], size=np.array([1, 2, 4]))


def test_evenly_spaced_values_are_a_regular_factor():
    assert discrete([0, 1, 2]) == discrete(3)
    assert discrete([0.1, 0.2, 0.3]) == discrete(3, low=0.1, step=0.1)
    assert discrete([0.0, 1 / 3, 2 / 3]).listed is None
    assert discrete([7]) == discrete(1, low=7.0)
    assert discrete([0.0, 1.0, 2.0001]).listed == (0.0, 1.0, 2.0001)


def test_positions_between_unequal_values_are_interpolated():
    factor = FACTORS["irregular"]
    values = torch.tensor([0.5, 0.6, 0.7, 0.85, 2.5, 4.0, 0.3, 5.5], dtype=torch.float64)
    expected = torch.tensor([0, 0.5, 1, 1.5, 2.5, 3, -1, 3.5], dtype=torch.float64)
    torch.testing.assert_close(factor.position(values), expected)
    torch.testing.assert_close(factor.value(expected), values)
    torch.testing.assert_close(factor.steps(values[3:5], values[:2]), expected[3:5] - expected[:2])
    assert torch.equal(torch.vmap(factor.position)(values), factor.position(values))
    slope = torch.vmap(torch.func.grad(factor.position))(values[3:5])
    torch.testing.assert_close(slope, torch.tensor([1 / 0.3, 1 / 3.0], dtype=torch.float64))


@factors
def test_values_and_positions_are_inverse(factor):
    positions = torch.arange(factor.size, dtype=torch.float64)
    torch.testing.assert_close(factor.position(factor.value(positions)), positions)
    torch.testing.assert_close(factor.value(positions).to(factor.grid()), factor.grid())
    assert [factor.index(label) for label in factor.labels] == list(range(factor.size))
    assert [factor.index(value) for value in factor.grid().tolist()] == list(range(factor.size))
    assert len(set(factor.labels)) == factor.size
    assert [factor.label(value) for value in factor.value(positions).tolist()] == list(factor.labels)


def test_labels_differ_where_six_digits_do_not_tell_values_apart():
    assert discrete(3, low=1e6, step=0.1).labels == ("1000000", "1000000.1", "1000000.2")


def test_labels_have_no_distance():
    a, b = torch.tensor([0.0, 0.0, 2.0]), torch.tensor([0.0, 2.0, 1.0])
    assert categorical(["a", "b", "c"]).difference(a, b).tolist() == [0.0, 1.0, 1.0]
    assert not categorical(["a"]).differentiable
    assert categorical(["a"]).categorical


def test_order_of_factors_matters():
    assert FactorSpace(x=3, y=3) != FactorSpace(y=3, x=3)
    assert FactorSpace(x=3, y=3) != "a space"


def test_a_large_grid_is_never_stored():
    space = FactorSpace(a=1000, b=1000, c=1000, d=1000)
    assert len(space) == 10**12
    assert next(space.chunks(3)).tolist() == [0, 1, 2]
    assert space.values(torch.tensor(123_456_789_012)).tolist() == [123, 456, 789, 12]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_cell_and_coordinates_agree_for_any_shape(shape, data):
    space = FactorSpace(**{f"f{i}": n for i, n in enumerate(shape)})
    cell = data.draw(st.integers(0, len(space) - 1))
    place = space.coordinates(torch.tensor(cell)).tolist()
    number = 0
    for n, k in zip(shape, place):
        assert 0 <= k < n
        number = number * n + k
    assert number == cell


def test_cells_of_cyclic_values_wrap():
    space = FactorSpace(angle=cyclic(360.0, 12))
    assert space.cells(torch.tensor([[-30.0], [360.0], [350.0], [340.0]])).tolist() == [11, 0, 0, 11]


def test_a_continuous_factor_takes_values_after_its_last_grid_value():
    space = FactorSpace(x=continuous(0.0, 28.0, 28))
    assert space.cells(torch.tensor([[27.8], [27.2], [0.0]])).tolist() == [27, 27, 0]


def test_positions_are_differentiable():
    space = SPACES["three"]
    values = space.values(torch.tensor([3, 20])).double().requires_grad_()
    assert torch.autograd.gradcheck(space.positions, (values,))


def test_whole_numbers_count_as_values():
    space = FactorSpace(y=discrete(8, step=0.5), a=cyclic(12.0, 4, low=1.5))
    values = torch.tensor([[1, 2], [3, 4]])
    assert torch.equal(space.positions(values), space.positions(values.float()))
    assert torch.equal(space.cells(values), space.cells(values.float()))


@factors
def test_the_ends_of_the_range_survive_rounding(factor):
    for end in (factor.low, factor.high):
        assert factor.takes(end - 1e-9 * factor.spacing)
        assert factor.takes(end + 1e-9 * factor.spacing)
    assert not factor.takes(factor.low - 1e-2 * factor.spacing)
    assert factor.takes(factor.high + 1e-2 * factor.spacing) == (factor.kind not in CLOSED)


def test_minus_zero_is_zero():
    assert FactorSpace(x=discrete(3, low=-0.0)).to_config() == {"x": 3}
    assert str(cyclic(3.0, 3, low=-0.0).low) == "0.0"


def test_repr_names_what_is_not_plain():
    assert repr(FactorSpace(x=28, angle=cyclic(360.0, 12))) == "FactorSpace(x=28, angle=cyclic(0…330, 12 values))"


def wrong_cell() -> int:
    return SPACES["labelled"].cell(colour="gren", size=0.6, z=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FactorSpace(), "at least one factor, for example FactorSpace(x=28, y=28). Got none."),
        (lambda: FactorSpace(x=0), "Factor 'x': a factor's size must be an integer of at least 1. Got 0"),
        (lambda: FactorSpace(x=True), "size must be an integer of at least 1. Got True instead."),
        (lambda: Factor("discrete", 3, 0.0, 0.0), "a step above 0. Got low=0.0, step=0.0."),
        (lambda: Factor("discrete", 3, float("nan"), 1.0), "finite low and a step above 0. Got low=nan"),
        (lambda: continuous(1.0, 1.0, 4), "low < high. Got low=1.0, high=1.0."),
        (lambda: continuous(0.0, 1.0, 0), "at least 1. Got 0 instead."),
        (lambda: cyclic(-3.0, 4), "a step above 0. Got low=0.0, step=-0.75."),
        (lambda: SPACES["two"].axis("z"), "no factor 'z' in FactorSpace(x=4, y=5). Factors: x, y."),
        (lambda: SPACES["two"].cells(torch.zeros(2, 3)), "one column per factor (x, y). Got shape (2, 3)."),
        (
            lambda: SPACES["two"].cells(torch.tensor([[0.0, 4.6]])),
            "Factor 'y' takes values from 0 to 4. Got 4.6 instead.",
        ),
        (
            lambda: FactorSpace(x=continuous(0.0, 28.0, 28)).cells(torch.tensor([[28.0]])),
            "Factor 'x' takes values from 0 up to but excluding 28. Got 28 instead.",
        ),
        (
            lambda: FactorSpace(x=continuous(0.0, 28.0, 28)).cells(torch.tensor([[float("nan")]])),
            "Got nan instead.",
        ),
        (
            lambda: FactorSpace.from_config({"x": {"kind": "cyclic", "siz": 3, "lo": 0}}),
            "Unknown: 'siz' (did you mean 'size'?), 'lo' (did you mean 'low'?). Missing: size.",
        ),
        (lambda: FactorSpace(c=["red", 1]), "only numbers or only labels. Got ['red', 1]."),
        (lambda: FactorSpace(c=["red", "red"]), "must differ. Got 'red' more than once."),
        (lambda: FactorSpace(c=["red", " "]), "a list of labels"),
        (lambda: FactorSpace(c=[]), "must be finite and increase. Got []."),
        (lambda: FactorSpace(c=[1.0, 0.5]), "must be finite and increase. Got [1.0, 0.5]. Sort them, or give labels."),
        (lambda: FactorSpace(c=[0.0, float("nan")]), "must be finite and increase."),
        (lambda: FactorSpace(c=[0, True]), "a factor's values must be a number. Got True"),
        (lambda: Factor("categorical", 3), "Create it with"),
        (lambda: Factor("cyclic", 3, listed=(1.0, 2.0, 4.0)), "Create it with"),
        (lambda: FactorSpace.from_config({"c": {"kind": "categorical", "size": 3}}), "'size'. Missing: labels."),
        (lambda: FactorSpace.from_config({"c": {"kind": "discrete", "values": 3}}), "Got 3."),
        (wrong_cell, "Factor 'colour': There is no value 'gren' (did you mean 'green'?). Values: red, green."),
        (wrong_cell, "Factor 'size': There is no value 0.6. Values: 0.5, 0.7, 1."),
        (wrong_cell, "There is no factor 'z'"),
        (lambda: SPACES["labelled"].cell(colour="red"), "Missing: size, x."),
        (lambda: SPACES["labelled"].cell(colour=2, size=0.5, x=0), "There is no value 2. Values: red, green."),
        (
            lambda: SPACES["labelled"].cells(torch.tensor([[2.0, 0.5, 0.0]])),
            "Factor 'colour' takes labels numbered from 0, red, green. Got 2 instead.",
        ),
        (
            lambda: SPACES["labelled"].cells(torch.tensor([[1.0, 1.5, 0.0]])),
            "Factor 'size' takes values from 0.5 to 1. Got 1.5",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_explained(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
