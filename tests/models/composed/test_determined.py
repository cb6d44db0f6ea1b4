"""Which held-out combinations training determines: brute force, graphs, operators that training cannot tell apart."""

import numpy as np
import pytest
import torch

import recombine as rc
from recombine.core.errors import InputError
from recombine.core.holdouts.measures import components
from recombine.models.composed.composer import FactorComposer
from recombine.models.composed.determined import determination


def indicators(shape: tuple[int, ...]) -> np.ndarray:
    at = np.indices(shape).reshape(len(shape), -1)
    return np.concatenate([np.eye(size)[own] for size, own in zip(shape, at)], axis=1)


@pytest.mark.parametrize("shape", [(4, 5), (3, 3, 3), (2, 3, 2, 2)], ids=str)
def test_it_is_membership_in_the_row_space(shape):
    rng = np.random.default_rng(0)
    seen = set()
    for share in (0.15, 0.3, 0.5, 0.8):
        trained = rng.random(shape) < share
        rows = indicators(shape)
        basis = rows[trained.ravel()]
        rank = np.linalg.matrix_rank(basis)
        expected = [np.linalg.matrix_rank(np.vstack([basis, row])) > rank for row in rows]
        found = determination(trained, ~trained)
        assert (found.undetermined.ravel() == (np.array(expected) & ~trained.ravel())).all()
        seen.add(found.complete)
    assert seen == {True, False}


def test_with_two_factors_it_is_connectedness():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(30):
        trained = rng.random((4, 4)) < 0.4
        trained[np.arange(4), np.arange(4)] = True
        connected = components(trained, np.ones((4, 4), bool)) == 1
        assert determination(trained, ~trained).complete == connected
        seen.add(connected)
    assert seen == {True, False}


def test_a_third_factor_does_not_tie_two_groups_together():
    """Every cell shares the values of y, so that all values are connected; the two blocks are not determined."""
    trained = np.zeros((4, 7, 2), dtype=bool)
    trained[:2, 3:], trained[2:, :3] = True, True
    assert components(trained, np.ones_like(trained)) == 1
    found = determination(trained, ~trained)
    assert (found.undetermined == ~trained).all()
    assert found.groups == (((0, 1), (2, 3)), ((0, 1, 2), (3, 4, 5, 6)), ((0, 1),))


def composer_of(*kernels: torch.Tensor) -> FactorComposer:
    composer = FactorComposer([len(own) for own in kernels], (8, 8)).double()
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        for own, given in zip(composer.kernels, kernels):
            own.copy_(given.unsqueeze(1) - composer.identity)
    return composer


def dot(row: int, column: int, gain: float = 1.0) -> torch.Tensor:
    image = torch.zeros(8, 8, dtype=torch.double)
    image[4 + row, 4 + column] = gain
    return image


def outputs(composer: FactorComposer, trained: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    cells = torch.from_numpy(np.stack(np.indices(trained.shape), -1).reshape(-1, trained.ndim))
    images, known = composer(cells).detach(), torch.from_numpy(trained.ravel())
    return images[known], images[~known]


def test_groups_can_be_moved_against_each_other_unseen():
    """A shift of one group of the first factor, undone in the group of the second that it is trained with."""
    trained = np.array([[True, False], [False, True]])
    one = composer_of(torch.stack([dot(0, 0), dot(0, 1)]), torch.stack([dot(0, 0), dot(1, 0)]))
    other = composer_of(torch.stack([dot(0, 0), dot(0, 3)]), torch.stack([dot(0, 0), dot(1, -2)]))
    (known, unseen), (same, different) = outputs(one, trained), outputs(other, trained)
    torch.testing.assert_close(known, same)
    assert (unseen - different).abs().max() > 0.5
    assert not determination(trained, ~trained).complete


def test_common_shifts_change_no_image():
    """The gauge: what all values of one factor do and all values of another undo."""
    trained = np.array([[True, True], [True, False]])
    one = composer_of(torch.stack([dot(0, 0), dot(0, 1)]), torch.stack([dot(0, 0), dot(1, 0)]))
    other = composer_of(torch.stack([dot(0, 1), dot(0, 2)]), torch.stack([dot(0, -1), dot(1, -1)]))
    for a, b in zip(outputs(one, trained), outputs(other, trained)):
        torch.testing.assert_close(a, b)
    assert determination(trained, ~trained).complete


def test_halves_leave_the_sign_open():
    """2 · (1,1,1) is a sum of trained cells, (1,1,1) itself is not: its square is determined, its sign is not."""
    trained = np.zeros((2, 2, 2), dtype=bool)
    for cell in ((0, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)):
        trained[cell] = True
    signs = [composer_of(*(torch.stack([dot(0, 0), dot(0, 0, gain)]) for _ in range(3))) for gain in (1.0, -1.0)]
    (known, _), (same, _) = (outputs(composer, trained) for composer in signs)
    torch.testing.assert_close(known, same)
    last = torch.tensor([[1, 1, 1]])
    torch.testing.assert_close(signs[0](last), -signs[1](last))
    assert determination(trained, ~trained).complete  # as far as absolute values go


def test_a_decoder_names_the_values_before_training():
    space = rc.FactorSpace(shape=["disc", "square"], x=4)
    held = np.zeros((2, 4), dtype=bool)
    held[0, :2], held[1, 2:] = True, True
    images = np.random.default_rng(0).random((8, 5, 5), dtype=np.float32)
    labels = {"shape": ["disc"] * 4 + ["square"] * 4, "x": [0, 1, 2, 3] * 2}
    task = rc.Task.from_arrays(images, labels, factors=space, holdout=held)
    with pytest.raises(InputError) as caught:
        rc.decoders.Composed(task)
    assert caught.value.key == "holdout"
    assert "shape {disc} | {square}, x {0, 1} | {2, 3}" in str(caught.value)
    assert rc.decoders.Composed(task, allow_undetermined=True)
