"""Specification of a sweep: turns command-line words or a YAML file into configurations.

    parse(["decoder.depth=2,3,4", "seed=0..7", "encoding.kind=bump,ramp"]).configs       # every combination
    parse([], Path("sweep.yaml")).configs

A file contains one block, or a list of blocks whose runs are combined. The parts of a block, all optional:

    plugins: {mine: 5f0c…}                                      # plug-ins that must be loaded, with hashes; or [mine]
    base:    {training.kind: recommended}                       # settings of all runs
    grid:    {decoder.kind: [mlp, cnn], seed: 0..7}             # every combination
    zip:     {decoder.depth: [2, 3], decoder.width: [64, 32]}   # paired values; use a list for several zips
    list:    [{holdout.kind: centre}, {holdout.kind: corner, holdout.threshold: 20}]    # one entry at a time
    when:    [{if: {decoder.kind: cnn}, set: {decoder.width: 16}, grid: {decoder.depth: [2, 4]}}]
    exclude: [{decoder.kind: mlp, encoding.kind: [bump, ramp]}]

Grid, zips and list multiply. Everything is validated before anything starts, and all errors are reported together with
their positions.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recombine.core import plugins
from recombine.core.errors import InputError, Problem, RecombineError
from recombine.core.memory import ran_out_of_memory
from recombine.runs.config import RunConfig, override
from recombine.sweeps.spec.blocks import Block, Choice, When, axis_of_word, read_blocks
from recombine.sweeps.spec.yaml_nodes import Problems

MOST_RUNS = 100_000
SAMPLED = 1000  # number of combinations that the plan of a larger sweep examines
ROW = 4  # number of neighbouring combinations that are drawn together
CHECK_SECONDS = 2.0  # seconds that a plan may spend on building combinations


@dataclass(frozen=True)
class Sweep:
    """A validated sweep.

    Attributes:
        configs: The runs without duplicates, in the order of the specification.
        merged: Number of duplicates.
        excluded: Number of excluded runs.
        notes: Remarks that are not errors.
        share: Share of all combinations from which the runs were taken; below 1 for a sample.
    """

    configs: list[RunConfig]
    merged: int = 0
    excluded: int = 0
    notes: list[str] = field(default_factory=list)
    share: float = 1.0


def parse(words: Iterable[str] = (), file: Path | None = None, *, check: bool = True, sample: bool = False) -> Sweep:
    """Parse a specification into runs.

    Args:
        words: Words such as "key=value,value,…". The sweep contains every combination of their values. With a file,
            they apply to every block and override its settings of the same keys.
        file: A YAML file.
        check: Also build every task and model once, to check that the parts fit together.
        sample: If there are more than 1000 combinations, examine a random sample of 1000. `notes` reports it.
    """
    words = list(words)
    problems = Problems()
    axes = [axis for axis in (axis_of_word(word, problems) for word in words) if axis]
    on_top = {axis[0][0].key: axis for axis in axes}  # the last word of a key overrides earlier ones
    blocks = [Block()] if file is None else read_blocks(file, problems)
    _require_plugins(blocks)
    for block in blocks:
        block.axes = [
            axis
            for axis in block.axes
            if not all(s.key in on_top for choice in axis for s in choice) or (not axis and not problems.found)
        ]  # an axis without values empties the sweep; if already reported, keep looking for other errors
        block.on_top = list(on_top.values())
    if file is None and not words:
        problems.add("", "The sweep is empty. Give key=value,value words, for example seed=0..7, or a YAML file.")
    combinations = _combinations(blocks, problems)
    total = len(combinations)
    sampled = sample and total > SAMPLED
    made, excluded = _configured_runs(_drawn(combinations) if sampled else combinations, problems)
    notes: list[str] = []
    if not problems.found:  # otherwise the runs that would satisfy a condition may be missing
        for block in (block for block in blocks if all((*block.axes, *block.on_top))):
            for condition in (*(when.condition for when in block.when), *(() if sampled else block.exclude)):
                condition.complain(problems, notes)
    given = [axis[0][0].key for axis in axes]
    notes += [f"{key} was given several times. The last value is used." for key in on_top if given.count(key) > 1]
    configs: dict[RunConfig, Choice] = {}
    for config, settings in made:
        configs.setdefault(config, settings)
    merged = len(made) - len(configs)
    if not configs and not problems.found:
        why = f"all {excluded} runs are excluded" if excluded else "it has no runs"
        problems.add("", f"The sweep is empty: {why}. Give every key at least one value.")
    if check:
        checked, kinds = _check_fit(configs, problems, CHECK_SECONDS if sampled else math.inf)
        if checked < kinds:
            notes.append(f"{checked} of {kinds} settings were built to check that their parts fit together.")
    problems.raise_if_any()
    if merged:
        notes.insert(0, f"{merged} of {len(made)} runs were given more than once. Each is trained once.")
    if sampled:
        notes.insert(
            0, f"{SAMPLED} of {total} combinations were chosen at random and examined, so the totals are estimates."
        )
    return Sweep(list(configs), merged, excluded, notes, SAMPLED / total if sampled else 1.0)


def _require_plugins(blocks: Sequence[Block]) -> None:
    """Raise if a plug-in that the file names is not loaded or has changed. Files never load plug-ins."""
    needed: dict[str, str] = {}
    for block in blocks:
        needed |= block.plugins
    plugins.require(needed, "The sweep")


def _combinations(blocks: Sequence[Block], problems: Problems) -> list[tuple[Block, Choice]]:
    """The settings of all runs in the order of the specification, each with its block; empty if there are too many.

    Runs are counted before they are configured, because conditional entries can multiply their number.
    """
    made: list[tuple[Block, Choice]] = []
    for block in blocks:
        count = len(made) + math.prod(len(axis) for axis in (*block.axes, *block.on_top))
        if count <= MOST_RUNS:
            made += ((block, settings) for settings in itertools.islice(_of_block(block), MOST_RUNS + 1 - len(made)))
            count = len(made)
        if count > MOST_RUNS:
            told = "A sweep may have at most {} runs, including the excluded ones. Got at least {}."
            problems.add("", told.format(MOST_RUNS, count))
            return []
    return made


def _of_block(block: Block) -> Iterator[Choice]:
    for chosen in itertools.product(*block.axes, *block.on_top):
        on_top = chosen[len(block.axes) :]
        for settings in _with_conditions(_merged(block.base, *chosen), block.when):
            yield _merged(settings, *on_top)


def _drawn(combinations: Sequence[tuple[Block, Choice]]) -> list[tuple[Block, Choice]]:
    """A fixed random sample. Neighbours are drawn together, because they are often seeds that train together."""
    rows = random.Random(0).sample(range(math.ceil(len(combinations) / ROW)), math.ceil(SAMPLED / ROW))
    return [one for row in sorted(rows) for one in combinations[ROW * row : ROW * (row + 1)]]


def _configured_runs(
    combinations: Iterable[tuple[Block, Choice]], problems: Problems
) -> tuple[list[tuple[RunConfig, Choice]], int]:
    """The runs with their settings, and the number of excluded runs."""
    made: list[tuple[RunConfig, Choice]] = []
    excluded = 0
    for block, settings in combinations:
        config = _configured(settings, problems)
        if config is None:
            continue
        fitting = [condition.fits(config.to_dict()) for condition in block.exclude]  # all, to record their matches
        if any(fitting):
            excluded += 1
        else:
            made.append((config, settings))
    return made, excluded


def _with_conditions(settings: Choice, when: Sequence[When]) -> Iterator[Choice]:
    """Apply conditional entries in order. An entry with a grid turns one run into several."""
    if not when:
        yield settings
        return
    first, rest = when[0], when[1:]
    nested, _ = override({}, [setting.word for setting in settings])
    if not first.condition.fits(nested):
        yield from _with_conditions(settings, rest)
        return
    for chosen in itertools.product(*first.axes):
        yield from _with_conditions(_merged(settings, first.always, *chosen), rest)


def _merged(*choices: Choice) -> Choice:
    """Merge settings. Later values of a key override earlier ones."""
    return tuple({setting.key: setting for choice in choices for setting in choice}.values())


def _configured(settings: Choice, problems: Problems) -> RunConfig | None:
    try:
        return RunConfig.parse([setting.word for setting in settings])
    except InputError as error:
        for problem in error.problems:
            problems.add(_place(problem, settings), problem.message)
    return None


def _place(problem: Problem, settings: Choice) -> str:
    """The position of a problem: that of its key, else of the first setting of its group, else of all settings."""
    named = [s for s in settings if problem.key == s.key or problem.key.startswith(f"{s.key}.")]
    grouped = [s for s in settings if problem.key and s.key.split(".")[0] == problem.key.split(".")[0]]
    found = [*named, *grouped]
    return found[0].place if found else ", ".join(f"{s.key}={s.value}" for s in settings)


def _check_fit(configs: Mapping[RunConfig, Choice], problems: Problems, seconds: float) -> tuple[int, int]:
    """Build the task and model of every setting once, or of as many as `seconds` allow.

    Returns:
        The number of settings that were built, and the number of all settings.
    """
    kinds = {c.seedless_hash: (c, s) for c, s in reversed([*configs.items()])}
    ends = time.monotonic() + seconds
    checked = 0
    misfits: dict[str, list[Choice]] = {}  # what does not fit → the settings concerned
    for config, settings in kinds.values():
        if time.monotonic() > ends:
            break
        checked += 1
        try:
            config.check()
        except RecombineError as error:
            misfits.setdefault(str(error), []).append(settings)
        except (MemoryError, RuntimeError) as error:
            if not ran_out_of_memory(error):
                raise
            misfits.setdefault(f"it does not fit into memory ({error})", []).append(settings)
    for told, (first, *others) in misfits.items():
        more = f" (and {len(others)} other settings)" if others else ""
        problems.add(", ".join(f"{s.key}={s.value}" for s in first if s.key != "seed") + more, told)
    return checked, len(kinds)
