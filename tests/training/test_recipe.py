"""Learning rates, step counts and settings of the recipes."""

import math

import pytest

from recombine.core.errors import InputError
from recombine.training import Paper, recipe


def test_the_paper_recipe_has_the_papers_values():
    paper = Paper()
    assert (paper.learning_rate, paper.batch, paper.epochs, paper.schedule) == (1e-3, 32, 50, "constant")
    cells = paper.examples["cells"]
    assert cells is not None
    assert (cells["draw"], cells["samples"]) == ("replacement", 2000)
    assert (paper.loss["kind"], paper.optimizer["kind"]) == ("mse", "adamw")
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
    with pytest.raises(InputError, match=r"The name of the term 'entropy' is its kind\. Got kind 'variance'"):
        recipe("low_rank", terms={"entropy": {"kind": "variance"}})


def test_sources_are_added_to_those_of_the_recipe_and_canonical():
    made = recipe("paper", examples={"single_factor": {}, "cells": {"count": 3}})
    assert list(made.examples) == ["cells", "single_factor"]
    assert made.examples["cells"] == {**recipe("paper").examples["cells"], "count": 3}
    assert recipe(**made.model_dump()) == made
    assert recipe("paper", examples={"cells": {"count": 3}, "single_factor": {"repeats": 1}}) == made


def test_a_source_of_the_recipe_is_left_out_by_none():
    made = recipe("paper", examples={"cells": None, "few": {"kind": "cells", "count": 2}, "single_factor": None})
    assert made.examples["cells"] is None
    assert list(made.examples) == ["cells", "few"]
    assert recipe(**made.model_dump()) == made


def test_another_kind_starts_from_its_own_defaults():
    made = recipe("recommended", optimizer={"kind": "sgd", "momentum": 0.9}, loss={"kind": "huber"})
    assert made.optimizer == {"kind": "sgd", "momentum": 0.9, "weight_decay": 0.0, "nesterov": False}
    assert made.loss == {"kind": "huber", "delta": 1.0}
    assert recipe("recommended", optimizer={"weight_decay": 0.0}).optimizer["beta2"] == 0.98


def test_problems_of_nested_groups_carry_their_keys():
    with pytest.raises(InputError) as caught:
        recipe(
            "paper",
            examples={"cells": {"cuont": 3, "start": 2.0}, "pictures_of_mine": {}},
            loss={"kind": "mes"},
            optimizer={"beta2": 1.5},
        )
    assert {problem.key for problem in caught.value.problems} == {
        "examples.cells.cuont", "examples.cells.start", "examples.pictures_of_mine.kind", "loss.kind",
        "optimizer.beta2",
    }  # fmt: skip


def test_a_source_must_start_before_it_stops():
    with pytest.raises(InputError) as caught:
        recipe("paper", examples={"cells": {"start": 0.5, "stop": 0.5}})
    assert caught.value.key == "examples.cells.start"
