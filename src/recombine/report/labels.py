"""Names of runs, composed of their kinds and of the settings in which the runs on a page differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recombine.runs.config import differing, flat

if TYPE_CHECKING:
    from recombine.report.collect import Model
    from recombine.runs.stored import StoredRun

SAID = ("decoder.kind", "decoder.depth", "decoder.width", "encoding.kind")  # part of every name
LONGEST = 90  # maximum characters of a name in a list


def names_of(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each configuration: decoder, code, and every other key in which the configurations differ."""
    flats = [flat(config) for config in configs]
    keys = [key for key in differing(flats, absent_differs=True) if key not in SAID]
    return [", ".join([_head(config), *(_said(key, config[key]) for key in keys if _says(config, key))])
            for config in flats]  # fmt: skip


def distinct_names(configs: Sequence[Mapping[str, Any]], runs: Sequence[str]) -> list[str]:
    """A name for each configuration, at most `LONGEST` long, with equal names only for equal configurations.

    If names would become too long, configurations are named within groups of equal scene and hold-out. Names that are
    still too long or ambiguous are replaced by the seed and the id of the first run in `runs` with that configuration.
    """
    keys = [json.dumps(config, sort_keys=True) for config in configs]
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    kept = sorted(first.values())
    names = dict(zip(kept, names_of([configs[i] for i in kept])))
    if _unclear(names.values()):
        circles: dict[str, list[int]] = {}
        for i in kept:
            circle = json.dumps([configs[i].get("scene"), configs[i].get("holdout")], sort_keys=True)
            circles.setdefault(circle, []).append(i)
        for circle in circles.values():
            names |= dict(zip(circle, names_of([configs[i] for i in circle])))
        counts = Counter(names.values())
        for i, name in names.items():
            if len(name) > LONGEST or counts[name] > 1:
                seed = f", seed {configs[i]['seed']}" if "seed" in configs[i] else ""
                names[i] = f"{_head(flat(configs[i]))}{seed}, run {runs[i][:8]}"
    return [names[first[key]] for key in keys]


def under_given_names(made: Sequence[str], given: Sequence[str | None]) -> list[str]:
    """Names of series. If the user gave exactly one name to the members of a series, the series has that name."""
    known: dict[str, set[str]] = {}
    for name, own in zip(made, given):
        known.setdefault(name, set()).update([own] if own else [])
    return [next(iter(known[name])) if len(known[name]) == 1 else name for name in made]


def _unclear(names: Iterable[str]) -> bool:
    names = list(names)
    return len(set(names)) < len(names) or any(len(name) > LONGEST for name in names)


def groups_of(configs: Sequence[Mapping[str, Any]], most: int = 12) -> list[str]:
    """The group of each configuration, from the finest division into at most `most` groups (the colours of a chart)."""
    heads = [flat(config) for config in configs]
    divisions = (
        lambda: names_of(configs),
        lambda: [_head(head) for head in heads],
        lambda: [f"{head.get('decoder.kind')}, {head.get('encoding.kind')} code" for head in heads],
    )
    for names in (division() for division in divisions):
        if len(set(names)) <= most and all(len(name) <= LONGEST for name in names):
            return names
    return [str(head.get("decoder.kind")) for head in heads]


def _head(config: Mapping[str, Any]) -> str:
    sizes = [str(config[key]) for key in ("decoder.depth", "decoder.width") if key in config]
    decoder = str(config.get("decoder.kind", "model")) + (f"({', '.join(sizes)})" if sizes else "")
    code = config.get("encoding.kind")
    return decoder if code is None else f"{decoder}, {code} code"


def _says(config: Mapping[str, Any], key: str) -> bool:
    value = config.get(key)
    if key == "training.examples" and isinstance(value, Mapping):
        return bool(_sources(value))
    return not (value is None or value is False or value == {})


def _said(key: str, value: Any) -> str:
    group, _, word = key.rpartition(".")
    word = word.replace("_", " ")
    if key.endswith(".kind"):
        return f"{value} {group}"
    if key.endswith(".terms") and isinstance(value, Mapping):
        return " + ".join(value)
    if key == "training.examples" and isinstance(value, Mapping):
        return _sources(value)
    word = f"{group} {word}" if group == "holdout" else word  # "seed" alone is the seed of the run
    return word if value is True else f"{word} {_plain(value)}"


def _sources(examples: Mapping[str, Any]) -> str:
    """The example sources in words, without the default source (all cells)."""
    named = [_source(name, given) for name, given in examples.items() if given is not None]
    return " + ".join(name for name in named if name != "cells")


def _source(name: str, given: Mapping[str, Any]) -> str:
    """An example source in words: "10 cells", "single factor × 3"."""
    amount = given.get("count") if given.get("share") is None else f"{given['share']:.0%} of the"
    words = [] if amount is None else [str(amount)]
    words += [name.replace("_", " ")] + ([f"× {given['repeats']}"] if given.get("repeats", 1) != 1 else [])
    return " ".join(words)


def _plain(value: Any) -> str:
    """A setting in words, without brackets and quotes. A factor is described by its size."""
    if isinstance(value, Mapping):
        if "size" in value and "kind" in value:
            return f"{value['kind']} {value['size']}"
        return " × ".join(f"{key} {_plain(content)}" for key, content in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def told(run: StoredRun) -> dict[str, Any]:
    """The configuration that a run is named by. For a saved custom model, it contains the name of the saved run."""
    config = run.config.to_dict()
    return {**config, "decoder": {"kind": run.name}} if run.name else config


def name_runs(models: Iterable[Model]) -> None:
    """Give every unnamed model a name, and make equal names distinct."""
    models = list(models)
    of_runs = [(model, model.run) for model in models if model.run is not None]
    names = distinct_names([told(run) for _, run in of_runs], [run.id for _, run in of_runs])
    for (model, _), name in zip(of_runs, names):
        if not model.name:
            model.name, model.named = name, False
    seen: dict[str, int] = {}
    for model in models:
        name = model.name or "model"
        seen[name] = seen.get(name, 0) + 1
        model.name = name if seen[name] == 1 else f"{name} ({seen[name]})"
