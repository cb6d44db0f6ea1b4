"""The explorer in a real browser: picking, layers, units, links. Pixels are compared with the diagnosis' arrays."""

import re

import numpy as np
import pytest
from matplotlib import colormaps

from recombine.report.collect import collect
from recombine.report.page import write_report
from tests.report.screen import grey, pixels, plane_point, until

CLOSE = 3  # levels of 255 that quantizing may cost
OUTPUT = "canvas[data-model='{}']"


@pytest.fixture
def page(visit, report):
    return visit(report)


@pytest.fixture(scope="module")
def diagnoses(runs):
    return {"baseline": runs[0].diagnosis, "stripes": runs[1].diagnosis}


def check_pictures(page, diagnoses, x, y):
    """Truth and outputs on the page are those of a cell."""
    assert f"x = {x}, y = {y}" in page.locator("#place").inner_text()
    cell = 7 * x + y
    for name, diagnosis in diagnoses.items():
        arrays = diagnosis["outputs"].arrays
        truth, output = arrays["truth"], arrays["output"]
        np.testing.assert_allclose(pixels(page, "#truth")[..., 0], grey(truth[cell], truth), atol=CLOSE)
        np.testing.assert_allclose(pixels(page, OUTPUT.format(name))[..., 0], grey(output[cell], truth), atol=CLOSE)


def test_it_starts_in_the_middle_of_the_hold_out(page, diagnoses):
    check_pictures(page, diagnoses, 3, 3)
    assert page.locator(".tag").inner_text() == "never trained on"
    until(page, "document.getElementById('live').textContent.includes('x = 3, y = 3, never trained on')")


def test_picking_by_mouse(page, diagnoses):
    for x, y in [(0, 0), (7, 6), (5, 1)]:
        page.mouse.click(*plane_point(page, x, y))
        check_pictures(page, diagnoses, x, y)
    assert page.locator(".tag").inner_text() == "trained on"
    page.mouse.move(*plane_point(page, 2, 4))  # hovering shows, leaving goes back
    check_pictures(page, diagnoses, 2, 4)
    page.mouse.move(5, 5)
    check_pictures(page, diagnoses, 5, 1)
    page.mouse.move(*plane_point(page, 1, 1))
    page.mouse.down()
    page.mouse.move(*plane_point(page, 6, 5), steps=4)
    page.mouse.up()
    page.mouse.move(5, 5)
    check_pictures(page, diagnoses, 6, 5)


def test_a_page_with_a_draw_of_cells_says_what_it_lacks(visit, runs, diagnoses, tmp_path):
    write_report(collect([f"{name}={run.path}" for name, run in zip(diagnoses, runs)]), tmp_path / "p.html", cells=5)
    page = visit(tmp_path / "p.html")
    place = page.locator("#place").inner_text()
    x, y = (int(number) for number in re.findall(r"\d+", place))
    check_pictures(page, diagnoses, x, y)
    marked = [int(mark) for mark in page.locator("circle.memory").evaluate_all("all => all.map(c => c.dataset.cell)")]
    held = diagnoses["baseline"].held_out
    assert len(set(marked)) == 5
    assert held[marked].all()
    assert "random draw" in page.locator("#marks-note").inner_text()
    for other in set(np.flatnonzero(held)[:6]) - set(marked):
        page.mouse.click(*plane_point(page, *divmod(int(other), 7)))
        assert page.locator("#truth").count() == 0
        assert page.locator(".gap", has_text="random draw").count() >= 5
    assert page.locator("#memories", has_text="only some").count() == 1


def test_picking_by_keyboard(page, diagnoses):
    page.locator("#plane").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    check_pictures(page, diagnoses, 5, 4)
    for key in ("Shift+ArrowRight", "ArrowDown", "Shift+ArrowDown"):
        page.keyboard.press(key)
    check_pictures(page, diagnoses, 7, 0)  # the ends of the plane hold


def test_the_landscape_is_the_error_on_a_log_scale(page, diagnoses):
    logs = {name: np.log10(d["errors"].arrays["mse"]).reshape(8, 7).T for name, d in diagnoses.items()}
    low, high = min(a.min() for a in logs.values()), max(a.max() for a in logs.values())
    expected = colormaps["magma"]((logs["baseline"] - low) / (high - low))[..., :3] * 255
    np.testing.assert_allclose(pixels(page, "#plane canvas"), expected, atol=CLOSE)


def test_the_hold_out_is_outlined(page, diagnoses):
    path = page.locator("#plane .outline").get_attribute("d")
    edges = {tuple(map(float, e)) for e in re.findall(r"M([\d.]+) ([\d.]+)V", path)}
    assert edges == {(x, float(7 - y)) for x in (2.0, 6.0) for y in (2, 3, 4, 5)}  # x and y from 2 to 5 are held out
    assert len(re.findall("H", path)) == 8


def test_the_superposition_and_its_cosine(page, diagnoses):
    page.mouse.click(*plane_point(page, 4, 3))
    cell = 7 * 4 + 3
    for side in ("input", "output"):
        page.get_by_label("Superposition", exact=True).select_option(index=0 if side == "input" else 1)
        found = [float(t.split()[1]) for t in page.locator("figcaption:has-text('cosine')").all_inner_texts()[:2]]
        for value, diagnosis in zip(found, diagnoses.values()):
            [row] = [r for r in diagnosis["superposition"].table("cells")
                     if r["cell"] == cell and r["side"] == side and not r["centred"]]  # fmt: skip
            assert value == pytest.approx(row["cosine"], abs=0.012)
    arrays = diagnoses["baseline"]["outputs"].arrays
    x, y = np.divmod(np.arange(56), 7)
    shared = ((x == 4) | (y == 3)) & ~diagnoses["baseline"].holdout.mask.ravel()
    total = arrays["output"][shared].mean(0)
    scale = (arrays["output"][cell] * total).sum() / (total**2).sum()
    shown = pixels(page, "[aria-label='superposition for baseline'] canvas")[..., 0]
    np.testing.assert_allclose(shown, grey(max(0.0, scale) * total, arrays["truth"]), atol=5)


def test_the_layer_slider(page, diagnoses):
    slider = page.locator("#layer")
    every = np.stack([a for d in diagnoses.values() for a in d["geometry"].by_layer("log_volume").values()])
    low, high = every.min(), every.max()  # one scale for all layers
    for layer in (0, 2, 4):
        slider.fill(str(layer))
        name = diagnoses["baseline"].layers[layer]
        assert page.locator("#layer-name").inner_text() == name
        maps = [d["geometry"].arrays[f"log_volume/{name}"].reshape(8, 7).T for d in diagnoses.values()]
        for i, values in enumerate(maps):
            shown = page.locator("canvas[data-map='log₁₀ dv']").nth(i)
            assert shown.evaluate("c => [c.width, c.height]") == [8, 7]
            expected = colormaps["viridis"]((values - low) / (high - low))[..., :3] * 255
            found = np.array(shown.evaluate("c => [...c.getContext('2d').getImageData(0, 0, 8, 7).data]"))
            np.testing.assert_allclose(found.reshape(7, 8, 4)[::-1, :, :3], expected, atol=CLOSE)
    page.get_by_label("Factor", exact=True).select_option("y")
    caption = page.locator("figure:has(canvas[data-map='probe error']) figcaption").first.inner_text()
    probes = diagnoses["baseline"]["probes"].arrays
    error = dict(zip(probes["cells"].tolist(), probes["error/out"][1].tolist()))[7 * 3 + 3]
    assert float(caption) == pytest.approx(error, rel=0.02, abs=1e-4)
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#layer-name").inner_text() == diagnoses["baseline"].layers[3]


def test_rounding_errors_of_a_probe_are_no_picture(page):
    """A linear read-out of the code is off by rounding only: its map is all but black."""
    page.locator("#layer").fill("0")
    page.get_by_label("Colours").select_option("one scale per layer")
    assert pixels(page, "canvas[data-map='probe error']").max() <= 20  # magma begins near black


def test_units_are_one_stop_of_the_tab_key(page):
    until(page, "document.getElementById('unit-name').textContent.startsWith('unit')")
    buttons = page.locator(".thumbs button")
    assert page.locator(".thumbs button[tabindex='0']").count() == 1
    buttons.first.focus()
    page.keyboard.press("ArrowRight")
    chosen = page.locator(".thumbs [aria-pressed='true']")
    assert chosen.get_attribute("data-unit") == buttons.nth(1).get_attribute("data-unit")
    assert chosen.get_attribute("tabindex") == "0"
    assert page.evaluate("document.activeElement.dataset.unit") == chosen.get_attribute("data-unit")


@pytest.mark.parametrize("label", ["Model", "Sorted by", "Similarity"])
def test_a_choice_keeps_the_focus(page, label):
    box = page.locator(f"select[aria-label='{label}']").last
    box.focus()
    page.keyboard.press("ArrowDown")
    until(page, f"document.activeElement.getAttribute('aria-label') === '{label}'")
    assert box.evaluate("s => s.selectedIndex") > 0


def test_the_unit_browser(page, diagnoses):
    page.locator("#layer").fill("2")
    page.get_by_label("Model", exact=True).first.select_option("stripes")
    tuning = diagnoses["stripes"]["tuning"]
    layer = diagnoses["stripes"].layers[2]
    rows = [row for row in tuning.table("sampled") if row["layer"] == layer]
    assert page.locator(".thumbs button").count() == len(rows) == 16
    strongest = max(range(16), key=lambda i: rows[i]["variance"])
    until(page, "document.getElementById('unit-name').textContent.startsWith('unit')")
    assert page.locator("#unit-name").inner_text().startswith(f"unit {rows[strongest]['unit']}:")  # sorted by variance
    page.locator(f".thumbs [data-unit='{strongest}']").click()
    values = tuning.arrays[f"sampled maps/{layer}"][strongest]
    share = (values.T - values.min()) / (values.max() - values.min())
    np.testing.assert_allclose(pixels(page, "#unit-map"), colormaps["viridis"](share)[..., :3] * 255, atol=CLOSE)
    for curve, axis in (("top", 1), ("side", 0)):
        means = [float(v) for v in page.locator(f".{curve}-curve svg").get_attribute("data-means").split()]
        np.testing.assert_allclose(means, values.mean(axis), atol=(values.max() - values.min()) / 200)
    page.get_by_role("button", name="Next unit").click()
    assert not page.locator("#unit-name").inner_text().startswith(f"unit {rows[strongest]['unit']}:")
    page.get_by_label("Sorted by").select_option("stripe index")
    shown = [int(n) for n in page.locator(".thumbs button").evaluate_all("all => all.map(b => b.dataset.unit)")]
    stripes = [rows[i]["stripe"] if rows[i]["stripe"] == rows[i]["stripe"] else -1 for i in shown]
    assert stripes == sorted(stripes, reverse=True)


def test_a_link_opens_the_same_cell_and_layer(page, visit, report, diagnoses):
    page.mouse.click(*plane_point(page, 6, 2))
    page.mouse.move(5, 5)
    page.locator("#layer").fill("1")
    page.locator(".thumbs button").nth(5).click()
    page.locator(".chips button[title=stripes]").click()  # hides that model
    unit = page.locator("#unit-name").inner_text()
    until(page, "location.hash.includes('off=1') && location.hash.includes('at=6.2')")
    again = visit(report, page.evaluate("location.hash"))
    check_pictures(again, {"baseline": diagnoses["baseline"]}, 6, 2)
    assert again.locator("#layer-name").inner_text() == diagnoses["baseline"].layers[1]
    assert again.locator("#unit-name").inner_text() == unit
    assert again.locator(OUTPUT.format("stripes")).count() == 0
    again.evaluate("location.hash = '#g=0&at=1.1&layer=3'")
    until(again, "document.getElementById('place').textContent === 'x = 1, y = 1'")


@pytest.mark.parametrize(
    "fragment",
    ["#g=9&at=99.99&layer=-1", "#<script>", "#g=0&at=NaN.1e9&axes=0.0&off=0.1&unit=1e9", "#run=nothing", "#%E0%A4%A"],
)
def test_a_broken_link_opens_the_page_anyway(visit, report, fragment, diagnoses):
    check_pictures(visit(report, fragment), diagnoses, 3, 3)
