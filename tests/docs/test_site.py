"""The site: every public name is documented, every page is in the navigation and short, no page is lost."""

import re
from pathlib import Path

import pytest
import yaml
from tools import public_names

import recombine as rc

pytestmark = pytest.mark.quick
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS) for page in DOCS.rglob("*.md") if "results" not in page.relative_to(DOCS).parts)


def test_every_public_name_is_documented():
    assert public_names.problems() == []
    assert len(public_names.public_names()) > 100


def test_a_name_without_docstring_is_found(monkeypatch):
    monkeypatch.setattr(rc.FactorSpace, "__doc__", None)
    assert public_names.without_docstring() == ["factors.FactorSpace", "recombine.FactorSpace"]


def test_a_method_without_docstring_is_found(monkeypatch):
    monkeypatch.setattr(rc.Store, "undocumented", lambda self: None, raising=False)
    assert "recombine.Store.undocumented" in public_names.without_docstring()


def test_a_name_without_page_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(public_names, "PAGES", tmp_path)
    assert "recombine.FactorSpace" in public_names.without_page()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_is_short(page):
    assert len((DOCS / page).read_text(encoding="utf-8").splitlines()) <= 200


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = yaml.safe_load(text.partition("\nnav:")[2])

    def targets(entry):
        if isinstance(entry, str):
            return [entry]
        entries = entry.values() if isinstance(entry, dict) else entry
        return [target for inner in entries for target in targets(inner)]

    named = targets(navigation)
    assert sorted(named) == sorted(set(named))
    assert {page.as_posix() for page in PAGES} <= set(named)


def test_pictures_have_alternative_texts():
    for page in PAGES:
        for text in re.findall(r"!\[([^\]]*)\]\(", (DOCS / page).read_text(encoding="utf-8")):
            assert len(text) > 20, (page.name, text)


def test_a_list_after_a_paragraph_has_a_blank_line_before_it():
    """Without it, the site shows the list as part of the paragraph."""
    found = [
        f"{path.name}: {item}"
        for path in DOCS.rglob("*.md")
        for text in [re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)]
        for item in re.findall(r"^(?![ #|]|- |\d+\. ).+\n((?:- |1\. ).*)", text, flags=re.MULTILINE)
    ]
    assert found == []


def test_the_site_loads_no_script_from_another_server():
    """The plug-in `offline` adds a script of another server unless the configuration names one for the same purpose."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    [script] = yaml.safe_load(text[text.index("extra:\n") : text.index("plugins:\n")])["extra"]["polyfills"]
    assert "iframe-worker" in script
    source = (DOCS / script).read_text(encoding="utf-8")
    assert not re.search(r"https?://", source)
