"""The stripe study on tiny models: rows, pictures, the figure."""

import numpy as np
import pytest

from recombine.core.errors import InputError
from recombine.runs.store import Store
from recombine.studies.paper.r08_stripes import configs, few_shot, plot

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=3", "holdout.hi=5", "decoder.depth=2", "decoder.width=4"]


def test_rows_and_pictures(tmp_path):
    result = few_shot(Store(tmp_path), bumps=(0, 5), seeds=(0, 1), steps=3, setting=TINY, shown=4)
    assert [(row.bumps, row.seed) for row in result.rows] == [(0, 0), (0, 1), (5, 0), (5, 1)]
    assert all(-1 <= row.additive <= 1 and 0 < row.baseline < 1 for row in result.rows)
    shown = result.pictures
    assert shown.truth.shape == shown.added.shape == shown.outputs[5].shape == (4, 8, 8)
    np.testing.assert_allclose(shown.places[[0, -1]], [[3, 3], [5, 5]])
    figure = plot(shown, result.rows)
    labels = [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()]
    assert [label.splitlines()[0] for label in labels] == ["truth", "sum of stripes", "0 bumps", "5 bumps"]
    assert "2 seeds" in figure.get_supxlabel()


def test_all_numbers_of_bumps_get_the_same_steps():
    made = configs((0, 100), seeds=[0])
    assert {c.recipe().total_steps(c.recipe().bumps or 56) for [c] in made.values()} == {1000}


def test_bad_input_is_named(tmp_path):
    with pytest.raises(InputError, match="at least one seed"):
        configs(seeds=[])
    with pytest.raises(InputError, match="at least one number of bumps"):
        few_shot(Store(tmp_path), bumps=(), seeds=[0], setting=TINY)
    with pytest.raises(InputError, match=r"bumps=60 asks for more ID cells than the hold-out leaves \(55\)"):
        few_shot(Store(tmp_path), bumps=[60], seeds=[0], setting=TINY)
