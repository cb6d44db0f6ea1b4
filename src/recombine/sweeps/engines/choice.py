"""Choosing an executor by name."""

from __future__ import annotations

from pathlib import Path

from recombine.core.errors import InputError
from recombine.core.registry import nearest
from recombine.sweeps.engines.engine import Executor, Needs
from recombine.sweeps.engines.in_process import InProcess
from recombine.sweeps.engines.processes import Processes
from recombine.sweeps.journal import LOGS

ENGINES = ("in-process", "processes", "ray")


def check_engine(engine: str, workers: int | None = None, address: str | None = None, shared: bool = False) -> None:
    """Refuse what no executor can be made of, without starting anything."""
    if engine not in ENGINES:
        raise InputError(f"There is no engine {engine!r}{nearest(engine, ENGINES)}. Engines: {', '.join(ENGINES)}.")
    if workers is not None and workers < 1:
        raise InputError(f"At least one job must be allowed to run. Got {workers}.")
    if engine != "ray" and (address is not None or shared):
        raise InputError(f"An address and a shared folder are for --engine ray. Got the engine {engine!r}.")


def make_executor(
    engine: str,
    workers: int | None,
    needs: Needs,
    folder: Path,
    address: str | None,
    shared: bool,
    time_limit: float | None,
) -> Executor:
    """See `recombine.sweeps.run`."""
    check_engine(engine, workers, address, shared)
    if engine == "in-process":
        return InProcess(time_limit)
    if engine == "processes":
        return Processes(workers, needs, log=folder / LOGS)
    from recombine.sweeps.engines.ray_engine import RayCluster

    return RayCluster(workers, needs, address, shared)
