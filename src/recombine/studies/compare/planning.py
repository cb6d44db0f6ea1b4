"""Turns a suite into configurations: widths that meet the parameter budget, trials, and what is left out and why."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

from recombine.core.errors import InputError, NotComputable
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import HOLDOUTS, Holdout
from recombine.core.scenes import SCENES, Scene
from recombine.core.task import Shapes
from recombine.models.decoders import DECODERS
from recombine.runs.config import RunConfig
from recombine.studies.compare.remedy import REMEDIES, Remedy
from recombine.studies.compare.slots import slots_of
from recombine.studies.compare.splits import SPLITS
from recombine.studies.compare.suite import Budget, Suite
from recombine.training.recipes import RECIPES

WIDEST = 4096
MOST_DEEPER = 3  # layers that a decoder gets in addition for large images
INNER_SEED = 1  # seed of the inner hold-out of trials
RELEASED_SEED = 2  # seed of the held-out cells that a remedy also trains on


class Status(StrEnum):
    """The outcome of a remedy on a scene and a split."""

    DONE = "done"
    LEFT_OUT = "left out"
    FAILED = "failed"


@dataclass(frozen=True)
class Entry:
    """A remedy on a scene and a split.

    Attributes:
        remedy, scene, split: Names.
        trials: One configuration per trial, with the outer and an inner hold-out.
        status: Why it is not used: its requirements are not met, or its code raised. None if it is used.
        reason: The explanation; empty if it is used.
        parameters: Number of parameters of its decoder.
        memory: Megabytes of a training step, see `step_memory`.
    """

    remedy: Remedy
    scene: str
    split: str
    trials: tuple[RunConfig, ...] = ()
    status: Status | None = None
    reason: str = ""
    parameters: int = 0
    memory: float = 0.0
    base: Mapping[str, Any] | None = None

    def final(self, trial: int, seed: int) -> RunConfig:
        """The reported run: the trial's settings with all steps, and only the outer cells held out."""
        assert self.base is not None
        return RunConfig.from_dict({**merged(self.base, self.remedy.trials[trial]), "seed": seed})


def entries(suite: Suite) -> list[Entry]:
    """Every remedy on every scene and split, validated but not trained."""
    return [
        _entry(REMEDIES[remedy], scene, split, suite)
        for scene in suite.scenes
        for split in suite.splits
        for remedy in suite.remedies
    ]


def _entry(remedy: Remedy, scene: str, split: str, suite: Suite) -> Entry:
    try:
        given = suite.scenes[scene]
        made = built_scene(given)
        holdout = _held_out(remedy, SPLITS[split](made))
        decoder = sized(remedy, made, suite.budget)
        base = _base(remedy, given, holdout, decoder, suite.budget)
        inner = {
            "kind": "any_of",
            "parts": [holdout, {"kind": "random", "fraction": suite.budget.inner, "seed": INNER_SEED}],
        }
        trial = {**base, "holdout": inner, "training": {**base["training"], "allow_unseen": True}}
        trial["training"] |= {"steps": round(remedy.steps * suite.budget.trial_steps)}
        trial = merged(trial, remedy.trial)
        trials = tuple(RunConfig.from_dict(merged(trial, settings)) for settings in remedy.trials)
        parameters = count_parameters(decoder, shapes_of(made))
        memory = step_memory(decoder, shapes_of(made), suite.budget.batch)
        entry = Entry(remedy, scene, split, trials, parameters=parameters, memory=memory, base=base)
        entry.final(0, 0).check()
        return entry
    except (InputError, NotComputable) as error:
        wrong = misconfigured(remedy) if REMEDIES.is_foreign(remedy) else None
        status = Status.LEFT_OUT if wrong is None else Status.FAILED
        return Entry(remedy, scene, split, status=status, reason=wrong or str(error))
    except (Exception, SystemExit) as error:
        if not REMEDIES.is_foreign(remedy):
            raise
        told = f"{type(error).__name__}: {error}"
        return Entry(remedy, scene, split, status=Status.FAILED, reason=told)


def misconfigured(remedy: Remedy) -> str | None:
    """What is wrong with the settings of a remedy on any scene, such as an unknown name. None if nothing is."""
    size = {} if remedy.width is None else {remedy.width: remedy.multiple}
    recipe = {"kind": "recommended", **remedy.training}
    try:
        for trial in (*remedy.trials, *(merged(remedy.trial, one) for one in remedy.trials)):
            DECODERS.validate(merged({**remedy.decoder, **size}, trial.get("decoder", {})), prefix="decoder.")
            RECIPES.validate(merged(recipe, trial.get("training", {})), prefix="training.")
    except InputError as error:
        return str(error)
    except Exception as error:  # in a validator of the plug-in
        return f"{type(error).__name__}: {error}"
    return None


def _held_out(remedy: Remedy, split: Mapping[str, Any]) -> Mapping[str, Any]:
    """The cells that a remedy never trains on."""
    if not remedy.released:
        return split
    kept = {"kind": "random", "fraction": 1 - remedy.released, "seed": RELEASED_SEED}
    return {"kind": "all_of", "parts": [dict(split), kept]}


def _base(
    remedy: Remedy, scene: Mapping[str, Any], holdout: Mapping[str, Any], decoder: Mapping[str, Any], budget: Budget
) -> dict[str, Any]:
    steps = round(remedy.steps * budget.steps)
    training = {"kind": "recommended", "steps": steps, "batch": budget.batch, "evaluate_every": max(1, steps // 4)}
    return {
        "scene": dict(scene),
        "encoding": {"kind": "onehot"},
        "holdout": dict(holdout),
        "decoder": dict(decoder),
        "training": merged(training, remedy.training),
        "seed": 0,
    }


def built_scene(given: Mapping[str, Any]) -> Scene:
    """Build the scene of a configuration that includes factors."""
    config = {key: value for key, value in given.items() if key != "factors"}
    return SCENES.build(config, FactorSpace.from_config(given["factors"]))


def shapes_of(scene: Scene) -> Shapes:
    """The sizes of code, output and grid of a scene with one unit per factor value."""
    return Shapes(sum(scene.space.shape), scene.output_shape, scene.space.shape)


def sized(remedy: Remedy, scene: Scene, budget: Budget) -> dict[str, Any]:
    """The remedy's decoder with the width that comes closest to the budget.

    Raises:
        InputError: If no width meets the budget within the tolerance.
    """
    goal, shapes = remedy.parameters * budget.parameters, shapes_of(scene)
    decoder = _deep_enough({**remedy.decoder, **_told(remedy, scene)}, shapes)
    if remedy.width is None:
        return decoder

    def parameters(units: int) -> int:
        return count_parameters({**decoder, str(remedy.width): units * remedy.multiple}, shapes)

    low, high = 1, 2
    while parameters(high) <= goal and high * remedy.multiple < WIDEST:
        low, high = high, 2 * high
    while high - low > 1:  # parameters(low) ≤ goal < parameters(high)
        middle = (low + high) // 2
        low, high = (middle, high) if parameters(middle) <= goal else (low, middle)
    best = min((low, high), key=lambda units: abs(parameters(units) - goal))
    if abs(parameters(best) - goal) > budget.tolerance * goal:
        raise InputError(
            f"No {remedy.width} gives {remedy.name!r} within {budget.tolerance:.0%} of {goal:g} parameters. The "
            f"closest, {best * remedy.multiple}, has {parameters(best)}.",
            "parameters",
        )
    return {**decoder, remedy.width: best * remedy.multiple}


def _deep_enough(decoder: dict[str, Any], shapes: Shapes) -> dict[str, Any]:
    """The decoder with the smallest depth that can draw the image, if it has a depth and its own does not suffice."""
    if "depth" not in decoder:
        return decoder
    for depth in range(decoder["depth"], decoder["depth"] + MOST_DEEPER + 1):
        try:
            count_parameters({**decoder, "depth": depth}, shapes)
        except InputError:
            continue
        return {**decoder, "depth": depth}
    return decoder  # the error is raised where the decoder is built


def _told(remedy: Remedy, scene: Scene) -> dict[str, Any]:
    """The decoder settings that describe the scene's objects to a remedy."""
    slots = slots_of(scene)
    if slots is None:
        return {}
    return {**({"slots": slots} if remedy.slotted else {}), **({"terms": len(slots)} if remedy.counted else {})}


def count_parameters(decoder: Mapping[str, Any], shapes: Shapes) -> int:
    """The number of parameters of a decoder. The random state is left unchanged."""
    return _counted(json.dumps(decoder, sort_keys=True), shapes)


@functools.cache
def _counted(decoder: str, shapes: Shapes) -> int:
    with torch.random.fork_rng(devices=[]):
        return sum(parameter.numel() for parameter in DECODERS.build(json.loads(decoder), shapes).parameters())


def step_memory(decoder: Mapping[str, Any], shapes: Shapes, batch: int) -> float:
    """Megabytes of a training step in single precision, without temporary tensors and loss terms.

    The sum of weights, gradients, two moments of the optimizer, and everything that the forward pass keeps for the
    backward pass.
    """
    return _step_memory(json.dumps(decoder, sort_keys=True), shapes, batch)


@functools.cache
def _step_memory(decoder: str, shapes: Shapes, batch: int) -> float:
    with torch.random.fork_rng(devices=[]):
        model = DECODERS.build(json.loads(decoder), shapes)
    weights = {parameter.data_ptr(): parameter.numel() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    codes = torch.zeros(batch, shapes.code_size)
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = model(codes)  # must stay alive, or addresses would be used twice
    activations = sum(size for place, size in kept.items() if place not in weights)
    assert outputs.shape[0] == batch
    return (4 * 4 * sum(weights.values()) + activations) / 1e6


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested settings; later ones override earlier ones."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def facts_of(holdout: Holdout, scene: Scene) -> dict[str, Any]:
    """Held-out share, coverage per value, covered order and pixel coverage of a hold-out.

    The coverage per value is the smallest share of the existing combinations of a single value that are trained on.
    """
    holdout = holdout if scene.available is None else holdout.within(scene.available)
    trained, there = holdout.id_mask, holdout.id_mask | holdout.ood_mask
    shares = []
    for axis in range(trained.ndim):
        others = tuple(other for other in range(trained.ndim) if other != axis)
        counted = there.sum(axis=others)
        shares.append((trained.sum(axis=others)[counted > 0] / counted[counted > 0]).min())
    return {
        "held_out": holdout.n_ood / (holdout.n_ood + holdout.n_id),
        "value_coverage": float(min(shares)),
        "covered_order": holdout.covered_order(),
        "pixel_coverage": holdout.pixel_coverage(scene),
    }


def split_facts(suite: Suite) -> dict[tuple[str, str], dict[str, Any]]:
    """The facts of every scene and split; empty if the split does not fit."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name, given in suite.scenes.items():
        scene = built_scene(given)
        for split in suite.splits:
            try:
                found[name, split] = facts_of(HOLDOUTS.build(SPLITS[split](scene), scene.space), scene)
            except InputError:
                found[name, split] = {}
    return found
