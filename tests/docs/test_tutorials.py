"""The tutorials: their form, that stored pages belong to the present sources, and that they run."""

import re

import pytest
from tools import tutorials

quick = pytest.mark.quick
SOURCES = tutorials.sources()


@quick
def test_there_are_seven():
    assert [source.stem[0] for source in SOURCES] == list("1234567")


@quick
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_tutorial_opens_with_a_picture_and_ends_with_an_exercise(source):
    first, *_, last = tutorials.cells_of(source)
    assert first.markdown
    title, picture = re.match(r"# (.+)\n\n!\[[^\]]{40,}\]\((images/.+?)\)", first.text).groups()
    assert title
    assert (tutorials.FOLDER / picture).exists()
    assert "\n## Exercise\n" in last.text


@quick
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_stored_page_is_of_the_present_source(source):
    assert tutorials.is_current(source), "run `make tutorials`"
    page = tutorials.page_of(source).read_text(encoding="utf-8")
    for picture in re.findall(r"\]\((images/.+?)\)", page):
        assert (tutorials.FOLDER / picture).exists()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A tutorial of a few cells, in a folder of its own."""
    source = tmp_path / "1_small.py"
    source.write_text(
        '# %% [markdown]\n# # Small\n\n# %%\nnumber = 3\nprint("printed")\nnumber + 1\n\n'
        '# %% tags=["remove-cell"]\nassert number == 3\n\n'
        '# %% figure="line" alt="A line."\nfrom recombine.plotting import new_figure\n\n'
        "figure = new_figure(1.0, 1.0)\nfigure.subplots().plot([0, 1])\nfigure\n"
    )
    monkeypatch.setattr(tutorials, "FOLDER", tmp_path)
    return source


@quick
def test_a_page_shows_code_text_and_pictures_but_no_removed_cells(small):
    tutorials.write(small)
    page = tutorials.page_of(small).read_text()
    assert "# Small" in page
    assert "```text\nprinted\n4\n```" in page
    assert "![A line.](images/1_small-line.png)" in page
    assert (small.parent / "images/1_small-line.png").stat().st_size > 100
    assert "assert" not in page


@quick
def test_a_changed_source_is_out_of_date(small):
    tutorials.write(small)
    tutorials.main(["--check"])
    small.write_text(small.read_text() + "\n# one more line\n")
    with pytest.raises(SystemExit, match="1_small"):
        tutorials.main(["--check"])


@quick
def test_a_failing_cell_fails_the_tutorial_at_its_line(small):
    small.write_text("# %%\none = 1\n\n# %%\n1 / 0\n")
    with pytest.raises(ZeroDivisionError) as raised:
        tutorials.write(small)
    assert raised.traceback[-1].lineno + 1 == 5
    assert not tutorials.page_of(small).exists()


@quick
def test_a_figure_without_a_name_is_refused(small):
    small.write_text(small.read_text().replace(' figure="line" alt="A line."', ""))
    with pytest.raises(SystemExit, match="figure"):
        tutorials.write(small)


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_tutorial_runs(source, tmp_path):
    page = tutorials.run(source, tmp_path)
    assert page.count("```python") > 3
    assert any(tmp_path.glob("*.png"))
