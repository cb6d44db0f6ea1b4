"""Figures of hand-made rows: what is drawn must be seen, and said."""

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

import recombine as rc
from recombine.diagnostics.findings import PartResult
from recombine.studies.framework import figure_style, layer_figures
from recombine.studies.paper import r07_rendering as rendering
from recombine.studies.paper import r08_few_shot as few_shot
from recombine.studies.paper import r09_scaling as scaling
from recombine.studies.paper import r13_depths as depths
from recombine.studies.side import s04_contour as contour


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
    figure = figure_style.picture_rows({"truth": np.zeros((1, 4, 4))}, np.zeros((1, 2)), [True], "a note")
    assert "a note · brightness 0 … 1 shown as its square root" in texts(figure)


def test_a_crossing_brighter_than_one_is_not_cut_off():
    added = np.zeros((1, 4, 4), dtype=np.float32)
    added[0, 1, 1] = 2.0
    arrays = {"places": np.zeros((1, 2)), "truth": added / 2, "added": added, "outputs/0": added * 1.1}
    figure = few_shot._samples(PartResult("few_shot", {"runs": []}, arrays, {"seed": 0}), {0: "0 bumps"})
    shown = [float(ax.images[0].get_array().max()) for ax in figure.axes]
    assert shown == pytest.approx([np.sqrt(value / 2.2) for value in (1.0, 2.0, 2.2)])
    assert "brightest pixel (2.20)" in texts(figure)


def test_maps_of_the_volume_name_their_axes_and_scale():
    holdout = rc.holdouts.centre(rc.FactorSpace(x=4, y=4), 1, 2)
    maps = {n: np.arange(16.0) for n in range(2)}
    figure = layer_figures.volume_maps({"a": maps, "b": {0: maps[0]}}, lambda _: holdout, "title")
    assert "own scale, clipped to its 1–99 % quantiles" in texts(figure)
    axes = [ax for ax in figure.axes if ax.images]
    assert [ax.get_xlabel() for ax in axes] == ["", "x", "x"]  # under the lowest map of each column
    assert all(ax.get_ylabel().endswith("y") for ax in axes)


def test_an_interval_that_is_open_ends_in_an_arrow():
    rows = [
        {"kind": "bumps", "side": side, "seed": seed, "reached": count is not None, "most": 500, "examples": count}
        for side, counts in ((16, (60.0, 60.0, 60.0)), (28, (150.0, 200.0, None)))
        for seed, count in enumerate(counts)
    ]
    figure = scaling._thresholds(PartResult("scaling", {"thresholds": rows}, facts={"level": 0.9}))
    [ax] = figure.axes
    bars = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
    assert len(bars) == 2
    paths = [[path for lines in bar.lines[2] for path in lines.get_paths()] for bar in bars]
    closed, opened = ([float(np.asarray(path.vertices)[:, 1].max()) for path in group] for group in paths)
    assert max(closed) == 200
    assert opened == [500]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "bumps only (3 seeds)" in labels
    assert [text.get_text() for text in ax.texts] == ["∝ N³"]


def test_contours_are_labelled_on_axes_to_scale():
    rows = [
        {"side": n, "share": p, "seed": 0, "id_relative_error": 1e-4, "ood_relative_error": 1e-3 * n * p,
         "ood_localization": 1 - p}
        for n in (16, 20, 28) for p in (0.2, 0.4, 0.6)
    ]  # fmt: skip
    figure = contour.plot(PartResult("contour", {"scores": rows}, facts={"depth": 4, "width": 16}))["S04_contour"]
    unseen = figure.axes[1]
    assert list(unseen.get_xticks()) == [16, 20, 28]
    assert unseen.texts  # the contours' labels
    assert [ax.get_title() for ax in figure.axes[:3]] == list(contour.PANELS.values())


def test_the_ablation_shows_every_run_on_logarithmic_axes():
    rows = [
        {"variant": "entropy", "seed": seed, "id_mse": error, "ood_mse": 100 * error}
        for seed, error in enumerate((1e-5, 1.01e-5, 3e-5))
    ]
    figure = rendering._scatter(rows, "N = 32, 300 epochs")
    assert "N = 32, 300 epochs" in texts(figure)
    [ax] = figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_legend().get_texts()[0].get_text() == "entropy (3 seeds)"
    drawn = [tuple(place) for place in ax.collections[0].get_offsets()]
    assert drawn == [(row["id_mse"], row["ood_mse"]) for row in rows]
    assert ax.get_xlim()[0] < 1e-5
    assert ax.get_xlim()[1] > 3e-5
