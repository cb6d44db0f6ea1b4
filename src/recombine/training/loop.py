"""The one training loop.

run = train(model, task, seed=0)                       # the paper's recipe
run = train(model, task, seed=0, training=recipe("recommended", examples={"single_factor": {}}))
runs = train_seeds(model, task, range(8))              # as one batched program where that is faster
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recombine.core.devices import resolve
from recombine.core.errors import InputError, StoreError, TrainingDiverged, TrainingInterrupted
from recombine.core.interrupt import interruptible
from recombine.core.memory import keep_freed_memory
from recombine.core.progress import ProgressBar
from recombine.core.seeds import check_seed, generator
from recombine.core.task import Task
from recombine.models.activations import precision
from recombine.models.decoders import Decoder
from recombine.models.evaluation_mode import evaluation_mode
from recombine.scoring.scores import Scores, score
from recombine.training.checkpoint import Checkpoint, Snapshot, settings, settle, steps_done
from recombine.training.loss_terms import LossTerm, check_terms
from recombine.training.losses import Loss, as_loss
from recombine.training.objective import Single, Stacked
from recombine.training.optimizers import OptimizerFactory
from recombine.training.order import Schedule
from recombine.training.recipe import Training
from recombine.training.recipe import recipe as recipe_by_name
from recombine.training.training_set import TrainingSet, check_examples

WORTH_SAVING = 1.0  # seconds of training


@dataclass
class Run:
    """A trained model and how it came about.

    Attributes:
        model: The trained network; a `Decoder` is in evaluation mode.
        task: What it was trained on.
        seed: Its seed.
        training: The recipe.
        history: One row per evaluation: step, learning_rate, mean loss (and each term) since the last one, and the
            ID and OOD error estimated on `training.evaluate_cells` cells each.
        losses: Loss of every step, one column per name in `loss_names`.
        steps: Steps done.
        stopped_early: Whether an early stop ended it.
        seconds: Time spent training in this process (all seeds of a batch together).
        scores: Error of every cell of the grid.
    """

    model: nn.Module
    task: Task
    seed: int
    training: Training
    history: list[dict[str, float | int]]
    losses: Tensor
    loss_names: list[str]
    steps: int
    stopped_early: bool
    seconds: float
    scores: Scores


def train(
    model: nn.Module,
    task: Task,
    *,
    seed: int = 0,
    training: Training | str | None = None,
    terms: Sequence[LossTerm] = (),
    fresh: bool = True,
    device: str | torch.device = "auto",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool | None = None,
) -> Run:
    """Train a model in place on a task's ID combinations; a `Decoder` is left in evaluation mode.

    Args:
        model: A decoder, or any module from the task's inputs to its targets.
        task: What to learn.
        seed: Decides initial weights, drawn examples and their order.
        training: The recipe, or its name; the paper's unless given.
        terms: Loss terms added to the mean squared error.
        fresh: Start a `Decoder` from the seed's initial weights; otherwise, and for any other module, from the
            weights it has.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        checkpoint: File to save the state to every `checkpoint_seconds` and on Ctrl-C, and to go on from. It is refused
            if the seed, the recipe, the task, the model or the terms are others: by their classes, configurations and
            public attributes that are numbers, text or tensors (a name with a leading underscore is private).
        checkpoint_seconds: See checkpoint.
        progress: Show a progress bar; by default only on a terminal.

    Raises:
        TrainingDiverged: If the loss becomes NaN or infinite.
        TrainingInterrupted: On Ctrl-C or SIGTERM, after saving.
    """
    seed = check_seed(seed)
    if fresh and isinstance(model, Decoder):
        model.initialize(seed)
    paths = None if checkpoint is None else [checkpoint]
    loop = Loop([model], task, [seed], _recipe(training), terms, device, paths)
    loop.run(checkpoint_seconds, progress)
    return _all_finished(loop.outcomes())[0]


def train_seeds(
    model: Decoder,
    task: Task,
    seeds: Iterable[int],
    *,
    training: Training | str | None = None,
    terms: Sequence[LossTerm] = (),
    device: str | torch.device = "auto",
    checkpoints: Sequence[str | Path] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool | None = None,
    together: bool | None = None,
) -> list[Run]:
    """Train copies of a decoder, one per seed.

    Args:
        model: The architecture; it is not changed.
        seeds: One run each.
        together: Train all seeds as one batched program. By default where that is faster (`model.stacks`) and
            all seeds stand at the same step. Results equal single runs up to rounding: the losses of the first steps
            agree to 1e-5 relative; later ones drift apart as rounding grows, by less than seeds differ.
        task, training, terms, device, checkpoint_seconds, progress: As in `train`.
        checkpoints: One file per seed, see `train`.
    """
    seeds = [check_seed(seed) for seed in seeds]
    if len(set(seeds)) != len(seeds):
        raise InputError(f"Each seed may occur once. Got {seeds}.")
    if checkpoints is not None and len(checkpoints) != len(seeds):
        raise InputError(f"{len(seeds)} seeds need {len(seeds)} checkpoint files. Got {len(checkpoints)}.")
    if not isinstance(model, Decoder):
        raise InputError(
            "Several seeds need a decoder that knows its initial weights (recombine.models.decoders). "
            f"Got {type(model).__name__}; train a module of your own seed by seed with recombine.train."
        )
    recipe = _recipe(training)
    together = model.stacks if together is None else together
    if together and checkpoints:
        settle([Path(path) for path in checkpoints])
    groups: dict[Any, list[int]] = {}
    for i in range(len(seeds)):
        key = (checkpoints and steps_done(Path(checkpoints[i]))) if together else i
        groups.setdefault(key, []).append(i)
    outcomes: list[Run | TrainingDiverged] = [TrainingDiverged({})] * len(seeds)
    for group in groups.values():
        copies = [copy.deepcopy(model).initialize(seeds[i]) for i in group]
        paths = None if checkpoints is None else [checkpoints[i] for i in group]
        # stacked even if it is one seed: what is left of a batch after a kill is computed as the whole batch was
        loop = Loop(copies, task, [seeds[i] for i in group], recipe, terms, device, paths, stacked=together)
        loop.run(checkpoint_seconds, progress)
        if checkpoints and (len(group) > 1 or loop.seconds > WORTH_SAVING):
            loop.save()  # a kill or a full disk while results are written must not part the seeds, nor lose the work
        for i, outcome in zip(group, loop.outcomes()):
            if isinstance(outcome, TrainingDiverged) and len(group) > 1:
                # alone, to tell the sick seed from the healthy
                outcome = _alone(model, task, seeds[i], recipe, terms, device)
            outcomes[i] = outcome
    return _all_finished(outcomes)


def _recipe(training: Training | str | None) -> Training:
    if training is None or isinstance(training, Training):
        return training or recipe_by_name()
    if not isinstance(training, str):
        raise InputError(f"The training is a recipe or the name of one. Got {training!r} instead.")
    return recipe_by_name(training)


def _alone(
    model: Decoder, task: Task, seed: int, training: Training, terms: Sequence[LossTerm], device: str | torch.device
) -> Run | TrainingDiverged:
    """Train one seed by itself: a seed that diverges may take those batched with it along, by NaN times zero."""
    copies = [copy.deepcopy(model).initialize(seed)]
    loop = Loop(copies, task, [seed], training, terms, device, None, stacked=model.stacks)
    loop.run(math.inf, None)
    return loop.outcomes()[0]


def _all_finished(outcomes: Sequence[Run | TrainingDiverged]) -> list[Run]:
    runs = [o for o in outcomes if isinstance(o, Run)]
    errors = [o for o in outcomes if isinstance(o, TrainingDiverged)]
    if errors:
        raise TrainingDiverged({seed: why for e in errors for seed, why in e.by_seed.items()}, finished=runs)
    return runs


@dataclass
class _Seed:
    """What the loop keeps for each seed besides its tensors."""

    order: Schedule
    history: list[dict[str, float | int]] = field(default_factory=list)
    best: float = math.inf
    without_improvement: int = 0
    stopped: bool = False
    diverged: TrainingDiverged | None = None


class Loop:
    """Trains one or several seeds of a configuration step by step."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        task: Task,
        seeds: Sequence[int],
        training: Training,
        terms: Sequence[LossTerm],
        device: str | torch.device,
        checkpoints: Sequence[str | Path] | None,
        stacked: bool = False,
        loss: Loss | Callable[[Tensor, Tensor], Tensor] | None = None,
        optimizer: OptimizerFactory | Callable[..., torch.optim.Optimizer] | None = None,
    ) -> None:
        self.task, self.seeds, self.training = task, list(seeds), training
        self.device = resolve(device)
        self.models = [model.to(self.device) for model in models]
        self.dtype = precision(models[0])
        self._check_fit()
        check_examples(task, training)
        terms = [*training.loss_terms(), *terms]
        loss = training.loss_function() if loss is None else as_loss(loss)
        check_terms(terms, loss.name)
        self.program = Stacked(models, loss, terms) if stacked or len(models) > 1 else Single(models[0], loss, terms)
        self.examples = TrainingSet(task, training, self.device, self.dtype)
        self.total = training.total_steps(sum(p.epoch_length() for p in self.examples.sources))
        self.state = [_Seed(self.examples.schedule(seed, self.total)) for seed in seeds]
        make = training.optimizer_factory() if optimizer is None else optimizer
        self.optimizer = make(list(self.program.parameters.values()), training.learning_rate)
        names = self.program.objective.names
        self.trace = torch.empty(len(seeds), 0, len(names), device=self.device)  # grows as steps are done
        self.step, self.checked, self.seconds = 0, 0, 0.0
        self.final: dict[int, dict[str, Tensor]] = {}  # weights of seeds that stopped before the others
        self._evaluation = self._evaluation_cells()
        self.checkpoints = [Checkpoint(Path(path), self._fingerprint(i)) for i, path in enumerate(checkpoints or [])]

    def _check_fit(self) -> None:
        """Codes that cannot be told apart and a wrong code or image size are errors before anything starts."""
        self.task.encoding.check()
        model = self.models[0]
        values = self.task.space.values(self.task.holdout.id_cells[:1].repeat(2)).to(self.device, self.dtype)
        if isinstance(model, Decoder) and model.inverse != self.task.inverse:
            raise InputError(
                f"{type(model).__name__} maps {'images to codes' if model.inverse else 'codes to images'}, but the "
                f"task does not: build it with Task(…, inverse={model.inverse})."
            )
        with evaluation_mode(model), torch.no_grad():
            try:
                outputs = model(self.task.inputs(values))
            except (RuntimeError, TypeError) as error:
                raise InputError(
                    f"The model does not take inputs of shape (batch, {', '.join(map(str, self.task.input_shape))}): "
                    f"{error}"
                ) from error
        expected = (2, *self.task.target_shape)
        if not isinstance(outputs, Tensor) or tuple(outputs.shape) != expected:
            got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise InputError(f"For two inputs the model must give outputs of shape {expected}. Got {got}.")

    def _evaluation_cells(self) -> tuple[Tensor, Tensor, int]:
        """Inputs and targets of the evaluation cells, ID ones first, and how many of them are ID."""
        chosen = []
        for name, cells in (("id", self.task.holdout.id_cells), ("ood", self.task.holdout.ood_cells)):
            shuffled = torch.randperm(len(cells), generator=generator(0, "evaluate", name))
            chosen.append(cells[shuffled[: self.training.evaluate_cells]])
        values = self.task.space.values(torch.cat(chosen)).to(self.device, self.dtype)
        return self.task.inputs(values), self.task.targets(values), len(chosen[0])

    def _fingerprint(self, index: int) -> str:
        shapes = {name: list(t.shape) for name, t in self.program.tensors(index).items()}
        described = (self.models[index], self.task.scene, self.task.encoding, *self.program.objective.terms)
        parts = [self.seeds[index], self.training.model_dump(), *map(settings, described)]
        parts += [self.task.holdout.hash, self.task.inverse, shapes, self.program.objective.names]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def run(self, checkpoint_seconds: float, progress: bool | None) -> None:
        """Go on from the checkpoints, if there are any, to the end."""
        keep_freed_memory()
        for checkpoint in self.checkpoints:
            checkpoint.check_place()
        with ExitStack() as stack:
            cuda = [self.device] if self.device.type == "cuda" else []
            stack.enter_context(torch.random.fork_rng(devices=cuda))
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True))
            torch.manual_seed(self.seeds[0])
            self._resume()
            title = f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
            bar = stack.enter_context(ProgressBar(title, self.total, progress))
            interrupt = stack.enter_context(interruptible())
            self.program.mode(training=True)
            started = saved = time.monotonic()
            try:
                while self.step < self.total and not all(s.stopped for s in self.state):
                    self._advance()
                    if self.step % self.training.evaluate_every == 0 or self.step == self.total:
                        bar.update(self.step, self._evaluate())
                    elif self.step % 10 == 0:
                        bar.update(self.step)
                    due = time.monotonic() - saved >= checkpoint_seconds
                    if self.checkpoints and (due or interrupt.requested):
                        self.save()
                        saved = time.monotonic()
                    if interrupt.requested:
                        raise TrainingInterrupted(self._interrupted())
            finally:
                self.seconds += time.monotonic() - started

    def seconds_per_step(self, at_least: float) -> float:
        """The time of a step, the first ones left out: code and memory are made ready in them.

        Args:
            at_least: Seconds to measure for; two steps are always measured.
        """
        keep_freed_memory()
        self.program.mode(training=True)
        for _ in range(2):
            self._advance()
        before, started = self.step, time.perf_counter()
        while self.step < before + 2 or time.perf_counter() < started + at_least:
            self._advance()
        return (time.perf_counter() - started) / (self.step - before)

    def _advance(self) -> None:
        rows = torch.stack([s.order(self.step) for s in self.state])
        inputs, targets = self.examples.batch(rows)
        weights = None if self.examples.weights is None else self.examples.weights[rows.to(self.device)]
        losses = self.program.losses(inputs, targets, self.step / self.total, weights)
        self.optimizer.zero_grad()
        losses[:, 0].sum().backward()
        rate = self.training.learning_rate_at(self.step, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self._reserve_trace(self.step + 1)
        self.trace[:, self.step] = losses.detach()
        self.step += 1

    def _reserve_trace(self, steps: int) -> None:
        """Make room for the losses of so many steps, doubling, so that the memory follows the steps done."""
        missing = steps - self.trace.shape[1]
        if missing > 0:
            room = min(max(missing, 1024, self.trace.shape[1]), max(missing, self.total - self.trace.shape[1]))
            more = self.trace.new_full((self.trace.shape[0], room, self.trace.shape[2]), math.nan)
            self.trace = torch.cat([self.trace, more], dim=1)

    def _check_finite(self) -> None:
        """End seeds whose loss is not a number. Done now and then only: asking after each step would stall."""
        columns = self.program.objective.names
        recent = self.trace[:, self.checked : self.step, 0].isfinite().cpu()
        for i, state in enumerate(self.state):
            if not state.stopped and not bool(recent[i].all()):
                step = self.checked + int((~recent[i]).nonzero()[0])
                self._diverge(
                    i, step, [n for n, v in zip(columns, self.trace[i, step].tolist()) if not math.isfinite(v)]
                )
        self.checked = self.step

    def _diverge(self, index: int, step: int, columns: list[str]) -> None:
        rate = self.training.learning_rate_at(min(step, self.total - 1), self.total)
        self.state[index].stopped = True
        why = (
            f"The loss of seed {self.seeds[index]} is not a finite number at step {step} ({', '.join(columns)}). "
            f"Likely causes: a learning rate that is too high (it was {rate:.2g}; try a third, or a warm-up), "
            "a loss term with an infinite gradient, or inputs that are not finite."
        )
        self.state[index].diverged = TrainingDiverged({self.seeds[index]: why})

    def _evaluate(self) -> str:
        """Add a row to each seed's history, apply the early stop, and return the note for the progress bar."""
        self._check_finite()
        every = self.training.evaluate_every
        since = (self.step - 1) // every * every  # from the step alone, so that checkpoints leave no trace in it
        inputs, targets, n_id = self._evaluation
        self.program.mode(training=False)
        with torch.no_grad():
            errors = (self.program.outputs(inputs) - targets).square().flatten(2).mean(-1)
        self.program.mode(training=True)
        id_mse, ood_mse = errors[:, :n_id].mean(1).tolist(), errors[:, n_id:].mean(1).tolist()
        means = self.trace[:, since : self.step].mean(1).tolist()
        rate = self.training.learning_rate_at(self.step - 1, self.total)
        for i, state in enumerate(self.state):
            if not state.stopped and not math.isfinite(id_mse[i]):
                self._diverge(i, self.step, ["id_mse"])
            if state.stopped:
                continue
            row = {
                "step": self.step,
                "learning_rate": rate,
                **dict(zip(self.program.objective.names, means[i])),
            }
            state.history.append({**row, "id_mse": id_mse[i], "ood_mse": ood_mse[i]})
            self._stop_early(i, id_mse[i])
        return f"ID {sum(id_mse) / len(id_mse):.1e}  OOD {sum(ood_mse) / len(ood_mse):.1e}"

    def _stop_early(self, index: int, error: float) -> None:
        state, recipe = self.state[index], self.training
        state.without_improvement = 0 if error < state.best else state.without_improvement + 1
        state.best = min(state.best, error)
        enough = recipe.stop_below is not None and error <= recipe.stop_below
        stuck = recipe.stop_patience is not None and state.without_improvement >= recipe.stop_patience
        if (enough or stuck) and self.step < self.total:
            state.stopped = True
            self.final[index] = {k: v.detach().clone() for k, v in self.program.tensors(index).items()}

    def outcomes(self) -> list[Run | TrainingDiverged]:
        """For each seed its run, with a model of its own on the training device, or why there is none."""
        outcomes: list[Run | TrainingDiverged] = []
        for i, (model, seed, state) in enumerate(zip(self.models, self.seeds, self.state)):
            if state.diverged is not None:
                outcomes.append(state.diverged)
                continue
            tensors = self._weights(i)
            with torch.no_grad():
                for name, target in [*model.named_parameters(), *model.named_buffers()]:
                    target.copy_(tensors[name])
            if isinstance(model, Decoder):
                model.eval()
            steps = int(state.history[-1]["step"])
            outcomes.append(
                Run(
                    model=model,
                    task=self.task,
                    seed=seed,
                    training=self.training,
                    history=state.history,
                    losses=self.trace[i, :steps].cpu(),
                    loss_names=self.program.objective.names,
                    steps=steps,
                    stopped_early=state.stopped,
                    seconds=self.seconds,
                    scores=score(model, self.task),
                )
            )
        return outcomes

    def _weights(self, index: int) -> dict[str, Tensor]:
        """A seed's weights: those it stopped with, or the current ones."""
        return self.final.get(index) or self.program.tensors(index)

    def save(self) -> None:
        """Write the checkpoint of every seed that has not diverged."""
        self._check_finite()
        kept = [(c, i) for i, c in enumerate(self.checkpoints) if self.state[i].diverged is None]
        for checkpoint, i in kept:
            checkpoint.prepare(self._snapshot(i))
        for checkpoint, _ in kept:
            checkpoint.adopt()

    def _snapshot(self, index: int) -> Snapshot:
        state = self.state[index]
        tensors = {f"model.{name}": t for name, t in self._weights(index).items()}
        tensors["trace"] = self.trace[index, : self.step]
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        for name, parameter in self.program.parameters.items():
            for key, value in self.optimizer.state[parameter].items():
                part = self.program.seed_part(value, index) if value.shape == parameter.shape else value
                tensors[f"optimizer.{name}.{key}"] = part
        facts = {
            "step": self.step,
            "history": state.history,
            "best": state.best,
            "without_improvement": state.without_improvement,
            "stopped": state.stopped,
        }
        return Snapshot(tensors, facts)

    def _resume(self) -> None:
        """Take up the seeds' snapshots, which stand at one step, or start at step 0."""
        snapshots = [s for s in (checkpoint.read() for checkpoint in self.checkpoints) if s is not None]
        if not snapshots:
            return
        assert len(snapshots) == len(self.seeds)
        assert len({s.facts["step"] for s in snapshots}) == 1
        try:
            self.step = self.checked = snapshots[0].facts["step"]
            torch.set_rng_state(snapshots[0].tensors["random.cpu"])
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(snapshots[0].tensors["random.cuda"], self.device)
            with torch.no_grad():
                for i, snapshot in enumerate(snapshots):
                    self._restore(i, snapshot)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StoreError(
                f"{self.checkpoints[0].path} does not fit the run it names ({error}). Delete it, or train with --force."
            ) from error

    def _restore(self, index: int, snapshot: Snapshot) -> None:
        state, facts = self.state[index], snapshot.facts
        state.history, state.best = [dict(row) for row in facts["history"]], facts["best"]
        state.without_improvement, state.stopped = facts["without_improvement"], facts["stopped"]
        self._reserve_trace(self.step)
        trace = snapshot.tensors["trace"]
        if len(trace) != self.step:
            raise ValueError(f"it stands at step {self.step} but has the losses of {len(trace)}")
        self.trace[index, : self.step] = trace.to(self.device)
        for name, target in self.program.tensors(index).items():
            target.copy_(snapshot.tensors[f"model.{name}"])
        if state.stopped:
            self.final[index] = {k: v.detach().clone() for k, v in self.program.tensors(index).items()}
        for name, parameter in self.program.parameters.items():
            prefix = f"optimizer.{name}."
            for key in [k for k in snapshot.tensors if k.startswith(prefix) and "." not in k[len(prefix) :]]:
                saved, slot = snapshot.tensors[key], key.removeprefix(prefix)
                whole = self.optimizer.state[parameter]
                if slot == "step":
                    whole[slot] = saved.clone()
                    continue
                if slot not in whole:
                    whole[slot] = torch.zeros_like(parameter)
                self.program.seed_part(whole[slot], index).copy_(saved)

    def _interrupted(self) -> str:
        done = f"Interrupted at step {self.step} of {self.total}."
        if not self.checkpoints:
            return f"{done} Nothing was saved, as no checkpoint file was asked for."
        return f"{done} The state is saved in {self.checkpoints[0].path.parent}; run the same thing again to go on."
