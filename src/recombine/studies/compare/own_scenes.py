"""Scenes of a comparison that the user brings: a data set, or a file with the configuration of a scene."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError
from recombine.core.files import read_config
from recombine.runs.config import RunConfig

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")  # also part of the names of figures
CONFIGURATIONS = (".yaml", ".yml", ".json")


def own_scenes(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Map names to configurations of scenes.

    Args:
        given: Paths, or NAME=PATH. A path is a data set or a YAML or JSON file with a group `scene`, as for `recombine
            train --config`. The name of the file is the default name.
    """
    found: dict[str, dict[str, Any]] = {}
    for text in given:
        name, path = _named(text)
        if not NAME.fullmatch(name) or name in found:
            why = "occurs twice" if name in found else "is not a valid name"
            raise InputError(
                f"{name!r} {why}. Name the scene with letters, digits, - and _, as in --data cars={path}.", "data"
            )
        found[name] = _scene(path)
    return found


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if equals and not Path(text).exists():
        return name, Path(path)
    return Path(text).stem, Path(text)


def _scene(path: Path) -> dict[str, Any]:
    """The completed configuration of a scene."""
    if path.suffix in CONFIGURATIONS:
        config = read_config(path)
        if "scene" not in config:
            raise InputError(f"{path} must contain a group `scene`, as for recombine train --config.", "data")
        others = [name for name in config if name != "scene"]
        if others:
            raise InputError(
                f"{path} may contain the group `scene` only; a comparison chooses everything else. Remove "
                f"{', '.join(map(repr, others))}.",
                "data",
            )
        scene = config["scene"]
    else:
        scene = {"kind": "images", "data": str(path)}
    completed = RunConfig.from_dict({"scene": scene}).scene
    if len(completed["factors"]) < 2:
        told = ", ".join(completed["factors"])
        raise InputError(f"A comparison requires scenes with at least two factors. {path} has {told}.", "data")
    return completed
