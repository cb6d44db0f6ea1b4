"""Diagnoses as files, JSON and HTML."""

import json

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import recombine as rc
from recombine.core.errors import Missing, StoreError
from recombine.diagnostics.diagnosis import Diagnosis
from tests.diagnostics.small import CODE, HOLE, PARTS, SCENE, SPACE, outputs_of


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
