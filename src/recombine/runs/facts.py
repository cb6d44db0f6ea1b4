"""run.json: the record of a finished run, and the checks of its integrity."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from recombine.core import plugins
from recombine.core.errors import DamagedError
from recombine.core.files import parse_json
from recombine.core.plugins import PluginState
from recombine.runs.identity import StoredNames, is_config
from recombine.runs.layout import RESULTS

FORMAT = "recombine-run-2"
AGAIN = "Train the run again with `recombine train … --force` and its settings, or with its sweep."


def run_digest(facts: dict[str, Any]) -> str:
    """Digest of run.json. It is stored with the run to detect later changes."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_facts(content: bytes, what: str) -> dict[str, Any]:
    """The facts of a run.json, without their digest.

    Raises:
        DamagedError: If they come from another version, were changed after the run finished, or are invalid.
    """
    facts = parse_json(content, what)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else type(facts).__name__
        raise DamagedError(f"{what} was written by another version: its format is {found!r}, expected {FORMAT!r}.")
    if facts.pop("digest", None) != run_digest(facts):
        raise DamagedError(f"{what} was changed after the run finished. {AGAIN}")
    lacking = [key for key in SHAPES if key not in facts]
    if lacking:
        raise DamagedError(f"{what} is damaged. Missing entries: {', '.join(lacking)}. {AGAIN}")
    wrong = [key for key, fits in (*SHAPES.items(), *OPTIONAL.items()) if key in facts and not fits(facts[key])]
    if wrong:
        raise DamagedError(f"{what} is damaged. Invalid entries: {', '.join(wrong)}. {AGAIN}")
    return facts


def check_belongs(facts: dict[str, Any], run: str, what: str, names: StoredNames) -> None:
    """Raise a DamagedError if the recorded id or the configuration belongs to another run.

    If a plug-in is not loaded, its settings cannot be checked, and only the recorded id is compared.
    """
    if facts["run"] != run:
        raise DamagedError(f"{what} belongs to run {facts['run']}, not to run {run}. {AGAIN}")
    if not names.match(facts["config"], run, facts.get("name")) and not lacks_plugin(facts):
        raise DamagedError(f"{what} contains a configuration that does not belong to run {run}. {AGAIN}")


def lacks_plugin(facts: dict[str, Any]) -> bool:
    """Whether a plug-in that the run was trained with is not loaded."""
    return PluginState.MISSING in plugins.states(plugins.recorded(facts)).values()


def _are_numbers(values: Iterable[Any]) -> bool:
    """Whether all values are finite numbers that fit into 64 bits, or None for unknown numbers."""
    return all(
        one is None
        or (type(one) is float and -math.inf < one < math.inf)
        or (type(one) is int and -(2**63) <= one < 2**63)
        for one in values
    )


def _is_duration(value: Any) -> bool:
    return value is not None and _are_numbers((value,)) and value >= 0


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_summary(value: Any) -> bool:
    """Whether a value maps names to numbers, or to None for unknown numbers."""
    return isinstance(value, dict) and _are_numbers(value.values())


def _is_described(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(by_factor, dict)
        and all(
            isinstance(numbers, list) and None not in numbers and _are_numbers(numbers)
            for numbers in by_factor.values()
        )
        for by_factor in value.values()
    )


def _is_digests(value: Any) -> bool:
    return (
        isinstance(value, dict) and all(isinstance(one, str) for one in value.values()) and value.keys() >= set(RESULTS)
    )


def _is_grid(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(key), list) and all(map(_is_count, value[key])) for key in ("held_out", "available")
    )


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


SHAPES: dict[str, Callable[[Any], bool]] = {
    "run": _is_text,
    "config": is_config,
    "summary": is_summary,
    "steps": _is_count,
    "loss_names": _is_texts,
    "described": _is_described,
    "seconds": _is_duration,
    "finished": _is_text,
    "device": _is_text,
    "files": _is_digests,
}
OPTIONAL: dict[str, Callable[[Any], bool]] = {"name": _is_text, "grid": _is_grid, "versions": _is_mapping}
