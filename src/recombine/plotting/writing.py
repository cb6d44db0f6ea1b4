"""Writes figures to files, which are complete or not there at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.core.errors import InputError
from recombine.core.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_figure(figure: Figure, path: Path, *, dpi: int | None = 130, **options: Any) -> None:
    """Draw a figure in the format that the file's extension names. `options` are those of `Figure.savefig`.

    Raises:
        InputError: If the format is unknown.
        StoreError: If the file cannot be written.
    """
    ending, content = path.suffix[1:].lower(), io.BytesIO()
    if ending not in figure.canvas.get_supported_filetypes():
        raise InputError(f"A figure must be written to a .png, .pdf or .svg file. Got {path.name!r}.")
    figure.savefig(content, format=ending, dpi=dpi, **options)
    write_bytes(path, content.getvalue())
