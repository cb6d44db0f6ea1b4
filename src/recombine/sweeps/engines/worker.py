"""A worker process, which receives jobs on standard input and sends answers on standard output.

It lives for many jobs, because importing torch takes longer than a small run. It never outlives its driver, because
an orphan that keeps writing would interfere with the next driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import struct
import sys
import threading
from typing import BinaryIO

from recombine.sweeps.engines.engine import Job, Raised, attempt
from recombine.sweeps.engines.wire import decode_job, encode_event

PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
HEADER = struct.Struct(">Q")


def send(pipe: BinaryIO, message: bytes) -> None:
    """Write one message: its length, then its bytes."""
    pipe.write(HEADER.pack(len(message)) + message)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """Read one message. None if the other end is closed."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    message = pipe.read(HEADER.unpack(header)[0])
    return message if len(message) == HEADER.unpack(header)[0] else None


def die_with(parent: int) -> None:
    """Let the system kill this process when the parent dies. Outside Linux, the end of standard input signals it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call above
        os._exit(1)


def _listen(pipe: BinaryIO, jobs: queue.SimpleQueue[Job]) -> None:
    while (message := receive(pipe)) is not None:
        jobs.put(decode_job(message))
    os._exit(0)


def main() -> None:
    """Run jobs from standard input until the driver closes it."""
    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C and passes it on
    # anything that a job prints must not mix with the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, jobs), daemon=True).start()
    send(answers, b"")  # ready
    while True:
        event = attempt(jobs.get())
        if isinstance(event, Raised):
            print(event.traceback, file=sys.stderr, flush=True)
        send(answers, encode_event(event))
