"""Categorical and unequally spaced factors, and cells that do not exist, through all parts of a diagnosis."""

import math

import numpy as np
import pandas
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, Missing, NotComputable
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.numerics.geometry import metric_tensor_exact, metric_tensor_finite_difference
from recombine.diagnostics.numerics.kernel_regression import factor_distances
from recombine.diagnostics.numerics.probes import features_of_rows, linear_probes, probes_of_features
from recombine.diagnostics.part import chosen_parts

PARTS = tuple(part.name for part in chosen_parts(rc.DiagnosisRequest()))

OPTIONS = {"geometry": ["exact", "finite difference"], "progress": False}
MIXED = rc.FactorSpace(x=5, size=[0.5, 0.7, 1.0, 2.0], colour=["red", "green", "blue"])
HOLE = rc.holdouts.mask(MIXED, np.random.default_rng(0).random(MIXED.shape) < 0.25)
WAVES = torch.tensor([0.3, 1.1, 2.0], dtype=torch.float64)


def picture(values):
    """Smooth in x and size; every colour has phases of its own."""
    x, size, colour = values.double().unbind(-1)
    shift = WAVES[colour.round().long()]
    return torch.stack([(x * size / 3 + shift).sin(), (x + shift).cos(), size.square() + shift, x * shift], dim=1)


@pytest.fixture(scope="module")
def mixed():
    return rc.diagnose(
        picture, MIXED, None, HOLE, target=picture, geometry=["exact", "finite difference"], progress=False
    )


def test_all_parts_take_all_kinds_of_factors(mixed, tmp_path):
    assert [name for name in PARTS if not mixed[name].computed] == []
    again = Diagnosis.load(mixed.save(tmp_path / "d"))
    assert again.space == MIXED
    assert str(again) == str(mixed)
    for name in PARTS:
        assert isinstance(again.plot(name), Figure)


def test_derivatives_are_taken_along_factors_that_have_them(mixed):
    part = mixed["geometry"]
    assert part.facts["factors"] == ["x", "size"]
    assert part.arrays["metric/out"].shape == (60, 2, 2)
    assert {row["pair"] for row in part.rows} == {"all", "x,size"}
    jacobian = torch.func.vmap(torch.func.jacrev(lambda xs, shift: torch.stack(
        [(xs[0] * xs[1] / 3 + shift).sin(), (xs[0] + shift).cos(), xs[1].square() + shift, xs[0] * shift]
    )))  # fmt: skip
    values = MIXED.values(torch.arange(60)).double()
    columns = jacobian(values[:, :2], WAVES[values[:, 2].long()])
    np.testing.assert_allclose(part.arrays["metric/out"], (columns.mT @ columns).numpy(), rtol=1e-5, atol=1e-7)


def test_differences_between_unequal_values_are_those_of_numpy(mixed):
    outputs = picture(MIXED.values(torch.arange(60))).reshape(*MIXED.shape, -1).numpy()
    columns = np.stack(np.gradient(outputs, np.arange(5.0), [0.5, 0.7, 1.0, 2.0], axis=(0, 1)), axis=-1)
    expected = np.einsum("xsuoi,xsuoj->xsuij", columns, columns)
    found = mixed["geometry"].arrays["metric by finite difference/out"].reshape(*MIXED.shape, 2, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    swapped = rc.FactorSpace(size=[0.5, 0.7, 1.0, 2.0], colour=["red", "green", "blue"], x=5)
    other = metric_tensor_finite_difference(lambda v: picture(v[:, [2, 0, 1]]), swapped)["out"].metric
    np.testing.assert_allclose(
        other.reshape(*swapped.shape, 2, 2)[..., ::-1, ::-1], expected.transpose(1, 2, 0, 3, 4), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("method", [metric_tensor_exact, metric_tensor_finite_difference])
def test_labels_alone_have_no_geometry(method):
    space = rc.FactorSpace(colour=["red", "green"], shape=["square", "disk"])
    with pytest.raises(NotComputable) as error:
        method(nn.Linear(2, 3), space)
    assert error.value.state is Missing.NOT_APPLICABLE


def test_all_labels_are_equally_far():
    cells = torch.arange(60)
    distances = factor_distances(MIXED, cells, cells)
    colour = MIXED.coordinates(cells)[:, 2]
    assert torch.equal(distances[2], (colour[:, None] != colour[None]).double())


def test_probes_of_labels_are_accuracies_against_chance(mixed):
    rows = mixed["probes"].rows
    for row in rows:
        labelled = row["factor"] == "colour"
        assert math.isnan(row["r2"]) == labelled
        assert math.isnan(row["accuracy"]) == math.isnan(row["chance"]) == (not labelled)
    labels = np.unravel_index(HOLE.ood_cells.numpy(), MIXED.shape)[2]
    fitted = np.unravel_index(HOLE.id_cells.numpy(), MIXED.shape)[2]
    [row] = [r for r in rows if (r["layer"], r["factor"], r["score"]) == ("out", "colour", "ridge_ood")]
    assert row["chance"] == pytest.approx((labels == np.bincount(fitted).argmax()).mean())
    assert "probe_accuracy_ood" in mixed.to_json()["layers"][0]


def test_a_one_hot_layer_is_read_perfectly_and_noise_at_chance():
    cells = torch.cat([HOLE.id_cells, HOLE.ood_cells])
    colour = MIXED.coordinates(cells)[:, 2]
    onehot = torch.nn.functional.one_hot(colour, 3).double()
    noise = torch.randn(60, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    features = {"onehot": features_of_rows(onehot), "noise": features_of_rows(noise)}
    found = probes_of_features(features, {"onehot": 3, "noise": 3}, MIXED, cells, HOLE.n_id)
    for score in ("in_sample", "id_to_ood", "ridge_cv", "ridge_ood"):
        assert found["onehot", "colour", score].accuracy == 1
        assert found["noise", "colour", score].accuracy < 0.7
    assert found.errors["onehot"][2].max() == 0
    assert found.errors["noise"][2].mean() > 0.3


def test_label_probes_are_cross_validated():
    """Each fold is predicted by a least-squares fit to the others, written out."""
    space = rc.FactorSpace(x=8, colour=["red", "green", "blue"])
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    found = linear_probes(net, space)["out", "colour", "ridge_cv"]
    cells = torch.arange(24)
    with torch.no_grad():
        layer = net(space.values(cells).double())
    y = torch.nn.functional.one_hot(cells % 3, 3).double()
    from recombine.core.seeds import generator

    right = 0
    for fold in torch.randperm(24, generator=generator(0, "probe folds")).tensor_split(5):
        rest = torch.ones(24, dtype=torch.bool)
        rest[fold] = False
        mean = layer[rest].mean(0)
        centred = layer[rest] - mean
        weights = torch.linalg.solve(centred.T @ centred + found.penalty * torch.eye(4, dtype=torch.float64),
                                     centred.T @ (y[rest] - y[rest].mean(0)))  # fmt: skip
        right += int((((layer[fold] - mean) @ weights + y[rest].mean(0)).argmax(1) == cells[fold] % 3).sum())
    assert found.accuracy == pytest.approx(right / 24)


GRID = rc.FactorSpace(x=6, y=6)
GONE = np.zeros((6, 6), bool)
GONE[0, 1] = GONE[4, 4] = GONE[2, 3] = True
LIMITED = rc.holdouts.centre(GRID, 2, 4).within(~GONE)


class Careful(nn.Module):
    """A model that refuses cells which do not exist."""

    def __init__(self, other):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.other = nn.Sequential(nn.Linear(2, 9), nn.Tanh(), nn.Linear(9, 4)).double(), other

    def forward(self, values):
        gone = torch.tensor(GONE)[tuple(values.detach().round().long().unbind(-1))]
        if self.other is None and bool(gone.any()):
            raise InputError("there is no such cell")
        return self.net(values) + gone[:, None] * (self.other or 0.0)


def truth(values):
    assert not GONE[tuple(values.detach().round().long().numpy().T)].any()
    return torch.stack([values[:, 0].sin(), values[:, 1].cos(), values[:, 0] * values[:, 1], values[:, 1]], dim=1)


@pytest.fixture(scope="module")
def limited():
    return rc.diagnose(Careful(None), GRID, None, LIMITED, target=truth, **OPTIONS)


def test_cells_that_do_not_exist_are_never_asked_for(limited):
    for part in ("outputs", "errors", "superposition", "kernels", "geometry", "probes", "embeddings"):
        assert limited[part].computed
        assert isinstance(limited.plot(part), Figure)
    assert limited["tuning"].state is Missing.NOT_APPLICABLE
    assert limited["complexity"].missing["complexity of the output"].state is Missing.NOT_APPLICABLE
    assert limited["kernels"].missing["spectrum"].state is Missing.NOT_APPLICABLE
    assert np.isnan(limited["outputs"].arrays["output"][GONE.ravel()]).all()
    assert [row["n_cells"] for row in limited["errors"].rows] == [33, 26, 7]


def test_an_array_of_targets_may_hold_anything_there(limited):
    target = torch.full((36, 4), torch.nan, dtype=torch.float64)
    cells = LIMITED.available_cells
    target[cells] = truth(GRID.values(cells).double())
    found = rc.diagnose(Careful(None), GRID, None, LIMITED, target=target, **OPTIONS)
    assert found["errors"].rows == limited["errors"].rows
    assert found.verdict.kind == limited.verdict.kind


def test_differences_need_neighbours_that_exist(limited):
    metric = limited["geometry"].arrays["metric by finite difference/out"].reshape(6, 6, 2, 2)
    unknown = np.isnan(metric).any((2, 3))
    beside = np.zeros_like(GONE)
    for axis in (0, 1):
        for step in (-1, 1):
            moved = np.roll(GONE, step, axis)
            edge = [slice(None)] * 2
            edge[axis] = 0 if step == 1 else -1
            moved[tuple(edge)] = False
            beside |= moved
    np.testing.assert_array_equal(unknown, GONE | beside)
    full = metric_tensor_finite_difference(Careful(3.0), GRID)["out"].metric.reshape(6, 6, 2, 2)
    np.testing.assert_allclose(metric[~unknown], full[~unknown])


def test_availability_survives_files(limited, tmp_path):
    again = Diagnosis.load(limited.save(tmp_path / "d"))
    assert (again.holdout.id_mask == LIMITED.id_mask).all()
    assert (again.holdout.available == LIMITED.available).all()


def test_without_a_hold_out_the_target_says_what_exists():
    class Target:
        available = ~GONE

        def __call__(self, values):
            return truth(values)

    found = rc.diagnose(
        Careful(None), GRID, None, target=Target(), parts=["errors", "probes", "outputs"], progress=False
    )
    assert found["errors"].rows[0]["n_cells"] == 33
    table = pandas.DataFrame(found["probes"].rows)
    assert set(table["fitted"]) <= {33}
