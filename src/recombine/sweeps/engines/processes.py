"""Runs jobs on long-lived processes of this machine, with one thread each."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from recombine.core.errors import InputError, StoreError
from recombine.core.files import inside, open_log
from recombine.core.limits import check_memory, machine_memory
from recombine.sweeps.engines.engine import ENGINES, Event, Job, Lost, Needs
from recombine.sweeps.engines.wire import decode_event, encode_job
from recombine.sweeps.engines.worker import receive, send

ONE_THREAD: dict[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
WORKER = "from recombine.sweeps.engines.worker import main; main()"
WORKER_BYTES = 300 * 10**6  # memory of a process that has imported torch
ENDINGS = 5.0  # seconds that a worker is given to stop


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    slot: int
    job: str | None = None
    ready: bool = False  # False while the worker still imports torch
    since: float = 0.0  # when it started its job
    cancelled: bool = False


class Processes:
    """Worker processes, started on first use and restarted when they die.

    Args:
        workers: Maximum number of jobs at a time; by default as many as fit.
        needs: Resources of each job. They determine how many jobs fit and which GPUs a worker sees. A job always runs
            with one thread.
        gpus: Names of the GPUs; detected by default.
        log: Folder for the output of workers; discarded by default.
    """

    shares_files = True
    same_process = False

    def __init__(
        self,
        workers: int | None = None,
        needs: Needs | None = None,
        *,
        gpus: Sequence[str] | None = None,
        log: Path | None = None,
    ) -> None:
        needs = needs or Needs()
        places = gpu_places(gpus_here() if gpus is None else gpus, needs.gpus) if needs.gpus else None
        fit = fitting(needs, places)
        self.slots = fit if workers is None else min(workers, fit)
        self.environments: list[dict[str, str]] = [
            ONE_THREAD if places is None else {**ONE_THREAD, "CUDA_VISIBLE_DEVICES": places[slot]}
            for slot in range(self.slots)
        ]
        self.log = log
        self.workers: dict[int, _Worker] = {}
        self.events: queue.SimpleQueue[tuple[_Worker, bytes | None]] = queue.SimpleQueue()

    def capacity(self) -> int:
        return self.slots

    def submit(self, job: Job) -> None:
        idle = next((w for w in self.workers.values() if w.job is None), None)
        worker = idle or self._start(min(set(range(self.slots)) - set(self.workers)))
        worker.job, worker.since = job.id, time.monotonic()
        with contextlib.suppress(OSError):  # the worker just died; its reader reports it
            send(cast("BinaryIO", worker.process.stdin), encode_job(job))

    def _start(self, slot: int) -> _Worker:
        output = self._log_file(slot)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", WORKER, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, "PYTHONPATH": _search_path(), **self.environments[slot]},
                start_new_session=True,  # so that only the driver receives Ctrl-C and passes it on
            )
        finally:
            if output != subprocess.DEVNULL:
                os.close(output)
        worker = self.workers[slot] = _Worker(process, slot)
        threading.Thread(target=self._read, args=(worker,), daemon=True).start()
        return worker

    def _log_file(self, slot: int) -> int:
        """The log file of a worker. If the disk is full, the log is discarded and the sweep continues."""
        if self.log is not None:
            with contextlib.suppress(OSError, StoreError):
                inside(self.log.parent, self.log.name).mkdir(parents=True, exist_ok=True)
                return open_log(self.log / f"worker-{slot}.log")
        return subprocess.DEVNULL

    def _read(self, worker: _Worker) -> None:
        pipe = cast("BinaryIO", worker.process.stdout)
        message: bytes | None = b""
        while message is not None:
            message = None  # this process may have closed the pipe
            with contextlib.suppress(OSError, ValueError):
                message = receive(pipe)
            self.events.put((worker, message))

    def poll(self, timeout: float) -> Sequence[Event]:
        found: list[Event] = []
        with contextlib.suppress(queue.Empty):
            while True:
                worker, message = self.events.get(timeout=0 if found else timeout)
                if message == b"":
                    worker.ready = True
                    worker.since = time.monotonic()
                    continue
                job, worker.job = worker.job, None
                if message is not None:
                    found.append(decode_event(message))
                    continue
                code = self._remove(worker)
                if job is not None and not worker.cancelled:
                    found.append(Lost(job, f"its process {worker.process.pid} {_ended(code)}"))
        return found

    def _remove(self, worker: _Worker) -> int:
        """Wait for a worker to stop, remove it, and return its exit code."""
        if self.workers.get(worker.slot) is worker:
            del self.workers[worker.slot]
        try:
            code = worker.process.wait(ENDINGS)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            code = worker.process.wait()
        for pipe in (worker.process.stdin, worker.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return code

    def seconds(self, job: str) -> float:
        return next((time.monotonic() - w.since for w in self.workers.values() if w.job == job and w.ready), 0.0)

    def cancel(self, job: str) -> None:
        for worker in [w for w in self.workers.values() if w.job == job]:
            worker.cancelled = True
            worker.process.kill()
            self._remove(worker)

    def interrupt(self) -> None:
        """Ask all workers to stop. A worker that is training saves its state and answers first."""
        for worker in self.workers.values():
            worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        for worker in list(self.workers.values()):
            worker.cancelled = True
            worker.process.kill()
            self._remove(worker)


def _search_path() -> str:
    """The module search path of this process, for the workers. An empty entry means the current folder."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


def _ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def gpus_here() -> list[str]:
    """Names of the GPUs that this process may use, as in CUDA_VISIBLE_DEVICES."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    import torch

    return [str(i) for i in range(torch.cuda.device_count())]


def gpu_places(gpus: Sequence[str], need: float | int) -> list[str]:
    """The GPUs visible to each worker, one entry per worker that fits. Fractions are distributed over all GPUs."""
    if need > 1:
        size = int(need)
        return [",".join(gpus[i : i + size]) for i in range(0, len(gpus) - size + 1, size)]
    return list(gpus) * int(1 / need + 1e-9)


def fitting(needs: Needs, places: Sequence[str] | None) -> int:
    """Number of workers that fit on this machine. Raises `InputError` if none fits."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = machine_memory()
    if places is not None and not places:
        raise InputError(f"A job needs {needs.gpus:g} GPUs, but this machine has fewer. Omit --gpus.")
    if needs.cpus > cores:
        raise InputError(f"A job needs {needs.cpus:g} CPUs, but this machine has {cores}. Request fewer.")
    if memory:
        check_memory(needs.memory, "A job")
    fits = [int(cores / needs.cpus + 1e-9)]
    if memory:
        fits.append(max(1, memory // max(needs.memory, WORKER_BYTES)))
    return min(fits if places is None else [*fits, len(places)])


ENGINES.add("processes", lambda options: Processes(options.workers, options.needs, log=options.logs))
