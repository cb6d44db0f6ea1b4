"""Sweeps: what a run costs beyond its training, what a second worker brings, how quickly a large store is listed."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Row, seconds
from recombine.runs.config import RunConfig, hash_of
from recombine.runs.facts import run_digest
from recombine.runs.store import Store
from recombine.sweeps import parse, run
from recombine.sweeps.engines.engine import Answered, Job, Output
from recombine.sweeps.engines.processes import Processes
from recombine.sweeps.jobs.training import Training, batches, train
from recombine.sweeps.jobs.work import Options

if TYPE_CHECKING:
    from benchmarks.cases import Scale

SMALLEST = ["scene.factors.x=6", "scene.factors.y=6", "holdout.lo=2", "holdout.hi=3", "decoder.kind=mlp",
            "decoder.width=8", "decoder.depth=1", "training.steps=1"]  # fmt: skip
MODELS = {
    "MLP(3,256)": ["decoder.kind=mlp", "decoder.depth=3", "decoder.width=256"],
    "CNN(4,16)": ["decoder.kind=cnn", "decoder.depth=4", "decoder.width=16"],
}


def nothing(payload: Mapping[str, Any]) -> Output:
    """The trivial job."""
    return Output(payload["x"])


def sweep(scale: Scale) -> Iterator[Row]:
    """The numbers that sweeps promise; each ratio is the promise over what was measured, or a speed-up."""
    with tempfile.TemporaryDirectory() as folder:
        yield _trivial(scale.sweep_runs)
        yield _overhead(Path(folder) / "overhead", scale.sweep_runs)
        yield from _second_worker(Path(folder), scale)
        yield _listing(Path(folder) / "listed", scale.listed_runs)


def _trivial(jobs: int) -> Row:
    started, executor = time.perf_counter(), Processes()
    try:
        wanted = [Job(str(i), "benchmarks.sweeping:nothing", {"x": i}) for i in range(jobs)]
        _drive(wanted, executor, executor.capacity())
    finally:
        executor.close()
    spent = time.perf_counter() - started
    return Row(f"{jobs} trivial jobs on local processes: 60 s / seconds", 60 / spent, 1.0, {"seconds": spent})


def _overhead(folder: Path, runs: int) -> Row:
    """A whole sweep of the smallest runs, its start included; every run writes its files."""
    result = run(parse([*SMALLEST, f"seed=0..{runs - 1}"]).configs, folder, device="cpu", quiet=True)
    assert not result.failed
    store, workers = Store(folder), Processes().capacity()
    training = sum(
        store.facts(batch[0].hash)["seconds"] for batch in batches([store.load(r).config for r in result.trained])
    )
    each = (result.seconds * workers - training) / runs
    raw = {"seconds": result.seconds, "worker_seconds_each": each, "training_seconds": training}
    return Row(f"{runs} smallest runs, overhead of each on a worker: 50 ms / ms", 0.05 / each, 1.0, raw)


def _second_worker(folder: Path, scale: Scale) -> Iterator[Row]:
    """The same runs on workers that have started, one at a time and two at a time."""
    executor = Processes(2)
    try:
        for name, words in MODELS.items():
            wanted = parse([*words, f"training.steps={scale.steps}", f"seed=0..{4 * scale.sweep_batches - 1}"]).configs
            first = [Job(str(i), "benchmarks.sweeping:first_steps", wanted[0].to_dict()) for i in range(2)]
            _drive(first, executor, 2)
            spent: dict[int, list[float]] = {1: [], 2: []}
            for repeat in range(scale.repeats):
                for at_once, times in spent.items():
                    place = folder / f"{wanted[0].hash}-{at_once}-{repeat}"
                    options: Options = {"store": str(place), "device": "cpu", "checkpoint_seconds": 60.0, "plugins": []}
                    jobs = [Training(batch).job(options, Store(place)) for batch in batches(wanted)]
                    started = time.perf_counter()
                    _drive(jobs, executor, at_once)
                    times.append(time.perf_counter() - started)
            one, two = median(spent[1]), median(spent[2])
            raw = {"one_seconds": one, "two_seconds": two, "measured": {str(k): v for k, v in spent.items()}}
            yield Row(f"{name}, {len(wanted)} runs: two workers / one worker", one / two, 1.7, raw)
    finally:
        executor.close()


def first_steps(config: Mapping[str, Any]) -> Output:
    """A process' first training is slow. The pause is for the other worker to get its share of the jobs."""
    short = {**config, "training": {**config["training"], "steps": 2}}
    done = train({"configs": [short], "store": None, "device": "cpu", "checkpoint_seconds": 60.0, "plugins": []})
    time.sleep(1.0)
    return Output(done.data)


def _drive(jobs: Sequence[Job], executor: Processes, at_once: int) -> None:
    """Run jobs to their end, with nothing else around."""
    waiting, running = list(reversed(jobs)), 0
    while waiting or running:
        while waiting and running < at_once:
            executor.submit(waiting.pop())
            running += 1
        for event in executor.poll(1.0):
            assert isinstance(event, Answered), event
            running -= 1


def _listing(folder: Path, runs: int) -> Row:
    store = Store(folder)
    [made] = store.train([RunConfig.parse(SMALLEST)], device="cpu", progress=False)
    for i in range(1, runs + 1):
        config = {**made.facts["config"], "seed": i}
        facts = {**made.facts, "run": hash_of(config), "config": config}
        path = folder / facts["run"] / "run.json"
        path.parent.mkdir()
        path.write_text(json.dumps({**facts, "digest": run_digest(facts)}))
    spent = min(seconds(store.list) for _ in range(3))
    assert all(row.status.finished for row in store.list())
    return Row(f"a store with {runs} runs is listed: 2 s / seconds", 2 / spent, 1.0, {"seconds": spent})
