"""Encoding of jobs and events as bytes that contain no code: a line of JSON, then the content of the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recombine.sweeps.engines.engine import Answered, Event, Job, Lost, Output, Overdue, Raised

WITHOUT_OUTPUT = {kind.__name__: kind for kind in (Raised, Lost, Overdue)}


def encode_job(job: Job) -> bytes:
    """Encode a job as bytes."""
    head = {"id": job.id, "function": job.function, "payload": dict(job.payload), "title": job.title}
    return _packed(head, job.files)


def decode_job(message: bytes) -> Job:
    """Decode a job that `encode_job` encoded."""
    head, files = _unpacked(message)
    return Job(**head, files=files)


def encode_event(event: Event) -> bytes:
    """Encode an event as bytes."""
    if isinstance(event, Answered):
        return _packed({"event": "Answered", "job": event.job, "data": event.output.data}, event.output.files)
    return _packed({"event": type(event).__name__, **vars(event)}, {})


def decode_event(message: bytes) -> Event:
    """Decode an event that `encode_event` encoded."""
    head, files = _unpacked(message)
    event = head.pop("event")
    if event == "Answered":
        return Answered(head["job"], Output(head["data"], files))
    return WITHOUT_OUTPUT[event](**head)


def _packed(head: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    sizes = {name: len(content) for name, content in files.items()}
    return b"\n".join([json.dumps([head, sizes]).encode(), b"".join(files.values())])


def _unpacked(message: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    line, _, body = message.partition(b"\n")
    head, sizes = json.loads(line)
    files, start = {}, 0
    for name, size in sizes.items():
        files[name] = body[start : start + size]
        start += size
    return head, files
