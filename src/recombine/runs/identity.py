"""Whether a stored configuration names the run it lies in, told quickly: a listing asks for thousands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recombine.core.errors import DamagedError
from recombine.core.registry import reading_stored
from recombine.runs.config import DEFAULTS, GROUPS, group_identity, hash_of
from recombine.runs.named import digits


class StoredNames:
    """Hashes of configurations as they are stored; what groups of settings have in common is computed once."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}

    def match(self, config: Mapping[str, Any], run: str, name: str | None = None) -> bool:
        """Whether a configuration (see `is_config`) is that of a run; of one saved under a name, name and seed decide.

        Raises:
            DamagedError: If it cannot be read.
        """
        if name is not None:
            return digits([name, config["seed"]]) == run
        try:
            # what is stored is what names the run, unless settings were introduced later or name a place
            return hash_of(config) == run or self._hash(config) == run
        except (ValueError, RecursionError) as error:  # a number that is not finite, or nested too deeply
            raise DamagedError(f"The configuration of run {run} cannot be read: {error}") from error

    def _hash(self, config: Mapping[str, Any]) -> str:
        groups = {name: self._identity(name, config[name]) for name in GROUPS}
        factors = config["scene"]["factors"]
        return hash_of({**groups, "scene": {**groups["scene"], "factors": factors}, "seed": config["seed"]})

    def _identity(self, name: str, group: Mapping[str, Any]) -> dict[str, Any]:
        settings = {key: value for key, value in group.items() if (name, key) != ("scene", "factors")}
        key = (name, json.dumps(settings, sort_keys=True))
        if key not in self._groups:
            with reading_stored():
                self._groups[key] = group_identity(GROUPS[name], settings)
        return self._groups[key]


def is_config(config: Any) -> bool:
    """Whether something has the shape of a stored configuration: its groups, each with its settings, and a seed."""
    return (
        isinstance(config, dict)
        and config.keys() == DEFAULTS.keys()
        and all(isinstance(config[name], dict) for name in GROUPS)
        and isinstance(config["scene"].get("factors"), dict)
        and type(config["seed"]) is int
        and 0 <= config["seed"] < 2**63
    )
