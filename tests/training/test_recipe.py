"""Learning rates, step counts and settings of the recipes."""

import math

import pytest

from recombine.core.errors import InputError
from recombine.training import Paper, recipe


def test_the_paper_recipe_has_the_papers_values():
    paper = Paper()
    assert (paper.learning_rate, paper.batch, paper.samples, paper.epochs) == (1e-3, 32, 2000, 50)
    assert (paper.sampling, paper.schedule) == ("replacement", "constant")
    assert paper.total_steps(2000) == 3125


def test_steps_override_epochs():
    assert recipe("paper", steps=7, epochs=100).total_steps(2000) == 7


def test_cosine_goes_from_the_full_rate_to_almost_nothing():
    cosine = recipe("paper", schedule="cosine", learning_rate=0.1)
    assert cosine.learning_rate_at(0, 100) == pytest.approx(0.1)
    assert cosine.learning_rate_at(50, 100) == pytest.approx(0.05)
    assert cosine.learning_rate_at(99, 100) == pytest.approx(0.05 * (1 + math.cos(math.pi * 0.99)))


def test_warmup_rises_linearly_over_its_share():
    warm = recipe("paper", warmup=0.1, learning_rate=1.0)
    assert [warm.learning_rate_at(s, 100) for s in (0, 4, 9, 10, 99)] == pytest.approx([0.1, 0.5, 1.0, 1.0, 1.0])


def test_all_wrong_settings_are_named_at_once():
    with pytest.raises(InputError) as error:
        recipe("paper", epoch=3, batch=0, learning_rate="fast")
    message = str(error.value)
    assert "did you mean 'epochs'?" in message
    assert "'batch'" in message
    assert "'learning_rate'" in message


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(InputError, match=r"'papr' \(did you mean 'paper'\?\)"):
        recipe("papr")


def test_the_recommended_rendering_recipe_is_the_papers_with_decay_and_without_entropy():
    ours, paper = recipe("low_rank_recommended").model_dump(), recipe("low_rank").model_dump()
    changed = {key for key in ours if ours[key] != paper[key]}
    assert changed == {"kind", "epochs", "schedule", "terms"}
    assert list(ours["terms"]) == ["variance"]
    assert ours["terms"]["variance"] == paper["terms"]["variance"]


def test_a_loss_term_is_of_the_kind_it_is_named_by():
    assert recipe("low_rank", terms={"entropy": {"kind": "entropy"}}).terms["entropy"]["weight"] == 0.1
    with pytest.raises(InputError, match=r"The term 'entropy' is of that kind\. Got kind 'variance'"):
        recipe("low_rank", terms={"entropy": {"kind": "variance"}})
