"""Fast checks that stored configurations belong to their runs. A listing may check thousands of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recombine.core.errors import DamagedError
from recombine.core.registry import reading_stored
from recombine.runs.config import DEFAULTS, GROUPS, group_identity, hash_of
from recombine.runs.named import digits


class StoredNames:
    """Computes hashes of stored configurations. Results for groups of settings are cached."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}

    def match(self, config: Mapping[str, Any], run: str, name: str | None = None) -> bool:
        """Whether a configuration (see `is_config`) belongs to a run. A named run is matched by name and seed.

        Raises:
            DamagedError: If the configuration cannot be read.
        """
        if name is not None:
            return digits([name, config["seed"]]) == run
        try:
            # the second hash omits paths and settings that were introduced later
            return hash_of(config) == run or self._hash(config) == run
        except (ValueError, RecursionError) as error:  # a non-finite number, or too deeply nested
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
    """Whether a value has the shape of a stored configuration: all groups with their settings, and a seed."""
    return (
        isinstance(config, dict)
        and config.keys() == DEFAULTS.keys()
        and all(isinstance(config[name], dict) for name in GROUPS)
        and isinstance(config["scene"].get("factors"), dict)
        and type(config["seed"]) is int
        and 0 <= config["seed"] < 2**63
    )
