"""Probes against scikit-learn, in every form of the computation, and what is marked as missing."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, Missing
from recombine.core.factors import cyclic
from recombine.core.seeds import generator
from recombine.diagnostics.model.layers import examine
from recombine.diagnostics.numerics import probes
from recombine.diagnostics.numerics.probes import (
    PENALTIES,
    SCORES,
    Features,
    compact_features,
    features_of_rows,
    linear_probes,
    probe_targets,
)

AGREES = 1e-8
SPACE = rc.FactorSpace(x=9, y=8)
HOLDOUT = rc.holdouts.centre(SPACE, 3.0, 6.0)


@pytest.fixture
def model():
    """A narrow layer (0: 20 units for 72 cells), a wide one (2: 300) and a wide output."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 300), nn.Sigmoid(), nn.Linear(300, 100)).double()


def ramp(values):
    return values / 8


def activations(model, space=SPACE, encode=ramp, layers=None):
    subject = examine(model, space, encode, layers=layers)
    with torch.no_grad():
        return {n: r.numpy() for n, r in subject.rows(subject.values(torch.arange(len(space)))).items()}


@pytest.mark.parametrize("memory", [2**30, 60_000])
def test_least_squares_are_scikit_learns(model, memory):
    probes = linear_probes(model, SPACE, ramp, HOLDOUT, memory=memory)
    fit, new = ~HOLDOUT.mask.ravel(), HOLDOUT.mask.ravel()
    values = SPACE.values(torch.arange(len(SPACE))).double().numpy()
    for layer, rows in activations(model).items():
        for axis, factor in enumerate(SPACE.names):
            y = values[:, axis]
            oracle = LinearRegression().fit(rows, y)
            assert probes[layer, factor, "in_sample"].r2 == pytest.approx(oracle.score(rows, y), abs=AGREES)
            if layer not in ("in", "1"):  # smooth and wide: which tiny directions count as zero decides there
                continue
            oracle = LinearRegression().fit(rows[fit], y[fit])
            found = probes[layer, factor, "id_to_ood"]
            assert found.r2 == pytest.approx(oracle.score(rows[new], y[new]), abs=AGREES)
            assert (found.fitted, found.scored) == (HOLDOUT.n_id, HOLDOUT.n_ood)


@pytest.mark.parametrize("units", [30, 71, 72, 400])
def test_fitted_on_id_and_scored_on_ood(units):
    """Random features, as well conditioned as any: fewer and more units than cells."""
    table = torch.randn(72, units, generator=generator(0, "table"), dtype=torch.float64) * 3 + 5

    def lookup(code):
        return table[(code[:, 0] * 8 + code[:, 1]).round().long()]

    probes = linear_probes(lookup, SPACE, None, HOLDOUT, layers="out")
    new, rows = HOLDOUT.mask.ravel(), table.numpy()
    for axis, factor in enumerate(SPACE.names):
        y = SPACE.values(torch.arange(72)).double().numpy()[:, axis]
        for score, fit, scored in [("in_sample", new | True, new | True), ("id_to_ood", ~new, new)]:
            expected = LinearRegression().fit(rows[fit], y[fit]).score(rows[scored], y[scored])
            assert probes["out", factor, score].r2 == pytest.approx(expected, abs=AGREES)
    assert (probes["out", "x", "in_sample"].r2 > 1 - 1e-9) == (units >= 71)  # by counting unknowns


@pytest.mark.parametrize("units", [30, 400])
def test_ridge_is_cross_validated_within_id(units):
    table = torch.randn(72, units, generator=generator(1, "table"), dtype=torch.float64)
    table[:, 0] += torch.arange(72) // 8  # something to find

    def lookup(code):
        return table[(code[:, 0] * 8 + code[:, 1]).round().long()]

    probes = linear_probes(lookup, SPACE, None, HOLDOUT, layers="out", folds=4, seed=3)
    id_cells, ood_cells = HOLDOUT.id_cells.numpy(), HOLDOUT.ood_cells.numpy()
    y = SPACE.values(torch.arange(72)).double().numpy()[:, 0]
    rows = table.numpy()
    folds = torch.randperm(len(id_cells), generator=generator(3, "probe folds")).tensor_split(4)
    penalty = probes["out", "x", "ridge_cv"].penalty

    def crossed(alpha):
        predicted = np.empty(len(id_cells))
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(id_cells)), fold)
            ridge = Ridge(alpha=alpha, solver="svd").fit(rows[id_cells[rest]], y[id_cells[rest]])
            predicted[fold] = ridge.predict(rows[id_cells[fold]])
        return r2_score(y[id_cells], predicted)

    best = probes["out", "x", "ridge_cv"].r2
    assert best == pytest.approx(crossed(penalty), abs=AGREES)
    scale = float((table[HOLDOUT.id_cells] - table[HOLDOUT.id_cells].mean(0)).square().sum()) / HOLDOUT.n_id
    assert best == pytest.approx(max(crossed(scale * relative) for relative in PENALTIES), abs=AGREES)
    ridge = Ridge(alpha=penalty, solver="svd").fit(rows[id_cells], y[id_cells])
    found = probes["out", "x", "ridge_ood"]
    assert found.r2 == pytest.approx(ridge.score(rows[ood_cells], y[ood_cells]), abs=AGREES)
    assert found.penalty == penalty


def test_ood_cells_do_not_enter_what_is_fitted(model):
    """Changing the model's activations at OOD cells leaves the penalty and the cross-validated score as they were."""

    def changed(code):
        held = ((code >= 3 / 8) & (code <= 6 / 8)).all(1, keepdim=True)
        return torch.where(held, -model(code) + 1, model(code))

    a = linear_probes(lambda code: model(code.double()), SPACE, ramp, HOLDOUT, layers="out")
    b = linear_probes(lambda code: changed(code.double()), SPACE, ramp, HOLDOUT, layers="out")
    for factor in SPACE.names:
        assert a["out", factor, "ridge_cv"].r2 == pytest.approx(b["out", factor, "ridge_cv"].r2, abs=1e-6)
        assert a["out", factor, "ridge_ood"].r2 != pytest.approx(b["out", factor, "ridge_ood"].r2, abs=1e-2)


def test_gram_matrix_is_that_of_the_rows(model):
    subject = examine(model, SPACE, ramp)
    cells = torch.randperm(72, generator=generator(0, "order"))
    rows = {name: r[cells.numpy()] for name, r in activations(model).items()}
    for memory in (2**30, 100_000):
        features = compact_features(subject, cells, memory=memory)
        assert list(features) == list(subject.layers)
        for name, found in features.items():
            centred = rows[name] - rows[name].mean(0)
            if found.gram is None:
                got = found.rows - found.rows.mean(0)
                got = got @ got.T
            else:
                got = found.gram - found.gram.mean(0) - found.gram.mean(1, keepdim=True) + found.gram.mean()
            np.testing.assert_allclose(got.numpy(), centred @ centred.T, atol=1e-10)
        assert [f.gram is not None for f in features.values()] == [False, False, True, True]


def test_rows_that_come_in_several_passes_make_the_same_matrix(model, monkeypatch):
    subject = examine(model, SPACE, ramp)
    whole = compact_features(subject, torch.arange(72))
    monkeypatch.setattr(type(subject), "cells_within", lambda self: 7)
    for name, found in compact_features(subject, torch.arange(72)).items():
        if found.gram is not None:
            torch.testing.assert_close(found.gram, whole[name].gram, rtol=0, atol=1e-11)


class Reusing(nn.Module):
    """Writes its outputs into a few buffers in turn."""

    def __init__(self, buffers):
        super().__init__()
        self.buffers_ = [torch.empty(9, 100) for _ in range(buffers)]
        self.turn = 0

    def forward(self, code):
        self.turn += 1
        made = self.buffers_[self.turn % len(self.buffers_)][: len(code)]
        return made.copy_((code.sum(1, keepdim=True) * torch.arange(1.0, 101)).sin())


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("memory", [2**30, 12 * 400])
def test_a_model_that_reuses_its_memory(buffers, memory, monkeypatch):
    model = Reusing(buffers)
    subject = examine(model, SPACE, ramp)
    monkeypatch.setattr(type(subject), "cells_within", lambda self: 9)
    found = compact_features(subject, torch.arange(72), memory=memory)["out"].gram
    rows = torch.cat([model(ramp(SPACE.values(part))).clone() for part in torch.arange(72).split(9)]).double()
    found, wanted = (g - g.mean(0) - g.mean(1, keepdim=True) + g.mean() for g in (found, rows @ rows.T))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)


def test_layers_are_multiplied_slice_by_slice(monkeypatch):
    torch.manual_seed(0)
    rows = torch.randn(40, 300)
    whole = features_of_rows(rows).gram
    monkeypatch.setattr(probes, "UNITS_AT_ONCE", 70)
    torch.testing.assert_close(features_of_rows(rows).gram, whole, rtol=0, atol=1e-11)


def test_half_precision_does_not_overflow(model):
    full = linear_probes(lambda code: 255 * model(code.double()).sigmoid().float(), SPACE, ramp, HOLDOUT)
    half = linear_probes(lambda code: (2000 * model(code.double()).sigmoid()).half(), SPACE, ramp, HOLDOUT)
    assert half["out", "x", "in_sample"].r2 == full["out", "x", "in_sample"].r2 == 1
    assert half["out", "x", "ridge_cv"].r2 == pytest.approx(full["out", "x", "ridge_cv"].r2, abs=1e-2)


def test_models_that_squeeze_or_turn_gradients_on(model):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model.float()

        def forward(self, code):
            with torch.enable_grad():
                return self.inner(code).reshape(-1, 1, 10, 10).squeeze()

    found = linear_probes(Odd(), SPACE, ramp, HOLDOUT, layers=["out"])
    assert found["out", "x", "ridge_cv"].r2 > 0.9


@pytest.mark.parametrize("units", [39, 40, 300])
def test_spanning_is_certain_only_where_all_directions_are_kept(units):
    torch.manual_seed(0)
    rows = torch.randn(40, units, dtype=torch.float64)
    alike, nearly, flat = rows.clone(), rows.clone(), rows.clone()
    alike[7] = alike[8]
    nearly[7] = nearly[8] + 1e-9 * torch.randn(units)
    flat[:, :] = flat[:, :10] @ torch.randn(10, units, dtype=torch.float64)
    for given, spans in ((rows, True), (rows * 1e-20, True), (alike, False), (nearly, False), (flat, False)):
        features = Features(None, given @ given.T)
        assert features.spans == spans
        assert (len(features.whole.sizes) == 39) == spans
    assert not features_of_rows(rows[:, :20]).spans


def test_a_large_grid_is_probed_on_a_seeded_draw(model):
    whole = linear_probes(model, SPACE, ramp, HOLDOUT)
    assert len(whole.cells) == whole.grid_cells
    drawn = linear_probes(model, SPACE, ramp, HOLDOUT, most_cells=40, seed=1)
    assert (len(drawn.cells), drawn.grid_cells) == (40, 72)
    assert drawn["out", "x", "in_sample"].scored == 40
    mask = HOLDOUT.mask.ravel()[drawn.cells]
    assert not mask[: drawn["out", "x", "id_to_ood"].fitted].any()
    assert mask[drawn["out", "x", "id_to_ood"].fitted :].all()
    again = linear_probes(model, SPACE, ramp, HOLDOUT, most_cells=40, seed=1)
    assert again.table == drawn.table or all(
        math.isclose(p.r2, q.r2, abs_tol=1e-12) for p, q in zip(again.table, drawn.table)
    )
    assert (linear_probes(model, SPACE, ramp, HOLDOUT, most_cells=40, seed=2).cells != drawn.cells).any()


def test_too_few_cells_are_marked(model):
    few = rc.holdouts.centre(SPACE, 3.0, 4.0)  # four OOD cells
    probes = linear_probes(model, SPACE, ramp, few)
    for score in ("id_to_ood", "ridge_ood"):
        found = probes["out", "x", score]
        assert math.isnan(found.r2)
        assert found.missing == Missing.TOO_FEW_CELLS
    assert not probes["out", "x", "ridge_cv"].missing
    nearly_all = ~few
    probes = linear_probes(model, SPACE, ramp, nearly_all)
    assert probes["out", "y", "ridge_cv"].missing == Missing.TOO_FEW_CELLS
    assert probes["out", "y", "in_sample"].r2 > 0
    tiny = linear_probes(model, rc.FactorSpace(x=2, y=3), ramp)
    assert all(math.isnan(p.r2) and p.missing for p in tiny.table)


def test_a_factor_that_does_not_vary_is_marked(model):
    wide = rc.FactorSpace(x=9, y=12)
    line = rc.holdouts.gap(wide, "x", 4.0, 4.0)
    probes = linear_probes(model, wide, ramp, line)
    assert probes["out", "x", "id_to_ood"].missing == Missing.DEGENERATE
    assert not probes["out", "y", "id_to_ood"].missing


def test_without_holdout_the_ood_scores_are_missing(model):
    probes = linear_probes(model, SPACE, ramp)
    assert probes["out", "x", "ridge_ood"].missing == Missing.TOO_FEW_CELLS
    assert probes["out", "x", "ridge_cv"].r2 > 0.9
    table = probes.to_pandas()
    assert len(table) == 4 * 2 * len(SCORES)
    assert list(table.columns) == [f.name for f in dataclasses.fields(probes.table[0])]
    with pytest.raises(KeyError):
        probes["out", "z", "in_sample"]


def test_dead_layers_have_no_r2_above_the_mean(model):
    model[0].weight.data.zero_()
    probes = linear_probes(model, SPACE, ramp, HOLDOUT)
    assert probes["1", "x", "in_sample"].r2 == pytest.approx(0, abs=1e-12)
    assert probes["3", "x", "in_sample"].r2 == pytest.approx(0, abs=1e-12)
    assert probes["1", "x", "ridge_cv"].r2 < 0


def test_cyclic_factors_are_probed_by_their_angle():
    space = rc.FactorSpace(a=cyclic(360.0, 24))
    encode = rc.encodings.Positional(space, frequencies=1)
    probes = linear_probes(lambda code: code, space, encode)
    assert probes["out", "a", "in_sample"].r2 == pytest.approx(1)
    assert probe_targets(space, torch.arange(24))["a"].shape == (24, 2)
    plain = probe_targets(SPACE, torch.arange(72))
    assert {name: y.shape[1] for name, y in plain.items()} == {"x": 1, "y": 1}


def test_model_is_left_as_it_was(model):
    model.train()
    linear_probes(model, SPACE, ramp, HOLDOUT)
    assert all(m.training for m in model.modules())
    assert not any(m._forward_hooks for m in model.modules())


def test_bad_input(model):
    with pytest.raises(InputError, match="another space"):
        linear_probes(model, rc.FactorSpace(x=3, y=3), ramp, HOLDOUT)
    with pytest.raises(InputError, match="at least 2 folds"):
        linear_probes(model, SPACE, ramp, HOLDOUT, folds=1)
    with pytest.raises(InputError, match=r"output is NaN or infinite at x=5, y=0"):
        linear_probes(lambda code: torch.where(code[:, :1] > 4.5, torch.nan, code), SPACE)


def test_errors_at_each_cell_come_from_fits_that_did_not_see_it(model):
    probes = linear_probes(model, SPACE, ramp, HOLDOUT, layers="out", folds=4, seed=3)
    with torch.no_grad():
        rows = model(ramp(SPACE.values(torch.from_numpy(probes.cells)).double())).numpy()
    y = SPACE.values(torch.from_numpy(probes.cells))[:, 0].double().numpy()
    n_id = HOLDOUT.n_id
    penalty = probes["out", "x", "ridge_ood"].penalty
    ridge = Ridge(alpha=penalty, solver="svd").fit(rows[:n_id], y[:n_id])
    off = probes.errors["out"][0]
    np.testing.assert_allclose(off[n_id:], np.abs(y[n_id:] - ridge.predict(rows[n_id:])), rtol=1e-5, atol=1e-7)
    r2 = 1 - (off[:n_id] ** 2).sum() / ((y[:n_id] - y[:n_id].mean()) ** 2).sum()
    assert r2 == pytest.approx(probes["out", "x", "ridge_cv"].r2, abs=1e-9)
