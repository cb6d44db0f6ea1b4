"""Errors carry keys and states, and survive being sent between processes."""

import pickle

import pytest

from recombine.core.errors import (
    DamagedError,
    InputError,
    Missing,
    NotComputable,
    Problem,
    StoreError,
    TrainingDiverged,
)


def test_an_input_error_has_one_problem_unless_joined():
    error = InputError("Too wide.", key="decoder.width")
    assert error.key == "decoder.width"
    assert error.problems == [Problem("decoder.width", "Too wide.")]
    assert InputError("Anything.").key == ""


def test_joined_errors_keep_every_key():
    joined = StoreError.join([Problem("a", "First."), Problem("b.c", "Second.")])
    assert isinstance(joined, StoreError)
    assert [problem.key for problem in joined.problems] == ["a", "b.c"]
    assert str(joined).splitlines() == ["First.", "Second."]
    assert isinstance(joined, ValueError)


@pytest.mark.parametrize(
    "error",
    [
        InputError("Too wide.", key="decoder.width"),
        DamagedError.join([Problem("a", "First."), Problem("b", "Second.")]),
        NotComputable(Missing.NO_TRUTH, "There are no targets."),
        TrainingDiverged({3: "The loss of seed 3 is NaN."}),
    ],
)
def test_errors_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_what_cannot_be_computed_is_no_mistake_of_the_user():
    error = NotComputable(Missing.DEGENERATE, "The output is constant.")
    assert not isinstance(error, InputError)
    assert (error.state, error.reason, str(error)) == (Missing.DEGENERATE, error.reason, error.reason)
