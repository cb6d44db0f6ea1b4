"""Printing of results: JSON, tables and text, without control characters. With --json, nothing but JSON is printed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import IO, Any

import typer

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_asked: list[bool] = []  # whether standard output was to hold JSON only
_answers: ContextVar[IO[str] | None] = ContextVar("answers", default=None)


@contextlib.contextmanager
def only_json(as_json: bool) -> Iterator[None]:
    """With --json, only `show_json` reaches standard output. Anything that libraries print goes to standard error."""
    if not as_json:
        yield
        return
    sys.stdout.flush()
    if _is_real(sys.stdout):
        _asked.append(True)
    with contextlib.ExitStack() as stack:
        answers = stack.enter_context(_real_output()) if _is_real(sys.stdout) else sys.stdout
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        token = _answers.set(answers)
        stack.callback(_answers.reset, token)
        yield


def close_after_json() -> None:
    """At the end of a process that answered in JSON: what libraries print after it goes to standard error."""
    if _asked:
        os.dup2(2, 1)


def _is_real(stream: IO[str]) -> bool:
    try:
        return stream.fileno() == 1
    except (OSError, ValueError, AttributeError):  # in a test or a notebook
        return False


@contextlib.contextmanager
def _real_output() -> Iterator[IO[str]]:
    """Standard output, while anything that C libraries and child processes write to file descriptor 1 goes to 2."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as stream:
            yield stream
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def show_json(content: Any) -> None:
    """Print the result of a command as JSON."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    _echo(CONTROL.sub(_escaped, text), file=_answers.get())


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print text for people. Control characters, which stored text may contain, never reach the terminal."""
    _echo(clean(str(text)), err=err, nl=nl)


def _echo(text: str, **options: Any) -> None:
    """Print. A closed pipe ends the command with a message, which typer would not give."""
    try:
        typer.echo(text, **options)
    except BrokenPipeError as error:
        with contextlib.suppress(OSError):
            typer.echo("error: cannot write to standard output: Broken pipe.", err=True)
        raise typer.Exit(1) from error


def clean(text: str) -> str:
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}" if match[0] < "\u0100" else _escaped(match), text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def show_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows as aligned columns, with numbers rounded to three digits."""
    cells = [columns, *([_text(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def _text(value: Any) -> str:
    text = "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    return clean(text.replace("\n", " "))


def headline(config: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a configuration that fit into a table row."""
    kinds = {name: config.get(name, {}).get("kind", "") for name in ("decoder", "encoding", "holdout")}
    decoder = config.get("decoder", {})
    sizes = [str(decoder[key]) for key in ("depth", "width") if key in decoder]
    if sizes:
        kinds["decoder"] += f"({', '.join(sizes)})"
    return {**kinds, "seed": config.get("seed", "")}
