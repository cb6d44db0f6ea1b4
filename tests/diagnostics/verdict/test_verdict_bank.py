"""The bank of decoders whose truth is known."""

import numpy as np
import pytest
from benchmarks.verdicts.bank import make
from benchmarks.verdicts.kinds import KINDS
from benchmarks.verdicts.settings import SEEDS, settings

pytestmark = pytest.mark.quick
SEEN_RIGHT = [
    name for name in KINDS if not name.endswith(("everywhere", "factor", "scale", "trained", "briefly", "fit"))
]


def test_the_bank_is_large_and_its_halves_are_apart():
    halves = {half: list(settings(half)) for half in SEEDS}
    assert len(KINDS) >= 16
    assert sum(map(len, halves.values())) >= 600
    assert {chosen.seed for chosen in halves["design"]}.isdisjoint({chosen.seed for chosen in halves["apart"]})
    assert len(set(SEEDS.values())) == 2


def one_of(kind):
    return make(next(chosen for chosen in settings("design") if chosen.kind == kind))


@pytest.mark.parametrize("kind", SEEN_RIGHT)
def test_these_kinds_are_right_where_trained(kind):
    case = one_of(kind)
    assert case is not None
    changed = 0.02 + 2 * case.nuisance["noise"] + (case.nuisance["blur"] > 0) + (case.nuisance["strength"] != 1) / 20
    assert case.grid.error(case.decoder.outputs, case.grid.trained).mean() <= changed
    assert len(case.decoder.classes) == case.grid.ood.sum()


def test_shares_of_right_cells_are_known():
    case = one_of("right_on_some_else_copies")
    low, high = case.decoder.right_share
    right = case.grid.error(case.decoder.outputs, case.grid.unseen) < 0.2
    assert low <= right.mean() <= high + 0.05


def test_a_case_is_the_same_every_time():
    first, again = one_of("few_memories"), one_of("few_memories")
    assert first is not None
    assert again is not None
    assert np.array_equal(first.decoder.outputs, again.decoder.outputs)
    assert np.array_equal(first.grid.ood, again.grid.ood)
