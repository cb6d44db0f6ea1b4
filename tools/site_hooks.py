"""What MkDocs does not do by itself: formulas become MathML, and an undocumented public name fails the build."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

FENCE = re.compile(r"(^```.*?^```[ ]*$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|(?<![\\$\w])\$(?P<inline>[^$\n]+(?:\n[^$\n]+)?)\$(?!\w)", re.DOTALL)


def on_config(config: Any) -> Any:
    """Refuse to build while a public name has no docstring or is on no page of the API reference."""
    from mkdocs.exceptions import Abort  # pyright: ignore[reportMissingImports] (extra `docs`)

    sys.path.insert(0, str(Path(config.config_file_path).parent))
    from tools.public_names import problems

    if found := problems():
        raise Abort("\n".join(found))
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace $…$ and $$…$$ outside code by MathML."""
    parts = FENCE.split(markdown)
    return "".join(part if i % 2 else FORMULA.sub(_mathml, part) for i, part in enumerate(parts))


def _mathml(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert  # pyright: ignore[reportMissingImports] (extra `docs`)

    if found["block"]:
        return f"\n{convert(found['block'].strip(), display='block')}\n"
    return f"<span>{convert(' '.join(found['inline'].split()))}</span>"  # a line may not start with <math>
