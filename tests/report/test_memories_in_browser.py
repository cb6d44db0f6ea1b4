"""Memories in a real browser: the plane by class with its key, circles by weight, pictures of memories."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import recombine as rc
from recombine.diagnostics.cells.classes import CellClass
from recombine.report.collect import Collected, Model
from recombine.report.page import build
from tests.report.screen import grey, pixels, plane_point, until

SPACE = rc.FactorSpace(x=9, y=9)
HOLE = rc.holdouts.centre(SPACE, 3, 5)
HELD = HOLE.mask.ravel()
PARTS = ["outputs", "errors", "superposition"]
COLOURS = {"right": (0x00, 0x9E, 0x73), "sum": (0xD5, 0x5E, 0x00)}


class Table(nn.Module):
    """Answers every combination from a table of outputs."""

    def __init__(self, space, outputs):
        super().__init__()
        self.space = space
        self.register_buffer("outputs", outputs)

    def forward(self, values):
        return self.outputs[self.space.cells(values)]


def half_sums(space, truth, held):
    """Every other unseen cell is answered by the sum of two trained images, the others are right."""
    outputs, at = truth.clone(), space.coordinates(torch.arange(len(space)))
    for cell in np.flatnonzero(held)[::2]:
        first, second = at[cell].clone(), at[cell].clone()
        first[0], second[-1] = 0, space.shape[-1] - 1
        places = [int(np.ravel_multi_index(tuple(p.tolist()), space.shape)) for p in (first, second)]
        outputs[cell] = 0.9 * truth[places[0]] + 0.4 * truth[places[1]]
    return outputs


@pytest.fixture(scope="module")
def found():
    scene = rc.scenes.Bump(SPACE)
    truth = scene(SPACE.values(torch.arange(81))).reshape(-1, 9, 9)
    model = Table(SPACE, half_sums(SPACE, truth, HELD))
    return rc.diagnose(model, SPACE, None, HOLE, target=scene, parts=PARTS, progress=False)


@pytest.fixture(scope="module")
def made(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("memories") / "page.html"
    path.write_text(build(Collected(models=[Model("table", found)])).html, encoding="utf-8")
    return path


@pytest.fixture
def page(visit, made):
    return visit(made, "#g=0&at=3.3")


def circles(page):
    """Cell → radius of the circle on it."""
    found = page.locator("#plane .memory").evaluate_all("all => all.map(c => [c.dataset.cell, c.getAttribute('r')])")
    return {int(cell): float(radius) for cell, radius in found}


def test_the_plane_by_class(page, found):
    page.get_by_label("Coloured by").select_option("class of the cell")
    rows = {row["cell"]: row["class"] for row in found["superposition"].table("classes") if row["split"] == "ood"}
    assert set(rows.values()) == {"right", "sum"}
    shown = pixels(page, "#plane canvas")
    for cell, name in rows.items():
        assert tuple(shown[cell % 9, cell // 9]) == COLOURS[name]
    assert tuple(shown[0, 0]) == (0xF3, 0xEF, 0xE4)
    *key, trained = page.locator("#class-key > span").all_inner_texts()
    assert trained == "trained on"
    assert [re.sub(r" [\d.]+ %$", "", text) for text in key] == [CellClass(n).meaning for n in ("right", "sum")]
    shares = [float(text.split()[-2]) for text in key]
    assert shares == [pytest.approx(100 * list(rows.values()).count(n) / 9, abs=1) for n in ("right", "sum")]


def test_memories_are_marked_by_weight_and_shown(page, found):
    arrays, part = found["outputs"].arrays, found["superposition"]
    cells = [row["cell"] for row in part.table("classes") if row["split"] == "ood"]
    here = cells.index(3 * 9 + 3)
    memories, weights = part.arrays["memories/cells"][here], part.arrays["memories/weights"][here]
    used = memories >= 0
    marked = circles(page)
    assert set(marked) == set(memories[used].tolist())
    heaviest = int(memories[0])
    assert marked[heaviest] == max(marked.values()) > min(marked.values())
    figures = page.locator("#memories figure")
    names = figures.locator("b").all_inner_texts()
    assert names[:2] == ["output", "best sum"]
    assert float(names[2].split()[1]) == pytest.approx(weights[0], rel=0.02)
    assert f"x = {heaviest // 9}, y = {heaviest % 9}" in figures.nth(2).inner_text()
    shown = pixels(page, "#memories figure:nth-of-type(3) canvas")[..., 0]
    np.testing.assert_allclose(shown, grey(arrays["output"][heaviest], arrays["truth"]), atol=3)
    best = part.arrays["pictures/sum"][part.arrays["pictures/cells"].tolist().index(3 * 9 + 3)]
    shown = pixels(page, "#memories figure:nth-of-type(2) canvas")[..., 0]
    np.testing.assert_allclose(shown, grey(best, arrays["truth"]), atol=8)
    assert CellClass.SUM.meaning in page.locator("#memories .note").first.inner_text()


def test_marks_leave_the_cells_and_the_outline_visible(page):
    fills = page.locator("#plane .memory").evaluate_all("all => all.map(c => getComputedStyle(c).fill)")
    assert set(fills) == {"none"}
    box = page.locator("#plane .marker").first.evaluate("m => ['x', 'y', 'width'].map(n => Number(m.getAttribute(n)))")
    assert 3 < box[0] < 3.3  # inside the cell, whose border is the outline of the hold-out
    assert 5 < box[1] < 5.3
    assert 0.4 < box[2] < 1


def test_the_verdict_and_every_value_of_a_small_axis_are_shown(page, found):
    verdict = page.locator("#verdicts p").first
    assert verdict.is_visible()
    assert found.verdict.sentence in verdict.inner_text()
    for side in ("x", "y"):
        ticks = page.locator(f".plane .axis-{side} span:not(.axis-name)").all_inner_texts()
        assert ticks == [str(i) for i in range(9)]


def test_a_trained_cell_has_no_memories(page):
    page.mouse.click(*plane_point(page, 0, 0, 9, 9))
    until(page, "document.querySelectorAll('#plane .memory').length === 0")
    assert page.locator("#memories figure").count() == 0
    page.mouse.click(*plane_point(page, 3, 3, 9, 9))
    until(page, "document.querySelectorAll('#plane .memory').length > 0")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1024, "light")])
def test_it_fits_on_small_screens_and_in_both_schemes(visit, made, width, scheme):
    page = visit(made, "#g=0&at=3.3&metric=1", width=width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    height = page.locator("#memories").bounding_box()["height"]
    page.locator("#plane").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    assert abs(page.locator("#memories").bounding_box()["height"] - height) < 25  # nothing below moves by a picture


def test_memories_in_other_slices_are_dashed(visit, tmp_path):
    space = rc.FactorSpace(x=5, y=5, size=rc.factors.discrete(3, low=1.0, step=0.5))
    held = np.zeros(space.shape, bool)
    held[1:4, 1:4, 1] = True
    truth = torch.rand(len(space), 36, generator=torch.Generator().manual_seed(0)).reshape(-1, 6, 6)
    model = Table(space, half_sums(space, truth, held.ravel()))
    found = rc.diagnose(model, space, None, held, target=truth, parts=PARTS, progress=False)
    path = tmp_path / "page.html"
    path.write_text(build(Collected(models=[Model("three", found)])).html, encoding="utf-8")
    page = visit(path, "#g=0&at=1.1.1")
    dashed = page.locator("#plane .memory.elsewhere").evaluate_all("all => all.map(c => Number(c.dataset.cell))")
    assert dashed == [(1 * 5 + 1) * 3 + 2]  # the memory with another size
    assert (0 * 5 + 1) * 3 + 1 in circles(page)


def test_a_diagnosis_without_memories_says_so(visit, tmp_path, found):
    part = found["superposition"]
    for name in ("memories/cells", "memories/weights"):
        part = type(part)(part.name, part.tables, {k: v for k, v in part.arrays.items() if k != name}, part.facts)
    lacking = type(found)(found.space, found.holdout, found.layers, {**found.parts, "superposition": part},
                          found.verdict, found.facts)  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text(build(Collected(models=[Model("older", lacking)])).html, encoding="utf-8")
    page = visit(path, "#g=0&at=3.3")
    assert page.locator("#memories figure").count() == 0
    assert page.locator("#memories .note").first.inner_text()
