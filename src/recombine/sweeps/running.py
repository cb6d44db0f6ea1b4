"""Runs a sweep from its configurations to the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from recombine.core import plugins
from recombine.diagnostics.part import chosen_parts
from recombine.diagnostics.request import DiagnosisRequest
from recombine.runs.config import RunConfig
from recombine.runs.damage import reopen_damaged
from recombine.runs.store import Store
from recombine.sweeps import manifest
from recombine.sweeps.driver import Driver, SweepResult, checked_limits
from recombine.sweeps.engines.choice import start_engine
from recombine.sweeps.engines.engine import Engine, EngineOptions, Needs
from recombine.sweeps.engines.kept import KeptEngine
from recombine.sweeps.jobs.diagnosing import Diagnosing
from recombine.sweeps.jobs.training import Training, batches
from recombine.sweeps.jobs.work import Options, Work
from recombine.sweeps.journal import LOGS, Journal
from recombine.sweeps.progress import SweepProgress


def run(
    configs: Sequence[RunConfig],
    store: Store | str | Path,
    *,
    diagnose: DiagnosisRequest | Mapping[str, DiagnosisRequest] | None = None,
    engine: str | KeptEngine = "processes",
    workers: int | None = None,
    needs: Needs | None = None,
    address: str | None = None,
    shared: bool = False,
    device: str = "auto",
    retries: int = 2,
    time_limit: float | None = None,
    checkpoint_seconds: float = 60.0,
    any_version: bool = False,
    progress: bool | None = None,
    quiet: bool = False,
) -> SweepResult:
    """Train every configuration that is not finished yet, and optionally diagnose runs, in parallel.

    A failing run does not stop the others.

    Args:
        configs: Configurations to train; duplicates count once.
        store: Store of the runs.
        diagnose: The diagnosis of every finished run, or a mapping from run ids to diagnoses. Results are stored with
            the run; parts that are already stored are not computed again.
        engine: "in-process", "processes", "ray", or the name of a plug-in's engine. A `KeptEngine` keeps running after
            the sweep and has its own `workers`, `needs`, `address` and `shared`.
        workers: Maximum number of jobs at a time; by default as many as fit.
        needs: Resources of a job (CPUs, GPUs, memory); by default one CPU.
        address: Address of a Ray cluster: "auto" or "HOST:PORT". "local" or None starts one on this machine.
        shared: Whether the machines of the Ray cluster see the store under the same path and write runs and checkpoints
            there themselves. Otherwise results are sent back through Ray and written here.
        device: See `Store.train`.
        retries: How often to retry a run whose process or machine was lost.
        time_limit: Seconds after which a job is stopped and counts as failed.
        checkpoint_seconds: See `Store.train`.
        any_version: Allow adding to a folder with runs of other versions.
        progress: Show bars; by default only on a terminal.
        quiet: Print nothing, not even failures.

    Raises:
        TrainingInterrupted: On Ctrl-C or SIGTERM, after running jobs have saved their state.
    """
    store = store if isinstance(store, Store) else Store(store)
    checked_limits(retries, time_limit, checkpoint_seconds)
    unique = list(dict.fromkeys(configs))
    requests = _requests(unique, diagnose)
    manifest.check_versions(store, unique, any_version)
    name, started = _started(
        engine, EngineOptions(workers, needs or Needs(), store.root / LOGS, address, shared, time_limit)
    )
    try:
        _check_known(started, unique)
        healed = manifest.heal(store.root)
        manifest.record(store, unique)
    except BaseException:
        started.close()
        raise
    journal = Journal(store.root)
    planned = {"planned": len(unique), "diagnoses": len(requests)}
    journal.note("driver", [], engine=name, workers=started.capacity(), **planned)
    bars = SweepProgress(len(unique) + len(requests), progress, quiet)
    if healed:
        bars.say_once(healed)
    for line in reopen_damaged(store, unique):
        bars.say_once(line)
    options: Options = {
        "store": str(store.root.absolute()) if started.shares_files else None,
        "device": device,
        "checkpoint_seconds": checkpoint_seconds,
        "plugins": plugins.shipped(),
    }
    limit = None if started.same_process else time_limit
    driver = Driver(
        store, started, journal, bars, options=options, retries=retries, time_limit=limit, then=_diagnosing(requests)
    )
    result = driver.run([Training(batch) for batch in batches(unique)])
    result.finished = [config.hash for config in unique if store.is_finished(config)]
    result.diagnosed = [run for run in result.finished if run in result.diagnosed]
    return result


def _started(engine: str | KeptEngine, options: EngineOptions) -> tuple[str, Engine]:
    """An engine and its name."""
    return (engine.name, engine) if isinstance(engine, KeptEngine) else (engine, start_engine(engine, options))


def _requests(
    configs: Sequence[RunConfig], diagnose: DiagnosisRequest | Mapping[str, DiagnosisRequest] | None
) -> dict[str, DiagnosisRequest]:
    """Map each run to its request. The parts are validated before the training starts."""
    if diagnose is None:
        return {}
    each = {config.hash: diagnose for config in configs} if isinstance(diagnose, DiagnosisRequest) else dict(diagnose)
    for request in set(each.values()):
        chosen_parts(request)
    return {config.hash: each[config.hash] for config in configs if config.hash in each}


def _diagnosing(requests: Mapping[str, DiagnosisRequest]) -> Callable[[Work, RunConfig], Work | None]:
    """Build a function that returns the requested diagnosis of a trained run, or None if there is none."""

    def then(work: Work, config: RunConfig) -> Work | None:
        wanted = isinstance(work, Training) and config.hash in requests
        return Diagnosing([config], requests[config.hash]) if wanted else None

    return then


def _check_known(engine: Engine, configs: Sequence[RunConfig]) -> None:
    """Raise for kinds that workers cannot know: those registered in this process without a plug-in."""
    if engine.same_process:
        return
    for config in configs:
        plugins.require_shippable(config.plugins)
