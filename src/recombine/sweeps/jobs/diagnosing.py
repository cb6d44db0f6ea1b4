"""Jobs that diagnose finished runs and store the results with them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from recombine.core.errors import LockHeld, LockLost, RecombineError, StoreError
from recombine.core.lock import Lock
from recombine.diagnostics.request import DiagnosisRequest
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.runs.transfer import FOLDER, add_diagnosis, diagnosis_files
from recombine.sweeps.engines.engine import Job, Output
from recombine.sweeps.failures import Cause, because, reason_of
from recombine.sweeps.jobs.work import DIAGNOSE, Answer, Options, Work, as_worker


class Diagnosing(Work):
    """Diagnoses one run.

    Args:
        configs: The run.
        request: The diagnosis to compute. Parts that are already stored with the run are not computed again.
    """

    name: ClassVar[str] = DIAGNOSE

    def __init__(self, configs: Sequence[RunConfig], request: DiagnosisRequest) -> None:
        super().__init__(configs)
        self.request = request

    def of(self, configs: Sequence[RunConfig]) -> Diagnosing:
        return Diagnosing(configs, self.request)

    def is_done(self, store: Store, config: RunConfig) -> bool:
        return is_diagnosed(store, config, self.request)

    def job(self, options: Options, store: Store) -> Job:
        [config] = self.configs
        payload = {"config": config.to_dict(), "request": self.request.to_json(), **options}
        files: dict[str, bytes] = {}
        if options["store"] is None:
            files = {**store.files(config), **diagnosis_files(store.load(config.hash))}
        return Job(self.id, f"{__name__}:diagnose", payload, self.title, files)

    def keep(self, store: Store, config: RunConfig, files: Mapping[str, bytes], lock: Lock) -> None:
        add_diagnosis(store.load(config.hash), files, lock)


def is_diagnosed(store: Store, config: RunConfig, request: DiagnosisRequest) -> bool:
    """Whether every part of the request is stored. A run that cannot be read counts as undiagnosed."""
    try:
        return not store.load(config.hash).lacks(request)
    except StoreError:
        return False


def diagnose(payload: Mapping[str, Any]) -> Output:
    """The worker's function. Without a store, it receives the run's files and returns those of the diagnosis."""
    options: Options = payload  # type: ignore[assignment]
    with as_worker(options):
        config = RunConfig.from_dict(payload["config"])
        request = DiagnosisRequest.from_json(payload["request"])
        if options["store"] is not None:
            return Output(_diagnose(Store(options["store"]), config, request))
        with tempfile.TemporaryDirectory(prefix="recombine-") as folder:
            store = Store(Path(folder))
            _unpack(store, config, payload["files"])
            answer = _diagnose(store, config, request)
            kept = diagnosis_files(store.load(config.hash)) if answer["finished"] else {}
            return Output(answer, {f"{config.hash}/{name}": content for name, content in kept.items()})


def _unpack(store: Store, config: RunConfig, files: Mapping[str, bytes]) -> None:
    """Write the files of a run, and of its diagnosis if there is one, into an empty store."""
    diagnosis = {name: content for name, content in files.items() if name.startswith(f"{FOLDER}/")}
    lock = store.lock(config)
    try:
        store.add(config, {name: content for name, content in files.items() if name not in diagnosis}, lock)
        if diagnosis:
            add_diagnosis(store.load(config.hash), diagnosis, lock)
    finally:
        lock.release()


def _diagnose(store: Store, config: RunConfig, request: DiagnosisRequest) -> Answer:
    answer: Answer = {"finished": [], "found": [], "failed": {}, "busy": [], "interrupted": False}
    try:
        lock = store.lock(config)
    except LockHeld:
        return {**answer, "busy": [config.hash]}
    try:
        run = store.load(config.hash)
        lacking = run.lacks(request)
        if not lacking:
            return {**answer, "finished": [run.id], "found": [run.id]}
        run.diagnose(replace(request, parts=lacking), progress=False, guard=lock.check)
        if run.lacks(request):
            told = (
                f"The diagnosis of run {run.id} was not replaced because it was computed with other layers or another "
                "seed and has parts that this request does not include. Request these parts as well, or delete the "
                "folder 'diagnosis'."
            )
            return {**answer, "failed": {run.id: because(Cause.STORE, told)}}
        return {**answer, "finished": [run.id]}
    except LockLost:
        return {**answer, "busy": [config.hash]}
    except (RecombineError, MemoryError, RuntimeError, OSError) as error:
        return {**answer, "failed": {config.hash: reason_of(error)}}
    finally:
        lock.release()
