"""Names for runs: what they are, and by what they differ from the others shown with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recombine.report.collect import Model

SAID = ("decoder.kind", "decoder.depth", "decoder.width", "encoding.kind")  # in the first words of every name


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as group.key → value; groups have one level, deeper ones stay values."""
    out: dict[str, Any] = {}
    for group, content in config.items():
        if isinstance(content, Mapping):
            out |= {f"{group}.{key}": value for key, value in content.items()}
        else:
            out[group] = content
    return out


LONGEST = 90  # signs of a name that can still be read in a list


def names_of(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each configuration: decoder, code, and every other key in which they differ."""
    flats = [flat(config) for config in configs]
    keys = list(dict.fromkeys(key for config in flats for key in config))
    differing = [key for key in keys if key not in SAID and len({json.dumps(c.get(key)) for c in flats}) > 1]
    return [", ".join([_head(config), *(_said(key, config[key]) for key in differing if _says(config, key))])
            for config in flats]  # fmt: skip


def short_names_of(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """`names_of`, or where so much differs that names become sentences only decoder and code."""
    names = names_of(configs)
    return names if all(len(name) <= LONGEST for name in names) else [_head(flat(config)) for config in configs]


def groups_of(configs: Sequence[Mapping[str, Any]], most: int = 12) -> list[str]:
    """Names of groups of configurations, the finest division into at most `most` of them (a chart's colours)."""
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
    return not (value is None or value is False or value == {})


def _said(key: str, value: Any) -> str:
    word = key.rpartition(".")[2].replace("_", " ")
    if value is True:
        return word
    if key.endswith(".terms") and isinstance(value, Mapping):
        return " + ".join(value)
    if key.endswith(".kind"):
        return f"{value} {key.partition('.')[0]}"
    return f"{word} {value if isinstance(value, str) else json.dumps(value)}"


def name_runs(models: Iterable[Model]) -> None:
    """Give every model without a name one, and tell equal names apart."""
    models = list(models)
    unnamed = [model for model in models if not model.name and model.run is not None]
    for model, name in zip(unnamed, names_of([m.run.config.to_dict() for m in unnamed if m.run is not None])):
        model.name = name
    seen: dict[str, int] = {}
    for model in models:
        name = model.name or "model"
        seen[name] = seen.get(name, 0) + 1
        model.name = name if seen[name] == 1 else f"{name} ({seen[name]})"
