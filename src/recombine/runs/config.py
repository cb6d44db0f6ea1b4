"""The configuration of a run: all settings that its result depends on.

    config = RunConfig.parse(["decoder.kind=mlp", "decoder.depth=4", "seed=1"])
    config.hash                       # identifies the run
    config.task(), config.model()     # the task and the model that it describes

The groups are scene, encoding, holdout, decoder and training, each with a `kind`, and the seed. A canonical
configuration has every default filled in, so equivalent configurations have the same hash.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch

from recombine.core import plugins
from recombine.core.encodings import ENCODINGS
from recombine.core.errors import InputError, Problem
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import HOLDOUTS
from recombine.core.limits import BYTES_PER_CELL, check_memory, check_sizes
from recombine.core.registry import Family, check_nesting, nearest, reading_stored
from recombine.core.scenes import SCENES, Scene
from recombine.core.task import Task
from recombine.core.words import plain_value
from recombine.models.decoders import DECODERS, Decoder
from recombine.training.objective import Objective
from recombine.training.recipe import RECIPES, Training
from recombine.training.training_set import check_examples

GROUPS: dict[str, Family] = {
    "scene": SCENES,
    "encoding": ENCODINGS,
    "holdout": HOLDOUTS,
    "decoder": DECODERS,
    "training": RECIPES,
}
DEFAULTS: dict[str, Any] = {
    "scene": {"kind": "bump", "factors": {"x": 28, "y": 28}},
    "encoding": {"kind": "bump"},
    "holdout": {"kind": "centre"},
    "decoder": {"kind": "cnn"},
    "training": {"kind": "paper"},
    "seed": 0,
}
CERTAINLY_FITS = 2**20  # decoders up to this product of sizes are built without estimating their memory
STATES = 4  # values stored per weight in training: the weight, its gradient and two running averages


@dataclass(frozen=True)
class RunConfig:
    """A validated, canonical configuration. Create one with `parse` or `from_dict`."""

    scene: dict[str, Any]
    encoding: dict[str, Any]
    holdout: dict[str, Any]
    decoder: dict[str, Any]
    training: dict[str, Any]
    seed: int

    @classmethod
    def parse(cls, overrides: Iterable[str], base: Mapping[str, Any] | None = None) -> RunConfig:
        """Apply "group.key=value" strings to the defaults or a base configuration. Values are JSON or plain words."""
        _check_mapping(base or {})
        changed, malformed = override(base or {}, overrides)
        return cls.from_dict(changed, malformed)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], problems: Sequence[Problem] = ()) -> RunConfig:
        """Validate a nested configuration. Missing parts get their defaults.

        All problems are raised together. `problems` were found earlier and are listed first.
        """
        _check_mapping(given)
        problems = [*problems]
        for name in given:
            if name not in DEFAULTS:
                close = nearest(str(name), DEFAULTS)
                problems.append(Problem(str(name), f"Unknown group {name!r}{close}. Groups: {', '.join(DEFAULTS)}."))
        canonical: dict[str, Any] = {}
        for name, family in GROUPS.items():
            part = given.get(name, DEFAULTS[name])
            if not isinstance(part, Mapping):
                told = f"{name} must be a group of settings, for example {name}.kind=…. Got {part!r}."
                problems.append(Problem(name, told))
                continue
            part = {"kind": DEFAULTS[name]["kind"], **part}
            if name == "scene":
                canonical[name] = _canonical_scene(part, problems)
                continue
            try:
                canonical[name] = family.validate(part, prefix=f"{name}.").model_dump()
            except InputError as error:
                problems += error.problems
        seed = given.get("seed", DEFAULTS["seed"])
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            problems.append(Problem("seed", f"seed must be an integer from 0 to 2^63 − 1. Got {seed!r}."))
        if problems:
            raise InputError.join(problems)
        return cls(**canonical, seed=seed)

    @classmethod
    def from_stored(cls, given: Mapping[str, Any]) -> RunConfig:
        """Load a stored configuration. Settings that it lacks get the value they had when they were introduced."""
        with reading_stored():
            return cls.from_dict(given)

    def to_dict(self) -> dict[str, Any]:
        """The canonical configuration as JSON values."""
        return copy.deepcopy({name: getattr(self, name) for name in DEFAULTS})

    def __hash__(self) -> int:
        return hash(self.hash)

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits that identify the run."""
        return hash_of({**self.identity(), "seed": self.seed})

    @cached_property
    def seedless_hash(self) -> str:
        """The hash of the configuration without its seed."""
        return hash_of(self.identity())

    def identity(self) -> dict[str, Any]:
        """The settings that identify the run, without the seed.

        Paths of files are omitted. Settings that were introduced later (`Since`) are omitted if they have the value
        that earlier runs used implicitly, so that the hashes of earlier runs do not change.
        """
        groups = self.to_dict()
        factors = groups["scene"].pop("factors")
        named = {name: group_identity(family, groups[name]) for name, family in GROUPS.items()}
        return {**named, "scene": {**named["scene"], "factors": factors}}

    @property
    def plugins(self) -> dict[str, str]:
        """The plug-ins that the configuration needs, with source hashes. They are not part of its identity."""
        if not plugins.in_use():
            return {}
        with plugins.recording() as names:
            RunConfig.from_dict(self.to_dict())
        return plugins.hashes(names)

    def task(self) -> Task:
        """Build the task. Raises if the hold-out does not fit, or if the grid does not fit into memory."""
        check_sizes(self.encoding, "encoding")
        scene_config = {k: v for k, v in self.scene.items() if k != "factors"}
        space = FactorSpace.from_config(self.scene["factors"])
        check_memory(BYTES_PER_CELL * len(space), f"A grid of {len(space)} cells", "scene.factors")
        decoder = cast("type[Decoder]", DECODERS.components[self.decoder["kind"]])
        return Task(
            SCENES.build(scene_config, space),
            ENCODINGS.build(self.encoding, space),
            HOLDOUTS.build(self.holdout, space),
            allow_unseen=self.training["allow_unseen"],
            inverse=decoder.inverse,
        )

    def model(self, task: Task | None = None) -> Decoder:
        """Build the decoder with the initial weights of the configuration's seed.

        Raises:
            InputError: If it would need more memory than the machine has.
        """
        check_sizes(self.decoder, "decoder")
        task = task or self.task()
        sizes = [size for size in self.decoder.values() if isinstance(size, int) and size > 0]
        if math.prod(sizes) * max([*sizes, math.prod(task.target_shape)]) > CERTAINLY_FITS:
            check_memory(STATES * self._bytes(task), "Weights, gradients and the optimizer's state", "decoder")
        return DECODERS.build(self.decoder, task).initialize(self.seed)

    def _bytes(self, task: Task) -> int:
        """Bytes of all weights and buffers, computed without allocating them."""
        with torch.device("meta"):
            try:
                counted = DECODERS.build(self.decoder, task)
            except RuntimeError:  # the decoder's constructor reads values, which meta tensors do not have
                return 0
        return sum(part.nbytes for part in (*counted.parameters(), *counted.buffers()))

    def check(self) -> None:
        """Build the parts and raise if they are incompatible with each other."""
        task = self.task()
        task.encoding.check()
        model, recipe = self.model(task), self.recipe()
        check_examples(task, recipe)
        values = task.space.values(task.holdout.id_cells[:1].repeat(2))
        with torch.no_grad():  # loss terms raise for models that they do not apply to
            loss, inputs, targets = recipe.loss_function(), task.inputs(values), task.targets(values)
            loss.check(model.eval()(inputs), targets)
            Objective(model, loss, recipe.loss_terms())(inputs, targets, 0.0)

    def recipe(self) -> Training:
        """The validated training settings."""
        return cast("Training", RECIPES.validate(self.training))


def _canonical_scene(part: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Validate a scene and its factors, which some kinds of scene infer. Problems are appended to `problems`."""
    component = cast("type[Scene]", SCENES.components.get(str(part["kind"]), Scene))
    factors = part.pop("factors", None if component.factors_from_data else DEFAULTS["scene"]["factors"])
    scene: dict[str, Any] = {}
    try:
        part, factors = component.completed(part, factors)
        scene = SCENES.validate(part, prefix="scene.", beside=["factors"]).model_dump()
    except InputError as error:
        problems += error.problems
        if component.factors_from_data:
            return scene
    try:
        scene["factors"] = FactorSpace.from_config(factors).to_config()
    except InputError as error:
        example = "Example: scene.factors.x=32 scene.factors.y=32."
        problems += [
            Problem(f"scene.factors.{key}".rstrip("."), f"scene.factors is invalid: {told} {example}")
            for key, told in error.problems
        ]
    return scene


def group_identity(family: Family, group: dict[str, Any]) -> dict[str, Any]:
    """See `Family.identity`. Settings of a missing plug-in cannot be checked and are returned unchanged."""
    try:
        return family.identity(group)
    except InputError:
        return group


def _check_mapping(given: Any) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"A configuration must be a JSON object with the groups {', '.join(DEFAULTS)}. Got {given!r}.")
    check_nesting(given)


def hash_of(config: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that identify a configuration, given as its identity."""
    scene = {**config["scene"], "factors": list(config["scene"]["factors"].items())}  # the order of factors matters
    canonical = json.dumps({**config, "scene": scene}, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def flat(config: Mapping[str, Any], levels: int = 1) -> dict[str, Any]:
    """Flatten some levels of a nested configuration, into "group.setting" keys. Deeper levels stay nested."""
    found: dict[str, Any] = {}
    for group, content in config.items():
        if isinstance(content, Mapping) and levels:
            found |= {f"{group}.{key}": value for key, value in flat(content, levels - 1).items()}
        else:
            found[group] = content
    return found


def differing(configs: Iterable[Mapping[str, Any]], *, absent_differs: bool = False) -> list[str]:
    """The settings that have more than one value in the given flat configurations, in order of appearance.

    A configuration without a setting is not compared in that setting. With `absent_differs`, it counts as None there.
    """
    configs = list(configs)
    values: dict[str, list[Any]] = {key: [] for config in configs for key in config}
    for config in configs:
        for key, seen in values.items():
            if len(seen) < 2 and (absent_differs or key in config) and (value := config.get(key)) not in seen:
                seen.append(value)
    return [key for key, seen in values.items() if len(seen) > 1]


def override(base: Mapping[str, Any], overrides: Iterable[str]) -> tuple[dict[str, Any], list[Problem]]:
    """Apply "a.b=value" strings to a nested configuration. Also returns the problems of malformed strings.

    A new `kind` drops the old keys of its group, regardless of the order of the strings.
    """
    config: dict[str, Any] = copy.deepcopy({**DEFAULTS, **base})
    problems: list[Problem] = []
    pairs: list[tuple[list[str], Any]] = []
    for text in overrides:
        key, equals, value = text.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            told = f"Expected key=value, for example decoder.width=128. Got {text!r}."
            problems.append(Problem(key.strip(), told))
        else:
            pairs.append((parts, plain_value(value)))
    for parts, value in sorted(pairs, key=lambda pair: pair[0][1:] != ["kind"]):  # kinds first
        node = config
        for part in parts[:-1]:
            child = node.get(part)
            node[part] = child if isinstance(child, dict) else {}
            node = node[part]
        usual = DEFAULTS[parts[0]]["kind"] if parts[0] in GROUPS else None
        if parts[1:] == ["kind"] and node.get("kind", usual) != value:
            keeps = parts[0] == "scene" and "factors" in node and not _finds_factors(value, base)
            kept = {"factors": node["factors"]} if keeps else {}
            config[parts[0]] = {"kind": value, **kept}
        else:
            node[parts[-1]] = value
    return config, problems


def _finds_factors(kind: Any, base: Mapping[str, Any]) -> bool:
    """Whether a kind of scene infers its factors and the base configuration does not give any."""
    component = SCENES.components.get(kind) if isinstance(kind, str) else None
    named = isinstance(base.get("scene"), Mapping) and "factors" in base["scene"]
    return getattr(component, "factors_from_data", False) and not named
