"""Networks are trained for longer only until they have learnt, and only the trained cells decide it."""

import pytest

from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.studies.framework import learning as module
from recombine.studies.framework.learning import LEAST_ERROR, ladders, longer
from recombine.studies.framework.study import Runs

pytestmark = pytest.mark.quick
CONFIG = RunConfig.parse(["training.kind=recommended", "training.epochs=16"])


class Finished(Runs):
    """Runs of which the relative error on trained cells is known by their epochs."""

    def __init__(self, errors, folder):
        super().__init__(Store(folder))
        self.errors = errors

    def get(self, config):
        return config if config.training["epochs"] in self.errors else None


def test_a_run_is_lengthened_in_its_own_unit():
    assert longer(CONFIG, 1).hash == CONFIG.hash
    assert longer(CONFIG, 4).training["epochs"] == 64
    assert longer(RunConfig.parse(["training.steps=30"]), 2).training["steps"] == 60


@pytest.mark.parametrize(
    ("errors", "epochs"),
    [
        ({}, [16]),  # nothing is finished yet
        ({16: 0.04}, [16]),
        ({16: 0.06}, [16, 32]),
        ({16: 0.06, 32: 0.01}, [16, 32]),
        ({16: 0.06, 32: 0.06, 64: 0.06}, [16, 32, 64]),  # it never learns
    ],
)
def test_a_ladder_ends_with_the_first_network_that_has_learnt(errors, epochs, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "learning", lambda run: {"learnt": errors[run.training["epochs"]] <= LEAST_ERROR})
    [ladder] = ladders(Finished(errors, tmp_path), {"a": CONFIG}, (1, 2, 4)).values()
    assert [config.training["epochs"] for config in ladder] == epochs
