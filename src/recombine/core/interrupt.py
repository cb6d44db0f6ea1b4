"""Ctrl-C and SIGTERM stop a run between two steps, so that its state can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    requested = False


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Inside the block, a first signal only sets `requested`; a second Ctrl-C interrupts immediately."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        if interrupt.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        interrupt.requested = True

    try:
        for number in before:
            signal.signal(number, request)
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
