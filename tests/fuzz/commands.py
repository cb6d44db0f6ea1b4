"""Command lines: a valid one with one or two words changed. Settings come from the families' own parameters."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

from tests.fuzz.mutations import changed, changed_bytes, near, odd

PIECES: dict[str, list[list[str]]] = {  # of each group settings that are valid with all of the others
    "scene": [
        ["scene.factors={x: 4, y: 4}"],
        ["scene.factors={x: 5, y: 4}", "scene.inverted=true"],
        ["scene.kind=square", "scene.factors={x: 4, y: 4}", "scene.side=2", "scene.rows=8", "scene.columns=8"],
        ["scene.kind=shapes", "scene.factors={x: 4, y: 4}", "scene.rows=8", "scene.columns=8"],
    ],
    "encoding": [
        ["encoding.kind=bump"],
        ["encoding.kind=onehot"],
        ["encoding.kind=ramp", "encoding.flag=true"],
        ["encoding.kind=positional", "encoding.frequencies=3"],
    ],
    "holdout": [
        ["holdout.kind=centre", "holdout.lo=1", "holdout.hi=2", "holdout.factors=[x, y]"],
        ["holdout.kind=random", "holdout.fraction=0.3"],
        ["holdout.kind=orthotopic", "holdout.c=1", "holdout.thresholds=2", "holdout.factors=[x, y]"],
        ["holdout.kind=corner", "holdout.threshold=2", "holdout.factors=[x, y]"],
        ["holdout.kind=comb", "holdout.every=3"],
        ["holdout.kind=connected", "holdout.fraction=0.3"],
        ["holdout.kind=any_of", "holdout.parts=[{kind: comb, every: 4}, {kind: corner, threshold: 3}]"],
    ],
    "decoder": [
        ["decoder.kind=mlp", "decoder.width=4", "decoder.depth=1"],
        ["decoder.kind=mlp", "decoder.width=3", "decoder.depth=2"],
        ["decoder.kind=pixel_mlp", "decoder.width=4", "decoder.depth=1"],
        ["decoder.kind=additive", "decoder.width=2"],
        ["decoder.kind=transformer", "decoder.width=4", "decoder.depth=1", "decoder.heads=2"],
    ],
    "training": [
        ["training.steps=2"],
        ["training.steps=2", "training.batch=3", "training.loss={kind: l1}"],
        ["training.kind=recommended", "training.epochs=1"],
        ["training.steps=1", "training.optimizer={kind: sgd, momentum: 0.5}", "training.schedule=cosine"],
        ["training.steps=2", "training.terms={hessian: {weight: 0.1}}"],
    ],
    "seed": [["seed=0"], ["seed=1,2"], ["seed=0..2"]],
}


def valid_settings(draw: random.Random) -> list[str]:
    """A small run, or two or three that differ in their seeds."""
    chosen = {group: draw.choice(pieces) for group, pieces in PIECES.items()}
    text = " ".join(word for words in chosen.values() for word in words)
    if "additive" in text or "hessian" in text:  # which need an entry of the code per factor value
        chosen["encoding"] = draw.choice(PIECES["encoding"][:2])
    return [word for words in chosen.values() for word in words]


@functools.cache
def parameters() -> dict[str, dict[str, Any]]:
    """ "decoder mlp" → name of each of its parameters → its default."""
    from recombine.runs.config import GROUPS

    return {
        f"{group} {kind}": {name: field.get_default() for name, field in model.model_fields.items() if name != "kind"}
        for group, family in GROUPS.items()
        for kind, model in family.models.items()
    }


def changed_settings(words: list[str], draw: random.Random) -> list[str]:
    """One of them changed: its value, its key, its kind; or another one beside them."""
    from recombine.core.words import plain_value
    from recombine.runs.config import GROUPS

    words, at = list(words), draw.randrange(len(words))
    key, _, text = words[at].partition("=")
    group, how, value = key.split(".")[0], draw.random(), plain_value(text)
    if how < 0.5:
        if key.endswith(".kind") and draw.random() < 0.9:
            text = draw.choice(sorted(GROUPS[group].models))
        elif isinstance(value, dict | list):
            text = json.dumps(changed(value, draw))
        elif isinstance(value, str):
            text = draw.choice(
                ["constant", "cosine", "0..3", "1,2,3", changed_bytes(text.encode(), draw).decode(errors="ignore")]
            )
        else:
            text = json.dumps(near(value, draw))
        words[at] = f"{key}={text}"
    elif how < 0.8 and group in GROUPS:  # another parameter of the chosen kind
        kind = next((w.partition("=")[2] for w in words if w.startswith(f"{group}.kind=")), "")
        names = parameters().get(f"{group} {kind}") or parameters()[f"{group} {min(GROUPS[group].models)}"]
        if names:
            name = draw.choice(sorted(names))
            words.append(
                f"{group}.{name}={json.dumps(draw.choice([near(names[name], draw), names[name]]), default=str)}"
            )
    elif how < 0.87:
        words[at] = f"{key}={odd(draw)}"
    elif how < 0.92:
        del words[at]
    elif how < 0.96:
        words[at] = f"{changed_bytes(key.encode(), draw).decode(errors='ignore')}={text}"
    else:
        words.insert(at, draw.choice([str(odd(draw)), words[at]]))
    return words


OPTIONS: dict[str, list[list[str]]] = {
    "train": [[], ["--json"], ["--seed", "1"], ["--device", "cpu"], ["--out", "runs"], ["--force"]],
    "sweep": [
        [], ["--json"], ["--max-parallel", "1"], ["--cpus", "1"], ["--memory", "1MB"], ["--gpus", "0"], ["--retries",
        "0"],
        ["--engine", "in-process"], ["--diagnose", "errors"], ["--time-limit", "60"], ["--checkpoint-seconds", "5"],
    ],
}  # fmt: skip


def command_line(draw: random.Random) -> tuple[list[str], dict[str, Any]]:
    """A training, or the plan of one or of a sweep."""
    command = draw.choice([["train", "--dry-run"], ["train", "--dry-run"], ["sweep", "run", "--dry-run"], ["train"]])
    words = valid_settings(draw)
    for _ in range(draw.choice([0, 1, 1, 2])):
        words = changed_settings(words, draw)
    options = [list(draw.choice(OPTIONS[command[0]])) for _ in range(draw.randint(0, 2))]
    if draw.random() < 0.12:
        chosen = draw.choice(options) if options else []
        if len(chosen) == 2:
            chosen[1] = str(odd(draw))
        else:
            chosen.append(draw.choice(["--nothing", "--json=1", str(odd(draw))]))
            options.append(chosen)
    short = [] if "--dry-run" in command else ["training.epochs=1", "training.steps=2"]  # whatever was changed
    return [*command, *words, *short, *(word for option in options for word in option)], {}
