"""Models that take or return something else than tensors, seen as modules from codes to one tensor."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError
from recombine.models.adapted import Adapted, class_name, selected
from recombine.training.fit import check_module

SPACE = rc.FactorSpace(colour=["red", "green", "blue"], x=4)
VALUES = SPACE.values(torch.arange(12))
IMAGES = torch.arange(12 * 6.0).reshape(12, 2, 3) / 100
TASK = rc.Task.from_arrays(
    IMAGES, VALUES.numpy(), factors={"colour": ["red", "green", "blue"], "x": 4}, holdout=[{"colour": "red", "x": 3}]
)


@dataclass
class Output:
    sample: torch.Tensor
    extra: dict | None = None


Pair = namedtuple("Pair", "mean spread")
TENSOR = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("output", "key"),
    [
        (TENSOR, None),
        ((TENSOR - 1, TENSOR), 1),
        ([TENSOR], 0),
        ({"sample": TENSOR}, "sample"),
        ({"a.b": TENSOR}, "a.b"),
        (Output(TENSOR), "sample"),
        (Output(TENSOR - 1, {"again": (TENSOR,)}), "extra.again"),
        (Pair(TENSOR, 0), "mean"),
        (type("Plain", (), {"sample": TENSOR})(), "sample"),
    ],
    ids=["tensor", "tuple", "list", "dict", "dotted key", "dataclass", "nested", "named tuple", "attribute"],
)
def test_a_part_of_the_output_is_chosen_by_key_attribute_or_position(output, key):
    if key == "extra.again":
        with pytest.raises(InputError, match="output=0"):  # a tuple within: the position is still to choose
            selected(output, key)
        return
    assert selected(output, key) is TENSOR


@pytest.mark.parametrize(
    ("output", "key", "told"),
    [
        (Output(TENSOR), None, "output='sample'"),
        ((TENSOR, 3), None, "output=0"),
        ({"loss": 3}, None, "dict"),
        (None, None, "None"),
        (Output(TENSOR), "smaple", "'sample', 'extra'"),
        ((TENSOR,), 3, "Parts: 0"),
        (Output(TENSOR), "extra", "NoneType|None"),
    ],
)
def test_an_output_that_is_no_tensor_says_which_parts_it_has(output, key, told):
    with pytest.raises(InputError, match=told) as caught:
        selected(output, key)
    assert caught.value.key == "output"


class Recorder(nn.Module):
    """Keeps what it was called with."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.calls = []

    def forward(self, *args, **kwargs):
        self.calls.append((args, kwargs))
        first = [*args, *kwargs.values()][0]
        return self.weight * torch.ones(len(first), 2, 3)


def called(code, **given):
    model = Recorder()
    rc.adapt(model, TASK, **given)(code)
    return model.calls[0]


def test_inputs_by_name_are_what_the_code_stands_for():
    code = TASK.inputs(VALUES)
    labels = SPACE.coordinates(torch.arange(12))
    args, kwargs = called(code, inputs={"y": "labels", "c": "colour", "hot": "onehot", "v": "values", "code": "code"})
    assert args == ()
    assert torch.equal(kwargs["y"], labels)
    assert kwargs["y"].dtype == torch.int64
    assert torch.equal(kwargs["c"], labels[:, 0])
    assert torch.equal(
        kwargs["hot"], torch.cat([nn.functional.one_hot(labels[:, i], n) for i, n in ((0, 3), (1, 4))], -1)
    )
    assert torch.equal(kwargs["v"], VALUES)
    assert kwargs["code"] is code


def test_labels_of_irregular_and_cyclic_factors_count_their_values():
    space = rc.FactorSpace(size=[0.5, 0.7, 1.0], angle=rc.factors.cyclic(360.0, 4))
    task = rc.Task.from_arrays(
        torch.rand(12, 2, 2), space.values(torch.arange(12)).numpy(), factors=space, holdout={"kind": "random"}
    )
    model = Recorder()
    rc.adapt(model, task, inputs="labels")(task.inputs(space.values(torch.arange(12))))
    assert torch.equal(model.calls[0][0][0], space.coordinates(torch.arange(12)))


def test_noise_is_the_same_for_all_codes_and_other_for_every_draw():
    model = rc.adapt(Recorder(), noise=(2, 5), seed=3)
    model(torch.zeros(4, 7))
    model.draw(1)(torch.zeros(4, 7))
    rc.adapt(model.model, noise=(2, 5), seed=4)(torch.zeros(2, 7))
    first, second, other = (args[0] for args, _ in model.model.calls)
    assert first.shape == (4, 2, 5)
    assert (first == first[0]).all()
    assert not torch.equal(first, second)
    assert not torch.equal(first[0], other[0])
    assert model.draw(1).model is model.model


def test_a_method_and_its_module_are_one():
    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(7, 6)

        def decode(self, code):
            return {"sample": self.layer(code).reshape(-1, 2, 3)}

    vae = Vae()
    model = rc.adapt(vae.decode, output="sample")
    assert model.model is vae
    assert torch.equal(model(torch.ones(2, 7)), vae.decode(torch.ones(2, 7))["sample"])
    assert rc.score(model, TASK).columns["mse"] == pytest.approx(rc.score(model.draw(2), TASK).columns["mse"])


def test_an_adapted_model_is_trained_scored_and_saved(tmp_path):
    def embedded():
        torch.manual_seed(0)
        tables = nn.ModuleList([nn.Embedding(3, 4), nn.Embedding(4, 4)])

        class Embedded(nn.Module):
            def __init__(self):
                super().__init__()
                self.tables, self.head = tables, nn.Linear(8, 6)

            def forward(self, labels):
                parts = [table(column) for table, column in zip(self.tables, labels.T)]
                return Output(self.head(torch.cat(parts, -1)).reshape(-1, 2, 3))

        return rc.adapt(Embedded(), TASK, inputs="labels", output="sample")

    training = rc.recipe("recommended", steps=60)
    run = rc.train(embedded(), TASK, training=training, progress=False)
    assert run.history[-1]["loss"] < run.losses[0, 0]
    found = run.diagnose(parts=["errors"], progress=False)
    assert found["errors"].rows[0]["mse"] == pytest.approx(run.scores.columns["mse"].mean(), rel=1e-4)
    run.save(tmp_path, name="mine")
    again = rc.load_run("mine", tmp_path, module=embedded())
    assert torch.equal(again.model(TASK.inputs(VALUES)), run.model(TASK.inputs(VALUES)))


def test_scores_of_several_draws_are_means_with_their_spread():
    class Noisy(nn.Module):
        def forward(self, noise, code):
            return noise[:, :1, None].expand(-1, 2, 3)

    model = rc.adapt(Noisy(), noise=1)
    found = rc.score(model, TASK, draws=3)
    noise = [float(model.draw(n).noise(1, torch.zeros(1))[0, 0]) for n in range(3)]
    errors = [((IMAGES - value) ** 2).flatten(1).mean(1).numpy() for value in noise]
    assert found.columns["mse"] == pytest.approx(sum(errors) / 3, rel=1e-5)
    assert found.columns["spread"] == pytest.approx([torch.tensor(noise).var(correction=0).item()] * 12, rel=1e-4)
    assert "spread" in str(found.summary())
    assert "spread" not in rc.score(model, TASK).columns


def test_noise_that_a_model_draws_itself_is_fixed_for_each_draw():
    class Noisy(nn.Module):
        def forward(self, code):
            return torch.rand(1).expand(len(code), 2, 3)

    before = torch.random.get_rng_state()
    once, again = (rc.score(Noisy(), TASK, draws=2, chunk=5).columns for _ in range(2))
    assert once["mse"] == pytest.approx(again["mse"])
    assert (once["spread"] > 0).all()
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: rc.adapt(lambda code: code), "hides its layers"),
        (lambda: rc.adapt(nn.Linear(1, 1), inputs="labels"), "rc.adapt\\(model, task"),
        (lambda: rc.adapt(nn.Linear(1, 1), TASK, inputs="lables"), "no input 'lables' .did you mean 'labels'"),
        (lambda: rc.adapt(nn.Linear(1, 1), inputs="lables"), "no input 'lables' .did you mean 'labels'"),
        (lambda: rc.score(rc.adapt(nn.Linear(2, 6), TASK.space, inputs="values"), TASK), "pass the task"),
        (lambda: rc.adapt(nn.Linear(1, 1), TASK, inputs={"z": "noise"}), "noise=16"),
        (lambda: rc.adapt(nn.Linear(1, 1), TASK, inputs="code", noise=3), "noise"),
        (lambda: rc.adapt(nn.Linear(1, 1), noise=0), "shape"),
        (lambda: rc.score(nn.Linear(7, 6), TASK), r"\(12, 2, 3\)"),
        (lambda: rc.score(nn.LSTM(7, 6), TASK), "output=0"),
        (lambda: rc.score(nn.Linear(7, 6), TASK, draws=0), "at least 1"),
    ],
)
def test_what_is_wrong_is_said(make, told):
    with pytest.raises(InputError, match=told):
        make()


def test_a_model_that_refuses_large_batches_is_trained_scored_and_saved(tmp_path):
    class Refusing(nn.Linear):
        def forward(self, code):
            if len(code) > 5:
                raise ValueError("at most five")
            return super().forward(code).reshape(-1, 2, 3)

    torch.manual_seed(0)
    training = rc.recipe("recommended", steps=3, batch=4, evaluate_cells=4)
    run = rc.train(Refusing(7, 6), TASK, training=training, progress=False)
    assert len(run.scores.columns["mse"]) == 12
    run.save(tmp_path, name="refusing")
    assert run.scores.plot_samples(range(12))


def test_only_modules_are_trained():
    with pytest.raises(InputError, match="module"):
        check_module(lambda code: code)
    with pytest.raises(InputError, match=r"recombine\.adapt"):
        rc.train(nn.LSTM(7, 6), TASK)


def test_it_is_a_module_with_the_weights_of_the_model():
    model = nn.Linear(7, 6)
    adapted = rc.adapt(model, output=0)
    assert isinstance(adapted, Adapted)
    assert list(adapted.state_dict()) == ["model.weight", "model.bias"]
    assert "output=0" in repr(adapted)


def test_an_adapted_model_goes_by_its_own_name():
    assert class_name(rc.adapt(nn.Bilinear(2, 3, 4), inputs=("code", "noise"), noise=3)) == "Bilinear"
    assert class_name(nn.Linear(2, 3)) == "Linear"


def test_a_diagnosis_needs_only_the_factor_space_for_labels_and_one_hot_codes():
    space = rc.FactorSpace(colour=["red", "green", "blue"], size=[1.5, 2.0, 4.0, 7.0])

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.colours, self.net = nn.Embedding(3, 4), nn.Linear(11, 5)

        def forward(self, labels, onehot):
            return self.net(torch.cat([self.colours(labels[:, 0]), onehot], -1))

    torch.manual_seed(0)
    model = Table()
    inputs = {"labels": "labels", "onehot": "onehot"}
    adapted = rc.adapt(model, space, inputs=inputs)
    found = rc.diagnose(adapted, space, None, [{"colour": "red", "size": 4.0}], parts=["outputs"], progress=False)
    values = space.values(torch.arange(12))
    expected = model(torch.cartesian_prod(torch.arange(3), torch.arange(4)), rc.encodings.OneHot(space)(values))
    torch.testing.assert_close(torch.as_tensor(found["outputs"].arrays["output"]), expected)
