"""The plan of a reproduction, for --dry-run: which runs it would train, and about how long that takes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from recombine.core.progress import ProgressBar
from recombine.core.statistics import median
from recombine.runs.config import RunConfig
from recombine.runs.estimate import Estimator, kind_of, total_steps
from recombine.runs.store import Store
from recombine.studies.framework.output import Output
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Study, discover, select
from recombine.sweeps.jobs.training import batches

BUDGET = 20.0  # seconds for measuring steps
Batch = Sequence[RunConfig]


@dataclass(frozen=True)
class Plan:
    """The runs that a study would train.

    Attributes:
        runs: Number of declared runs that no earlier study of the plan has.
        finished: How many of them are finished.
        search: Approximate number of further runs that a search would request.
        seconds: Estimated time of the remaining training in one process.
        seconds_on_workers: The same with all workers of this machine.
        to_train: The declared runs that are not finished.
    """

    study: str
    results: tuple[str, ...]
    runs: int
    finished: int
    search: int
    seconds: float
    seconds_on_workers: float
    to_train: tuple[RunConfig, ...]


def plan(
    words: Iterable[str], profile: Profile, out: Path, seeds: int | None = None, *, workers: int = 1
) -> list[Plan]:
    """Plan a reproduction: the runs that `reproduce` would train and an estimate of the time. Writes nothing."""
    output = Output(out, profile.name)
    seen: set[RunConfig] = set()
    found: list[tuple[Study, list[RunConfig], list[RunConfig], list[RunConfig]]] = []
    for study in select(words, discover()):
        numbers = study.seeds_in(profile, seeds)
        configs = [config for config in dict.fromkeys(study.configs(profile, numbers)) if config not in seen]
        seen |= set(configs)
        missing = [config for config in configs if not output.store.is_finished(config)]
        found.append((study, configs, missing, study.more_expected(profile, numbers) if missing else []))
    costs = Costs(output.store, {study.key: [*batches(missing), *batches(more)] for study, _, missing, more in found})
    plans = []
    for study, configs, missing, more in found:
        each, searched = (costs.seconds(study.key, batches(some)) for some in (missing, more))
        side_by_side = max(sum(each, 0.0) / workers, max(each, default=0.0)) + sum(searched) / workers
        finished, seconds = len(configs) - len(missing), float(sum(each) + sum(searched))
        plans.append(
            Plan(study.key, study.results, len(configs), finished, len(more), seconds, side_by_side, tuple(missing))
        )
    return plans


class Costs:
    """Estimates the time of batches of runs from a few measured steps of as many kinds of runs as the budget allows.

    Studies take turns; each time, the most expensive kind that is not measured yet is measured. Other kinds are assumed
    to cost as much per unit of `work` as measured ones of the same study and decoder, or of the same decoder elsewhere.

    Args:
        store: Store whose runs are used first.
        planned: Maps studies to batches.
        budget: Seconds for measurements.
    """

    def __init__(self, store: Store, planned: Mapping[str, Sequence[Batch]], budget: float = BUDGET) -> None:
        self.estimator = Estimator(store, measure=0.05, threads=1)
        self.known: set[str] = set()
        self.rates: list[tuple[str, str, float]] = []  # study, decoder, seconds per unit of work
        queues = [(study, _heaviest_first(group)) for study, group in planned.items()]
        turns = [
            (study, batch)
            for turn in zip_longest(*(queue for _, queue in queues))
            for (study, _), batch in zip(queues, turn)
            if batch is not None
        ]
        until = time.monotonic() + budget
        with ProgressBar("estimating", len(turns)) as bar:
            for number, (study, batch) in enumerate(turns):
                if time.monotonic() >= until:
                    break
                bar.update(number, study)
                [seconds] = self.estimator.of_batches([batch])
                self.known.add(_kind(batch))
                self.rates.append((study, batch[0].decoder["kind"], seconds / work(batch)))

    def seconds(self, study: str, planned: Sequence[Batch]) -> list[float]:
        """Seconds of every batch."""
        return [
            self.estimator.of_batches([batch])[0] if _kind(batch) in self.known else self._like_others(study, batch)
            for batch in planned
        ]

    def _like_others(self, study: str, batch: Batch) -> float:
        decoder = batch[0].decoder["kind"]
        nearest = [
            [rate for own, kind, rate in self.rates if (own, kind) == (study, decoder)],
            [rate for _, kind, rate in self.rates if kind == decoder],
            [rate for _, _, rate in self.rates],
        ]
        return median(next((rates for rates in nearest if rates), [0.0])) * work(batch)


def _heaviest_first(planned: Sequence[Batch]) -> list[Batch]:
    """One batch of every kind, ordered by the total work of all batches of its kind, largest first."""
    kinds: dict[str, list[Batch]] = {}
    for batch in planned:
        kinds.setdefault(_kind(batch), []).append(batch)
    return [group[0] for group in sorted(kinds.values(), key=lambda group: -sum(map(work, group)))]


def _kind(batch: Batch) -> str:
    return f"{kind_of(batch[0])} × {len(batch)}"


def work(batch: Batch) -> float:
    """Roughly proportional to the arithmetic of training a batch.

    It is steps × examples × depth × width × (width + pixels) for networks of units, and × pixels for networks of
    channels.
    """
    config = batch[0]
    decoder = config.decoder
    pixels = math.prod(f if isinstance(f, int) else f["size"] for f in config.scene["factors"].values())
    depth, width = decoder.get("depth") or 4, decoder.get("width") or 4
    per_example = depth * width * (width + pixels) if decoder["kind"] == "mlp" else depth * width**2 * pixels
    return float(len(batch) * total_steps(config) * config.recipe().batch * per_example)
