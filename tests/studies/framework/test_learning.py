"""Networks are trained for longer only until they have learnt, and only the trained cells decide it."""

from types import SimpleNamespace

import pytest

from recombine.runs.config import RunConfig
from recombine.studies.framework.learning import ladders, longer

pytestmark = pytest.mark.quick
CONFIG = RunConfig.parse(["training.kind=recommended", "training.epochs=16"])


class Finished:
    """Runs of which the relative error on trained cells is known by their epochs."""

    def __init__(self, errors):
        self.errors = errors

    def get(self, config):
        epochs = config.training["epochs"]
        if epochs not in self.errors:
            return None
        summary = {"id_relative_error": self.errors[epochs], "id_localization": 1.0, "ood_relative_error": 9.0}
        return SimpleNamespace(config=config, summary=summary, facts={"steps": epochs})


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
def test_a_ladder_ends_with_the_first_network_that_has_learnt(errors, epochs):
    [ladder] = ladders(Finished(errors), {"a": CONFIG}, (1, 2, 4)).values()
    assert [config.training["epochs"] for config in ladder] == epochs
