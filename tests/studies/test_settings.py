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


def test_bump_and_pixel_centres_coincide_in_the_low_rank_study():
    task = rendering.config(rendering.SETTINGS["paper"], "none", 0).task()
    image = task.targets(task.space.values(task.holdout.id_cells[:1]))[0]
    assert image.max() == 1
    assert task.scene.sigma == 1.5


def test_all_numbers_of_bumps_get_the_same_steps():
    made = few_shot.wanted(PROFILES["standard"], [100])
    lengths = {m: sorted({steps for width, n, _, steps, _ in made if (width, n) == (16, m)}) for m in few_shot.BUMPS}
    every = [500, 1000, 2000, 4000]
    assert lengths == {0: every, 10: [4000], 50: [4000], 100: every}
    assert {(m, steps) for width, m, _, steps, _ in made if width == 64} == {(0, 4000), (100, 4000)}
    for (_, _, _, steps, _), config in made.items():
        assert config.recipe().total_steps(1) == steps


def test_seeds_are_fresh_and_as_many_as_the_power_asks_for():
    from tools.pilot_power import needs

    from recombine.studies.framework.study import discover

    standard, asked = PROFILES["standard"], needs()
    for study in discover().values():
        seeds = study.seeds_in(standard)
        assert min(seeds) == (110 if study.key == "scaling" else 100)  # C11 is decided by a second set
        for part, need in asked.items():
            if part.partition(".")[0] in study.claims:
                assert len(seeds) >= need.chosen, (study.key, part)
