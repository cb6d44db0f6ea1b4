"""Run the tutorials and store them with their outputs as pages of the site.

python -m tools.tutorials               # runs every tutorial whose stored page is missing or out of date
python -m tools.tutorials NAME …        # runs these, out of date or not
python -m tools.tutorials --check       # exits with 1 if a page was not made from the present source; runs nothing

A tutorial is a Python file in the percent format, which jupytext opens as a notebook. A cell starts with
`# %%` or `# %% [markdown]`. Key-value pairs on that line set how the cell is stored:

    # %% figure="landscape" alt="What the picture shows."     the name of the cell's picture, and its alternative text
    # %% tags=["remove-cell"]                                 run, but not shown: checks of what the prose says
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
HEADER = re.compile(r"^# %%(?P<rest>.*)$", re.MULTILINE)
OPTION = re.compile(r'(\w+)="([^"]*)"')
STAMP = re.compile(r"^<!-- made from .* sha256 ([0-9a-f]{64}) .*-->$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One cell of a tutorial: prose, or code with the name and the alternative text of its picture."""

    text: str
    markdown: bool = False
    hidden: bool = False
    figure: str = ""
    alt: str = ""
    line: int = 1


def sources() -> list[Path]:
    """The tutorials in the order in which they are read."""
    return sorted(FOLDER.glob("[0-9]*.py"))


def page_of(source: Path) -> Path:
    return source.with_suffix(".md")


def cells_of(source: Path) -> list[Cell]:
    """Split a tutorial into cells; raises SystemExit if a figure has no alternative text."""
    text = source.read_text(encoding="utf-8")
    heads = list(HEADER.finditer(text))
    cells = []
    for head, following in zip(heads, [*heads[1:], None]):
        body = text[head.end() + 1 : following.start() if following else None]
        options = dict(OPTION.findall(head["rest"]))
        if ("figure" in options) != ("alt" in options):
            raise SystemExit(f"{source.name}: a cell with a figure needs both figure=… and alt=…: {head['rest']}")
        markdown = "[markdown]" in head["rest"]
        line = text[: head.end()].count("\n") + 2
        if markdown:
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        cells.append(Cell(body.strip("\n"), markdown, "remove-cell" in head["rest"], line=line, **options))
    return cells


def digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


def is_current(source: Path) -> bool:
    """Whether the stored page was made from the present source."""
    page = page_of(source)
    stamp = STAMP.search(page.read_text(encoding="utf-8")) if page.exists() else None
    return stamp is not None and stamp[1] == digest(source)


def run(source: Path, pictures: Path) -> str:
    """Run a tutorial in an empty folder; returns its page and writes its pictures."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__tutorial__"}
    blocks = [f"<!-- made from {source.name}, sha256 {digest(source)} by `make tutorials`: do not edit -->"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in cells_of(source):
            if cell.markdown:
                blocks.append(cell.text)
                continue
            printed, value = _execute(cell, names, source)
            if cell.hidden:
                continue
            blocks.append(f"```python\n{cell.text}\n```")
            blocks += _shown(printed, value, cell, source, pictures)
    blocks.append(f"*[{source.name}]({source.name}) is this page as a notebook (jupytext percent format).*")
    return "\n\n".join(blocks) + "\n"


def _execute(cell: Cell, names: dict[str, Any], source: Path) -> tuple[str, Any]:
    """Run a code cell; returns what it printed and the value of its last line, if that is an expression."""
    body = ast.parse("\n" * (cell.line - 1) + cell.text, filename=str(source)).body
    last = body[-1] if body and isinstance(body[-1], ast.Expr) else None
    body = body[: len(body) - (last is not None)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), str(source), "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), str(source), "eval"), names)
    return printed.getvalue(), value


def _shown(printed: str, value: Any, cell: Cell, source: Path, pictures: Path) -> Iterator[str]:
    """The blocks of a page that show what a cell gave: a picture, or text."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    figure = value.figure if isinstance(value, Axes) else value
    if isinstance(figure, Figure) != bool(cell.figure):
        raise SystemExit(
            f"{source.name}, line {cell.line}: a cell has figure=… if it ends with a figure, and only then."
        )
    text = printed if isinstance(figure, Figure) or value is None else f"{printed}{value}"
    if text.strip():
        yield f"```text\n{text.rstrip()}\n```"
    if isinstance(figure, Figure):
        name = f"{source.stem}-{cell.figure}.png"
        figure.savefig(pictures / name, dpi=110, metadata={"Software": None})
        yield f"![{cell.alt}](images/{name})"


def write(source: Path) -> None:
    """Run a tutorial and store its page; pictures that it no longer makes are removed."""
    pictures = FOLDER / "images"
    pictures.mkdir(exist_ok=True)
    start, busy = time.perf_counter(), time.process_time()
    text = run(source, pictures)
    page_of(source).write_text(text, encoding="utf-8")
    for picture in pictures.glob(f"{source.stem}-*.png"):
        if picture.name not in text:
            picture.unlink()
    seconds, processor = time.perf_counter() - start, time.process_time() - busy
    print(f"wrote {page_of(source).name} in {seconds:.0f} s ({processor:.0f} s of processor time)", flush=True)


def main(words: list[str]) -> None:
    known = {source.stem: source for source in sources()}
    if words == ["--check"]:
        outdated = [name for name, source in known.items() if not is_current(source)]
        if outdated:
            raise SystemExit(f"Out of date: {', '.join(outdated)}. Run `make tutorials`.")
        return
    unknown = [word for word in words if word not in known]
    if unknown:
        raise SystemExit(f"No such tutorial: {', '.join(unknown)}. Tutorials: {', '.join(known)}.")
    for name in words or [name for name, source in known.items() if not is_current(source)]:
        write(known[name])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
