"""`diagnose` as a user calls it: all parts, what is missing, what is refused, files, figures, the model left alone."""

import json
import math
import re

import numpy as np
import pandas
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, Missing, StoreError
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.model import truth
from recombine.diagnostics.numerics.geometry import metric_tensor_exact
from recombine.diagnostics.numerics.kernels import gram_matrices
from recombine.diagnostics.numerics.probes import linear_probes
from recombine.diagnostics.numerics.superposition import superposition
from recombine.diagnostics.part import chosen_parts

PARTS = tuple(part.name for part in chosen_parts(rc.DiagnosisRequest()))  # all but `draws`, which wants several
SPACE = rc.FactorSpace(x=8, y=8)
HOLE = rc.holdouts.centre(SPACE, 3, 5)
SCENE = rc.scenes.Bump(SPACE)
CODE = rc.encodings.Bump(SPACE)
TASK = rc.Task(SCENE, CODE, HOLE)


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 80), nn.ReLU(), nn.Linear(80, 20), nn.Tanh(), nn.Linear(20, 64))


@pytest.fixture(scope="module")
def model():
    return network()


@pytest.fixture(scope="module")
def diagnosis(model):
    return rc.diagnose(model, SPACE, CODE, HOLE, target=SCENE, progress=False)


def outputs_of(model):
    with torch.no_grad():
        return model(CODE(SPACE.values(torch.arange(64))))


def test_all_parts_are_there(diagnosis):
    assert diagnosis.layers == ("in", "1", "3", "out")
    assert [name for name in PARTS if diagnosis[name].computed] == list(PARTS)
    assert diagnosis.facts["output_shape"] == [8, 8]  # the shape of the truth: the output is flat
    for part in PARTS:
        assert len(diagnosis.to_pandas(part)) > 0
    tidy = diagnosis.to_pandas()
    assert list(tidy.columns) == ["part", "layer", "quantity", "value"]
    assert {"geometry", "probes", "tuning", "complexity", "embeddings"} == set(tidy["part"])


def test_the_numbers_are_those_of_the_parts(diagnosis, model):
    outputs = outputs_of(model)
    exact = metric_tensor_exact(model, SPACE, CODE)
    np.testing.assert_allclose(diagnosis["geometry"].arrays["metric/3"], exact["3"].metric, rtol=1e-12)
    probes = linear_probes(model, SPACE, CODE, HOLE)
    for row in diagnosis["probes"].rows:
        assert row["r2"] == pytest.approx(probes[row["layer"], row["factor"], row["score"]].r2, abs=1e-6, nan_ok=True)
    grams = gram_matrices(outputs, SPACE, HOLE)
    np.testing.assert_allclose(diagnosis["kernels"].arrays["gram/cosine"], grams["cosine"], atol=1e-5)
    test = superposition(outputs, SPACE, HOLE, truth=SCENE(SPACE.values(torch.arange(64))).flatten(1), centred=True)
    [row] = [r for r in diagnosis["superposition"].table("summary") if r["side"] == "output" and r["centred"]]
    assert row["energy"] == pytest.approx(np.median(test.energy), abs=1e-6)
    expected = (outputs - SCENE(SPACE.values(torch.arange(64))).flatten(1)).square().mean(1)
    np.testing.assert_allclose(diagnosis["errors"].arrays["mse"], expected, rtol=1e-5)


def test_embeddings_are_principal_components(diagnosis, model):
    code = CODE(SPACE.values(torch.arange(64))).double()
    code = code - code.mean(0)
    explained = torch.linalg.svdvals(code).square()
    [row] = [r for r in diagnosis["embeddings"].rows if r["layer"] == "in"]
    assert row["explained_1"] == pytest.approx(float(explained[0] / explained.sum()), abs=1e-6)
    wide = diagnosis["embeddings"].arrays["pca/1"]  # 80 units, 64 cells: by the Gram matrix
    with torch.no_grad():
        hidden = model[:2](CODE(SPACE.values(torch.from_numpy(diagnosis["embeddings"].arrays["cells"])))).double()
    left, sizes, _ = torch.linalg.svd(hidden - hidden.mean(0))
    np.testing.assert_allclose(np.abs(wide[:, 0]), (left[:, 0] * sizes[0]).abs(), atol=1e-5)


def test_streaming_with_little_memory_gives_the_same(diagnosis, model):
    little = rc.diagnose(
        model, SPACE, CODE, HOLE, target=SCENE, memory=4 * 80 * 64 * 4, progress=False, parts=("tuning", "complexity")
    )
    assert little["tuning"].rows == diagnosis["tuning"].rows
    assert little["complexity"].table("layers") == diagnosis["complexity"].table("layers")


def test_too_little_memory_draws_units_and_says_so(model):
    found = rc.diagnose(model, SPACE, CODE, HOLE, memory=4 * 64 * 4 * 10, progress=False, parts=["tuning", "probes"])
    assert found["tuning"].facts["drawn"]["1"] == "10 of 80 units, sampled with the seed"
    again = rc.diagnose(model, SPACE, CODE, HOLE, memory=4 * 64 * 4 * 10, progress=False, parts=["tuning", "probes"])
    assert again["tuning"].rows == found["tuning"].rows
    assert all(0 <= row["unit"] < 80 for row in found["tuning"].table("typical"))


def test_without_truth_what_needs_it_is_missing(model):
    found = rc.diagnose(model, SPACE, CODE, HOLE, progress=False, parts=["errors", "superposition", "complexity"])
    assert not found["errors"].computed
    assert found["errors"].state is Missing.NO_TRUTH
    assert found.missing["superposition"]["truth"].state is Missing.NO_TRUTH
    assert found.verdict.kind == "undecided"
    with pytest.raises(InputError, match="no target was given"):
        found.to_pandas("errors")
    with pytest.raises(InputError, match="missing"):
        found.plot("errors")
    assert "no target was given" in str(found)


def test_without_a_holdout(model):
    found = rc.diagnose(model, SPACE, CODE, target=SCENE, progress=False)
    assert not found["superposition"].computed
    assert not found["kernels"].computed
    assert found["geometry"].computed
    assert found.verdict.kind == "undecided"
    assert found.verdict.reason == "no hold-out"
    for part in ("errors", "geometry", "probes", "tuning", "embeddings"):
        assert isinstance(found.plot(part), Figure)


@pytest.mark.parametrize(
    "target",
    [
        SCENE,
        lambda values: SCENE(values).flatten(1),
        SCENE(SPACE.values(torch.arange(64))),
        SCENE(SPACE.values(torch.arange(64))).reshape(8, 8, 64).numpy(),
    ],
)
def test_all_forms_of_truth_are_one(model, target, diagnosis):
    found = rc.diagnose(model, SPACE, CODE, HOLE.mask, target=target, parts="errors", progress=False)
    assert found["errors"].rows[0]["mse"] == pytest.approx(diagnosis["errors"].rows[0]["mse"], rel=1e-6)


def test_a_truth_too_large_to_hold_gives_the_same_numbers(model, diagnosis, monkeypatch):
    monkeypatch.setattr(truth, "LARGE", 64 * 64 * 4 - 1)
    monkeypatch.setattr(truth, "CHUNK_BYTES", 7 * 64 * 4)
    most = []

    def target(values):
        most.append(len(values))
        return SCENE(values)

    parts = ["errors", "superposition", "complexity"]
    found = rc.diagnose(model, SPACE, CODE, HOLE, target=target, parts=parts, progress=False)
    assert max(most) == 7
    for part in parts:
        for name in diagnosis[part].tables:
            tables = [pandas.DataFrame(d[part].table(name)) for d in (diagnosis, found)]
            pandas.testing.assert_frame_equal(*tables, rtol=1e-9)
    assert found.verdict.kind == diagnosis.verdict.kind

    def hole(values):
        return torch.where((values == torch.tensor([5.0, 2.0])).all(1)[:, None], math.nan, SCENE(values).flatten(1))

    with pytest.raises(
        InputError, match=r"true outputs contain NaN or infinite numbers, first in cell 42 \(x=5, y=2\)"
    ):
        rc.diagnose(model, SPACE, CODE, HOLE, target=hole, parts=parts, progress=False)


@pytest.mark.parametrize("large", [False, True])
def test_functions_that_squeeze_are_targets(large, monkeypatch):
    if large:
        monkeypatch.setattr(truth, "LARGE", 0)
        monkeypatch.setattr(truth, "CHUNK_BYTES", 9 * 4)  # 64 = 7 · 9 + 1 cells
    model = nn.Sequential(nn.Linear(2, 70), nn.ReLU(), nn.Linear(70, 1))
    one = rc.holdouts.where(SPACE, lambda x, y: (x == 3) & (y == 4))  # a single cell
    plain, squeezed = (
        rc.diagnose(model, SPACE, None, one, target=target, parts=["errors", "superposition"], progress=False)
        for target in (lambda v: v[:, :1] * v[:, 1:], lambda v: (v[:, :1] * v[:, 1:]).squeeze())
    )
    assert squeezed["errors"].rows == plain["errors"].rows
    assert squeezed["superposition"].table("summary") == plain["superposition"].table("summary")


def test_errors_without_trained_cells_have_no_variance_to_compare_with(model):
    found = rc.diagnose(model, SPACE, CODE, np.ones((8, 8), dtype=bool), target=SCENE, parts="errors", progress=False)
    assert math.isnan(found["errors"].rows[0]["relative"])


@pytest.mark.parametrize(
    ("shape", "target"),
    [((), lambda v: v[:, :1] * v[:, 1:]), ((1,), lambda v: v[:, 0] * v[:, 1]), ((1, 1), None)],
)
def test_one_number_per_cell(shape, target):
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0), nn.Unflatten(0, (-1, *shape)))
    found = rc.diagnose(model, SPACE, None, HOLE, target=target, progress=False)
    assert found.facts["output_shape"] in ([1], [1, 1])
    assert found["errors"].computed == (target is not None)
    for part in PARTS:
        if found[part].computed:
            assert isinstance(found.plot(part), Figure)


def test_numbers_of_a_classifier():
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 5))
    torch.manual_seed(0)
    nn.init.normal_(model[0].weight)
    found = rc.diagnose(lambda code: model(code - 3).argmax(1), SPACE, None, HOLE, progress=False)
    assert found["probes"].computed
    assert found["geometry"].state is Missing.NOT_DIFFERENTIABLE


def test_a_truth_that_differs_in_axes_of_length_one(model, diagnosis):
    image = nn.Sequential(model, nn.Unflatten(1, (1, 8, 8)))
    for target in (SCENE, lambda values: SCENE(values).flatten(1), lambda values: SCENE(values)[:, None]):
        found = rc.diagnose(image, SPACE, CODE, HOLE, target=target, parts="errors", progress=False)
        assert found["errors"].rows[0]["mse"] == pytest.approx(diagnosis["errors"].rows[0]["mse"], rel=1e-6)
        assert [n for n in found.facts["output_shape"] if n > 1] == [8, 8]


class Indexed(nn.Module):
    """Has no parameters, and an integer buffer before the others."""

    def __init__(self):
        super().__init__()
        self.register_buffer("order", torch.arange(16))
        self.register_buffer("weights", torch.randn(16, 9, generator=torch.Generator().manual_seed(0)))

    def forward(self, code):
        return code[:, self.order] @ self.weights


def test_the_input_side_in_double_precision_and_with_integer_buffers():
    mixing = torch.randn(16, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    double = nn.Sequential(nn.Linear(7, 12), nn.ReLU(), nn.Linear(12, 9)).double()
    for model, encode in ((double, lambda v: CODE(v) @ mixing), (Indexed(), CODE)):
        found = rc.diagnose(model, SPACE, encode, HOLE, parts="superposition", progress=False)
        assert "input side" not in found["superposition"].missing


def test_a_callable_and_three_factors():
    space = rc.FactorSpace(x=5, y=4, z=3)
    hole = rc.holdouts.centre(space, 1, 2, factors=["x", "y"])

    def model(values):
        x, y, z = values.unbind(-1)
        return torch.stack([x * y, torch.sin(x) + z, z * z, y], dim=1)

    found = rc.diagnose(model, space, holdout=hole, target=model, progress=False)
    assert found.verdict.kind == "composes"
    assert found.layers == ("in", "out")
    assert "{z}" in found["complexity"].table("layers")[1]["grouping"]
    assert found["superposition"].missing["input side"].state is Missing.NOT_APPLICABLE
    for part in PARTS:
        assert isinstance(found.plot(part), Figure)


def test_integer_codes_have_no_exact_geometry_but_all_else():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8, 6), nn.Flatten(), nn.Tanh(), nn.Linear(12, 9))
    options = {"target": torch.zeros(64, 9), "progress": False, "parts": ["geometry", "probes", "superposition"]}
    found = rc.diagnose(model, SPACE, lambda v: v.long(), HOLE, **options)
    assert found["geometry"].state is Missing.NOT_DIFFERENTIABLE
    assert found["probes"].computed
    assert found["superposition"].missing["input side"].state is Missing.NOT_APPLICABLE
    found = rc.diagnose(model, SPACE, lambda v: v.long(), HOLE, geometry="finite difference", **options)
    assert found["geometry"].facts["method"] == "finite difference"


def test_few_held_out_cells_are_marked(model):
    few = rc.holdouts.centre(SPACE, 3, 4)
    found = rc.diagnose(
        model, SPACE, CODE, few, target=SCENE, progress=False, parts=["probes", "errors", "superposition"]
    )
    assert found["probes"].missing["id_to_ood of x"].state is Missing.TOO_FEW_CELLS
    assert math.isnan(next(r["r2"] for r in found["probes"].rows if r["score"] == "id_to_ood"))
    assert found.verdict.kind == "undecided"
    assert found.verdict.reason == "too few cells"


class Bad(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.act, self.drop = how, nn.ReLU(), nn.Dropout(0.5)

    def forward(self, code):
        hidden = self.drop(self.act(code))
        if self.how == "nan":
            hidden = hidden.clone()
            hidden[code[:, 0] > 0.9] = torch.nan
        if self.how == "list":
            return [hidden]
        return torch.ones_like(hidden) if self.how == "constant" else hidden


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": Bad("nan")}, "NaN or infinite at x=0"),
        ({"model": Bad("list")}, "type list.*output=0"),
        ({"model": Bad("constant")}, "does not depend on the code"),
        ({"encode": lambda v: torch.cat([CODE(v)] * 2, dim=1)}, "failed on codes of shape"),
        ({"layers": "layer.1"}, "no layer 'layer.1'"),
        ({"layers": []}, "No layers"),
        ({"parts": ["probe"]}, "did you mean 'probes'"),
        ({"parts": []}, "No part"),
        ({"memory": -5}, "number of bytes.*Got -5"),
        ({"pictures": [0]}, "Not held out: 0"),
        ({"pictures": [27], "holdout": None}, "no hold-out was given"),
        ({"encode": lambda v: 1 / 0}, "`encode` failed.*ZeroDivisionError"),
        ({"target": lambda v: 1 / 0}, "target function failed.*ZeroDivisionError"),
        ({"geometry": "rough"}, "exact, finite difference or both"),
        ({"target": torch.zeros(64, 3)}, "as many numbers per cell as the model's output, 64"),
        (
            {"target": torch.zeros(64, 4, 16), "model": nn.Sequential(network(), nn.Unflatten(1, (16, 4)))},
            r"shape \(4, 16\) per cell, but the model's output has shape \(16, 4\)",
        ),
        ({"model": lambda code: torch.complex(code, code)}, "output is complex"),
        ({"target": lambda v: torch.complex(v, v)}, "target is complex"),
        ({"target": torch.zeros(64, 64, dtype=torch.complex64)}, "real number"),
        ({"target": torch.zeros(63, 64)}, "one row for each of the 64 cells"),
        (
            {"target": torch.where(torch.arange(64)[:, None] == 9, torch.nan, 1.0).expand(64, 64)},
            r"true outputs contain NaN .* cell 9 .*Check the true outputs of this cell",
        ),
        ({"holdout": []}, "list of held-out cells is empty.*'x': 0.0"),
        ({"holdout": "centre"}, "hold-out must be one of"),
        ({"holdout": {"kind": "centr"}}, "centre"),
        ({"model": lambda code: code.numpy()}, "torch.from_numpy"),
        ({"target": "bump"}, "scene, a function of factor values or an array"),
        ({"target": lambda v: v[0]}, "target function must map"),
        ({"holdout": rc.holdouts.centre(rc.FactorSpace(x=9, y=9), 3, 5)}, "another space"),
    ],
)
def test_misuse_is_refused_and_the_model_left_alone(given, message):
    subject = given.pop("model", network())
    call = {"encode": CODE, "holdout": HOLE, "target": SCENE, "progress": False, **given}
    if isinstance(subject, nn.Module):
        subject.train()
    before = torch.random.get_rng_state()
    with pytest.raises(InputError, match=message):
        rc.diagnose(subject, SPACE, **call)
    assert torch.equal(torch.random.get_rng_state(), before)
    if isinstance(subject, nn.Module):
        assert all(m.training and not m._forward_hooks for m in subject.modules())


@pytest.mark.parametrize(("given", "message"), [({"layers": [1]}, "by name.*Got 1"),
                                                ({"memory": "1GB"}, "number of bytes.*Got '1GB'")])  # fmt: skip
def test_wrong_types_are_refused_without_the_type_checker_too(given, message):
    request = rc.DiagnosisRequest()
    for name, value in given.items():
        object.__setattr__(request, name, value)
    with pytest.raises(InputError, match=message):
        request.__post_init__()


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 64)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.random.get_rng_state()
    rc.diagnose(model, SPACE, CODE, HOLE, target=SCENE, progress=False)
    assert torch.equal(torch.random.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(m.training and not m._forward_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_figure(diagnosis, part, tmp_path):
    figure = diagnosis.plot(part)
    figure.savefig(tmp_path / "figure.png", dpi=40)
    assert (tmp_path / "figure.png").stat().st_size > 2000


def test_save_and_load(diagnosis, tmp_path):
    folder = diagnosis.save(tmp_path / "d")
    assert {path.suffix for path in folder.iterdir()} == {".json", ".csv", ".safetensors"}
    again = Diagnosis.load(folder)
    assert str(again) == str(diagnosis)
    assert again.to_json() == diagnosis.to_json()
    for part in PARTS:
        assert list(again[part].arrays) == list(diagnosis[part].arrays)
        for name, array in diagnosis[part].arrays.items():
            np.testing.assert_array_equal(again[part].arrays[name], array)
        for table in diagnosis[part].tables:
            assert again.to_pandas(part, table).equals(
                diagnosis.to_pandas(part, table).astype(again.to_pandas(part, table).dtypes)
            )
        assert isinstance(again.plot(part), Figure)
    assert (again.holdout.mask == HOLE.mask).all()


def test_outputs_mean_codes_and_sampled_units_are_kept(diagnosis, model):
    outputs = outputs_of(model).reshape(64, 8, 8).numpy()
    kept = diagnosis["outputs"]
    np.testing.assert_allclose(kept.arrays["output"], outputs, atol=1e-6)
    np.testing.assert_allclose(kept.arrays["truth"], SCENE(SPACE.values(torch.arange(64))).numpy(), atol=1e-6)
    assert [row["most"] for row in kept.rows] == pytest.approx([outputs[m].max() for m in (
        np.ones(64, bool), ~HOLE.mask.ravel(), HOLE.mask.ravel())])  # fmt: skip
    codes = CODE(SPACE.values(torch.arange(64))).flatten(1)
    trained = codes[~torch.from_numpy(HOLE.mask.ravel())].mean(0)
    code = torch.cat([codes[8 * 3, :8], trained[8:]])  # x = 3, y at its mean: x owns the first half of the code
    with torch.no_grad():
        alone = model(code[None]).reshape(8, 8).numpy()
    np.testing.assert_allclose(diagnosis["superposition"].arrays["mean codes/x"][3], alone, atol=1e-5)
    sampled = [row for row in diagnosis["tuning"].table("sampled") if row["layer"] == "1"]
    with torch.no_grad():
        layer = model[:2](CODE(SPACE.values(torch.arange(64)))).numpy()
    maps = diagnosis["tuning"].arrays["sampled maps/1"]
    assert len(maps) == len(sampled) == min(128, layer.shape[1])
    for row, unit_map in zip(sampled, maps):
        np.testing.assert_allclose(unit_map.ravel(), layer[:, row["unit"]], atol=1e-6)
    assert {row["of_units"] for row in sampled} == {layer.shape[1]}


def test_files_without_a_newer_part_are_read(diagnosis, tmp_path):
    folder = diagnosis.save(tmp_path / "d")
    content = json.loads((folder / "diagnosis.json").read_text())
    del content["parts"]["outputs"]
    (folder / "diagnosis.json").write_text(json.dumps(content))
    again = Diagnosis.load(folder)
    assert again["outputs"].state is Missing.NOT_REQUESTED
    assert again["errors"].computed


def test_damaged_files_are_refused(diagnosis, tmp_path):
    folder = diagnosis.save(tmp_path / "d")
    table = folder / "probes-scores.csv"
    table.write_text(table.read_text().replace("in_sample", "in_sampel", 1))
    with pytest.raises(StoreError, match="was changed"):
        Diagnosis.load(folder)
    partial = Diagnosis.load(folder, partial=True)
    assert partial["probes"].state is Missing.DAMAGED
    assert partial["errors"].computed
    table.unlink()
    with pytest.raises(StoreError, match="missing"):
        Diagnosis.load(folder)
    with pytest.raises(StoreError, match="missing"):
        Diagnosis.load(tmp_path / "nothing")
    (folder / "diagnosis.json").write_text("[1]")
    with pytest.raises(StoreError, match="diagnosis of this version"):
        Diagnosis.load(folder)


def test_pictures_are_of_the_cells_asked_for(model):
    options = {"parts": "superposition", "progress": False}
    found = rc.diagnose(model, SPACE, CODE, HOLE, pictures=[28, 27], **options)
    assert found["superposition"].arrays["pictures/cells"].tolist() == [28, 27]
    none = rc.diagnose(model, SPACE, CODE, HOLE, pictures=0, **options)
    assert isinstance(none.plot("superposition"), Figure)


@pytest.mark.parametrize("names", [("scale", "cell"), ("side", "centred"), ("scale_y", "y")])
def test_factors_named_like_columns_keep_their_values(names):
    space = rc.FactorSpace(**dict.fromkeys(names, 6))
    hole = rc.holdouts.centre(space, 2, 3)
    found = rc.diagnose(nn.Linear(2, 5), space, None, hole, parts="superposition", progress=False)
    table = found.to_pandas("superposition", "cells")
    columns = [f"value_{name}" if name != "y" else name for name in names]
    values = space.values(hole.ood_cells).numpy()
    np.testing.assert_array_equal(table[table["side"] == "output"][columns].to_numpy()[: len(values)], values)
    assert set(table["cell"]) == set(hole.ood_cells.tolist())


def test_noise_and_mixing_within_a_batch_are_noted(model):
    options = {"parts": "outputs", "progress": False}
    assert rc.diagnose(model, SPACE, CODE, HOLE, **options).notes == []
    [note] = rc.diagnose(nn.Linear(16, 9), SPACE, CODE, HOLE, **options).notes
    assert "no inner layer was found" in note

    class Noisy(nn.Module):
        def __init__(self, how):
            super().__init__()
            self.how, self.net = how, network()

        def forward(self, code):
            out = self.net(code)
            if self.how == "squeezed":
                return out.squeeze()
            return out + torch.randn_like(out) if self.how == "noise" else out - out.mean(0)

    for how, message in (("noise", "stochastic"), ("mixing", "mixes codes"), ("squeezed", "single code")):
        found = rc.diagnose(Noisy(how), SPACE, CODE, HOLE, **options)
        assert message in found.notes[0]
        assert message in str(found)
        assert message in found._repr_html_()


def test_derivatives_that_are_zero_say_what_to_use():
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 5))
    for model, encode in ((lambda code: net(code).detach().round(), None), (net, lambda v: v.round()),
                          (nn.Sequential(nn.Embedding(8, 3), nn.Flatten()), lambda v: v.long())):  # fmt: skip
        found = rc.diagnose(model, SPACE, encode, HOLE, parts="geometry", progress=False)
        assert found["geometry"].state is Missing.NOT_DIFFERENTIABLE
        assert 'geometry="finite difference"' in found["geometry"].reason


def test_exact_geometry_keeps_to_the_memory(model):
    few, many = (
        rc.diagnose(model, SPACE, CODE, HOLE, parts="geometry", memory=memory, progress=False)["geometry"]
        for memory in (2**13, 2**30)
    )
    assert few.facts["cells_at_once"] < many.facts["cells_at_once"]
    np.testing.assert_allclose(few.arrays["metric/out"], many.arrays["metric/out"], rtol=1e-3)


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8), (3, 8, 8)])
def test_outputs_with_channels_are_drawn_as_pictures(shape):
    model = nn.Sequential(nn.Linear(2, math.prod(shape)), nn.Unflatten(1, shape))
    found = rc.diagnose(model, SPACE, None, HOLE, parts=["outputs", "superposition"], progress=False)
    for part in ("outputs", "superposition"):
        axes = found.plot(part).axes
        [shown] = {ax.images[0].get_array().shape for ax in axes if ax.images}
        assert shown == ((8, 8, 3) if 3 in shape else (8, 8))


def test_without_relatives_nothing_is_drawn_for_them():
    space = rc.FactorSpace(x=5, y=5)
    hole = np.ones((5, 5), bool)
    hole[0, 0] = False
    found = rc.diagnose(nn.Linear(2, 4), space, None, hole, parts="superposition", pictures=[24], progress=False)
    assert np.isnan(found["superposition"].arrays["pictures/superposition"]).all()
    assert isinstance(found.plot("superposition"), Figure)


def test_html_is_escaped_and_json_is_json(diagnosis):
    space = rc.FactorSpace(**{"<b>x": 6, "y": 6})

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("<script>", nn.Tanh())

        def forward(self, values):
            return getattr(self, "<script>")(values)

    html = rc.diagnose(Model(), space, progress=False, parts=["geometry", "probes"])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<b>x" not in html
    json.dumps(diagnosis.to_json(), allow_nan=False)
    assert "Verdict" in repr(diagnosis)


def test_progress_goes_to_standard_error(model, capsys):
    rc.diagnose(model, SPACE, CODE, HOLE, parts=["errors"], target=SCENE, progress=True)
    assert "diagnose" in capsys.readouterr().err


def test_the_trained_combinations_are_a_mixture_of_products():
    space = rc.FactorSpace(x=8, y=8)
    model = rc.decoders.MLP(
        rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.corner(space, 4)), depth=1, width=4
    )
    encode = rc.encodings.Bump(space)
    for holdout, rank in ((rc.holdouts.corner(space, 4), 2), (rc.holdouts.gap(space, "x", 2.0, 4.0), 1)):
        found = rc.diagnose(model, space, encode, holdout, parts="complexity", progress=False)
        [row] = found.parts["complexity"].table("distributions")
        assert row["rank"] == rank
    none = rc.diagnose(model, space, encode, parts="complexity", progress=False).parts["complexity"]
    assert none.missing["complexity of the trained combinations"].state is Missing.NO_HOLDOUT


@pytest.mark.parametrize(
    "holdout",
    [
        {"kind": "centre", "lo": 2, "hi": 4},
        [{"x": [2, 3, 4], "y": [2, 3, 4]}],
        lambda space: rc.holdouts.centre(space, 2, 4),
        rc.holdouts.centre(SPACE, 2, 4).mask,
        torch.from_numpy(rc.holdouts.centre(SPACE, 2, 4).mask),
        rc.holdouts.centre(SPACE, 2, 4).mask.tolist(),
    ],
    ids=["configuration", "cells", "function", "array", "tensor", "list"],
)
def test_a_holdout_has_the_forms_of_tasks(model, holdout):
    found = rc.diagnose(model, SPACE, CODE, holdout, parts="outputs", progress=False)
    np.testing.assert_array_equal(found.holdout.mask, rc.holdouts.centre(SPACE, 2, 4).mask)


def test_a_truth_without_derivative_is_named(model):
    def drawn(values):
        return torch.stack([SCENE(torch.tensor([one]))[0] for one in values.tolist()])

    found = rc.diagnose(model, SPACE, CODE, HOLE, target=drawn, parts="geometry", progress=False)
    assert found["geometry"].computed
    absent = found["geometry"].missing["warp, exact"]
    assert absent.state is Missing.NOT_DIFFERENTIABLE
    assert "target function has no derivative" in absent.reason
    assert "model" not in absent.reason


def test_scales_that_differ_are_noted_with_both_ranges():
    def half(values):
        return (SCENE(values) + 1) / 2

    found = rc.diagnose(half, SPACE, None, HOLE, target=SCENE, parts="superposition", progress=False)
    assert found.verdict.reason == "different scales"
    assert any(re.search(r"truth ranges from \S+ to 1, the outputs from 0.5 to 1\.", note) for note in found.notes)


def test_equal_reasons_of_missing_results_share_a_line(model):
    found = rc.diagnose(model, SPACE, CODE, HOLE, parts=["outputs"], progress=False)
    for part in ("errors", "kernels"):
        found.parts[part] = PartResult.absent(part, Missing.FAILED, "one reason")
    assert "  errors; kernels: one reason" in str(found).splitlines()
