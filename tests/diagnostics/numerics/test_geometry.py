"""The metric tensor against closed forms, reverse mode and numpy.gradient; scores and their degenerate cases."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.func import jacrev

import recombine as rc
from recombine.core.errors import InputError, Missing, NotComputable
from recombine.core.factors import continuous, cyclic, discrete
from recombine.core.task import Shapes
from recombine.diagnostics.model.layers import examine
from recombine.diagnostics.numerics import derivatives
from recombine.diagnostics.numerics.derivatives import DERIVATIVE_METHODS
from recombine.diagnostics.numerics.geometry import (
    LayerGeometry,
    factorization_map,
    factorization_pairs_map,
    factorization_pointwise,
    factorization_ratio_of_means,
    metric_tensor_exact,
    metric_tensor_finite_difference,
)

EXACT, REVERSE, ROUNDING = 1e-10, 1e-9, 1e-12  # against closed forms, against jacrev, between orders of summation
SPACE = rc.FactorSpace(x=5, y=4)


@pytest.fixture(autouse=True)
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


def cells(space):
    return torch.arange(len(space))


def by_jacrev(model, space, encode=None, layers=None):
    """The simplest way: all of J by reverse mode, cell by cell."""
    model = model.eval() if isinstance(model, nn.Module) else model
    subject = examine(model, space, encode, layers=layers)
    found = {}
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for name in subject.layers:
            by_cell = jacrev(lambda v, name=name: subject.rows(v[None])[name][0])
            jacobian = torch.stack([by_cell(v) for v in subject.values(cells(space))])
            found[name] = (jacobian.mT @ jacobian).detach().numpy()
    return found


def check_agreement(geometry, expected, tolerance):
    assert list(geometry.layers) == list(expected)
    for name, metric in expected.items():
        np.testing.assert_allclose(geometry[name].metric, metric, rtol=tolerance, atol=tolerance * np.abs(metric).max())


# Exact metric -----------------------------------------------------------------------------------------------------


def test_linear_decoder_has_metric_AtA():
    model = nn.Linear(3, 50)
    space = rc.FactorSpace(x=4, y=3, z=2)
    geometry = metric_tensor_exact(model, space, layers="out")
    expected = (model.weight.T @ model.weight).detach().numpy()
    np.testing.assert_allclose(geometry["out"].metric, np.broadcast_to(expected, (24, 3, 3)), rtol=EXACT)
    assert geometry.derivative_method == "forward"
    assert geometry["out"].units == 50


def test_bump_scene_has_its_analytic_metric():
    space, sigma = rc.FactorSpace(x=9, y=7), 1.3
    geometry = metric_tensor_exact(rc.scenes.Bump(space, sigma=sigma), space, layers="out")
    x, y = space.values(cells(space)).numpy().T
    u, v = np.arange(9)[:, None], np.arange(7)[:, None]

    def moments(pixels, centre):
        square = np.exp(-((pixels - centre) ** 2) / sigma**2)
        return [(((pixels - centre) / sigma**2) ** k * square).sum(0) for k in (0, 1, 2)]

    (x0, x1, x2), (y0, y1, y2) = moments(u, x), moments(v, y)
    expected = np.stack([x2 * y0, x1 * y1, x1 * y1, x0 * y2], axis=-1).reshape(-1, 2, 2)
    np.testing.assert_allclose(geometry["out"].metric, expected, rtol=EXACT, atol=EXACT)


def decoders(task):
    sizes = task.shapes
    attention = rc.decoders.Transformer(sizes, depth=1, width=8, heads=2)
    return {
        "cnn": rc.decoders.CNN(sizes, depth=1, width=3),
        "mlp": rc.decoders.MLP(sizes, depth=2, width=11),
        "transformer": attention,
        "pixel_mlp": rc.decoders.PixelMLP(sizes, depth=1, width=8),
    }


@pytest.mark.parametrize("kind", ["cnn", "mlp", "transformer", "pixel_mlp"])
def test_decoders_agree_with_jacrev_through_the_encoding(kind):
    space = rc.FactorSpace(x=4, y=4)
    task = rc.Task(
        rc.scenes.Bump(space, rows=5, columns=6), rc.encodings.Bump(space), rc.holdouts.centre(space, 1.0, 2.0)
    )
    model = decoders(task)[kind].double().initialize(0)
    geometry = metric_tensor_exact(model, space, task.encoding)
    check_agreement(geometry, by_jacrev(model, space, task.encoding), REVERSE)
    assert geometry.derivative_method == ("forward, attention in math mode" if kind == "transformer" else "forward")
    for layer in geometry.layers.values():
        np.testing.assert_array_equal(layer.metric, layer.metric.swapaxes(1, 2))
        assert (np.linalg.eigvalsh(layer.metric) >= -ROUNDING * layer.metric.max()).all()
        assert (layer.factorization >= 0.5 - ROUNDING).all()
        assert (layer.factorization <= 1).all()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.spread, self.attend = nn.Linear(2, 3 * 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, code):
        tokens = self.spread(code).unflatten(1, (3, 8))
        return self.attend(tokens, tokens, tokens, need_weights=False)[0].tanh()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, code):
        return self.out(self.lstm(code.unsqueeze(1).expand(-1, 5, -1) / 3)[0][:, -1])


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    @staticmethod
    def backward(ctx, upstream):
        return 2 * ctx.saved_tensors[0] * upstream


class SquareOnce(Square):
    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        return 2 * ctx.saved_tensors[0] * upstream


class SquareDetached(Square):
    @staticmethod
    def backward(ctx, upstream):
        return 2 * ctx.saved_tensors[0] * upstream.detach()


class Custom(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.linear, self.act = function, nn.Linear(2, 4), nn.Tanh()

    def forward(self, code):
        return self.function.apply(self.act(self.linear(code / 3)))


def normed():
    model = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(6, 5))
    model(torch.randn(50, 2))  # running statistics of its own
    return model.train()


@pytest.mark.parametrize(
    ("make", "derivative_method"),
    [
        (normed, "forward"),
        (Attention, "forward, attention in math mode"),
        (Recurrent, "forward"),
        (lambda: Recurrent().float(), "forward, mkldnn off"),
        (lambda: Custom(Square), "double vjp"),
        (lambda: Custom(SquareOnce), "reverse rows"),
        (lambda: Custom(SquareDetached), "reverse rows"),
    ],
)
def test_the_method_is_reported_and_leaves_the_model_alone(make, derivative_method):
    model = make()
    state = {name: t.clone() for name, t in model.state_dict().items()}
    modes = [m.training for m in model.modules()]
    geometry = metric_tensor_exact(model, SPACE)
    assert geometry.derivative_method == derivative_method
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    values = SPACE.values(cells(SPACE))
    single = next(model.parameters()).dtype == torch.float32
    assert torch.backends.mkldnn.enabled
    step = 1e-4  # an independent check: differences of outputs over a small step, in float64
    model.double().eval()
    with torch.no_grad():
        columns = [(model(values + step * e) - model(values - step * e)).flatten(1) / (2 * step) for e in torch.eye(2)]
    jacobian = torch.stack(columns, dim=-1)
    np.testing.assert_allclose(
        geometry["out"].metric, (jacobian.mT @ jacobian).numpy(), rtol=1e-4 if single else 1e-6, atol=1e-7
    )


def test_a_model_that_raises_has_no_derivative_and_a_bug_of_ours_is_no_property_of_it(monkeypatch):
    class Strict(nn.Linear):
        def forward(self, input):
            if torch.is_grad_enabled() or torch._C._functorch.peek_interpreter_stack() is not None:
                raise KeyError("no transforms")
            return super().forward(input)

    with pytest.raises(NotComputable, match="KeyError: 'no transforms'") as found:
        metric_tensor_exact(Strict(2, 3).double(), SPACE)
    assert found.value.state is Missing.NOT_DIFFERENTIABLE

    def broken(*_):
        raise KeyError("a bug")

    monkeypatch.setattr(derivatives, "gram_of_columns", broken)
    with pytest.raises(KeyError, match="a bug"):
        metric_tensor_exact(nn.Linear(2, 3).double(), SPACE)


@pytest.mark.parametrize("derivative_method", DERIVATIVE_METHODS)
def test_all_derivative_methods_give_the_same_numbers(derivative_method):
    model = rc.decoders.MLP(Shapes(2, (3, 3)), depth=2, width=7).double()
    geometry = metric_tensor_exact(model, SPACE, derivative_method=derivative_method)
    assert geometry.derivative_method == derivative_method
    check_agreement(geometry, by_jacrev(model, SPACE), REVERSE)


def test_memory_does_not_change_the_result():
    model = nn.Sequential(nn.Linear(2, 9), nn.Tanh(), nn.Linear(9, 4))
    large, small = metric_tensor_exact(model, SPACE), metric_tensor_exact(model, SPACE, memory=1)
    assert (large.cells_at_once, small.cells_at_once) == (1024, 1)
    check_agreement(small, {name: layer.metric for name, layer in large.layers.items()}, ROUNDING)


def test_rotated_activations_have_the_same_metric():
    rotation = torch.linalg.qr(torch.randn(6, 6)).Q
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh())
    turned = nn.Sequential(model, nn.Linear(6, 6, bias=False))
    turned[1].weight.data = rotation
    check_agreement(
        metric_tensor_exact(turned, SPACE, layers="out"),
        {"out": metric_tensor_exact(model, SPACE, layers="out")["out"].metric},
        EXACT,
    )


def test_float32_models_sum_in_float64():
    model = nn.Linear(2, 200_000).float()
    metric = metric_tensor_exact(model, SPACE, layers="out")["out"].metric
    weight = model.weight.detach().double()
    np.testing.assert_allclose(metric[0], (weight.T @ weight).numpy(), rtol=2e-6, atol=2e-2)


def test_steps_and_lows_of_factors_enter():
    space = rc.FactorSpace(x=continuous(-1.0, 1.0, 6), y=discrete(3, low=2.0, step=0.5))
    geometry = metric_tensor_exact(lambda code: code.square(), space, layers="out")
    values = space.values(cells(space)).numpy()
    np.testing.assert_allclose(geometry["out"].metric[:, [0, 1], [0, 1]], 4 * values**2, rtol=EXACT, atol=EXACT)


# Finite differences -----------------------------------------------------------------------------------------------


def by_gradient(model, space):
    """The plain way: the whole grid at once, numpy.gradient along every axis."""
    subject = examine(model, space)
    found = {}
    with torch.no_grad():
        rows = subject.rows(subject.values(cells(space)))
    for name, row in rows.items():
        grid = row.double().numpy().reshape(*space.shape, -1)
        steps = [f.step for f in space.factors.values()]
        columns = np.gradient(grid, *steps, axis=tuple(range(space.n_factors)))
        columns = [columns] if space.n_factors == 1 else columns
        found[name] = np.einsum("i...u,j...u->...ij", columns, columns).reshape(len(space), len(steps), len(steps))
    return found


@pytest.mark.parametrize("memory", [2**30, 4_000, 1])
@pytest.mark.parametrize(
    "space",
    [
        rc.FactorSpace(x=5, y=7),
        rc.FactorSpace(x=discrete(4, step=0.5), y=2, z=continuous(0.0, 1.0, 6)),
        rc.FactorSpace(x=6),
    ],
    ids=str,
)
def test_finite_differences_are_those_of_numpy(space, memory):
    model = nn.Sequential(nn.Linear(space.n_factors, 9), nn.Tanh(), nn.Linear(9, 4))
    check_agreement(metric_tensor_finite_difference(model, space, memory=memory), by_gradient(model, space), ROUNDING)


@pytest.mark.parametrize("memory", [2**30, 1])
def test_cyclic_factors_have_no_border(memory):
    space = rc.FactorSpace(a=cyclic(360.0, 8), b=cyclic(1.0, 5))

    def model(code):
        a, b = torch.deg2rad(code[:, 0]), 2 * torch.pi * code[:, 1]
        return torch.stack([a.cos() + b.sin(), a.sin(), b.cos() * a.sin()], dim=1)

    grid = model(space.values(cells(space))).reshape(8, 5, 3)
    along = [(grid.roll(-1, i) - grid.roll(1, i)) / (2 * f.step) for i, f in enumerate(space.factors.values())]
    expected = torch.einsum("iabu,jabu->abij", torch.stack(along), torch.stack(along)).reshape(40, 2, 2).numpy()
    geometry = metric_tensor_finite_difference(model, space, layers="out", memory=memory)
    check_agreement(geometry, {"out": expected}, ROUNDING)
    assert geometry.method == "finite difference"
    assert geometry.derivative_method is None


def test_integer_codes_go_by_differences_only():
    table = nn.Embedding(20, 3)
    encode = lambda values: (values[:, 0] * 4 + values[:, 1]).long()  # noqa: E731
    with pytest.raises(NotComputable, match=r"torch.int64.*metric_tensor_finite_difference"):
        metric_tensor_exact(table, SPACE, encode)
    metric = metric_tensor_finite_difference(table, SPACE, encode, layers="out")["out"].metric
    grid = table.weight.detach().numpy().reshape(5, 4, 3)
    along = np.gradient(grid, axis=(0, 1))
    np.testing.assert_allclose(metric, np.einsum("iabu,jabu->abij", along, along).reshape(20, 2, 2), rtol=ROUNDING)


# Scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5])
def test_factorization_lies_between_one_half_and_one(n):
    random = np.random.default_rng(0)
    jacobians = random.standard_normal((500, 4, n)) * 10 ** random.uniform(-3, 3, (500, 1, n))
    metric = jacobians.swapaxes(1, 2) @ jacobians
    for scores in (factorization_map(metric), factorization_pairs_map(metric)[:, *np.triu_indices(n, 1)]):
        assert scores.min() >= 0.5
        assert scores.max() <= 1
        assert scores.std() > 0.01
    for summary in (factorization_pointwise(metric), factorization_ratio_of_means(metric)):
        assert 0.5 <= summary.overall <= 1
        assert summary.degenerate == 0


def test_factorization_of_two_factors_is_the_papers():
    metric = np.array([[[2.0, -1.0], [-1.0, 3.0]], [[1.0, 0.5], [0.5, 1.0]]])
    np.testing.assert_allclose(factorization_map(metric), [1 - 1 / 5, 1 - 0.5 / 2])
    pointwise, of_means = factorization_pointwise(metric), factorization_ratio_of_means(metric)
    assert pointwise.overall == pytest.approx((0.8 + 0.75) / 2)
    assert of_means.overall == pytest.approx(1 - 1.5 / 7)
    for found in (pointwise, of_means):
        assert found.pairs[0, 1] == found.pairs[1, 0] == pytest.approx(found.overall)
        assert np.isnan(np.diag(found.pairs)).all()


def test_factorization_reaches_both_ends():
    assert factorization_map(np.eye(4)) == 1
    assert factorization_map(np.ones((4, 4))) == 0.5
    assert np.isnan(factorization_map(np.ones((1, 1))))


def test_degenerate_cells_are_counted_and_left_out():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    model[0].weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    space = rc.FactorSpace(x=discrete(4, low=-2.0), y=discrete(4, low=-2.0))  # each unit is dead for values up to 0
    layer = metric_tensor_exact(model, space, layers="out")["out"]
    assert layer.n_degenerate == 9
    assert layer.n_singular == 15
    assert np.isnan(layer.factorization[layer.degenerate]).all()
    assert np.isnan(layer.log_volume).sum() == 15
    assert np.isnan(layer.condition).sum() == 9
    assert np.isinf(layer.condition).sum() == 6
    found = layer.factorization_pointwise()
    assert (found.overall, found.degenerate, found.cells) == (1.0, 9, 16)
    nothing = layer.factorization_pointwise(layer.degenerate)
    assert np.isnan(nothing.overall)
    assert nothing.degenerate == 9


def test_volume_and_condition():
    metric = np.array([[[4.0, 0.0], [0.0, 9.0]], [[2.0, 1.0], [1.0, 2.0]]])
    layer = LayerGeometry("out", 3, ("x", "y"), metric)
    np.testing.assert_allclose(layer.volume, [6, np.sqrt(3)])
    np.testing.assert_allclose(layer.log_volume, np.log10([6, np.sqrt(3)]))
    np.testing.assert_allclose(layer.condition, [9 / 4, 3])


def test_table_has_a_row_per_layer_pair_and_set_of_cells():
    space = rc.FactorSpace(x=3, y=2, z=2)
    geometry = metric_tensor_exact(nn.Linear(3, 5), space)
    mask = np.arange(12) < 4
    table = geometry.to_pandas({"id": ~mask, "ood": mask})
    assert len(table) == 2 * 2 * 4
    assert set(table["pair"]) == {"all", "x,y", "x,z", "y,z"}
    assert table[table["cells"] == "ood"]["n_cells"].unique().tolist() == [4]
    assert table["factorization_pointwise"].between(0.5, 1).all()
    flat = metric_tensor_exact(nn.Linear(1, 5), rc.FactorSpace(x=3)).to_pandas()
    assert flat["factorization_pointwise"].isna().all()
    assert flat["log_volume"].notna().all()


# Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [metric_tensor_exact, metric_tensor_finite_difference])
def test_outputs_that_say_nothing(method):
    constant = nn.Linear(2, 3)
    constant.weight.data.zero_()
    exact = method is metric_tensor_exact  # derivatives alone cannot tell a constant from a rounded output
    message = "derivative of the model's output.*is 0 at every cell" if exact else "output does not depend on the code"
    with pytest.raises(NotComputable, match=message):
        method(constant, SPACE)
    with pytest.raises(NotComputable, match=message):
        method(lambda code: torch.ones(len(code), 2), SPACE)
    with pytest.raises(NotComputable, match="code does not depend on the factors"):
        method(nn.Linear(2, 3), SPACE, torch.ones_like)
    with pytest.raises(InputError, match=r"output is NaN or infinite at x=3, y=0"):
        method(lambda code: torch.where(code[:, :1] > 2.5, torch.nan, code), SPACE)


def test_rounding_encodings_are_sent_to_differences():
    encode = lambda values: nn.functional.one_hot(values[:, 0].long(), 5).double()  # noqa: E731
    with pytest.raises(NotComputable, match=r"round.*metric_tensor_finite_difference"):
        metric_tensor_exact(lambda code: code @ torch.ones(5, 2), SPACE, encode)


def test_models_without_derivative_are_told_why():
    def black_box(code):
        return torch.from_numpy(np.sin(code.numpy()))

    with pytest.raises(NotComputable, match=r"(?s)No exact derivative.*forward: .*reverse rows: "):
        metric_tensor_exact(black_box, SPACE)
    assert metric_tensor_finite_difference(black_box, SPACE)["out"].n_degenerate == 0


def test_other_mistakes():
    with pytest.raises(InputError, match="no derivative method 'sideways'"):
        metric_tensor_exact(nn.Linear(2, 2), SPACE, derivative_method="sideways")
    with pytest.raises(NotComputable, match=r"at least 2 values of every factor\. Got 1 value of 'y'"):
        metric_tensor_finite_difference(nn.Linear(2, 2), rc.FactorSpace(x=3, y=1))
    with pytest.raises(InputError, match=r"Use depth|codes of shape"):
        metric_tensor_exact(rc.decoders.MLP(Shapes(7, (3, 3))), SPACE)
