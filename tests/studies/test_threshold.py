"""The search for the data-efficiency threshold: on functions with a known crossing, then on tiny models."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recombine.core.errors import InputError
from recombine.runs.store import Store
from recombine.studies.paper.r09_threshold import Bracket, ThresholdRow, bracket, config, plot, points, slope, threshold

TINY = ["decoder.depth=2", "decoder.width=4"]


def row(side: int, seed: int, bumps: int | None, most: int = 500) -> ThresholdRow:
    return ThresholdRow(side, seed, Bracket(0, bumps, most, {}))


@given(st.integers(0, 400), st.integers(1, 400), st.integers(1, 50))
def test_an_exact_search_finds_the_crossing_and_asks_each_number_once(crossing, most, start):
    asked = []

    def localization(bumps: int) -> float:
        asked.append(bumps)
        return float(bumps >= crossing)

    found = bracket(localization, most, start=start, resolution=0.0)
    assert len(set(asked)) == len(asked) <= 2 * math.log2(most + 1) + 3
    assert max(asked) <= most
    if crossing <= most:
        assert found.reached == crossing
        assert found.below == crossing - 1
    else:
        assert (found.reached, found.below) == (None, most)
        assert str(found) == f"not reached by {most}"


def test_a_coarse_search_stops_early_and_says_so():
    found = bracket(lambda bumps: bumps / 100, 400, resolution=0.1)
    assert found.below < 90 <= (found.reached or 0) <= found.below * 1.12
    assert len(found.tried) < 12


def test_points_keep_what_was_not_reached_apart():
    [reached, missed] = points(
        [row(8, s, b) for s, b in enumerate([10, 20, 30])] + [row(16, s, None) for s in range(3)]
    )
    assert (reached.median, reached.missed) == (20, 0)
    assert (reached.low, reached.high) == (10, 30)
    assert (missed.median, missed.high, missed.missed) == (None, None, 3)
    assert str(missed) == "N = 16: not reached by 500 (3 of 3 seeds)"
    [half] = points([row(8, s, b) for s, b in enumerate([10, 20, 20, None, None])])
    assert (half.median, half.high) == (20, None)
    assert "not reached by 500]" in str(half)


def test_one_seed_has_no_interval():
    rows = [row(n, 0, 2 * n) for n in (8, 16)]
    assert str(points(rows)[0]) == "N = 8: 16, one seed: no interval"
    assert str(slope(rows)) == "1.00 (one seed: no interval) over N = 8, 16"


@pytest.mark.parametrize("power", [1, 3])
def test_the_slope_of_a_power_law_is_its_exponent(power):
    rows = [row(n, s, 2 * n**power) for n in (8, 16, 32) for s in range(3)]
    fitted = slope(rows)
    assert fitted is not None
    assert fitted.value == pytest.approx(power)
    assert (fitted.low, fitted.high) == pytest.approx((power, power))


def test_a_side_with_misses_does_not_bend_the_slope():
    rows = [row(n, s, 3 * n) for n in (8, 16) for s in range(2)] + [row(32, 0, 5), row(32, 1, None)]
    fitted = slope(rows)
    assert fitted is not None
    assert fitted.sides == (8, 16)
    assert slope(rows[:2]) is None


def test_the_figure_shows_references_and_misses():
    rows = [row(n, s, 3 * n + s) for n in (8, 16) for s in range(2)] + [row(32, 0, None), row(32, 1, None)]
    figure = plot({"bumps": rows, "stripes": [row(8, 0, 0), row(16, 0, 4)]})
    [ax], [legend] = figure.axes, figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert {"∝ N³", "∝ N", "bumps: not reached by this many"} <= set(labels)
    assert any("2 seeds, slope 0.9" in label for label in labels)
    assert any(text.get_text() == "0 bumps, drawn at 1" for text in ax.texts)
    with pytest.raises(InputError, match="no rows"):
        plot({})


def test_a_search_over_tiny_models_goes_on_from_the_store(tmp_path):
    store = Store(tmp_path)
    options = {"steps": 3, "setting": TINY, "most": 20, "resolution": 0.5}
    study = threshold(store, [8], [0], **options)
    finished = {path.parent.name for path in tmp_path.glob("*/run.json")}
    assert len(finished) == study.runs
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/run.json")}
    more = threshold(store, [8], [0, 1], **options)
    assert more.rows[0] == study.rows[0]
    assert all(path.stat().st_mtime_ns == at for path, at in written.items())
    easy = threshold(store, [8], [0], level=1e-9, **options)
    assert easy.rows[0].bumps is not None


def test_the_held_out_middle_scales_with_the_side():
    assert [config(n, 0, 0).task().holdout.n_ood for n in (28, 56)] == [17**2, 33**2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: threshold(store, [8], [0], most=1000), r"more bumps than the ID cells of N = 8 \(39\)"),
        (lambda store: threshold(store, [], [0]), r"at least one N and one seed. Got sides=\[\]"),
        (lambda store: threshold(store, [8], []), r"seeds=\[\]"),
        (lambda store: bracket(lambda m: 1.0, 5, least=6), "least=6, most=5"),
        (lambda store: bracket(lambda m: 1.0, 5, level=1.5), r"localization in \(0, 1\]. Got 1.5"),
        (lambda store: bracket(lambda m: 1.0, 5, resolution=-1.0), "resolution must be ≥ 0"),
    ],
)
def test_bad_input_is_named(call, message, tmp_path):
    with pytest.raises(InputError, match=message):
        call(Store(tmp_path))
