"""Selection of an engine by name."""

from __future__ import annotations

from recombine.core.errors import InputError
from recombine.sweeps.engines.engine import ENGINES, Engine, EngineOptions

LOCAL = ("in-process", "processes")  # engines of this machine, which need no address


def check_engine(engine: str, options: EngineOptions) -> None:
    """Raise for options that no engine can be started with. Starts nothing."""
    ENGINES[engine]
    if options.workers is not None and options.workers < 1:
        raise InputError(f"The maximum number of parallel jobs must be at least 1. Got {options.workers}.")
    if engine in LOCAL and (options.address is not None or options.shared):
        raise InputError(f"An address and a shared folder are only for cluster engines. Got the engine {engine!r}.")


def start_engine(engine: str, options: EngineOptions) -> Engine:
    """See `recombine.sweeps.run`."""
    check_engine(engine, options)
    return ENGINES[engine](options)
