"""The jobs of a sweep: train some configurations into a store. Here sweeps meet the science."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recombine.core.errors import LockHeld, RecombineError, TrainingDiverged, TrainingInterrupted
from recombine.models.decoders import DECODERS
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.sweeps.engines.engine import Job, Output

SEEDS_TOGETHER = 4  # an MLP's seeds are no cheaper by more of them, and fewer jobs keep fewer cores busy
FUNCTION = "recombine.sweeps.jobs:train"


def batches(configs: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """Which configurations train together: seeds 0–3, 4–7, … of one setting where its decoder is faster so.

    It depends on nothing but the configurations: batches have the same members on any number of workers and after
    any number of kills, because rounding may depend on who is in a batch.
    """
    found: dict[Any, list[RunConfig]] = {}
    for config in configs:
        stacks = getattr(DECODERS.components[config.decoder["kind"]], "stacks", False)
        key = (config.seedless_hash, config.seed // SEEDS_TOGETHER) if stacks else config.hash
        found.setdefault(key, []).append(config)
    return list(found.values())


def job_id(configs: Sequence[RunConfig]) -> str:
    return configs[0].hash


def job(configs: Sequence[RunConfig], options: Mapping[str, Any]) -> Job:
    """The job that trains a batch. Options: store (a folder, or None to get the files), device, checkpoint_seconds."""
    payload = {"configs": [config.to_dict() for config in configs], **options}
    seeds = ",".join(str(config.seed) for config in configs)
    kinds = f"{configs[0].decoder['kind']} {configs[0].encoding['kind']} {configs[0].holdout['kind']}"
    return Job(job_id(configs), FUNCTION, payload, f"{configs[0].hash} {kinds} seed {seeds}")


def train(payload: Mapping[str, Any]) -> Output:
    """Train with one thread, so that results do not depend on where it happens.

    Returns `finished`, a list of runs; `found`, those of them that another process had finished; `failed`,
    {run: [error, traceback]}; `busy`, runs that another process works on; `interrupted`, whether it was asked to stop.
    Without a store the files of finished runs are returned as "run/name".
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        configs = [RunConfig.from_dict(config) for config in payload["configs"]]
        if payload["store"] is not None:
            return Output(_train(Store(payload["store"]), configs, payload))
        with tempfile.TemporaryDirectory(prefix="recombine-") as folder:
            store = Store(Path(folder))
            data = _train(store, configs, payload)
            kept = [config for config in configs if config.hash in data["finished"]]
            return Output(data, {f"{c.hash}/{name}": content for c in kept for name, content in store.files(c).items()})
    finally:
        torch.set_num_threads(threads)


def _train(store: Store, configs: Sequence[RunConfig], payload: Mapping[str, Any]) -> dict[str, Any]:
    failed: dict[str, list[str]] = {}
    busy: list[str] = []
    interrupted = False
    begun: list[str] = []
    try:
        store.train(
            configs,
            device=payload["device"],
            checkpoint_seconds=payload["checkpoint_seconds"],
            progress=payload.get("progress", False),
            begun=begun,
        )
    except LockHeld:
        busy = [c.hash for c in configs if not store.is_finished(c)]
    except TrainingInterrupted:
        interrupted = True
    except (RecombineError, MemoryError, RuntimeError, OSError) as error:
        told = str(error) if isinstance(error, RecombineError) else repr(error)
        by_seed = error.by_seed if isinstance(error, TrainingDiverged) else {}
        trace = traceback.format_exc()
        failed = {c.hash: [by_seed.get(c.seed, told), trace] for c in configs if not store.is_finished(c)}
    finished = [c.hash for c in configs if store.is_finished(c)]
    return {
        "finished": finished,
        "found": [run for run in finished if run not in begun],
        "failed": failed,
        "busy": busy,
        "interrupted": interrupted,
    }
