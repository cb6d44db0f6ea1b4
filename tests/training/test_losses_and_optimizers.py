"""Losses, optimizers and callbacks: the contract that every member joins by being there, and own ones."""

import csv

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import DivergenceCause, InputError, TrainingDiverged
from recombine.training import Callback, CSVLog, recipe
from recombine.training.losses import LOSSES, as_loss
from recombine.training.optimizers import OPTIMIZERS


@pytest.fixture(scope="module")
def task():
    space = rc.FactorSpace(x=6, y=6)
    return rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 3))


def small(**settings):
    return recipe("paper", **{"steps": 12, "evaluate_every": 4, "batch": 8, **settings})


@pytest.mark.parametrize("kind", LOSSES.models)
def test_a_loss_is_the_mean_over_its_examples_for_one_seed_and_for_several(kind):
    loss = LOSSES.build({"kind": kind})
    outputs, targets = (torch.rand(3, 5, 4, 2, dtype=torch.float64) for _ in range(2))
    each = torch.stack([loss.per_example(o, t) for o, t in zip(outputs, targets)])
    weights = torch.rand(3, 5, dtype=torch.float64)
    torch.testing.assert_close(loss.of_seeds(outputs, targets), each.mean(1))
    torch.testing.assert_close(loss.of_seeds(outputs, targets, weights), (weights * each).mean(1))
    torch.testing.assert_close(loss(outputs[0], targets[0]), each[0].mean())
    torch.testing.assert_close(loss(outputs[0], targets[0], weights[0]), (weights[0] * each[0]).mean())


def test_losses_are_those_of_torch():
    outputs, targets = torch.rand(2, 7, 3), torch.rand(2, 7, 3)
    torch_losses = {"mse": nn.MSELoss(), "l1": nn.L1Loss(), "huber": nn.HuberLoss(), "bce": nn.BCELoss()}
    for kind, theirs in torch_losses.items():
        torch.testing.assert_close(LOSSES.build({"kind": kind})(outputs, targets), theirs(outputs, targets))


def test_cross_entropy_wants_outputs_and_targets_in_the_unit_interval(task):
    with pytest.raises(InputError) as caught:
        rc.train(rc.decoders.MLP(task, width=8), task, training=small(loss={"kind": "bce"}))
    assert caught.value.key == "training.loss"
    run = rc.train(rc.decoders.Deconv(task, width=4), task, training=small(loss={"kind": "bce"}))
    assert run.loss_names == ["loss", "bce"]


@pytest.mark.parametrize("kind", OPTIMIZERS.models)
def test_every_optimizer_trains_seeds_together_as_alone_and_goes_on_from_a_checkpoint(kind, task, tmp_path):
    model, training = rc.decoders.MLP(task, depth=1, width=8), small(optimizer={"kind": kind})
    alone = rc.train_seeds(model, task, [0, 1], training=training, together=False)
    if OPTIMIZERS.components[kind].elementwise:
        together = rc.train_seeds(model, task, [0, 1], training=training, together=True)
        for a, b in zip(together, alone):
            torch.testing.assert_close(a.losses, b.losses, rtol=1e-4, atol=1e-7)

    class Stop(Callback):
        def on_evaluate(self, seed, row):
            if row["step"] == 8:
                raise KeyboardInterrupt

    keep = {"checkpoint": tmp_path / "c", "checkpoint_seconds": 0.0, "training": training}
    with pytest.raises(KeyboardInterrupt):
        rc.train(model, task, callbacks=[Stop()], **keep)
    again = rc.train(model, task, **keep)
    assert torch.equal(again.losses, alone[0].losses)


def test_a_loss_and_an_optimizer_of_ones_own(task):
    def worst(outputs, targets):
        return (outputs - targets).abs().amax()

    def rmsprop(parameters, learning_rate):
        return torch.optim.RMSprop(parameters, learning_rate)

    run = rc.train(rc.decoders.MLP(task, depth=1, width=8), task, training=small(), loss=worst, optimizer=rmsprop)
    assert run.loss_names == ["loss", "worst"]
    for options in ({"optimizer": lambda p, r: 1}, {"loss": lambda o, t: o}):
        with pytest.raises(InputError) as caught:
            rc.train(rc.decoders.MLP(task, depth=1, width=8), task, training=small(), **options)
        assert caught.value.key == next(iter(options))
    assert as_loss(worst).per_example(torch.zeros(2, 3), torch.ones(2, 3)).tolist() == [1, 1]


def test_weights_of_a_source_multiply_the_loss_of_its_examples(task):
    run, half = (
        rc.train(rc.decoders.MLP(task, depth=1, width=8), task, training=small(examples={"cells": {"weight": weight}}))
        for weight in (1.0, 0.5)
    )
    assert half.losses[0, 0] == pytest.approx(0.5 * float(run.losses[0, 0]), rel=1e-5)


class Spoilt(rc.scenes.Bump):
    def __call__(self, values, present=None):
        image = super().__call__(values, present)
        return torch.where((values[..., :1, None] == 0), torch.nan, image)


def test_targets_that_are_not_finite_are_named_as_the_cause(task):
    spoilt = rc.Task(Spoilt(task.space), task.encoding, task.holdout)
    with pytest.raises(TrainingDiverged) as caught:
        rc.train(rc.decoders.MLP(spoilt, depth=1, width=8), spoilt, training=small())
    assert caught.value.causes == {0: DivergenceCause.TARGETS}
    with pytest.raises(TrainingDiverged) as caught:
        rc.train(rc.decoders.MLP(task), task, training=small(learning_rate=1e30))
    assert caught.value.causes == {0: DivergenceCause.LOSS}


def test_callbacks_are_told_of_start_evaluations_and_end(task, tmp_path):
    told = []

    class Tell(Callback):
        def on_start(self, seeds, step, total):
            told.append(("start", list(seeds), step, total))

        def on_evaluate(self, seed, row):
            told.append((seed, row["step"]))

        def on_end(self, result):
            told.append(("end", result.seed))

    run = rc.train(
        rc.decoders.MLP(task, depth=1, width=8),
        task,
        training=small(),
        callbacks=[Tell(), CSVLog(tmp_path / "logs" / "history.csv")],
    )
    assert told == [("start", [0], 0, 12), (0, 4), (0, 8), (0, 12), ("end", 0)]
    with (tmp_path / "logs" / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["id_mse"]) for row in rows] == [row["id_mse"] for row in run.history]
