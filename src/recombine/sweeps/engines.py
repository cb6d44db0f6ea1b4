"""Choosing an executor by name."""

from __future__ import annotations

from pathlib import Path

from recombine.errors import InputError
from recombine.registry import nearest
from recombine.sweeps.executor import Executor, Needs
from recombine.sweeps.in_process import InProcess
from recombine.sweeps.journal import LOGS
from recombine.sweeps.processes import Processes

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
    from recombine.sweeps.ray_engine import RayCluster

    return RayCluster(workers, needs, address, shared)
