"""Cells that do not exist: neither trained on nor held out."""

import numpy as np
import pytest
import torch

from recombine.core import holdouts
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import (
    centre,
    corner,
    random,
)
from tests.core.holdouts.spaces import ONE, PLANE, SPACES, message_of


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_every_cell_is_trained_on_held_out_or_unavailable(space):
    available = np.random.default_rng(0).random(space.shape) < 0.7
    held = random(space, 0.4)
    limited = held.within(available)
    assert np.array_equal(limited.available, available)
    assert np.array_equal(limited.mask, held.mask)
    assert np.array_equal(limited.id_mask, available & ~held.mask)
    assert np.array_equal(limited.ood_mask, available & held.mask)
    assert limited.n_id + limited.n_ood + limited.n_unavailable == len(space)
    assert torch.cat([limited.id_cells, limited.ood_cells]).sort().values.equal(limited.available_cells)
    assert limited.config == held.config
    assert limited.within(available.ravel()).hash == limited.hash != held.hash
    assert held.within(np.ones(space.shape, bool)).hash == held.hash
    assert (held.n_unavailable, held.available.all()) == (0, True)


def test_availability_survives_the_algebra():
    a, b = centre(PLANE), corner(PLANE, 20)
    even, low = np.indices((28, 28)).sum(0) % 2 == 0, np.indices((28, 28))[0] < 25
    for made, rule in (
        (a.within(even) | b.within(low), a.mask | b.mask),
        ((a | a).within(even) | b.within(low), a.mask | b.mask),
        (a.within(even) & b.within(low), a.mask & b.mask),
        (~(~a.within(even & low)), a.mask),
        (~((~a).within(even & low)), a.mask),
        (~a.within(even & low), ~a.mask),
    ):
        assert np.array_equal(made.ood_mask, rule & even & low)
        assert np.array_equal(made.id_mask, ~rule & even & low)


def test_unavailable_cells_are_told_and_drawn():
    space = FactorSpace(a=3, b=["low", "high"], c=2)
    held = holdouts.mask(space, np.arange(12) % 3 == 0).within(np.arange(12) // 2 % 3 != 2)
    assert "of 8 cells held out" in repr(held)
    assert "4 unavailable" in repr(held)
    assert held.picture().splitlines() == ["░░/", "░/░"]
    assert np.isnan(held.share()).sum() == 2


def test_a_value_that_never_occurs_is_not_unseen():
    """It is only unseen if it is held out somewhere and trained on nowhere."""
    held = holdouts.mask(ONE, np.eye(4, dtype=bool))
    assert held.within(np.indices((4, 4))[0] != 2).coverage().complete
    no_training = held.within((np.indices((4, 4))[0] != 2) | held.mask)
    assert no_training.coverage().unseen == {"x": [2.0], "y": []}
    assert "x ∈ {2}" in str(no_training.coverage())
    assert "No cell of" in message_of(held.within(np.zeros((4, 4), bool)).check)
    assert "there are no ID cells" in message_of(held.within(held.mask).check)
