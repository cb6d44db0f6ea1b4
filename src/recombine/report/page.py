"""Builds the page: one HTML file with the collected results that makes no network requests."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import recombine
from recombine.core.errors import DamagedError, InputError, Missing, StoreError
from recombine.core.files import write_text
from recombine.diagnostics.findings import json_able
from recombine.diagnostics.part import PARTS
from recombine.plotting.style import CLASS_COLOURS, PAGE_COLOURS
from recombine.report.arrays import Blobs, Block
from recombine.report.claims import claims_json
from recombine.report.collect import Collected, Model
from recombine.report.curves import layer_curves, plain_tables, score_scatter, threshold_points
from recombine.report.explorer import Group, group_json, grouped
from recombine.report.facts import facts_json
from recombine.report.verdicts import verdicts_over_seeds

MODELS = 5
TRUSTED = "recombine"  # name of the script's Trusted Types policy
MAX_MB = 20.0
MOST_NAMED = 3  # models in the title of a group
TRAINED = "#f3efe4"  # colour of trained cells in maps that colour unseen cells by class
MAPS = {"magma": "magma", "viridis": "viridis", "cividis": "cividis", "difference": "RdBu_r", "grey": "gray"}
SHARED = (
    "base",
    "save",
    "arrays",
    "colour",
    "state",
    "plane",
    "pictures",
    "memories",
    "tables",
)  # used by panels
LIBRARIES = (("d3.min.js", "LICENSE-d3"), ("plot.umd.min.js", "LICENSE-plot"))  # draw the charts


@dataclass(frozen=True)
class Page:
    """A page as text, with the size of each of its blocks in bytes and notes about what was left out."""

    html: str
    sizes: dict[Block, int]
    notes: list[str]

    @property
    def megabytes(self) -> float:
        """Size of the page in megabytes (10⁶ bytes)."""
        return len(self.html.encode()) / 1e6


CONTRADICTIONS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def build(collected: Collected, **options: Any) -> Page:
    """Build the page from collected results. `options` are those of `_built`.

    Files of a diagnosis can match their digests and still be inconsistent with each other. If the page of a model
    cannot be built, the model is left out and a note gives the reason.
    """
    try:
        return _built(collected, **options)
    except CONTRADICTIONS as error:
        notes: dict[str, str] = {}
        for model in collected.models:
            try:
                _built(replace(collected, models=[model]), **options)
            except CONTRADICTIONS as found:
                notes[model.name] = f"{type(found).__name__}: {found}"
        if not notes:
            raise
        if len(notes) == len(collected.models) == 1:
            raise DamagedError(f"The diagnosis is inconsistent ({error}). Diagnose the model again.") from error
        told = [f"Not shown: the diagnosis of {name} is inconsistent ({why})." for name, why in notes.items()]
        kept = [model for model in collected.models if model.name not in notes]
        return _built(replace(collected, models=kept, notes=[*collected.notes, *told]), **options)


def _built(
    collected: Collected,
    *,
    models: int = MODELS,
    units: int | None = None,
    cells: int | None = None,
    kernel: bool = True,
    figures: bool = True,
    embedded: bool = False,
) -> Page:
    """Build the page from collected results.

    Args:
        collected: The results. See `recombine.report.collect`.
        models: Maximum number of models from stores in the explorer. Models named by the user are always shown.
        units: Maximum number of units per layer; 64 by default.
        cells: Maximum number of cells of a group whose images are stored: a random draw, held-out cells first. By
            default, all are.
        kernel: Whether to show Gram matrices.
        figures: Whether to show the figures of claims.
        embedded: Whether to show only the explorer and the kernel view, for a notebook.
    """
    blobs = Blobs()
    chosen, left_out = _choose(collected.models, models)
    groups = grouped(chosen)
    most = {} if units is None else {"tuning": units}
    most |= {} if kernel else {"kernels": 0}
    claims, notes = claims_json(collected.claims, collected.figures if figures else {}, blobs)
    notes = [*collected.notes, *notes, *left_out]
    given = {model.run.id: model.name for model in collected.models if model.run is not None and model.named}
    curves = {
        "layers": [] if embedded else layer_curves(collected.models, collected.tables),
        "scatter": score_scatter(collected.runs, collected.tables, given),
        "thresholds": threshold_points(collected.tables),
        "tables": plain_tables(collected.tables),
    }
    content = {
        "headline": _headline(groups, collected),
        "embedded": embedded,
        "notes": notes,
        "maps": _colour_maps(),
        "colours": {"series": PAGE_COLOURS, "classes": CLASS_COLOURS, "trained": TRAINED},
        "groups": _titled([group_json(group, blobs, most, cells) for group in groups]),
        "left_out": [part for part, items in most.items() if not items],
        "unrequested": [p for p in PARTS if all(m.diagnosis[p].state is Missing.NOT_REQUESTED for m in chosen)],
        "over_seeds": [
            {"name": name, "kind": verdict.kind, "explanation": verdict.explanation}
            for name, verdict in verdicts_over_seeds(collected.models)
        ],
        "curves": curves,
        "claims": claims,
        "runs": facts_json(collected.runs, given),
        "footer": _footer(groups),
        "vendor": blobs.add_bytes(_libraries(), Block("chart library")) if any(curves.values()) else None,
    }
    data = _escaped(content)
    html = _assembled(data, blobs, [script(), *([_libraries().decode()] if content["vendor"] else [])])
    sizes = {**blobs.sizes, Block("names and tables"): len(data)}
    sizes[Block("script and style")] = len(html.encode()) - sum(sizes.values())
    return Page(html, sizes, notes)


def write_report(collected: Collected, path: Path, *, max_mb: float = MAX_MB, **options: Any) -> Page:
    """Build the page and write it. `options` are those of `build`.

    Raises:
        InputError: If the page would be larger than `max_mb` megabytes. The message lists the sizes of its blocks and
            options that reduce them. Nothing is written.
        StoreError: If the file cannot be written.
    """
    check_target(path)
    page = build(collected, **options)
    if page.megabytes > max_mb:
        raise InputError(_too_large(page, max_mb))
    write_text(path, page.html)
    return page


def check_target(path: Path) -> None:
    """Raise if the file cannot be written. Called before any long computation."""
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give the name of an HTML file, for example -o {path / 'report.html'}.")
    above = next(folder for folder in (path.parent, *path.parent.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise StoreError(f"Could not write {path}: {above} is a file, not a folder. Choose another path with -o.")
    if not os.access(above, os.W_OK):
        raise StoreError(f"Could not write {path}: {above} is not writable. Choose another path with -o.")


def _too_large(page: Page, max_mb: float) -> str:
    largest = sorted(page.sizes.items(), key=lambda item: -item[1])
    blocks = "\n".join(f"  {size / 1e6:6.2f} MB  {block}" for block, size in largest[:12])
    rest = sum(size for _, size in largest[12:])
    blocks += f"\n  {rest / 1e6:6.2f} MB  {len(largest) - 12} smaller blocks" if rest else ""
    drops = {"kernels": "--no-kernel", "tuning": "--units 0", "figures": "--no-figures"}
    ways = [f"{way} saves {saved / 1e6:.2f} MB" for kind, way in drops.items()
            if (saved := sum(size for block, size in page.sizes.items() if block.kind == kind))]  # fmt: skip
    return (
        f"The page would take {page.megabytes:.2f} MB, which exceeds --max-mb "
        f"{max_mb:g}:\n{blocks}\n{'; '.join([*ways, 'or show fewer models'])}, or raise --max-mb. Nothing was written."
    )


def _choose(models: Sequence[Model], most: int) -> tuple[list[Model], list[str]]:
    """The requested models and up to `most` others. One seed of every configuration comes before further seeds."""
    asked = [model for model in models if model.asked]
    others = [model for model in models if not model.asked]
    kinds: dict[str, int] = {}
    rank = []
    for model in others:
        kind = model.run.config.seedless_hash if model.run else model.name
        rank.append(kinds.get(kind, 0))
        kinds[kind] = rank[-1] + 1
    order = sorted(range(len(others)), key=lambda i: (rank[i], i))
    kept = sorted(order[: max(0, most - len(asked))])
    if len(kept) == len(others):
        return [*asked, *others], []
    total = len(models)
    return [*asked, *(others[i] for i in kept)], [
        f"The explorer shows {len(asked) + len(kept)} of {total} models, one seed per configuration first. --models "
        f"{total} shows all of them. The curves use all models."
    ]


def _titled(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add model names to the titles of groups that differ only in their truth or held-out cells."""
    titles = [group["title"] for group in groups]
    for group in groups:
        if titles.count(group["title"]) > 1:
            names = [model["name"] for model in group["models"]]
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            group["title"] += ": " + "; ".join(names[:MOST_NAMED]) + more
    return groups


def _headline(groups: Sequence[Group], collected: Collected) -> str:
    count = sum(len(group.models) for group in groups)
    said = [f"{count} {'model' if count == 1 else 'models'}"] if count else []
    said += [groups[0].title] if len(groups) == 1 else [f"{len(groups)} groups"] if groups else []
    said += [f"{len(collected.runs)} {'run' if len(collected.runs) == 1 else 'runs'}"] if not count else []
    return " · ".join(said)


def _footer(groups: Sequence[Group]) -> list[str]:
    about = [f"Made by recombine {recombine.__version__}. This file is self-contained and makes no network requests."]
    if groups:
        about.append(
            "Numbers on this page are rounded: outputs to 254 levels, finer near 0 (each within 0.4 % of the largest "
            "brightness), maps to 65 534 levels, and units and similarities to 254 levels. The diagnosis files "
            "contain the exact numbers. Grey pictures show the square root of the brightness on a dark background; "
            "colours are not changed."
        )
    return about


@cache
def _colour_maps() -> dict[str, str]:
    """Colour maps of 256 colours, with six hexadecimal digits per colour."""
    from matplotlib import colormaps

    levels = np.arange(256) / 255
    return {name: (colormaps[map_](levels)[:, :3] * 255).round().astype(np.uint8).tobytes().hex()
            for name, map_ in MAPS.items()}  # fmt: skip


def _libraries() -> bytes:
    folder = files("recombine.report") / "vendor"
    texts = []
    for script, licence in LIBRARIES:
        texts += [
            f"/*\n{(folder / licence).read_text(encoding='utf-8')}*/",
            (folder / script).read_text(encoding="utf-8"),
        ]
    return "\n".join(texts).encode()


def _escaped(content: Any) -> str:
    """JSON that is safe inside a script element, regardless of its content."""
    text = json.dumps(json_able(content), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script() -> str:
    """The script of the page: its files, concatenated in a separate scope.

    Every file in `panels` adds a panel, in the order of the file names.
    """
    folder = files("recombine.report") / "static"
    panels = sorted((file for file in (folder / "panels").iterdir() if file.name.endswith(".js")), key=lambda f: f.name)
    found = [*(folder / f"{name}.js" for name in SHARED), *panels, folder / "main.js"]
    joined = "\n".join(file.read_text(encoding="utf-8") for file in found)
    return f'"use strict";\n{{\n{joined}}}\n'


def policy(scripts: Sequence[str]) -> str:
    """The Content-Security-Policy of the page. It allows only these scripts, and no requests, frames or forms.

    Trusted Types prevent these scripts from converting text to markup or code. The only exception is the chart library,
    which `60_charts.js` runs. A policy inside the page cannot forbid links or `sandbox` the page, so the page has no
    external links.
    """
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        f"require-trusted-types-for 'script'; trusted-types {TRUSTED}"
    )


def _assembled(data: str, blobs: Blobs, scripts: Sequence[str]) -> str:
    folder = files("recombine.report") / "static"
    pieces = {
        "policy": policy(scripts),
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "data": data,
        "script": scripts[0],
        "blobs": "\n".join(
            f'<script type="text/plain" id="{name}">{text}</script>' for name, text in blobs.texts.items()
        ),
    }
    html = (folder / "page.html").read_text(encoding="utf-8")
    for name, text in pieces.items():
        before, _, after = html.partition(f"<!--{name}-->")
        html = before + text + after
    return html
