"""Packages import only from those below them: no cycle, no upward import, lazy imports included."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "recombine"
ORDER = (
    "core", "plotting", "models", "scoring", "training", "diagnostics", "runs", "sweeps", "studies", "report", "cli",
)  # fmt: skip
ABOVE_ALL = ("__init__", "__main__")  # the public names, and the command line's entry


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names of all modules that a file imports, at the top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def upward(package: str, source: str) -> list[str]:
    """What a file of a package imports from packages above its own, or from the package's root."""
    found = []
    for name in imported(ast.parse(source)):
        first, _, rest = name.partition(".")
        if first != "recombine" or rest == "__version__" or not rest:
            continue
        owner = rest.split(".")[0]
        if owner not in ORDER or ORDER.index(owner) > ORDER.index(package):
            found.append(name)
    return found


def files() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] in ORDER]


def test_every_file_belongs_to_a_package():
    parts = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert parts <= {*ORDER, *ABOVE_ALL}


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    package = path.relative_to(SOURCE).parts[0]
    assert upward(package, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from recombine.cli.app import main",
        "def f():\n    from recombine.scoring.scores import score",
        "import recombine.report.page",
        "from recombine import diagnostics",
        "from recombine import Task",
    ],
)
def test_the_check_can_fail(source):
    assert len(upward("models", source)) == 1
    assert upward("models", "from recombine.core.errors import InputError\nimport torch\nimport recombine") == []


MOST_LINES, MOST_POSITIONAL = 50, 6
DECLARATIONS = ("cli", "core/scenes", "core/datasets", "models/decoders")  # parameters there are options or settings


def oversized(path: Path) -> list[str]:
    """Functions with a long body or with many positional parameters, unless these declare options or settings."""
    found = []
    declares = path.relative_to(SOURCE).as_posix().startswith(DECLARATIONS)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            positional = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            lines = (node.end_lineno or 0) - body[0].lineno + 1
            if lines > MOST_LINES or (len(positional) > MOST_POSITIONAL and not declares):
                found.append(f"{node.name}: {lines} lines, {len(positional)} positional parameters")
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_functions_are_short_and_take_few_positional_parameters(path):
    assert oversized(path) == []
