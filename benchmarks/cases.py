"""What is measured. Each case compares the library with `benchmarks.reference` on the same machine in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

import recombine as rc
from benchmarks import reference
from benchmarks.large_grids import large
from benchmarks.measure import Row, convolution_gemm_gflops, interleaved, medians, seconds
from benchmarks.own_data import own
from benchmarks.reference_diagnostics import compare
from benchmarks.reference_rendering import rendering
from benchmarks.scenes import scenes
from benchmarks.sweeping import sweep
from recombine.core.memory import keep_freed_memory
from recombine.training.evaluation import Evaluator
from recombine.training.session import Session
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer
from recombine.training.training_set import TrainingSet


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    repeats: int = 5
    samples: int = 2000  # of one epoch at batch 32
    cnn: tuple[int, int] = (4, 64)  # depth, width
    gemm_side: int = 2048
    seeds_together: int = 8
    data_samples: int = 20_000
    error: float = 1e-5
    error_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    most_steps: int = 2000  # at which a run that misses the error is given up
    diagnosed: tuple[int, int, int] = (4, 64, 28)  # depth, width, side of the diagnosed CNN
    diagnosed_pairs: int = 40  # rows of the kernel matrices that the plain version computes
    pictures: int = 2000  # drawn at once
    waits: int = 15
    small_grid: tuple[int, ...] = (6, 6, 5, 4)
    grids: tuple[int, int] = (32, 128)
    grid_pixels: int = 128  # layers of a million units
    grid_width: int = 64
    sweep_runs: int = 1000
    sweep_batches: int = 4  # of four seeds
    listed_runs: int = 10_000

    @property
    def steps(self) -> int:
        return -(-self.samples // 32)


QUICK = Scale(
    repeats=1,
    samples=96,
    cnn=(4, 8),
    gemm_side=256,
    seeds_together=3,
    data_samples=200,
    error=6e-3,  # an empty image has about 4e-3
    error_seeds=(0,),
    most_steps=40,
    diagnosed=(1, 4, 9),
    diagnosed_pairs=4,
    pictures=20,
    waits=2,
    small_grid=(3, 2, 2, 2),
    grids=(16, 20),
    grid_pixels=16,
    grid_width=4,
    sweep_runs=8,
    sweep_batches=1,
    listed_runs=20,
)


def task() -> rc.Task:
    space = rc.FactorSpace(x=reference.SIDE, y=reference.SIDE)
    hole = rc.holdouts.centre(space, reference.HOLE.start, reference.HOLE.stop - 1)
    return rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), hole)


def _epoch(scale: Scale) -> rc.training.Training:
    """The paper's recipe for one epoch, with next to no evaluation."""
    return rc.recipe(
        "paper",
        examples={"cells": {"samples": scale.samples}},
        steps=scale.steps,
        evaluate_every=scale.steps,
        evaluate_cells=1,
    )


def cnn_mflop(depth: int, width: int) -> float:
    """Work of one sample in a CNN's training step: 448 for CNN(4, 64). Backward costs twice forward."""
    side, code = 7, 2 * reference.SIDE
    products = code * width * side**2
    for _ in range(depth):
        doubling = side < reference.SIDE
        side *= 2 if doubling else 1
        products += width**2 * side**2 * (4 if doubling else 9)  # taps that reach each pixel
    products += width * side**2 * 9
    return 3 * 2 * products / 1e6


def cnn(scale: Scale) -> Iterator[Row]:
    """Training throughput of the CNN, against the reference and against the machine's matrix products."""
    depth, width = scale.cnn
    problem, data = task(), reference.BumpData(scale.samples)
    ours_losses, reference_losses = [], []

    def ours() -> float:
        run = rc.train(rc.decoders.CNN(problem, depth=depth, width=width), problem, training=_epoch(scale))
        ours_losses.append(float(run.losses[-10:, 0].mean()))
        return 32 * scale.steps / run.seconds

    def plain() -> float:
        torch.manual_seed(0)
        trained = reference.train(reference.cnn(depth, width), data, scale.steps)
        reference_losses.append(sum(trained.losses[-10:]) / len(trained.losses[-10:]))
        return scale.samples / trained.seconds

    turns = []

    def share() -> float:
        turns.append(_rates_in_turns(problem, scale))
        return turns[-1]["gflops"] / turns[-1]["gemm_gflops"]

    measured = interleaved(
        scale.repeats,
        ours=ours,
        share=share,
        own_shapes=lambda: convolution_gemm_gflops(32, width, reference.SIDE),
        reference=plain,
    )
    middle = medians(measured)
    raw = {
        "ours_per_second": middle["ours"],
        "reference_per_second": middle["reference"],
        "ours_last_loss": median(ours_losses),
        "reference_last_loss": median(reference_losses),
        "measured": measured,
    }
    name = f"CNN({depth},{width}) batch 32, training"
    yield Row(f"{name}: samples/s, ours / reference", middle["ours"] / middle["reference"], 1.35, raw)
    rates = {key: median(turn[key] for turn in turns) for key in turns[0]}
    yield Row(f"{name}: share of {scale.gemm_side}² matrix products", middle["share"], 0.85, {**rates, "turns": turns})
    rates = {"gflops": middle["ours"] * cnn_mflop(depth, width) / 1000, "gemm_gflops": middle["own_shapes"]}
    yield Row(
        f"{name}: share of matrix products of its own shapes", rates["gflops"] / rates["gemm_gflops"], None, rates
    )


def _rates_in_turns(problem: rc.Task, scale: Scale) -> dict[str, float]:
    """GFLOP/s of a CNN's training steps and of large matrix products."""
    depth, width = scale.cnn
    side = scale.gemm_side
    left, right, out = torch.randn(side, side), torch.randn(side, side), torch.empty(side, side)
    model = rc.decoders.CNN(problem, depth=depth, width=width).initialize(0)
    training = rc.recipe(
        "paper", examples={"cells": {"samples": scale.samples}}, steps=max(10, scale.steps), evaluate_cells=1
    )
    keep_freed_memory()
    trainer = Trainer([model], Setup.of(problem, training, device="cpu"), [0])
    step_seconds, product_seconds = list[float](), list[float]()
    while trainer.step < trainer.total:
        step_seconds.append(seconds(trainer.advance))
        if trainer.step % 10 == 0:
            product_seconds += [seconds(lambda: torch.mm(left, right, out=out)) for _ in range(10)]
    return {
        "gflops": 32 * cnn_mflop(depth, width) / 1000 / median(step_seconds),
        "gemm_gflops": 2e-9 * side**3 / median(product_seconds),
    }


def mlp(scale: Scale) -> Iterator[Row]:
    """Several seeds of an MLP trained together, against the reference's rate of one seed after the other."""
    problem, data, seeds = task(), reference.BumpData(scale.samples), scale.seeds_together
    model = rc.decoders.MLP(problem, depth=3, width=256)

    def ours() -> float:
        runs = rc.train_seeds(model, problem, range(seeds), training=_epoch(scale))
        return seeds * 32 * scale.steps / runs[0].seconds

    def plain() -> float:
        return scale.samples / reference.train(reference.mlp(3, 256), data, scale.steps).seconds

    measured = interleaved(scale.repeats, ours=ours, reference=plain)
    middle = medians(measured)
    raw = {
        "ours_per_second": middle["ours"],
        "reference_per_second": middle["reference"],
        "measured": measured,
        "note": "the reference's rate is that of whole epochs of one seed; its other seeds would repeat it",
    }
    name = f"MLP(3,256) batch 32, {seeds} seeds: seed-samples/s, ours / reference"
    yield Row(name, middle["ours"] / middle["reference"], 8.0, raw)


def data(scale: Scale) -> Iterator[Row]:
    """Making the training data ready, and rendering every sample of it."""
    problem, samples = task(), scale.data_samples
    training = rc.recipe("paper", examples={"cells": {"samples": samples}})
    device = torch.device("cpu")

    def rows() -> tuple[TrainingSet, Tensor]:
        examples = TrainingSet(problem, training, device)
        return examples, torch.cat(examples.epoch(seed=0))

    def rendered() -> tuple[Tensor, Tensor]:
        cells = problem.holdout.id_cells
        values = problem.space.values(cells[torch.randint(len(cells), (samples,))])
        return problem.inputs(values), problem.targets(values)

    measured = interleaved(
        scale.repeats,
        ours=lambda: min(seconds(rows) for _ in range(3)),
        rendered=lambda: min(seconds(rendered) for _ in range(3)),
        reference=lambda: seconds(lambda: reference.BumpData(samples)),
    )
    middle = medians(measured)
    for key, target, what in (
        ("ours", 100.0, "ready to train"),
        ("rendered", None, "each image rendered"),
    ):
        raw = {"ours_seconds": middle[key], "reference_seconds": middle["reference"]}
        name = f"{samples} samples, {what}: seconds, reference / ours"
        yield Row(name, middle["reference"] / middle[key], target, {**raw, "measured": measured})


def error(scale: Scale) -> Iterator[Row]:
    """Time to a small ID error: the recommended recipe here, the paper's recipe in the reference loop."""
    depth, width = scale.cnn
    problem, name = task(), f"CNN({depth},{width}) to ID MSE {scale.error:g}"
    times: dict[str, list[float]] = {"ours": [], "reference": []}
    steps: dict[str, list[int]] = {"ours": [], "reference": []}
    missed: dict[str, list[int]] = {"ours": [], "reference": []}
    for seed in scale.error_seeds:
        for who, attempt in (("ours", _ours_to_error), ("reference", _reference_to_error)):
            done = attempt(problem, scale, seed)
            times[who].append(done.seconds)
            steps[who].append(done.steps)
            if not done.reached:
                missed[who].append(seed)
    raw = {f"{who}_seconds": median(times[who]) for who in times}
    facts = {"seconds": times, "steps": steps, "missed_seeds": missed, "seeds": list(scale.error_seeds)}
    value = 0.0 if missed["ours"] else raw["reference_seconds"] / raw["ours_seconds"]
    yield Row(f"{name}: seconds, reference / ours", value, 3.0, {**raw, **facts})


@dataclass(frozen=True)
class Attempt:
    """One run to an error: seconds of training without evaluations, steps, whether it got there."""

    seconds: float
    steps: int
    reached: bool


class TimedEvaluator(Evaluator):
    """An evaluator that also knows how long its evaluations took."""

    seconds = 0.0

    def evaluate(self) -> str:
        started = time.perf_counter()
        note = super().evaluate()
        self.seconds += time.perf_counter() - started
        return note


def _ours_to_error(problem: rc.Task, scale: Scale, seed: int) -> Attempt:
    depth, width = scale.cnn
    model = rc.decoders.CNN(problem, depth=depth, width=width).initialize(seed)
    training = rc.recipe("recommended", evaluate_every=10, evaluate_cells=10**6, stop_below=scale.error)
    session = Session([model], Setup.of(problem, training, device="cpu"), [seed])
    session.evaluator = evaluator = TimedEvaluator(session.trainer)
    session.run(progress=False)
    last = evaluator.records[0].history[-1]
    return Attempt(session.seconds - evaluator.seconds, session.trainer.step, last["id_mse"] <= scale.error)


def _reference_to_error(problem: rc.Task, scale: Scale, seed: int) -> Attempt:
    torch.manual_seed(seed)
    model = reference.cnn(*scale.cnn)
    enough = _below(model, problem, scale.error)
    trained = reference.train(model, reference.BumpData(scale.samples, seed), scale.most_steps, check=enough)
    return Attempt(trained.seconds, len(trained.losses), enough())


def _below(model: nn.Module, problem: rc.Task, error: float) -> Callable[[], bool]:
    values = problem.space.values(problem.holdout.id_cells)
    codes, images = problem.inputs(values), problem.targets(values)

    def check() -> bool:
        with torch.no_grad():
            return float((model(codes) - images).square().mean()) <= error

    return check


def diagnostics(scale: Scale) -> Iterator[Row]:
    """All parts of a diagnosis against the plain way of doing them."""
    yield from compare(*scale.diagnosed, rows=scale.diagnosed_pairs, repeats=min(3, scale.repeats))


CASES: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "cnn": cnn,
    "mlp": mlp,
    "data": data,
    "error": error,
    "rendering": rendering,
    "diagnostics": diagnostics,
    "scenes": scenes,
    "own": own,
    "large": large,
    "sweep": sweep,
}
