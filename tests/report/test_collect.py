"""What is found under the paths a user gives, and what is said where there is nothing."""

import json
import shutil

import pytest

from recombine.core.errors import InputError, Missing, StoreError
from recombine.report.collect import collect, page_parts
from recombine.report.page import build
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from tests.report.conftest import TINY


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
        "mlp(3, 16), bump code, single factor, seed 0",
    ]
    assert collect([store.root, store.root.parent]).runs == found.runs  # each once


def test_a_run_that_is_named_and_found_counts_once(store, runs):
    for paths in ([f"baseline={runs[0].path}", store.root], [store.root, f"baseline={runs[0].path}"]):
        found = collect(paths)
        assert len(found.models) == len(found.runs) == 3
        assert (found.models[0].name, found.models[0].asked) == ("baseline", True)
        assert sum(model.asked for model in found.models) == 1
    assert [m.name for m in collect([runs[0].path, runs[0].path]).models] == ["mlp(3, 16), bump code"]
    assert len(collect([store.root, runs[0].path / "diagnosis"]).models) == 3


def test_the_path_begins_after_an_equals_sign_that_makes_sense(runs):
    for name in ("n" * 300, "a=b", "depth=3, width=4"):
        assert collect([f"{name}={runs[0].path}"]).models[0].name == name


def test_two_studies_with_figures_of_the_same_name(tmp_path):
    for folder in ("one", "two", "deep/one"):
        (tmp_path / folder / "figures").mkdir(parents=True)
        (tmp_path / folder / "figures" / "R05.png").write_bytes(folder.encode())
        (tmp_path / folder / "claims.json").write_text("[]")
    found = collect([tmp_path / "one", tmp_path / "two", tmp_path / "deep" / "one", tmp_path / "one"])
    assert sorted(found.figures.values()) == [b"deep/one", b"one", b"two"]
    assert len({source for source, _ in found.claims}) == len(found.claims) == 3


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
    assert run.path.parent.name in found.notes[0]
    assert "1 run has no diagnosis" in found.notes[0]
    found = collect([run.path], diagnose=True)
    assert all(found.models[0].diagnosis[part].computed for part in page_parts())
    shutil.rmtree(run.path / "diagnosis")
    run.diagnose(parts=["errors"], progress=False)
    assert not collect([run.path]).models[0].diagnosis["outputs"].computed
    assert collect([run.path], diagnose=True).models[0].diagnosis["outputs"].computed


def test_diagnosing_again_loses_nothing(tmp_path):
    """A damaged file is mended with the parts and settings that the diagnosis had."""
    store = Store(tmp_path / "runs")
    [run] = store.train([RunConfig.parse([*TINY, "training.steps=2"])], progress=False)
    layers = ["in", "layers.1.act", "out"]
    run.diagnose(
        parts=[*page_parts(), "complexity"], layers=layers, geometry="finite difference", seed=7, pictures=3,
        budget=0.5, progress=False,
    )  # fmt: skip
    (run.path / "diagnosis" / "geometry.safetensors").write_bytes(b"")
    notes = collect([run.path]).notes
    assert "geometry" in notes[0]
    assert "--diagnose" in notes[0]
    [model] = collect([run.path], diagnose=True).models
    found = run.diagnosis
    assert found["complexity"].computed
    assert found["geometry"].facts["method"] == "finite difference"
    assert found["superposition"].facts["pictures"] == 3
    assert found["complexity"].facts["budget"] == found["kernels"].facts["budget"] == 0.5
    assert (list(found.layers), found.facts["request"]["seed"]) == (layers, 7)
    assert model.diagnosis["geometry"].computed
    (run.path / "diagnosis" / "diagnosis.json").write_text("{")
    with pytest.raises(StoreError, match=rf"recombine diagnose {run.id} --out(.|\n)*--diagnose"):
        collect([run.path])
    collect([run.path], diagnose=True)
    assert run.diagnosis["complexity"].computed


def test_a_damaged_part_leaves_the_others(runs, tmp_path):
    folder = tmp_path / runs[0].id
    shutil.copytree(runs[0].path, folder)
    path = folder / "diagnosis" / "geometry.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    (folder / "diagnosis" / "kernels-agreement.csv").unlink()
    [model] = collect([folder]).models
    content = build(collect([folder])).html
    assert model.diagnosis["geometry"].state == model.diagnosis["kernels"].state == Missing.DAMAGED
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
    assert any("not finished" in note for note in found.notes)


@pytest.mark.parametrize("path", ["nothing", "runs/none", "0123", "name=nothing", "a\0b", "x" * 5000])
def test_what_is_not_there_is_an_error(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        collect([path])


def test_an_empty_folder_and_no_path(tmp_path):
    with pytest.raises(InputError, match="nothing to show"):
        collect([tmp_path])
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    with pytest.raises(InputError, match=r"nothing to show(.|\n)*rows differ in length"):
        collect([tmp_path / "bad.csv"])
    with pytest.raises(InputError, match="nothing to report on"):
        collect([])


def test_links_among_tables_claims_and_figures_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('{"a": "SECRET"}')
    study = tmp_path / "study"
    (study / "figures").mkdir(parents=True)
    for name in ("figures/a.png", "claims.json", "table.csv"):
        (study / name).symlink_to(secret)
    (study / "tables").symlink_to(tmp_path)
    (tmp_path / "other.csv").write_text("a\nSECRET\n")
    (study / "figures" / "real.png").write_bytes(b"picture")
    found = collect([str(study)])
    assert [name for _, name in found.figures] == ["real.png"]
    assert not found.claims
    assert not found.tables
    assert len(found.notes) == 4


def test_a_diagnosis_that_contradicts_itself_is_left_out_of_the_page(store):
    found = collect([str(store.root)])
    outputs = found.models[0].diagnosis["outputs"].arrays
    outputs["truth"] = outputs["truth"][:, 0, 0]
    page = build(found, models=3)
    assert len([note for note in page.notes if "is inconsistent" in note]) == 1
    assert found.models[0].name in page.notes[-1]


def test_a_run_whose_data_are_missing_is_not_called_damaged(store, runs, monkeypatch):
    from recombine.report import collect as module

    add = module._add_run

    def refuse(found, run, *given, **options):
        if run.id == runs[0].id:
            raise InputError("There is no file images.npy.")
        add(found, run, *given, **options)

    monkeypatch.setattr(module, "_add_run", refuse)
    notes = "\n".join(collect([str(store.root)]).notes)
    assert "There is no file images.npy." in notes
    assert "damaged" not in notes
