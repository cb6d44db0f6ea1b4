"""Every command and every piece of Python in README, guides and tutorials is valid; the guides' own tests run them.

Commands are given --help: unknown commands and options are refused before it is looked at. Python is parsed.
"""

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recombine.cli.app import app

pytestmark = pytest.mark.quick
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def lines_of(page):
    """The command lines of a page, from sh blocks and indented blocks; continued lines joined, comments removed."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"^    (recombine .*)$", text, re.MULTILINE)
    return [line.split(" #")[0].strip() for line in lines]


def commands():
    return sorted({line for page in PAGES for line in lines_of(page) if line.startswith("recombine ")})


@pytest.mark.parametrize("line", commands())
def test_a_command_is_accepted(line):
    _, *words = shlex.split(line)
    words = [word for word in words if not word.startswith("--install") and not word.startswith("--show-completion")]
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output


def test_a_wrong_option_is_noticed():
    assert CliRunner().invoke(app, ["train", "--sed", "0", "--help"]).exit_code == 2


def test_make_targets_exist():
    named = {target for page in PAGES for target in re.findall(r"`?\bmake ([a-z][a-z-]+)`", page.read_text("utf-8"))}
    known = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert {"demo", "test", "docs", "tutorials", "test-oldest"} <= named
    assert named <= known


def test_modules_that_are_run_exist():
    for page in PAGES:
        for name in re.findall(r"python -m ((?:tools|benchmarks|tests)[\w.]*)", page.read_text(encoding="utf-8")):
            assert importlib.util.find_spec(name) is not None, (page.name, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_is_python(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        assert ast.parse(block).body, block
