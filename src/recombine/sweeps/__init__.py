"""Many runs: in this process, on processes of this machine or on a Ray cluster, into one store.

    from recombine import RunConfig, Store, sweeps

    configs = sweeps.parse(["decoder.kind=mlp,cnn", "seed=0..7"]).configs
    result = sweeps.run(configs, Store("runs"), engine="processes")
    result.finished, result.failed                 # ids, failures
    sweeps.table(Store("runs")).to_pandas()

Whatever is killed on the way, the same call goes on: nothing finished is lost or done twice, and the table at the end
is the same, byte for byte. See docs/sweeps.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps import manifest
from recombine.sweeps.driver import Driver, Failure, SweepResult, checked_limits
from recombine.sweeps.engines.choice import ENGINES, check_engine, make_executor
from recombine.sweeps.engines.engine import Needs
from recombine.sweeps.jobs import batches
from recombine.sweeps.journal import Journal
from recombine.sweeps.progress import SweepProgress
from recombine.sweeps.spec.spec import Sweep, parse
from recombine.sweeps.status import SweepStatus, status
from recombine.sweeps.table import Table, table

__all__ = [
    "ENGINES", "Failure", "Needs", "Sweep", "SweepResult", "SweepStatus", "Table", "check_engine", "checked_limits",
    "parse", "run", "status", "table",
]  # fmt: skip


def run(
    configs: Sequence[RunConfig],
    store: Store | str | Path,
    *,
    engine: str = "processes",
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
    """Train every configuration that is not finished yet; a failing run does not keep the others from going on.

    Args:
        configs: What to train; duplicates count once.
        store: Where runs are and go.
        engine: "in-process", "processes" or "ray".
        workers: How many jobs at once at most; as many as fit unless given.
        needs: What a job needs (CPUs, GPUs, memory); one CPU unless given.
        address: Of a Ray cluster: "auto", "HOST:PORT"; "local" or None starts one on this machine.
        shared: The Ray cluster's machines see the store under the same path, so that they write runs (and checkpoints)
            there themselves. Otherwise results come back through Ray and are written here.
        device: See `Store.train`.
        retries: How often a run whose process or machine was lost is tried again.
        time_limit: Seconds after which a job is ended and counts as failed.
        checkpoint_seconds: See `Store.train`.
        any_version: Also add to a folder whose runs were made by other versions.
        progress: Show bars; by default only on a terminal.
        quiet: Print nothing, not even failures.

    Raises:
        TrainingInterrupted: On Ctrl-C or SIGTERM, after running trainings have saved their state.
    """
    store = store if isinstance(store, Store) else Store(store)
    checked_limits(retries, time_limit, checkpoint_seconds)
    unique = list(dict.fromkeys(configs))
    planned = batches(unique)
    manifest.check_versions(store, unique, any_version)
    journal = Journal(store.root)
    executor = make_executor(engine, workers, needs or Needs(), store.root, address, shared, time_limit)
    try:
        manifest.record(store, unique)
    except BaseException:
        executor.close()
        raise
    journal.note("driver", [], engine=engine, workers=executor.capacity(), planned=len(unique))
    options = {"device": device, "checkpoint_seconds": checkpoint_seconds}
    bars = SweepProgress(len(unique), progress, quiet)
    for config in unique:
        damage = manifest.unreadable(store, config) if store.is_finished(config) else ""
        if damage:
            bars.say_once(f"Run {config.hash} is damaged and is trained again: {damage}")
            store.reopen(config)
    driver = Driver(
        store,
        executor,
        journal,
        bars,
        options=options,
        retries=retries,
        time_limit=None if engine == "in-process" else time_limit,
    )
    return driver.run(planned)
