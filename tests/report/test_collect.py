"""What is found under the paths a user gives, and what is said where there is nothing."""

import json
import shutil

import pytest
from tests.report.conftest import TINY

from recombine.config import RunConfig
from recombine.errors import InputError, StoreError
from recombine.report.collect import PARTS, collect
from recombine.report.page import build
from recombine.store import Store


def test_a_run_by_folder_by_id_and_by_name(store, runs, monkeypatch):
    first, second = runs
    assert [m.run.id for m in collect([first.path]).models] == [first.id]
    found = collect([first.id[:8], f"my name={second.path}"], runs=store.root)
    assert [m.name for m in found.models] == ["mlp(3, 16), bump code", "my name"]
    monkeypatch.chdir(first.path)
    assert collect(["."]).models[0].run.id == first.id


def test_a_store_gives_all_runs_named_by_their_differences(store):
    found = collect([store.root])
    assert len(found.runs) == len(found.models) == 3
    assert sorted(m.name for m in found.models) == [
        "mlp(3, 16), bump code, seed 0",
        "mlp(3, 16), bump code, seed 1",
        "mlp(3, 16), bump code, stripes, seed 0",
    ]
    assert collect([store.root, store.root.parent]).runs == found.runs  # each once


def test_a_folder_with_a_diagnosis(runs, tmp_path):
    runs[0].diagnosis.save(tmp_path / "kept")
    [model] = collect([tmp_path / "kept"]).models
    assert (model.name, model.run) == ("kept", None)


def test_a_run_without_a_diagnosis(tmp_path):
    store = Store(tmp_path / "runs")
    [run] = store.train([RunConfig.parse([*TINY, "training.steps=2"])], progress=False)
    with pytest.raises(StoreError, match=rf"recombine diagnose {run.id} --out .*\n.*--diagnose"):
        collect([run.path])
    found = collect([store.root])
    assert (len(found.runs), found.models) == (1, [])
    assert "1 run in" in found.notes[0]
    found = collect([run.path], diagnose=True)
    assert all(found.models[0].diagnosis[part].computed for part in PARTS)
    shutil.rmtree(run.path / "diagnosis")
    run.diagnose(parts=["errors"], progress=False)
    assert not collect([run.path]).models[0].diagnosis["outputs"].computed
    assert collect([run.path], diagnose=True).models[0].diagnosis["outputs"].computed


def test_a_damaged_part_leaves_the_others(runs, tmp_path):
    folder = tmp_path / runs[0].id
    shutil.copytree(runs[0].path, folder)
    path = folder / "diagnosis" / "geometry.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    (folder / "diagnosis" / "kernels-agreement.csv").unlink()
    [model] = collect([folder]).models
    content = build(collect([folder])).html
    assert "was changed" in model.diagnosis["geometry"].missing["geometry"]
    assert "is missing" in model.diagnosis["kernels"].missing["kernels"]
    assert model.diagnosis["outputs"].computed
    assert "was changed after it was written" in content


def test_tables_claims_and_figures(tmp_path):
    (tmp_path / "table.csv").write_text("name,value,empty\na,1,\nb,2.5,\n")
    (tmp_path / "claims.json").write_text("{")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "R01.png").write_bytes(b"no picture")
    found = collect([tmp_path, tmp_path / "table.csv"])
    assert found.tables[0].rows == [
        {"name": "a", "value": 1.0, "empty": None},
        {"name": "b", "value": 2.5, "empty": None},
    ]
    assert found.tables[0].name == tmp_path.name
    assert "claims are not shown" in found.notes[0]
    assert "R01.png is damaged" in " ".join(build(found).notes)


def test_damaged_runs_of_a_store_are_notes(store, tmp_path):
    copy = tmp_path / "runs"
    shutil.copytree(store.root, copy)
    broken, unfinished, _ = sorted(p.name for p in copy.iterdir())
    facts = json.loads((copy / broken / "run.json").read_text())
    (copy / broken / "run.json").write_text(json.dumps({**facts, "seconds": 1}))
    (copy / unfinished / "run.json").unlink()
    found = collect([copy])
    assert len(found.models) == 1
    assert any("damaged" in note for note in found.notes)
    assert any("not started" in note or "stopped" in note for note in found.notes)


@pytest.mark.parametrize("path", ["nothing", "runs/none", "0123", "name=nothing", "a\0b", "x" * 5000])
def test_what_is_not_there_is_an_error(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        collect([path])


def test_an_empty_folder_and_no_path(tmp_path):
    with pytest.raises(InputError, match="nothing to show"):
        collect([tmp_path])
    with pytest.raises(InputError, match="nothing to report on"):
        collect([])
