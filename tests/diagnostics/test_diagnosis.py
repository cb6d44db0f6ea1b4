"""`diagnose` as a user calls it: all parts, layers, figures, progress."""

import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import recombine as rc
from recombine.core.errors import Missing
from recombine.diagnostics.numerics.geometry import metric_tensor_exact
from recombine.diagnostics.numerics.kernels import gram_matrices
from recombine.diagnostics.numerics.probes import linear_probes
from recombine.diagnostics.numerics.superposition import superposition
from tests.diagnostics.small import CODE, HOLE, PARTS, SCENE, SPACE, outputs_of


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


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_figure(diagnosis, part, tmp_path):
    figure = diagnosis.plot(part)
    figure.savefig(tmp_path / "figure.png", dpi=40)
    assert (tmp_path / "figure.png").stat().st_size > 2000


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
