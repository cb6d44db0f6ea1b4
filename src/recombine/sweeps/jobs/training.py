"""Jobs that train runs into a store."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from recombine.core.errors import LockHeld, LockLost, RecombineError, TrainingDiverged, TrainingInterrupted
from recombine.core.lock import Lock
from recombine.models.decoders import DECODERS
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps.engines.engine import Job, Output
from recombine.sweeps.failures import reason_of
from recombine.sweeps.jobs.work import TRAIN, Answer, Options, Work, as_worker

SEEDS_TOGETHER = 4  # larger batches of MLP seeds are no faster, and fewer jobs use fewer cores


def batches(configs: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """Group configurations that train together: seeds 0–3, 4–7, … of one setting, if its decoder trains faster then.

    Rounding may depend on the members of a batch. Batches therefore depend only on the configurations, not on the
    number of workers or on interruptions.
    """
    found: dict[Any, list[RunConfig]] = {}
    for config in configs:
        stacks = getattr(DECODERS.components[config.decoder["kind"]], "stacks", False)
        key = (config.seedless_hash, config.seed // SEEDS_TOGETHER) if stacks else config.hash
        found.setdefault(key, []).append(config)
    return list(found.values())


class Training(Work):
    """Trains runs that can train together."""

    name: ClassVar[str] = TRAIN

    def of(self, configs: Sequence[RunConfig]) -> Training:
        return Training(configs)

    def is_done(self, store: Store, config: RunConfig) -> bool:
        return store.is_finished(config)

    def job(self, options: Options, store: Store) -> Job:
        payload = {"configs": [config.to_dict() for config in self.configs], **options}
        return Job(self.id, f"{__name__}:train", payload, self.title)

    def keep(self, store: Store, config: RunConfig, files: Mapping[str, bytes], lock: Lock) -> None:
        store.add(config, files, lock)


def train(payload: Mapping[str, Any]) -> Output:
    """The worker's function. Without a store, it returns the files of finished runs as "run/name"."""
    options: Options = payload  # type: ignore[assignment]
    with as_worker(options):
        configs = [RunConfig.from_dict(config) for config in payload["configs"]]
        if options["store"] is not None:
            return Output(_train(Store(options["store"]), configs, options))
        with tempfile.TemporaryDirectory(prefix="recombine-") as folder:
            store = Store(Path(folder))
            data = _train(store, configs, options)
            kept = [config for config in configs if config.hash in data["finished"]]
            return Output(data, {f"{c.hash}/{name}": content for c in kept for name, content in store.files(c).items()})


def _train(store: Store, configs: Sequence[RunConfig], options: Options) -> Answer:
    answer: Answer = {"finished": [], "found": [], "failed": {}, "busy": [], "interrupted": False}
    written: list[str] = []
    try:
        store.train(
            configs,
            device=options["device"],
            checkpoint_seconds=options["checkpoint_seconds"],
            progress=False,
            written=written,
        )
    except (LockHeld, LockLost):  # another process works on them, or took over while this one was suspended
        answer["busy"] = [c.hash for c in configs if not store.is_finished(c)]
    except TrainingInterrupted:
        answer["interrupted"] = True
    except (RecombineError, MemoryError, RuntimeError, OSError) as error:
        why = reason_of(error)
        by_seed = error.by_seed if isinstance(error, TrainingDiverged) else {}
        unfinished = [config for config in configs if not store.is_finished(config)]
        answer["failed"] = {c.hash: {**why, "error": by_seed.get(c.seed, why["error"])} for c in unfinished}
    answer["finished"] = [c.hash for c in configs if store.is_finished(c)]
    answer["found"] = [run for run in answer["finished"] if run not in written]
    return answer
