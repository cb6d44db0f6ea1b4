"""The facts of each run, and the command that trains it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from recombine.core.errors import InputError
from recombine.report.labels import distinct_names, told
from recombine.runs.config import RunConfig, flat
from recombine.runs.store import StoredRun

FACTS = ("steps", "stopped_early", "seconds", "finished", "device", "threads", "versions", "summary")


def facts_json(runs: Sequence[StoredRun], given: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """One record per run: name, configuration, facts and commands. `given` maps run ids to names given by the user."""
    made = distinct_names([told(run) for run in runs], [run.id for run in runs])
    names = [(given or {}).get(run.id, name) for run, name in zip(runs, made)]
    return [
        {
            "run": run.id,
            "name": name,
            "path": str(run.path),
            "config": run.config.to_dict(),
            **{key: run.facts.get(key) for key in FACTS},
            "command": train_command(run) + ("" if run.name else f" --out {shlex.quote(str(run.path.parent))}"),
        }
        for run, name in zip(runs, names)
    ]


def train_command(run: StoredRun) -> str:
    """The shortest `recombine train` command for a run's configuration."""
    if run.name:
        return f"recombine.load_run({run.name!r}, module=…)"
    words = overrides(run.config)
    if words is None:
        return f"recombine train --config {shlex.quote(str(run.path / 'config.json'))}"
    return " ".join(["recombine train", *map(shlex.quote, words)])


def overrides(config: RunConfig) -> list[str] | None:
    """The key=value words that turn the defaults of the kinds into a configuration.

    None if words cannot express this configuration.
    """
    wanted = _leaves(config.to_dict())
    plain = _leaves(RunConfig.parse([]).to_dict())
    kinds = [_word(key, wanted[key]) for key in wanted if key.endswith(".kind") and wanted[key] != plain.get(key)]
    try:
        usual = _leaves(RunConfig.parse(kinds).to_dict())
        words = [*kinds, *(_word(key, value) for key, value in wanted.items()
                           if not key.endswith(".kind") and (key not in usual or usual[key] != value))]  # fmt: skip
        words += [] if any(word.startswith("seed=") for word in words) else [f"seed={config.seed}"]
        return words if RunConfig.parse(words).hash == config.hash else None
    except InputError:  # a kind without defaults for some keys, such as a mixed encoding
        return None


def _leaves(config: Mapping[str, Any]) -> dict[str, Any]:
    """Map group.key to values, including the nested groups of training (examples, loss, …)."""
    found: dict[str, Any] = {}
    for key, value in flat(config).items():
        nested = key in ("training.examples", "training.loss", "training.optimizer")
        inner = _nested(key, value) if nested and isinstance(value, Mapping) else {key: value}
        found |= inner
    return found


def _nested(key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        found |= _nested(f"{key}.{name}", inner) if isinstance(inner, Mapping) else {f"{key}.{name}": inner}
    return found


def _word(key: str, value: Any) -> str:
    return f"{key}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
