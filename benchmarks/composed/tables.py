"""Print the rows of a results file as a table: `python -m benchmarks.composed.tables promised.json test.json`.

One line per case and model: least share of right unseen cells over seeds, and medians over seeds of the errors, their
ratio (with its range) and processor seconds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any


def lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The table of a results file."""
    yield "| case | model | seeds | right, trained | right, least | ID error | OOD error | OOD / ID (range) | seconds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for case, models in found.items():
        for model, outcome in models.items():
            rows = outcome["seeds"]
            ratios = [row["ratio"] for row in rows]
            cells = [
                case, model, str(len(rows)),
                f"{min(row['right_id'] for row in rows):.2f}",
                f"{min(row['right'] for row in rows):.2f}",
                *(f"{median(row[key] for row in rows):.1e}" for key in ("id_error", "ood_error")),
                f"{median(ratios):.1f} ({min(ratios):.1f} … {max(ratios):.1f})",
                f"{median(row['cpu_seconds'] for row in rows):.0f}",
            ]  # fmt: skip
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    for path in parser.parse_args().files:
        print(path.name, *lines(json.loads(path.read_text(encoding="utf-8"))), "", sep="\n")


if __name__ == "__main__":
    main()
