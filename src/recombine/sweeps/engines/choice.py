"""Selection of an engine by name."""

from __future__ import annotations

from dataclasses import replace

from recombine.core.errors import InputError
from recombine.sweeps.engines.engine import ENGINES, Cluster, Engine, EngineOptions, Needs


def is_cluster(engine: str) -> bool:
    """Whether an engine runs jobs on other machines."""
    return isinstance(ENGINES[engine], Cluster)


def workers_for_estimate(engine: str, options: EngineOptions) -> int:
    """Number of jobs that run at a time.

    Clusters are not contacted: the maximum number of parallel jobs counts or, without one, this machine's number.
    """
    if is_cluster(engine):
        if options.workers is not None:
            return options.workers
        engine, options = "processes", replace(options, needs=Needs(), address=None, shared=False)
    return start_engine(engine, options).capacity()


def check_engine(engine: str, options: EngineOptions) -> None:
    """Raise `InputError` if the engine does not support the options. Starts nothing."""
    ENGINES[engine]
    if options.workers is not None and options.workers < 1:
        raise InputError(f"The maximum number of parallel jobs must be at least 1. Got {options.workers}.")
    if not is_cluster(engine) and (options.address is not None or options.shared):
        raise InputError(f"An address and a shared folder are only for cluster engines. Got the engine {engine!r}.")


def start_engine(engine: str, options: EngineOptions) -> Engine:
    """Start the engine of this name. `recombine.sweeps.run` lists the built-in names."""
    check_engine(engine, options)
    return ENGINES[engine](options)
