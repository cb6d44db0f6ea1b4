"""Figures of hand-made rows: what is drawn must be seen, and said."""

from recombine.diagnostics.part import Part
from recombine.studies import depths


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
    figure = depths._curves(Part("depths", {"layers": rows, "warp": []}), "cnn")
    for ax in figure.axes:
        low, high = ax.get_ylim()
        assert low < 0.1
        assert high > 1.0
