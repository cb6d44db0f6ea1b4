"""The training loop: learning, batching of seeds, terms, stopping, failures."""

import math

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, TrainingDiverged
from recombine.core.seeds import check_seed
from recombine.training import Batch, recipe
from recombine.training.loss_terms import check_terms
from recombine.training.losses.mse import MSE
from recombine.training.order import Order
from recombine.training.program import Single, Stacked
from recombine.training.session import Session
from recombine.training.setup import Setup
from recombine.training.trainer import Trainer
from recombine.training.training_set import TrainingSet


@pytest.fixture
def task():
    space = rc.FactorSpace(x=8, y=8)
    return rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 5))


def fast(**settings):
    own = {"examples": {"cells": {"draw": "all"}}, "optimizer": {"beta2": 0.99}}
    own |= {"batch": 16, "learning_rate": 3e-3, "schedule": "cosine", "warmup": 0.05}
    return recipe("paper", **{**own, "steps": 40, "evaluate_every": 10, **settings})


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


class Shrink:
    """A loss term: mean square of all weights."""

    name = "shrink"

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, model: nn.Module, batch: Batch):
        return self.weight * sum(p.square().mean() for p in model.parameters()) * (1 - batch.progress)


def test_training_learns_the_trained_combinations(task):
    run = rc.train(rc.decoders.MLP(task, width=64), task, training=fast(steps=600))
    assert run.history[-1]["id_mse"] < 0.1 * run.history[0]["id_mse"]
    assert run.scores.summary()["id", "mse"].mean < run.scores.summary()["ood", "mse"].mean
    assert run.losses.shape == (600, 2)


@pytest.mark.parametrize("decoder", [rc.decoders.MLP, rc.decoders.CNN, rc.decoders.PixelMLP, rc.decoders.Transformer])
def test_same_seed_same_result_and_the_global_random_state_is_left_alone(task, decoder):
    models = [decoder(task, depth=1, width=8) for _ in range(3)]
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    runs = [rc.train(model, task, seed=s, training=fast(steps=5)) for model, s in zip(models, (0, 0, 1))]
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(weights(runs[0].model), weights(runs[1].model))
    assert not torch.equal(weights(runs[0].model), weights(runs[2].model))


def test_seeds_trained_together_equal_seeds_trained_alone(task):
    model = rc.decoders.MLP(task, width=32)
    together = rc.train_seeds(model, task, [0, 1, 2], training=fast(), terms=[Shrink(1e-3)], together=True)
    alone = rc.train_seeds(model, task, [0, 1, 2], training=fast(), terms=[Shrink(1e-3)], together=False)
    for a, b in zip(together, alone):
        torch.testing.assert_close(a.losses, b.losses, rtol=1e-4, atol=1e-9)
        torch.testing.assert_close(weights(a.model), weights(b.model), rtol=1e-3, atol=1e-5)
    assert not torch.equal(together[0].losses, together[1].losses)


def test_batch_norms_averages_are_trained_together_and_alone(task):
    model = rc.decoders.Deconv(task, width=4)
    together, alone = (
        rc.train_seeds(model, task, [0, 1], training=fast(steps=25, evaluate_every=7), together=t)
        for t in (True, False)
    )
    for a, b in zip(together, alone):
        torch.testing.assert_close(a.losses, b.losses, rtol=1e-3, atol=1e-7)
        for (name, mine), its in zip(a.model.named_buffers(), b.model.buffers(), strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-2, atol=1e-4)
            if "tracked" in name:
                assert mine == 25  # evaluations leave the averages alone
    assert all(int(b) == 0 for name, b in model.named_buffers() if "tracked" in name)


def test_a_trained_model_is_in_evaluation_mode(task):
    """So that an image does not depend on the others of its batch, nor the averages on who looks."""
    run = rc.train(rc.decoders.Deconv(task, width=4), task, training=fast(steps=5))
    assert not run.model.training
    again = rc.train(run.model, task, fresh=False, training=fast(steps=3))
    assert {int(b) for name, b in again.model.named_buffers() if "tracked" in name} == {8}


def test_a_seed_has_the_same_bits_whatever_seeds_are_stacked_with_it(task):
    """So that what is left of a batch after a kill goes on as if nothing had happened."""
    model = rc.decoders.MLP(task, width=32)
    batches = [rc.train_seeds(model, task, seeds, training=fast()) for seeds in ([2], [1, 2], [0, 1, 2, 3])]
    for [run] in [[run for run in batch if run.seed == 2] for batch in batches[1:]]:
        assert torch.equal(run.losses, batches[0][0].losses)
        assert torch.equal(weights(run.model), weights(batches[0][0].model))


def test_training_alone_equals_the_plain_loop_anyone_would_write(task):
    training = fast(steps=12, schedule="constant", warmup=0.0)
    run = rc.train(rc.decoders.MLP(task, width=16), task, seed=3, training=training)

    model = rc.decoders.MLP(task, width=16).initialize(3)
    optimizer = torch.optim.AdamW(model.parameters(), training.learning_rate, betas=(0.9, 0.99), weight_decay=0.01)
    examples = TrainingSet(task, training, torch.device("cpu"))
    order = Order(examples.epoch(3)[0], training.batch, 3)
    for step in range(12):
        codes, images = examples.batch(order(step))
        optimizer.zero_grad()
        ((model(codes) - images) ** 2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(weights(run.model), weights(model), rtol=1e-5, atol=1e-7)


def test_terms_are_added_logged_and_scheduled(task):
    run = rc.train(rc.decoders.MLP(task, width=16), task, training=fast(), terms=[Shrink(0.5)])
    assert run.loss_names == ["loss", "mse", "shrink"]
    torch.testing.assert_close(run.losses[:, 0], run.losses[:, 1] + run.losses[:, 2])
    assert run.losses[-1, 2] < 0.1 * run.losses[0, 2]
    assert run.history[-1]["shrink"] > 0


class Named(Shrink):
    def __init__(self, name, found=None):
        super().__init__(1.0)
        self.name, self.found = name, found

    def __call__(self, model, batch):
        return super().__call__(model, batch) if self.found is None else self.found


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([Named("step")], "'step' is already a column of the history"),
        ([Named("mse")], "'mse' is already a column of the history"),
        ([Named("a"), Named("a")], "Two loss terms are named 'a'"),
        ([Named("")], "needs a name"),
        ([Named("a", 0.5)], "'a' must return a single number as a tensor. Got float"),
        ([Named("a", torch.zeros(3))], r"'a' must return a single number as a tensor. Got shape \(3,\)"),
    ],
)
def test_terms_that_would_spoil_the_record_are_refused(task, terms, message):
    with pytest.raises(InputError, match=message):
        rc.train(rc.decoders.MLP(task, width=16), task, training=fast(), terms=terms)


class Squashed(rc.decoders.MLP):
    def forward(self, code):
        return super().forward(code).sigmoid()


@pytest.mark.parametrize("how", ["subclass", "hook"])
def test_seeds_together_train_the_forward_pass_the_model_has(task, how):
    def model():
        if how == "subclass":
            return Squashed(task, depth=1, width=16)
        made = rc.decoders.MLP(task, depth=1, width=16)
        made.layers.register_forward_hook(lambda module, given, found: found.tanh())
        return made

    together = rc.train_seeds(model(), task, [0, 1], training=fast())
    alone = [rc.train(model(), task, seed=seed, training=fast()) for seed in (0, 1)]
    for a, b in zip(together, alone):
        torch.testing.assert_close(a.losses[:5], b.losses[:5], rtol=1e-5, atol=0)


class OwnRenderer(rc.decoders.FactorRenderer):
    def maps(self):
        return 2 * super().maps()


def dilated(model):
    model.layers[1].conv = nn.Conv2d(2, 2, 3, padding=2, dilation=2)


def patched(model):
    model.layers[0].conv.forward = lambda image: 0.5 * image


def weightless(model):
    model.layers[1].conv = nn.ConvTranspose2d(2, 2, 3, padding=1, bias=False)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of its weight norm
@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "renderer", OwnRenderer((8, 8), (8, 8))),
        lambda model: model.layers[0].append(nn.Tanh()),
        dilated,
        weightless,
        patched,
        lambda model: setattr(model.layers[2], "act", nn.PReLU(2)),
        lambda model: nn.utils.parametrizations.weight_norm(model.layers[1].conv),
    ],
)
def test_seeds_together_train_the_parts_the_model_has(task, change):
    task = rc.Task(task.scene, rc.encodings.OneHot(task.space), task.holdout)
    model = rc.decoders.FactorRendered(task)
    change(model)
    together = rc.train_seeds(model, task, [0, 1], training=fast(steps=10), together=True)
    alone = rc.train_seeds(model, task, [0, 1], training=fast(steps=10), together=False)
    for a, b in zip(together, alone):
        torch.testing.assert_close(a.losses[:5], b.losses[:5], rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", [rc.decoders.MLP, rc.decoders.FactorRendered])
def test_unchanged_decoders_take_the_quicker_way(task, kind):
    model = kind(rc.Task(task.scene, rc.encodings.OneHot(task.space), task.holdout), depth=2)
    assert Stacked([model], MSE(), ()).faster is not None
    assert Stacked([model.double()], MSE(), ()).faster is not None


class TanhCNN(rc.decoders.CNN):
    def __init__(self, sizes, depth: int = 1, width: int = 4):
        super().__init__(sizes, depth, width)
        for layer in self.layers:
            layer.act = nn.Tanh()


class SquashedCNN(rc.decoders.CNN):
    def __call__(self, code):
        return super().__call__(code).sigmoid()


class TanhMLP(rc.decoders.MLP):
    def __init__(self, sizes, depth: int = 1, width: int = 4):
        super().__init__(sizes, depth, width)
        for layer in self.layers:
            layer.act = nn.Tanh()


def quicker(model, *terms):
    return Single(model, MSE(), terms).faster is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model.layers[1], "act", nn.Tanh()),
        lambda model: model.layers[0].append(nn.Tanh()),
        lambda model: model.layers[1].act.register_forward_hook(lambda *_: None),
        lambda model: model.layers[1].act.register_full_backward_hook(lambda *_: None),
        lambda model: model.register_full_backward_pre_hook(lambda *_: None),
        lambda model: model.layers[0].conv.bias.requires_grad_(False),
        lambda model: setattr(model, "_compiled_call_impl", model.forward),  # as model.compile() does
        patched,
    ],
)
def test_a_cnn_takes_the_quicker_way_if_nothing_was_changed_in_it(task, change):
    model = rc.decoders.CNN(task, depth=1, width=4)
    assert quicker(model)
    assert not quicker(model, Shrink(0.1))
    change(model)
    assert not quicker(model)


def test_a_hook_on_all_modules_is_no_way_to_be_passed_over(task):
    hook = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert not quicker(rc.decoders.CNN(task, depth=1, width=4))
    finally:
        hook.remove()


def test_classes_that_build_or_compute_something_else_take_no_quicker_way(task):
    assert not quicker(TanhCNN(task))
    assert not quicker(SquashedCNN(task, depth=1, width=4))
    assert Stacked([TanhMLP(task)], MSE(), ()).faster is None


def test_the_quicker_way_trains_a_cnn_to_the_same_weights(task, monkeypatch):
    def trained():
        return rc.train(rc.decoders.CNN(task, depth=2, width=4), task, training=fast(steps=10))

    quick = trained()
    calls = []
    monkeypatch.setattr(rc.decoders.CNN, "training_forward", lambda self, code: calls.append(1) or self(code))
    plain = trained()
    assert len(calls) == 10
    torch.testing.assert_close(quick.losses, plain.losses, rtol=1e-4, atol=0)
    torch.testing.assert_close(weights(quick.model), weights(plain.model), rtol=0, atol=1e-4)


def test_frozen_weights_stay_also_with_seeds_together(task):
    model = rc.decoders.MLP(task, depth=1, width=8)
    model.out.requires_grad_(False)
    run = rc.train_seeds(model, task, [3], training=fast(steps=5), together=True)[0]
    start = rc.decoders.MLP(task, depth=1, width=8).initialize(3)
    assert torch.equal(run.model.out.weight, start.out.weight)
    assert not torch.equal(run.model.layers[0].linear.weight, start.layers[0].linear.weight)


def test_a_term_without_a_name_is_refused():
    with pytest.raises(InputError, match="needs a name"):
        check_terms([lambda model, batch: model.out.bias.sum()])


def test_seeds_that_are_none_are_refused(task):
    model = rc.decoders.MLP(task, width=8)
    for seed in (1.5, -1, "a", True, 2**64, None):
        with pytest.raises(InputError, match="A seed must be an integer"):
            check_seed(seed)
    with pytest.raises(InputError, match="A seed must be an integer"):
        rc.train(model, task, seed=-1, training=fast(steps=1))
    with pytest.raises(InputError, match=r"2 seeds need 2 checkpoint files. Got 1"):
        rc.train_seeds(model, task, [0, 1], training=fast(steps=1), checkpoints=["only one"])


def test_codes_that_are_the_same_are_refused(task):
    flat = rc.Task(task.scene, rc.encodings.Bump(task.space, width=1e9), task.holdout)
    with pytest.raises(InputError, match="its values 0 and 1 have the same code"):
        rc.train(rc.decoders.MLP(flat, width=8), flat, training=fast(steps=1))


def test_a_device_may_be_given_as_torch_names_it(task):
    run = rc.train(rc.decoders.MLP(task, width=8), task, training=fast(steps=1), device=torch.device("cpu"))
    assert run.steps == 1


def test_history_has_the_mean_loss_between_evaluations(task):
    run = rc.train(rc.decoders.MLP(task, width=16), task, training=fast(steps=25))
    assert [row["step"] for row in run.history] == [10, 20, 25]
    assert run.history[1]["loss"] == pytest.approx(run.losses[10:20, 0].mean().item(), rel=1e-5)
    assert run.history[2]["loss"] == pytest.approx(run.losses[20:25, 0].mean().item(), rel=1e-5)


def test_evaluation_estimates_the_true_errors(task):
    run = rc.train(rc.decoders.MLP(task, width=16), task, training=fast())
    summary = run.scores.summary()  # 64 cells: all of them serve for evaluation
    assert run.history[-1]["id_mse"] == pytest.approx(summary["id", "mse"].mean, rel=1e-4)
    assert run.history[-1]["ood_mse"] == pytest.approx(summary["ood", "mse"].mean, rel=1e-4)


def test_stop_below_ends_each_seed_where_it_would_have_ended_alone(task):
    model, training = rc.decoders.MLP(task, width=32), fast(steps=400, stop_below=8e-3)
    together = rc.train_seeds(model, task, range(4), training=training, together=True)
    alone = rc.train_seeds(model, task, range(4), training=training, together=False)
    assert [run.steps for run in together] == [run.steps for run in alone]
    assert all(run.stopped_early and run.steps < 400 for run in together)
    assert len({run.steps for run in together}) > 1  # so that some seeds stopped before others
    for a, b in zip(together, alone):
        assert a.history[-1]["id_mse"] <= 8e-3
        assert a.losses.shape == b.losses.shape
        torch.testing.assert_close(weights(a.model), weights(b.model), rtol=1e-2, atol=1e-4)


def test_patience_stops_when_nothing_improves(task):
    run = rc.train(
        rc.decoders.MLP(task, width=16), task, training=fast(steps=400, learning_rate=1e-12, stop_patience=3)
    )
    assert run.stopped_early
    assert run.steps <= 100


def test_divergence_names_seed_step_and_causes(task):
    with pytest.raises(TrainingDiverged, match=r"seed 7 .* at step \d+ \(loss, mse\).*learning rate .* 1e\+18"):
        rc.train(rc.decoders.MLP(task), task, seed=7, training=recipe("paper", steps=60, learning_rate=1e18))


def test_one_diverging_seed_does_not_take_the_others_with_it(task):
    models = [rc.decoders.MLP(task, width=16).initialize(s) for s in (0, 1)]
    with torch.no_grad():
        next(models[0].parameters()).fill_(math.nan)
    session = Session(models, Setup.of(task, fast(), device="cpu"), [0, 1])
    session.run(progress=False)
    failed, fine = session.outcomes()
    assert isinstance(failed, TrainingDiverged)
    alone = rc.train(rc.decoders.MLP(task, width=16), task, seed=1, training=fast())
    torch.testing.assert_close(weights(fine.model), weights(alone.model), rtol=1e-3, atol=1e-5)


def test_weights_spoilt_by_the_very_last_step_are_noticed(task):
    with pytest.raises(TrainingDiverged, match=r"\(id_mse\)"):
        rc.train(rc.decoders.MLP(task), task, training=recipe("paper", steps=1, learning_rate=1e38))


def test_a_diverging_rendered_seed_leaves_the_others_alone(task, monkeypatch):
    """Its NaN reaches the others' channels, so they are trained again by themselves."""
    original = rc.decoders.FactorRendered.initialize

    def spoilt(self, seed):
        original(self, seed)
        if seed == 0:
            with torch.no_grad():
                self.renderer.strengths.fill_(math.nan)
        return self

    model = rc.decoders.FactorRendered(task, rank=2)
    alone = rc.train_seeds(model, task, [1], training=fast())[0]
    monkeypatch.setattr(rc.decoders.FactorRendered, "initialize", spoilt)
    with pytest.raises(TrainingDiverged, match="seed 0") as error:
        rc.train_seeds(model, task, [0, 1], training=fast())
    assert [run.seed for run in error.value.finished] == [1]
    torch.testing.assert_close(error.value.finished[0].losses, alone.losses)


def test_models_in_double_precision_train_and_are_scored_and_drawn(task):
    run = rc.train(rc.decoders.MLP(task, width=16).double(), task, training=fast())
    assert next(run.model.parameters()).dtype == torch.double
    assert run.scores.summary()["id", "mse"].mean > 0
    assert run.scores.plot_samples(n=1).axes


def test_scores_stay_those_of_the_run_when_the_model_is_trained_again(task):
    model = rc.decoders.MLP(task, width=16)
    first = rc.train(model, task, seed=0, training=fast())
    before = first.scores.columns["mse"].copy()
    rc.train(model, task, seed=1, training=fast())
    assert (first.scores.columns["mse"] == before).all()


def test_a_checkpoint_of_another_architecture_of_the_same_shape_is_refused(task, tmp_path):
    from recombine.core.errors import StoreError

    for heads in (1, 2):
        model = rc.decoders.Transformer(task, depth=1, width=8, heads=heads)
        arguments = {"training": fast(steps=3), "checkpoint": tmp_path / "c", "checkpoint_seconds": 0.0}
        if heads == 1:
            rc.train(model, task, **arguments)
        else:
            with pytest.raises(StoreError, match="other settings, model or task"):
                rc.train(model, task, **arguments)


def test_a_users_own_module_is_trained_from_the_weights_it_has(task):
    torch.manual_seed(0)
    own = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 64), nn.Unflatten(1, (8, 8)))
    before = weights(own)
    run = rc.train(own, task, training=fast(steps=1, learning_rate=1e-9))
    torch.testing.assert_close(weights(own), before, rtol=1e-5, atol=1e-7)
    assert run.model is own
    assert run.model.training


def test_a_decoder_is_trained_on_from_where_it_is_when_asked(task):
    first = rc.train(rc.decoders.MLP(task, width=16), task, training=fast(steps=200))
    again = rc.train(first.model, task, training=fast(), fresh=False)
    assert again.losses[0, 0] < 0.5 * first.losses[0, 0]


def test_the_inverse_experiment_trains_and_is_scored_in_factor_steps():
    space = rc.FactorSpace(x=8, y=8)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 5), inverse=True)
    run = rc.train(rc.decoders.Encoder(task, width=32), task, training=fast(steps=300))
    summary = run.scores.summary()
    assert summary["id", "localization"].mean > 0.9
    assert ("id", "ssim") not in {(row.split, row.metric) for row in summary.rows}


def test_a_decoder_for_another_task_is_an_error(task):
    space = rc.FactorSpace(x=9, y=9)
    other = rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 5))
    with pytest.raises(InputError, match=r"takes codes of shape \(batch, 18\). Got \(2, 16\)"):
        rc.train(rc.decoders.MLP(other), task)
    with pytest.raises(InputError, match=r"outputs of shape \(2, 8, 8\). Got \(2, 16\)"):
        rc.train(nn.Identity(), task)
    with pytest.raises(InputError, match=r"does not accept inputs of shape \(batch, 16\)"):
        rc.train(nn.Linear(5, 5), task)
    with pytest.raises(InputError, match="images to codes"):
        rc.train(rc.decoders.Encoder(task), task)


def test_a_device_that_is_not_there_is_an_error(task):
    with pytest.raises(InputError, match=r"no device 'cuda:99' on this machine. Devices: auto, cpu"):
        rc.train(rc.decoders.MLP(task), task, device="cuda:99")


def test_the_loss_record_grows_with_the_steps_done_not_with_those_asked_for(task):
    trainer = Trainer([rc.decoders.MLP(task, width=8)], Setup.of(task, fast(steps=10**12), device="cpu"), [0])
    for _ in range(3):
        trainer.advance()
    trace = trainer.trace
    assert trace.values.shape[1] <= 1024
    assert trace.values[0, :3].isfinite().all()
    trace.reserve(5000)
    assert trace.values[0, :3].isfinite().all()
    assert trace.values[0, 3:].isnan().all()


def test_several_seeds_of_a_foreign_module_need_a_factory(task):
    with pytest.raises(InputError) as caught:
        rc.train_seeds(nn.Linear(2, 2), task, [0, 1])
    assert caught.value.key == "model"


def test_seeds_must_differ(task):
    with pytest.raises(InputError, match="Seeds must be distinct"):
        rc.train_seeds(rc.decoders.MLP(task), task, [1, 1])


def test_a_recipe_may_be_given_by_its_name(task):
    with pytest.raises(InputError, match="There is no training of kind 'recomended'"):
        rc.train(rc.decoders.MLP(task, depth=1, width=4), task, training="recomended")


def test_the_time_of_a_step_is_measured_over_steps_alone(task, monkeypatch):
    clock = iter([0.0, 0.1, 0.5, 1.1, 2.0])
    monkeypatch.setattr("recombine.training.trainer.time.perf_counter", lambda: next(clock))
    trainer = Trainer([rc.decoders.MLP(task, width=4)], Setup.of(task, fast(steps=3), device="cpu"), [0])
    # two steps to warm up, two always, and as many as fit into a second, even beyond the end of a short run
    assert trainer.seconds_per_step(1.0) == 2.0 / 4
    assert trainer.step == 2 + 4
