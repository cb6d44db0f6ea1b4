"""Choosing layers of any model, and leaving the model as it was."""

import copy
import functools
import types
import warnings

import pytest
import torch
from torch import nn

from recombine import FactorSpace, diagnose
from recombine.core.errors import InputError
from recombine.diagnostics.model.layers import examine
from recombine.diagnostics.model.observing import module_of, observing
from recombine.models.activations import capture

SPACE = FactorSpace(x=4, y=3)
CELLS = torch.arange(len(SPACE))


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))


class Shared(nn.Module):
    """One activation module used twice, and one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 4), nn.Linear(4, 4)
        self.act, self.idle = nn.ReLU(), nn.Sigmoid()

    def forward(self, code):
        return self.act(self.second(self.act(self.first(code))))


class Counting(nn.Module):
    """Draws random numbers, counts its calls in a buffer and keeps a running mean."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(2), nn.Linear(2, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(2))

    def forward(self, code):
        self.calls += 1
        self.last = code.detach().mean(0)
        torch.rand(3)
        return self.linear(self.norm(code))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 3)  # sequence first
        self.out = nn.Linear(3, 1)

    def forward(self, code):
        return self.out(self.lstm(code.expand(5, *code.shape))[0][-1])


class Overwriting(nn.Module):
    """Changes activations in place after they were made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(2, 4), nn.ReLU(inplace=True)

    def forward(self, code):
        hidden = self.act(self.linear(code))
        hidden += 10
        return hidden * 1


def test_default_layers_are_in_every_nonlinearity_and_out():
    subject = examine(small(), SPACE)
    assert subject.names == ("in", "1", "3", "out")
    assert [layer.units for layer in subject.layers.values()] == [2, 5, 6, 3]


def test_activations_are_those_of_the_modules():
    model = small()
    subject = examine(model, SPACE, layers=["in", "1", "out"])
    values = subject.values(CELLS)
    seen = subject.activations(values)
    torch.testing.assert_close(seen["in"], SPACE.values(CELLS))
    torch.testing.assert_close(seen["1"], model[1](model[0](values)))
    torch.testing.assert_close(seen["out"], model(values))


@pytest.mark.parametrize(
    ("layers", "names"),
    [("1", ("1",)), ("[13]", ("1", "3")), (["out", "3"], ("3", "out")), (["0", "[12]"], ("0", "1", "2"))],
)
def test_names_and_patterns(layers, names):
    assert examine(small(), SPACE, layers=layers).names == names


def test_a_miss_names_the_nearest_layers():
    with pytest.raises(InputError, match=r"no layer 'firts' \(did you mean 'first'"):
        examine(Shared(), SPACE, layers="firts")
    with pytest.raises(InputError, match=r"no layer 'nothing\.\*'.*Layers: in, 0, 1"):
        examine(small(), SPACE, layers=["nothing.*"])
    with pytest.raises(InputError, match="did you mean 'first'"), capture(Shared(), ["firts"]):
        pass


def test_a_module_used_twice_is_two_layers():
    model = Shared()
    assert examine(model, SPACE).names == ("in", "act", "act#2", "out")
    assert examine(model, SPACE, layers="act#2").names == ("act#2",)
    assert examine(model, SPACE, layers="act").names == ("act", "act#2")
    subject = examine(model, SPACE)
    values = subject.values(CELLS)
    torch.testing.assert_close(subject.activations(values)["act"], model.first(values).relu())
    torch.testing.assert_close(subject.activations(values)["act#2"], model(values))


def test_an_unused_module_is_an_error_only_if_asked_for():
    with pytest.raises(InputError, match="does not use it"):
        examine(Shared(), SPACE, layers="idle")
    assert "idle" in dict(Shared().named_modules())
    assert examine(Shared(), SPACE, layers="*i*").names == ("in", "first")


def test_first_tensor_of_a_tuple_and_cells_on_the_second_axis():
    model = Recurrent()
    subject = examine(model, SPACE, layers=["lstm", "out"])
    assert subject.layers["lstm"].shape == (5, 3)
    values = subject.values(CELLS)
    expected = model.lstm(values.expand(5, *values.shape))[0].movedim(1, 0)
    torch.testing.assert_close(subject.activations(values)["lstm"], expected)
    assert subject.rows(values)["lstm"].shape == (len(SPACE), 15)


def test_activations_overwritten_later_are_seen_as_they_were():
    model = Overwriting()
    subject = examine(model, SPACE, layers=["linear", "act"])
    values = subject.values(CELLS)
    before = nn.functional.linear(values, model.linear.weight, model.linear.bias)
    seen = subject.activations(values)
    torch.testing.assert_close(seen["linear"], before)
    torch.testing.assert_close(seen["act"], before.relu())


def test_rows_have_one_order_of_units_for_every_batch_size():
    model = nn.Sequential(nn.Unflatten(1, (2, 1, 1)), nn.ConvTranspose2d(2, 4, 3), nn.ReLU())
    model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    subject = examine(model, SPACE, layers="2")
    whole = subject.rows(subject.values(CELLS))["2"]
    single = torch.cat([subject.rows(subject.values(CELLS[i : i + 1]))["2"] for i in CELLS])
    torch.testing.assert_close(whole, single)


def test_callables_have_in_and_out_and_methods_their_modules():
    assert examine(lambda code: code @ torch.ones(2, 3), SPACE).names == ("in", "out")
    with pytest.raises(InputError, match="no layer"):
        examine(lambda code: code, SPACE, layers="1")
    model = Shared()
    assert module_of(functools.partial(model.forward)) is model
    assert examine(model.forward, SPACE).names == ("in", "act", "act#2", "out")


@pytest.mark.parametrize("fails", [False, True])
def test_observing_leaves_no_trace(fails):
    torch.manual_seed(1)
    model = Counting()
    model.norm.eval()  # a frozen part in a training model
    state = {name: t.clone() for name, t in model.state_dict().items()}
    buffers = dict(model.named_buffers())
    random = torch.get_rng_state()
    try:
        with observing(model):
            assert not model.training
            subject = examine(model, SPACE)
            subject.rows(subject.values(CELLS))
            assert model.calls > 0
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass
    assert model.training
    assert not model.norm.training
    assert model.linear.training
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=0)
    assert all(model.get_buffer(name) is buffer for name, buffer in buffers.items())
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(m._forward_hooks for m in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


class Writing(nn.Module):
    """Keeps its last activation, counts calls in an attribute, and writes a running mean into a buffer in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.act, self.out = nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)
        self.last, self.calls = torch.zeros(1), 0
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, code):
        self.last = self.new = self.act(self.linear(code))
        self.calls += 1
        self.mean.mul_(0.9).add_(self.last.mean(0), alpha=0.1)
        return self.out(self.last) + self.mean.mean().detach()


def test_cached_activations_counters_and_buffers_written_in_place_are_put_back():
    model = Writing()
    last = model.last
    diagnose(model, SPACE, progress=False, parts=["geometry", "probes"])
    assert model.last is last
    assert not hasattr(model, "new")
    assert model.calls == 0
    assert not model.mean.any()
    assert model.mean.grad_fn is None
    assert not model.mean.requires_grad
    copy.deepcopy(model)


def normed() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)).train()


GLOBAL = normed()


def test_modules_within_functions_encodings_and_targets_are_left_alone_too():
    local, bundle = normed(), types.SimpleNamespace(net=normed())

    def deeper(code):
        return (lambda given: local(given))(code)

    def of_global(code):
        return GLOBAL(code)

    callables = [lambda code: local(code), deeper, functools.partial(lambda net, code: net(code), local), of_global,
                 lambda code, net=local: net(code), lambda code: bundle.net(code)]  # fmt: skip
    for function in callables:
        for given in (
            {"model": function},
            {"model": nn.Tanh(), "encode": function},
            {"model": nn.Tanh(), "target": function},
        ):
            before = [{k: v.clone() for k, v in m.state_dict().items()} for m in (local, GLOBAL, bundle.net)]
            found = [diagnose(given["model"], SPACE, given.get("encode"), target=given.get("target"), parts=["outputs"],
                              progress=False)["outputs"].rows for _ in range(2)]  # fmt: skip
            assert found[0] == found[1]  # in eval mode: no dropout
            for module, state in zip((local, GLOBAL, bundle.net), before):
                assert all(m.training for m in module.modules())
                assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())


def test_a_scripted_module_is_a_callable():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(normed())
    state = {k: v.clone() for k, v in scripted.state_dict().items()}
    found = diagnose(scripted, SPACE, progress=False, parts=["outputs", "geometry", "probes"])
    assert found.layers == ("in", "out")
    assert all(m.training for m in scripted.modules())
    assert all(torch.equal(v, state[k]) for k, v in scripted.state_dict().items())
    within = nn.Sequential(scripted, nn.Tanh())
    assert diagnose(within, SPACE, progress=False, parts=["probes"]).layers == ("in", "1", "out")
    with pytest.raises(InputError, match="scripted"):
        examine(within, SPACE, layers="0")


def test_under_inference_mode():
    with torch.inference_mode():
        found = diagnose(normed(), SPACE, progress=False, parts="geometry")
    assert found["geometry"].computed


def test_a_module_called_out_is_listed_once():
    with pytest.raises(InputError, match=r"Layers: in, lstm, out\."):
        examine(Recurrent(), SPACE, layers="x")


def test_hooks_are_gone_after_the_model_fails():
    model = small()
    with pytest.raises(InputError, match=r"failed on codes of shape \(2, 7\).*Check that `encode`"):
        examine(model, SPACE, lambda values: torch.ones(len(values), 7))
    assert not any(m._forward_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda code: (code, code), "type tuple.*output=0"),
        (lambda code: code.sum(), r"one entry per code.*Got shape \(\)"),
        (lambda code: code[:1], r"Got shape \(1, 2\)"),
    ],
)
def test_outputs_that_cannot_be_used(model, message):
    with pytest.raises(InputError, match=message):
        examine(model, SPACE)


def test_bad_encodings():
    with pytest.raises(InputError, match=r"`encode` must map factor values.*Got list"):
        examine(small(), SPACE, lambda values: values.tolist())
    with pytest.raises(InputError, match=r"Got shape \(5, 2\)"):
        examine(small(), SPACE, lambda values: torch.ones(5, 2))


def test_the_first_nan_is_named():
    subject = examine(lambda code: torch.where(code[:, :1] > 1.5, torch.nan, code), SPACE)
    values = subject.values(CELLS)
    with pytest.raises(InputError, match=r"output is NaN or infinite at x=2, y=0, .*\(cell 6\)"):
        subject.check_finite(subject.rows(values), values)


def test_values_and_codes_have_the_models_precision():
    subject = examine(small().double(), SPACE)
    assert subject.values(CELLS).dtype == torch.float64
    half = examine(small().to(torch.bfloat16), SPACE)
    assert half.values(CELLS).dtype == torch.float32
    assert half.code(half.values(CELLS)).dtype == torch.bfloat16
