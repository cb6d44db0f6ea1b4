"""Trains and diagnoses the runs of a study with the engine of a sweep.

    runs = Preparation(store, SweepOptions(engine="in-process")).runs_of(study, profile, seeds)

Stored runs and diagnoses are reused unless their files are damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recombine import sweeps
from recombine.diagnostics.request import DiagnosisRequest
from recombine.runs.config import RunConfig
from recombine.runs.damage import MOST_NAMED, reopen_damaged
from recombine.runs.store import Store
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study
from recombine.sweeps.engines.engine import EngineOptions
from recombine.sweeps.engines.kept import KeptEngine
from recombine.sweeps.journal import LOGS

Say = Callable[[str], None]


@dataclass(frozen=True)
class SweepOptions:
    """Where the runs of a reproduction are trained and diagnosed. See `recombine.sweeps.run`."""

    engine: str = "processes"
    address: str | None = None
    device: str = "auto"


@dataclass
class Preparation:
    """Trains and diagnoses runs into a store.

    The workers start with the first sweep and serve all later ones. `close` stops them.

    Attributes:
        store: Store of the runs.
        options: Options of the sweep.
        say: Called with progress messages.
        trained: Number of runs finished so far.
    """

    store: Store
    options: SweepOptions = SweepOptions()
    say: Say = lambda text: None
    trained: int = field(default=0, init=False)
    _engine: KeptEngine | None = field(default=None, init=False)

    def runs_of(self, study: Study, profile: Profile, seeds: Sequence[int]) -> Runs:
        """All runs of a study with the diagnoses it reads, including the runs that its searches request."""
        runs = Runs(self.store)
        asked: set[RunConfig] = set()
        wanted = study.configs(profile, seeds)
        while set(wanted) - asked:
            new = [config for config in dict.fromkeys(wanted) if config not in asked]
            asked |= set(new)
            self.reopen_damaged(new)
            requests = {c.hash: request for c in new if (request := study.request_for(profile, c)) is not None}
            self._sweep(new, requests, runs)
            wanted = all_configs(study, profile, seeds, runs)
        for name, why in runs.failed.items():
            self.say(f"  run {name} failed: {why}")
        return runs

    def reopen_damaged(self, configs: Sequence[RunConfig]) -> None:
        """Mark finished runs with damaged files as unfinished, and drop damaged diagnoses."""
        for line in reopen_damaged(self.store, configs):
            self.say(f"  {line}")
        dropped = {}
        for config in configs:
            if self.store.is_finished(config) and (reason := self.store.load(config.hash).drop_damaged_diagnosis()):
                dropped[config.hash] = reason
        for run, reason in list(dropped.items())[:MOST_NAMED]:
            self.say(f"  The diagnosis of run {run} will be computed again: {reason}")
        if len(dropped) > MOST_NAMED:
            self.say(f"  {len(dropped)} diagnoses in total will be computed again.")

    def _sweep(self, configs: Sequence[RunConfig], requests: dict[str, DiagnosisRequest], runs: Runs) -> None:
        """Train and diagnose what is missing. Failures are recorded in `runs`."""
        missing = [config for config in configs if not self.store.is_finished(config)]
        lacking = [c for c in configs if c not in missing and c.hash in requests and self._lacks(c, requests[c.hash])]
        if not missing and not lacking:
            return
        undiagnosed = len([c for c in missing if c.hash in requests]) + len(lacking)
        diagnoses = f", {undiagnosed} to diagnose" if undiagnosed else ""
        self.say(f"  {len(missing)} of {len(configs)} runs to train{diagnoses}")
        if self._engine is None:
            options = EngineOptions(logs=self.store.root / LOGS, address=self.options.address)
            self._engine = KeptEngine(self.options.engine, options)
        try:
            result = sweeps.run(
                [*missing, *lacking], self.store, diagnose=requests, engine=self._engine, device=self.options.device
            )
        finally:
            self.trained += sum(map(self.store.is_finished, missing))
        runs.failed |= {failure.run: failure.error for failure in result.failed}
        runs.undiagnosed |= {failure.run: failure.error for failure in result.undiagnosed}

    def close(self) -> None:
        """Stop the workers."""
        if self._engine is not None:
            self._engine.stop()
            self._engine = None

    def _lacks(self, config: RunConfig, request: DiagnosisRequest) -> bool:
        return bool(self.store.load(config.hash).lacks(request))


def all_configs(study: Study, profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """The runs that a study declares, and those that it requests given the finished ones."""
    return list(dict.fromkeys([*study.configs(profile, seeds), *study.more(profile, seeds, runs)]))
