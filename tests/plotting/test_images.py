"""Outputs in figures: colour as colour, row 0 where it belongs, vectors as bars or lines."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from recombine.core.errors import InputError
from recombine.core.images import Tone
from recombine.plotting.images import MOST_BARS, show_output
from recombine.plotting.style import OUTLINE, new_figure
from recombine.scoring.scores import score
from tests.colour import COLOURS, SIDE, coloured_task
from tests.scoring.known_models import Truth, grey_task


@pytest.fixture
def ax():
    return new_figure(2.0, 2.0).subplots()


def test_a_grey_image(ax):
    show_output(ax, np.array([[0.25, 0.0], [1.0, 4.0]]), "x=1", held_out=True)
    [picture] = ax.images
    assert picture.get_array().tolist() == [[0.5, 0.0], [1.0, 1.0]]
    assert picture.origin == "lower"
    assert ax.get_title() == "x=1"
    assert to_hex(ax.spines["left"].get_edgecolor()) == OUTLINE


def test_a_coloured_image_is_shown_as_it_is(ax):
    image = np.random.default_rng(0).uniform(-1, 1, size=(3, 4, 5))
    show_output(ax, image, row_0="top", tone=Tone(-1.0, 1.0, 1.0))
    [picture] = ax.images
    assert np.allclose(picture.get_array()[2, 1], (image[:, 2, 1] + 1) / 2)
    assert picture.origin == "upper"
    assert to_hex(ax.spines["left"].get_edgecolor()) != OUTLINE


def test_vectors_are_bars_or_lines_and_a_number_is_text(ax):
    show_output(ax, np.linspace(0, 1, 5))
    assert len(ax.patches) == 5
    assert not ax.images
    line = new_figure(2.0, 2.0).subplots()
    show_output(line, np.linspace(0, 1, MOST_BARS + 1))
    assert len(line.lines[0].get_ydata()) == MOST_BARS + 1
    number = new_figure(2.0, 2.0).subplots()
    show_output(number, np.array([0.25]))
    assert [text.get_text() for text in number.texts] == ["0.25"]


def test_what_is_not_finite_is_said(ax):
    show_output(ax, np.full((3, 3), np.nan))
    assert [text.get_text() for text in ax.texts] == ["not finite"]


def test_samples_of_a_coloured_task():
    task = coloured_task()
    scores = score(Truth(task), task)
    cell = task.space.cell(x=2, y=1, colour="green")
    figure = scores.plot_samples([cell])
    above, below = figure.axes
    assert above.get_title() == "x=2, y=1,\ncolour=green"
    for ax in (above, below):
        [picture] = ax.images
        assert picture.origin == "upper"  # as the scene has it
        assert picture.get_array().shape == (SIDE, SIDE, 3)
        assert np.allclose(picture.get_array()[3, 5], COLOURS["green"])
        assert to_hex(ax.spines["left"].get_edgecolor()) == OUTLINE


def test_samples_of_unavailable_cells_are_refused():
    task = coloured_task()
    with pytest.raises(InputError) as caught:
        score(Truth(task), task).plot_samples([task.space.cell(x=4, y=0, colour="blue")])
    assert caught.value.key == "cells"


def test_samples_of_an_inverted_scene_are_shown_as_they_are():
    task = grey_task(inverted=True)
    figure = score(Truth(task), task).plot_samples([0])
    truth = task.scene(task.space.values(task.space.checked_cells([0])))[0].numpy()
    assert np.allclose(figure.axes[0].images[0].get_array(), truth)
    assert figure.axes[0].images[0].origin == "lower"
