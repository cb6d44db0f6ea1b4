"""A coloured task with labels and missing cells in the browser, and vectors: as in the figures."""

import numpy as np
import pytest

import recombine as rc
from recombine.diagnostics.parts.superposition import CLASS_MAP, SUM_MAP
from recombine.report.collect import Collected, Model, page_parts
from recombine.report.page import write_report
from tests.colour import coloured_task
from tests.report.screen import pixels, plane_point, until
from tests.scoring.known_models import scene_task

CLOSE = 3  # of 255: outputs have 254 levels, finer near 0


def diagnosed(task, seed=0):
    model = rc.decoders.MLP(task, depth=2, width=12).initialize(seed)
    scene = task.scene
    return rc.diagnose(model, task.space, task.inputs, task.holdout, target=scene, parts=page_parts(), progress=False)


@pytest.fixture(scope="module")
def diagnosis():
    return diagnosed(coloured_task())


@pytest.fixture(scope="module")
def coloured(diagnosis, tmp_path_factory):
    path = tmp_path_factory.mktemp("colour") / "report.html"
    write_report(Collected(models=[Model("mine", diagnosis)]), path)
    return path


@pytest.fixture
def page(visit, coloured):
    return visit(coloured)


def as_drawn(image):
    """A canvas begins with its last row here (see `pixels`), and this scene has row 0 on top."""
    return np.moveaxis(255 * np.clip(image, 0, 1), 0, -1)[::-1]


def choose(page, colour):
    page.get_by_label("colour", exact=True).fill(str(["red", "green", "blue"].index(colour)))


def test_colours_and_labels(page, diagnosis):
    arrays, space = diagnosis["outputs"].arrays, diagnosis.space
    for colour in ("red", "green"):
        choose(page, colour)
        page.mouse.click(*plane_point(page, 1, 3, 5, 5))
        assert page.locator("#place").inner_text() == f"x = 1, y = 3, colour = {colour}"
        cell = space.cell(x=1, y=3, colour=colour)
        truth, output = (arrays[key][cell] for key in ("truth", "output"))
        np.testing.assert_allclose(pixels(page, "#truth"), as_drawn(truth), atol=CLOSE)
        np.testing.assert_allclose(pixels(page, "canvas[data-model='mine']"), as_drawn(output), atol=CLOSE)
        drawn = pixels(page, "[aria-label='difference of mine'] canvas")
        np.testing.assert_allclose(drawn, as_drawn(0.5 + 0.5 * (output - truth)), atol=CLOSE)
        shown = page.locator(".readout .tag").inner_text()
        assert shown == ("never trained on" if colour == "green" else "trained on")


def test_a_labelled_factor_on_an_axis(page):
    page.get_by_label("Across").select_option("colour")
    assert page.locator("#plane canvas").evaluate("c => [c.width, c.height]") == [3, 5]
    ticks = page.locator(".plane .axis-x span:not(.axis-name)").all_inner_texts()
    assert ticks == ["red", "green", "blue"]


def test_cells_that_do_not_exist_are_hatched_and_have_no_score(page, diagnosis):
    assert "5 unavailable" in page.locator("#headline").inner_text()
    choose(page, "red")
    assert page.locator("#plane .hatch").get_attribute("d") == ""
    choose(page, "blue")
    hatch = page.locator("#plane .hatch").get_attribute("d")
    assert hatch.count("M") == 3 * 5  # three lines in each of five cells
    page.mouse.click(*plane_point(page, 4, 2, 5, 5))
    assert page.locator(".readout .tag").inner_text() == "unavailable"
    assert page.locator("[aria-label='truth']").inner_text() == "this combination does not exist"
    assert page.locator("[aria-label='output of mine'] ~ figcaption").inner_text() == ""
    page.mouse.click(*plane_point(page, 3, 2, 5, 5))
    assert page.locator(".readout .tag").inner_text() == "trained on"
    assert page.locator("[aria-label='output of mine'] ~ figcaption").inner_text().startswith("error")
    mse = diagnosis["errors"].arrays["mse"]
    holdout = diagnosis.holdout
    id_mean, ood_mean = (mse[mask.ravel()].mean() for mask in (holdout.id_mask, holdout.ood_mask))
    said = page.locator("[data-means]").first.inner_text()
    assert said == f"ID {float(f'{id_mean:.2g}'):g} · OOD {float(f'{ood_mean:.2g}'):g}"


def test_vectors_are_drawn_as_bars(visit, tmp_path):
    task = scene_task(6)
    diagnosis = diagnosed(task)
    path = tmp_path / "report.html"
    write_report(Collected(models=[Model("mine", diagnosis)]), path)
    page = visit(path)
    page.mouse.click(*plane_point(page, 2, 3, 14, 12))
    arrays, cell = diagnosis["outputs"].arrays, task.space.cell(x=2, y=3)
    both = np.concatenate([arrays["truth"].ravel(), arrays["output"].ravel()])
    low, high = min(0.0, both.min()), both.max()
    blue = pixels(page, "#truth")[..., 2] > 200
    height, width = blue.shape
    lengths = blue[:, [int((i + 0.5) * width / 6) for i in range(6)]].sum(0)
    expected = np.abs(arrays["truth"][cell]) / (1.1 * (high - low)) * height
    np.testing.assert_allclose(lengths, expected, atol=2.5)


def test_a_run_shows_the_metrics_it_has(visit, report, runs):
    page = visit(report)
    options = page.get_by_label("Coloured by", exact=True).locator("option").all_inner_texts()
    columns = runs[0].scores.columns
    assert set(options[len(columns) :]) == {CLASS_MAP, SUM_MAP}
    page.get_by_label("Coloured by", exact=True).select_option("localization")
    until(page, "location.hash.includes('metric=')")
    page.mouse.click(*plane_point(page, 3, 3))
    placed = columns["localization"][7 * 3 + 3]
    caption = page.locator("[aria-label='output of baseline'] ~ figcaption").inner_text()
    assert caption.startswith(f"localization {placed:g}")
    assert "baseline: localization" in page.locator("#explorer").inner_text()
