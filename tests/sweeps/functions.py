"""What jobs of the executor tests call; importable by worker processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recombine.sweeps.engines.engine import Output


def echo(payload: Mapping[str, Any]) -> Output:
    print("a job may print what it likes")
    return Output({"got": payload["x"], "pid": os.getpid()}, {"a/b": b"\x00\n" * payload["x"], "c": b""})


def sizes(payload: Mapping[str, Any]) -> Output:
    return Output({name: len(content) for name, content in payload["files"].items()})


def fail(payload: Mapping[str, Any]) -> Output:
    raise ValueError(f"no {payload['x']}")


def hang(payload: Mapping[str, Any]) -> Output:
    Path(payload["mark"]).touch()
    time.sleep(600)
    return Output(None)


def die(payload: Mapping[str, Any]) -> Output:
    """Dies the first time; what is left in a file tells that it was here."""
    mark = Path(payload["mark"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Output("alive")


def surroundings(payload: Mapping[str, Any]) -> Output:
    import torch

    names = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
    time.sleep(payload.get("seconds", 0))
    return Output(
        {**{name: os.environ.get(name) for name in names}, "threads": torch.get_num_threads(), "pid": os.getpid()}
    )


def main_thread(payload: Mapping[str, Any]) -> Output:
    return Output(threading.current_thread() is threading.main_thread())
