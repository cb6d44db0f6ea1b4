"""Figures of hand-made rows: what is drawn must be seen, and said."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

import recombine as rc
from recombine.diagnostics.findings import PartResult
from recombine.studies.framework import figure_style as looks
from recombine.studies.framework import layerwise as layerwise
from recombine.studies.framework.output import Output
from recombine.studies.framework.study import discover
from recombine.studies.paper import r07_ablation as ablation
from recombine.studies.paper import r08_stripes as stripes
from recombine.studies.paper import r09_threshold as threshold
from recombine.studies.paper import r13_depths as depths
from recombine.studies.side import s04_contour as contour

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def layer_rows(scores, **about):
    """Rows of one run: the code, hidden layers and the image, all scores alike."""
    kinds = ["in", *["hidden"] * (len(scores) - 2), "out"]
    return [
        {**about, "layer": i, "kind": kind, **dict.fromkeys(depths.SCORES, score)}
        for i, (kind, score) in enumerate(zip(kinds, scores))
    ]


def test_the_curves_of_both_codes_lie_within_the_axes():
    rows = [
        row
        for code, scores in (("bump", [1.0, 0.95, 0.9]), ("ramp", [1.0, 0.2, 0.1]))
        for row in layer_rows(scores, decoder="cnn", code=code, depth=2, seed=0)
    ]
    figure = depths._curves(PartResult("depths", {"layers": rows, "warp": []}), "cnn")
    for ax in figure.axes:
        low, high = ax.get_ylim()
        assert low < 0.1
        assert 1.0 < high < 1.1


def texts(figure) -> str:
    found = [figure.get_suptitle(), figure.get_supxlabel(), figure.get_supylabel()]
    for ax in figure.axes:
        found += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *[text.get_text() for text in ax.texts]]
    return "\n".join(found)


def test_pictures_say_how_brightness_is_shown():
    figure = looks.picture_rows({"truth": np.zeros((1, 4, 4))}, np.zeros((1, 2)), [True], "a note")
    assert "a note · brightness 0 … 1 shown as its square root" in texts(figure)


def test_a_crossing_brighter_than_one_is_not_cut_off():
    added = np.zeros((1, 4, 4), dtype=np.float32)
    added[0, 1, 1] = 2.0
    shown = stripes.Pictures(np.zeros((1, 2)), added / 2, added, {0: added * 1.1}, seed=0)
    figure = stripes.plot(shown, [])
    assert [ax.images[0].norm.vmax for ax in figure.axes] == pytest.approx([2.2] * 3)
    assert "brightness 0 … 2.20" in texts(figure)
    assert figure.axes[1].images[0].get_array().max() == 2.0


def test_maps_of_the_volume_name_their_axes_and_scale():
    holdout = rc.holdouts.centre(rc.FactorSpace(x=4, y=4), 1, 2)
    maps = {n: np.arange(16.0) for n in range(2)}
    figure = layerwise.volume_maps({"a": maps, "b": {0: maps[0]}}, lambda _: holdout, "title")
    assert "own scale, cut to its 1–99 % quantiles" in texts(figure)
    axes = [ax for ax in figure.axes if ax.images]
    assert [ax.get_xlabel() for ax in axes] == ["", "x", "x"]  # under the lowest map of each column
    assert all(ax.get_ylabel().endswith("y") for ax in axes)


def test_an_interval_that_is_open_ends_in_an_arrow():
    def row(side, seed, reached):
        return threshold.ThresholdRow(side, seed, threshold.Bracket(1, reached, 500, {}))

    rows = [row(16, s, 60) for s in range(3)] + [row(28, s, r) for s, r in enumerate((150, 200, None))]
    figure = threshold.plot({"bumps": rows}, "examples", "a note")
    [ax] = figure.axes
    bars = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    assert len(bars) == 2
    paths = [[path for lines in bar.lines[2] for path in lines.get_paths()] for bar in bars]
    closed, opened = ([float(np.asarray(path.vertices)[:, 1].max()) for path in group] for group in paths)
    assert max(closed) == 200
    assert opened == [500]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("interval open" in label for label in labels)
    assert figure.legends[0].get_title().get_text() == "a note"


def test_contours_are_labelled_on_axes_to_scale():
    rows = [
        {"side": n, "share": p, "seed": 0, "id_mse": 1e-4, "ood_mse": 1e-3 * n * p, "ood_localization": 1 - p}
        for n in (16, 20, 28) for p in (0.2, 0.4, 0.6)
    ]  # fmt: skip
    figure = contour.plot(PartResult("contour", {"scores": rows}, facts={"depth": 4, "width": 16}))["S04_contour"]
    unseen = figure.axes[1]
    assert list(unseen.get_xticks()) == [16, 20, 28]
    assert unseen.texts  # the contours' labels
    assert [ax.get_ylabel() for ax in figure.axes[3:]] == list(contour.PANELS.values())


def test_coinciding_points_of_the_ablation_are_counted():
    def row(seed, error):
        return ablation.AblationRow(seed, "entropy", "", error, 100 * error, 1.0, 0.5, 1.0, 0.5)

    figure = ablation.plot([row(0, 1e-5), row(1, 1.01e-5), row(2, 3e-5)], "N = 32, 300 epochs")
    assert [text.get_text() for text in figure.axes[0].texts] == ["2 ×"]
    assert "N = 32, 300 epochs" in texts(figure)


def test_slopes_of_the_legend_and_of_the_claim_are_told_apart():
    part = Output(RESULTS, "quick").load("scaling", arrays=False)
    note = discover()["scaling"].plot(part)["R09_thresholds"].legends[0].get_title().get_text()
    assert "C11" in note
