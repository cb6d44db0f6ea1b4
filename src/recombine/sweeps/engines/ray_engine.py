"""Runs jobs on a Ray cluster: one actor per concurrent job. An actor runs many jobs in turn.

Jobs and results are sent as plain bytes (see `wire`). A Ray cluster executes any code that its clients send, so
untrusted machines must not be able to reach it. Without an address, a cluster is started on this machine, bound to the
loopback interface.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recombine.core.errors import InputError, RecombineError
from recombine.sweeps.engines.engine import ENGINES, Cluster, Event, Job, Lost, Needs, attempt
from recombine.sweeps.engines.wire import decode_event, decode_job, encode_event, encode_job

LOOPBACK = "127.0.0.1"
CONNECTING = 6.0  # seconds after which a cluster counts as unreachable
LOOK_AGAIN = 2.0  # seconds between checks of the cluster's size
MOST_FAILED_STARTS = 20  # consecutive failed starts of workers before the sweep gives up
HOW_TO_START = (
    "Start one with `ray start --head --port=6379` on one machine and `ray start --address=THAT_MACHINE:6379` on the "
    "others, including this one (docs/clusters.md), or omit --address to use this machine alone."
)


class ClusterLost(RecombineError):
    """The cluster can no longer be used."""


class RemoteWorker:
    """The actor that runs on the machines of the cluster."""

    def hello(self) -> str:
        """The versions on this machine, and its name."""
        import torch

        import recombine

        torch.set_num_threads(1)
        facts = {"recombine": recombine.__version__, "torch": torch.__version__, "host": socket.gethostname()}
        return json.dumps({**facts, "pid": os.getpid()})

    def work(self, job: bytes) -> bytes:
        """Run an encoded job and return the encoded event."""
        return encode_event(attempt(decode_job(job)))


@dataclass
class _Actor:
    handle: Any
    pending: Any  # reference to its latest call
    ready: bool = False
    job: str | None = None
    since: float = 0.0  # when it received its job


class RayCluster:
    """Actors on a Ray cluster, as many as fit. Actors are added when the cluster grows and replaced when they are lost.

    Args:
        workers: Maximum number of jobs at a time; by default as many as fit.
        needs: Resources of each job.
        address: "auto", "HOST:PORT" or "ray://HOST:PORT". None or "local" starts a cluster on this machine.
        shared: Whether all machines see the store under the same path.
    """

    def __init__(
        self, workers: int | None = None, needs: Needs | None = None, address: str | None = None, shared: bool = False
    ) -> None:
        self.shares_files, self.same_process = shared, False
        self.limit, self.needs = workers, needs or Needs()
        self.ray, self.ours = connect(address)
        options: dict[str, Any] = {"num_cpus": self.needs.cpus, "num_gpus": self.needs.gpus, "max_restarts": 0}
        if self.needs.memory:
            options["memory"] = self.needs.memory
        self.remote = self.ray.remote(**options)(RemoteWorker)
        self.actors: list[_Actor] = []
        self.told: list[Event] = []
        self.failed_starts = 0
        self._checked_at = -LOOK_AGAIN
        self._add_actors()

    def capacity(self) -> int:
        self._add_actors()
        return sum(actor.ready for actor in self.actors)

    def _add_actors(self) -> None:
        """Keep as many actors as fit on the cluster. Actors that do not fit wait in Ray's queue."""
        if time.monotonic() - self._checked_at < LOOK_AGAIN:
            return
        self._checked_at = time.monotonic()
        fitting = sum(_fitting(node, self.needs) for node in self.ray.nodes() if node["Alive"])
        wanted = min(fitting, self.limit) if self.limit is not None else fitting
        while len(self.actors) < wanted:
            handle = self.remote.remote()
            self.actors.append(_Actor(handle, handle.hello.remote()))

    def submit(self, job: Job) -> None:
        actor = next(a for a in self.actors if a.ready and a.job is None)
        actor.job, actor.since = job.id, time.monotonic()
        actor.pending = actor.handle.work.remote(encode_job(job))

    def poll(self, timeout: float) -> Sequence[Event]:
        told, self.told = self.told, []
        asked = {actor.pending: actor for actor in self.actors if actor.pending is not None}
        if not asked:
            time.sleep(0 if told else timeout)
            return told
        self.ray.wait(list(asked), num_returns=1, timeout=0 if told else timeout)
        done, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=0)
        for reference in done:
            event = self._answer(asked[reference], reference)
            told += [] if event is None else [event]
        return told

    def _answer(self, actor: _Actor, reference: Any) -> Event | None:
        job, actor.job, actor.pending = actor.job, None, None
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self._remove(actor)
            if job is not None:
                return Lost(job, f"its worker or machine was lost ({_short(error)})")
            self.failed_starts += 1
            if self.failed_starts >= MOST_FAILED_STARTS:
                raise ClusterLost(
                    f"{self.failed_starts} workers in a row failed to start on the Ray cluster. Check that recombine "
                    f"is installed on all its machines. The last error was: {_short(error)}"
                ) from error
            return None
        if job is not None:
            return decode_event(bytes(answer))
        self.failed_starts = 0
        actor.ready = True
        _check_version(json.loads(answer))
        return None

    def _remove(self, actor: _Actor) -> None:
        if actor in self.actors:
            self.actors.remove(actor)
        self._checked_at = -LOOK_AGAIN
        with contextlib.suppress(Exception):
            self.ray.kill(actor.handle)

    def seconds(self, job: str) -> float:
        return next((time.monotonic() - actor.since for actor in self.actors if actor.job == job), 0.0)

    def cancel(self, job: str) -> None:
        for actor in [a for a in self.actors if a.job == job]:
            self._remove(actor)

    def interrupt(self) -> None:
        """Remote training jobs cannot be asked to save their state, so they are stopped."""
        self.told += [Lost(actor.job, "the sweep was stopped") for actor in self.actors if actor.job is not None]
        for actor in list(self.actors):
            self._remove(actor)

    def close(self) -> None:
        for actor in list(self.actors):
            self._remove(actor)
        if self.ours:
            self.ray.shutdown()


def _fitting(node: Mapping[str, Any], needs: Needs) -> int:
    """Number of jobs that fit on one machine of the cluster."""
    there = node["Resources"]
    wanted = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": needs.memory}
    return min(int(there.get(name, 0) / need + 1e-9) for name, need in wanted.items() if need)


def _check_version(facts: Mapping[str, str]) -> None:
    from recombine.sweeps.manifest import versions

    differing = [
        f"{name} {facts[name]} there and {here} here" for name, here in versions().items() if facts[name] != here
    ]
    if differing:
        raise ClusterLost(
            f"The machine {facts['host']} of the Ray cluster has different versions ({'; '.join(differing)}), so its "
            "results could differ. Install the same versions on all machines."
        )


def _short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def connect(address: str | None) -> tuple[Any, bool]:
    """Connect to Ray. Returns the module `ray` and whether this call opened the connection."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise InputError("The engine 'ray' requires Ray. Install it with: pip install 'recombine[ray]'.") from None
    import ray.exceptions

    if ray.is_initialized():
        return ray, False
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address in (None, "local"):
        _stay_on_loopback(ray)
        ray.init(address="local", include_dashboard=False, _node_ip_address=LOOPBACK, **quiet)
        beyond = [node["NodeManagerAddress"] for node in ray.nodes() if node["NodeManagerAddress"] != LOOPBACK]
        if beyond:
            ray.shutdown()
            raise ClusterLost(
                f"Ray was stopped because it would have listened on {beyond[0]}, which other machines can reach."
            )
        return ray, True
    assert address is not None
    host, port = _answering(address)
    if host in (LOOPBACK, "localhost") and not _answers(ray.util.get_node_ip_address(), port):
        _stay_on_loopback(ray)  # otherwise Ray looks for the cluster at the machine's external address
    error = _within(CONNECTING, lambda: ray.init(address=address, **quiet))
    if error is not None:
        raise InputError(f"There is no Ray cluster at {address!r} ({_short(error)}). {HOW_TO_START}")
    return ray, True


def _stay_on_loopback(ray: Any) -> None:
    """Ray replaces loopback by the machine's external address unless clusters are disabled in its settings."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ray._private.ray_constants.ENABLE_RAY_CLUSTER = False  # in case Ray was already imported and has read the variable


def _answering(address: str) -> tuple[str, int]:
    """Host and port of an address. Checks that a server answers there, except for "auto", which Ray resolves."""
    if address == "auto":
        return "", 0
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise InputError(f"A Ray address must be auto, local or HOST:PORT, for example 10.0.0.1:6379. Got {address!r}.")
    if not _answers(host, int(port)):
        raise InputError(f"Nothing answers at {address!r}. {HOW_TO_START}")
    return host, int(port)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host.strip("[]"), port), timeout=4).close()
    except OSError:
        return False
    return True


def _within(seconds: float, work: Callable[[], object]) -> BaseException | None:
    """Run a function that may hang. Returns the exception it raised, a TimeoutError, or None."""
    raised: list[BaseException | None] = [TimeoutError(f"no answer within {seconds:g} s")]

    def attempt_it() -> None:
        try:
            work()
        except BaseException as error:
            raised[0] = error
        else:
            raised[0] = None

    thread = threading.Thread(target=attempt_it, daemon=True)
    thread.start()
    thread.join(seconds)
    return raised[0]


ENGINES.add("ray", Cluster(lambda options: RayCluster(options.workers, options.needs, options.address, options.shared)))
