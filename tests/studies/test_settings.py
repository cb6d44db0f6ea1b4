"""What the studies train: settings of the paper, the same for all arms of a comparison."""

import pytest

from recombine.studies.framework.profiles import PROFILES
from recombine.studies.paper import r07_rendering as rendering
from recombine.studies.paper import r08_few_shot as few_shot

pytestmark = pytest.mark.quick


def test_variants_of_the_ablation_differ_in_their_penalties_alone():
    made = {variant: config for (variant, _), config in rendering.wanted(PROFILES["paper"], [0]).items()}
    assert list(made) == ["none", "entropy", "variance", "both"]
    for variant, config in made.items():
        training = config.recipe()
        assert set(training.terms) == set(rendering.VARIANTS[variant])
        assert (training.epochs, training.batch, training.learning_rate) == (1000, 32, 1e-3)
        assert config.task().holdout.n_ood == 400
    assert made["both"].recipe().terms["entropy"]["weight"] == 0.1
    assert made["both"].recipe().terms["variance"]["weight"] == 0.01
    assert len({str(config.to_dict() | {"training": None}) for config in made.values()}) == 1


def test_all_numbers_of_bumps_get_the_same_steps():
    made = few_shot.wanted(PROFILES["quick"], [0])
    assert {config.recipe().total_steps(56 + m) for (m, _, _), config in made.items()} == {1000}
    assert {0, 10, 50, 100} <= {m for m, _, _ in made}
