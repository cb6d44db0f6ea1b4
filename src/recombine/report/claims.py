"""The table of verdicts: claims, measurements, and the figures that show them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from recombine.diagnostics.findings import json_able
from recombine.report.arrays import Blobs, Block

NAME = re.compile(r"R0*(\d{1,6})(?![0-9])", re.IGNORECASE)


def claims_json(
    claims: Iterable[tuple[str, Any]], figures: Mapping[tuple[str, str], bytes], blobs: Blobs
) -> tuple[dict[str, Any], list[str]]:
    """The claims with their figures, the remaining figures, and notes about unreadable files.

    Figures and claims belong to the folder in which they were found. On the page, a figure is identified by its name,
    together with the folder's name if two folders have a figure of the same name.
    """
    notes: list[str] = []
    rows: list[dict[str, Any]] = []
    kept: dict[str, str] = {}
    names: dict[str, dict[str, str]] = {}  # maps folders and names of figures to names on the page
    counts = Counter(name for _, name in figures)
    for (folder, name), content in figures.items():
        known = name if counts[name] == 1 else f"{folder}/{name}"
        if content.startswith(b"\x89PNG\r\n\x1a\n") and content.endswith(b"IEND\xaeB`\x82"):
            kept[known] = blobs.add_bytes(content, Block("figures"))
            names.setdefault(folder, {})[name] = known
        else:
            notes.append(f"The figure {known} is damaged and is not shown.")
    for source, content in claims:
        given = content.get("claims") if isinstance(content, Mapping) else content
        if not isinstance(given, list):
            notes.append(f"claims.json of {source} is not a list of claims and is not shown.")
            continue
        for number, claim in enumerate(given):
            if isinstance(claim, Mapping) and claim.get("claim") is not None:
                own = names.get(source, {})
                shown = [own[name] for name in _figures(claim, own)]
                rows.append({**json_able(claim), "source": source, "figures": shown})
            else:
                notes.append(f"Entry {number + 1} of claims.json of {source} is not a claim and is not shown.")
    used = {name for row in rows for name in row["figures"]}
    return {"rows": rows, "figures": kept, "others": [name for name in kept if name not in used]}, notes


def _figures(claim: Mapping[str, Any], kept: Mapping[str, str]) -> list[str]:
    """The figures of a claim: those that it lists, otherwise those of the results that it lists."""
    named = claim.get("figures", claim.get("figure"))
    named = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    found = [name for given in named if isinstance(given, str) for name in kept if given.rpartition("/")[2] == name]
    if found:
        return found
    results = _results(" ".join(str(claim.get(key, "")) for key in ("results", "result", "figure")))
    return [name for name in kept if results & _results(name.partition("_")[0])]


def _results(text: str) -> set[str]:
    """Results such as R5 or R05 in a text, without leading zeros."""
    return {f"R{int(number)}" for number in NAME.findall(text)}
