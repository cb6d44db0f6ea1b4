"""The plan of a sweep, for --dry-run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recombine.runs.config import RunConfig
from recombine.runs.estimate import Estimator
from recombine.runs.status import Planned
from recombine.runs.store import Store
from recombine.sweeps import manifest
from recombine.sweeps.engines.choice import workers_for_estimate
from recombine.sweeps.engines.engine import EngineOptions
from recombine.sweeps.jobs.training import batches
from recombine.sweeps.spec.spec import Sweep


@dataclass(frozen=True)
class SweepPlan:
    """The plan of a sweep.

    Attributes:
        configs: All runs.
        stored: Ids of the finished runs.
        jobs: Number of jobs for the other runs.
        workers: Number of jobs that run at a time.
        seconds: Estimated training time, without diagnoses.
        notes: Remarks that are not errors.
        share: Share of the sweep that was examined. Below 1, `configs` and `stored` belong to the sample, and the
            numbers of runs and jobs and the time are estimates for the whole sweep.
    """

    configs: list[RunConfig]
    stored: set[str]
    jobs: int
    workers: int
    seconds: float
    notes: list[str]
    share: float = 1.0

    @property
    def runs(self) -> int:
        """The number of runs of the sweep."""
        return round(len(self.configs) / self.share)

    @property
    def finished(self) -> int:
        """The number of runs that are already stored."""
        return round(len(self.stored) / self.share)

    def rows(self) -> list[dict[str, Any]]:
        """One row per run with its id, whether it is stored, and its configuration."""
        return [
            {
                "run": c.hash,
                "status": Planned.NOTHING if c.hash in self.stored else Planned.TRAIN,
                "config": c.to_dict(),
            }
            for c in self.configs
        ]

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, without the individual runs."""
        return {
            "runs": self.runs,
            "sampled": None if self.share == 1.0 else len(self.configs),
            "stored": self.finished,
            "to_train": self.runs - self.finished,
            "jobs": self.jobs,
            "workers": self.workers,
            "estimated_seconds": round(self.seconds, 3),
            "notes": self.notes,
            "plan": self.rows(),
        }


def plan(spec: Sweep, store: Store, engine: str, options: EngineOptions, *, any_version: bool = False) -> SweepPlan:
    """Plan what `run` would do with these arguments. Writes and starts nothing.

    Clusters are not contacted. Their time is estimated as if the sweep ran on this machine.
    """
    store.check_place()
    manifest.check_versions(store, spec.configs, any_version)
    stored = {config.hash for config in spec.configs if store.row(config).status.finished}
    jobs = batches([config for config in spec.configs if config.hash not in stored])
    workers = workers_for_estimate(engine, options)
    budget = 6.0 if spec.share == 1.0 else 2.0
    seconds = Estimator(store, measure=0.05, budget=budget, threads=1).on_workers(jobs, workers)
    number, seconds = round(len(jobs) / spec.share), seconds / spec.share
    return SweepPlan(spec.configs, stored, number, workers, seconds, spec.notes, spec.share)
