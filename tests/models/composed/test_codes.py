"""What codes mean to a composer: bumps are turned into values, values between trained ones are interpolated."""

import numpy as np
import pytest
import torch

import recombine as rc
from recombine.core.errors import InputError
from recombine.models.composed.codes import between
from recombine.models.composed.determined import determination

SPACE = rc.FactorSpace(x=6, y=6)


def task(encoding: rc.encodings.Encoding, held: np.ndarray | None = None) -> rc.Task:
    holdout = rc.holdouts.centre(SPACE, 2, 3) if held is None else rc.holdouts.mask(SPACE, held)
    return rc.Task(rc.scenes.Bump(SPACE), encoding, holdout, allow_unseen=True)


def one_hot() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.eye(6).repeat_interleave(6, 0), torch.eye(6).repeat(6, 1)


@pytest.mark.parametrize("encoding", ["onehot", "bump", "ramp"])
def test_the_code_of_a_value_means_that_value_alone(encoding):
    given = task(rc.encodings.ENCODINGS.build({"kind": encoding}, SPACE))
    composer = rc.decoders.Composed(given).composer
    weights = composer.weights(given.inputs(SPACE.values(torch.arange(36))))
    for found, expected in zip(weights, one_hot()):
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_an_absent_factor_has_no_weights():
    composer = rc.decoders.Composed(task(rc.encodings.Bump(SPACE))).composer
    assert all(not own.any() for own in composer.weights(torch.zeros(1, 12)))


def test_between_trained_values_the_two_nearest_stand_for_a_value():
    expected = torch.eye(6)
    expected[2] = torch.tensor([0, 2 / 3, 0, 0, 1 / 3, 0])
    expected[3] = torch.tensor([0, 1 / 3, 0, 0, 2 / 3, 0])
    torch.testing.assert_close(between([False, True, False, False, True, False]), expected)


@pytest.mark.parametrize("encoding", ["ramp", "bump"])
def test_values_that_were_never_trained_are_interpolated_and_determined(encoding):
    """x = 3 is never trained; a shift that is a line in x is right there."""
    held = np.zeros((6, 6), dtype=bool)
    held[3] = held[4, 4] = True
    given = task(rc.encodings.ENCODINGS.build({"kind": encoding}, SPACE), held)
    decoder = rc.decoders.Composed(given)
    assert decoder.composer.standing(0) == [0, 1, 2, 4, 5]
    decoder.composer.shifts_of(0)[:, 0, 1] = 1.5 * torch.arange(6) * torch.tensor([1, 1, 1, 0, 1, 1])
    weights = decoder.composer.weights(given.inputs(SPACE.values(torch.tensor([3 * 6 + 1]))))
    found = torch.cat(weights, 1) @ decoder.composer.shifts[:, 0, 1]
    assert found.item() == pytest.approx(4.5, abs=1e-4)


def test_a_value_beyond_all_trained_ones_is_not_determined():
    held = np.zeros((6, 6), dtype=bool)
    held[5] = True
    for encoding in (rc.encodings.Ramp(SPACE), rc.encodings.OneHot(SPACE)):
        with pytest.raises(InputError, match="does not determine 6 of 6"):
            rc.decoders.Composed(task(encoding, held))


def test_a_one_hot_code_has_no_values_in_between():
    held = np.zeros((6, 6), dtype=bool)
    held[3] = True
    with pytest.raises(InputError, match="does not determine"):
        rc.decoders.Composed(task(rc.encodings.OneHot(SPACE), held))
    trained = ~held
    assert not determination(trained, held).complete
    stand = [between(trained.any(1)).double().numpy(), np.eye(6)]
    assert determination(trained, held, stand).complete


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (rc.encodings.Ramp(SPACE, normalized=False), r"go from 0 to 5.*encoding.normalized=true"),
        (rc.encodings.Ramp(SPACE, flag=True), r"12; onehot, bump.*Got 4 entries"),
    ],
    ids=["steps", "flag"],
)
def test_other_codes_are_refused_before_training(encoding, message):
    with pytest.raises(InputError, match=message) as caught:
        rc.decoders.Composed(task(encoding))
    assert str(caught.value.key).startswith("encoding")


def test_a_code_with_the_right_number_of_entries_in_the_wrong_places_is_refused():
    space = rc.FactorSpace(x=4, y=8)
    code = rc.encodings.Positional(space, frequencies=3)
    given = rc.Task(rc.scenes.Bump(space), code, rc.holdouts.centre(space, 2, 2))
    assert given.encoding.size == 4 + 8
    with pytest.raises(InputError, match=r"\(4, 8; onehot, bump\).*Got 6, 6 entries") as caught:
        rc.decoders.Composed(given)
    assert caught.value.key == "encoding.kind"


def test_a_model_saved_before_codes_had_a_meaning_is_the_same():
    given = task(rc.encodings.Bump(SPACE))
    plain = rc.decoders.Composed(given.shapes)
    old = {k: v for k, v in plain.state_dict().items() if k.split(".")[-1] not in ("shifts", "entries", "between")}
    again = rc.decoders.Composed(given)
    again.load_state_dict(old)
    codes = given.inputs(SPACE.values(torch.arange(36)))
    torch.testing.assert_close(again(codes), plain(codes))
