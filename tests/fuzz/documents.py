"""YAML files: a valid sweep or configuration with something changed deep inside, or something YAML allows around it."""

from __future__ import annotations

import random
from typing import Any

import yaml

from tests.fuzz.commands import PIECES
from tests.fuzz.mutations import changed, changed_bytes

AROUND = [
    "x: !!python/object/apply:os.system [id]", "a: &a [*a]", "\t", "<<: *b", "? [a]: b", "---\nbase: {}",
    "%YAML 9.9\n---",
    "base: {seed: 1}\nbase: {seed: 2}", "grid: !!set {seed}", "base: !!binary aGk=", "base: 2001-01-01", "- base: {}",
]  # fmt: skip


def _flat(words: list[str]) -> dict[str, Any]:
    return {key: yaml.safe_load(value) for key, _, value in (word.partition("=") for word in words)}


def valid_sweep(draw: random.Random) -> dict[str, Any]:
    """A sweep of a few small runs that uses some of the parts of a block."""
    base = _flat(
        [word for group in ("scene", "encoding", "holdout", "decoder", "training") for word in PIECES[group][0]]
    )
    sweep: dict[str, Any] = {"base": base, "grid": {"seed": draw.choice(["0..2", [0, 3], 1])}}
    if draw.random() < 0.5:
        sweep["grid"]["decoder.width"] = draw.choice([[2, 3], "2,3", 4])
    if draw.random() < 0.3:
        sweep["zip"] = draw.choice([{"training.steps": [1, 2], "training.batch": [2, 4]}, [{"training.steps": [1, 2]}]])
    if draw.random() < 0.3:
        sweep["list"] = [{"holdout.kind": "random", "holdout.fraction": 0.3}, {"holdout.kind": "comb"}]
    if draw.random() < 0.4:
        sweep["when"] = [
            {"if": {"decoder.kind": "mlp"}, "set": {"decoder.depth": 2}, "grid": {"training.batch": [1, 2]}}
        ]
    if draw.random() < 0.3:
        sweep["exclude"] = [{"seed": [1]}]
    return sweep


def valid_config(draw: random.Random) -> dict[str, Any]:
    """A configuration as `--config` reads it: groups within groups."""
    nested: dict[str, Any] = {}
    for group in ("scene", "encoding", "holdout", "decoder", "training"):
        nested[group] = {key.split(".", 1)[1]: value for key, value in _flat(draw.choice(PIECES[group])).items()}
    return {**nested, "seed": draw.choice([0, 5])}


def _aliases(draw: random.Random) -> bytes:
    """A sweep that uses anchors; sometimes more values than a file may have once they are followed."""
    width, height = draw.randint(2, 9), draw.randint(1, 8)
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, height)]
    base = "base: &b {decoder.kind: mlp, decoder.width: 4, decoder.depth: 1, training.steps: 2}"
    use = draw.choice(
        ["grid: {seed: [0, 1]}", "list: [{<<: *b, seed: 1}, *b]", f"grid: {{seed: *a{max(height - 1, 0)}}}"]
    )
    return "\n".join([base, *(["a0: &a0 [1, 2]", *levels] if "*a" in use else []), use]).encode()


def yaml_file(draw: random.Random) -> tuple[list[str], dict[str, Any]]:
    """A file, and the command that reads it."""
    is_sweep = draw.random() < 0.7
    document = valid_sweep(draw) if is_sweep else valid_config(draw)
    document = changed(document, draw, draw.choice([0, 1, 1, 2]))
    if is_sweep and draw.random() < 0.1:
        document = [document, valid_sweep(draw)]
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=draw.choice([None, True, False])).encode()
    how = draw.random()
    if how < 0.1:
        text = changed_bytes(text, draw)
    elif how < 0.15:
        text += b"\n" + draw.choice(AROUND).encode()
    elif how < 0.25 and is_sweep:
        text = _aliases(draw)
    words = ["sweep", "run", "--dry-run", "s.yaml"] if is_sweep else ["train", "--dry-run", "--config", "s.yaml"]
    return [*words, *draw.choice([[], ["--json"], ["seed=4"]])], {"s.yaml": text}
