"""The diagnosis kept with a stored run: what is merged, what is replaced, what is lacking."""

import os
from dataclasses import replace

import pytest

from recombine import DiagnosisRequest
from recombine.core.errors import Missing, StoreError
from recombine.runs.config import RunConfig
from recombine.runs.store import Store

TINY = ["scene.factors.x=6", "scene.factors.y=6", "decoder.kind=mlp", "decoder.depth=1", "decoder.width=4",
        "training.steps=1", "holdout.kind=centre", "holdout.lo=2", "holdout.hi=4"]  # fmt: skip
ERRORS = DiagnosisRequest(parts="errors")
BOTH = DiagnosisRequest(parts=["errors", "geometry"])


@pytest.fixture
def run(tmp_path):
    [run] = Store(tmp_path / "runs").train([RunConfig.parse(TINY)], progress=False)
    return run


def diagnosed(run, request, **options):
    return run.diagnose(request, progress=False, **options)


def test_parts_of_one_setting_stand_side_by_side(run):
    assert run.lacks(BOTH) == ("errors", "geometry")
    diagnosed(run, ERRORS)
    assert run.lacks(BOTH) == ("geometry",)
    diagnosed(run, replace(BOTH, parts=run.lacks(BOTH), memory=2**26))  # memory makes no other numbers
    assert run.lacks(BOTH) == ()
    assert run.diagnosis["errors"].computed
    assert run.diagnosis["geometry"].computed
    assert run.lacks(replace(BOTH, seed=1)) == ("errors", "geometry")
    assert run.lacks(replace(BOTH, geometry=["exact", "finite difference"])) == ("geometry",)
    assert run.lacks(replace(BOTH, geometry=["finite difference"])) == ("geometry",)


def test_a_part_that_could_not_be_computed_is_not_lacking(run):
    request = DiagnosisRequest(parts="embeddings", layers="out")
    found = diagnosed(run, request)
    assert found["embeddings"].missing or found["embeddings"].computed
    assert run.lacks(request) == ()


def test_other_settings_replace_only_what_they_cover(run):
    diagnosed(run, BOTH)
    other = diagnosed(run, replace(ERRORS, seed=1))
    assert other.notes
    assert run.diagnosis.facts["request"]["seed"] == 0
    diagnosed(run, replace(BOTH, seed=1))
    assert run.diagnosis.facts["request"]["seed"] == 1
    assert run.lacks(BOTH) == ("errors", "geometry")


def test_a_damaged_part_is_lacking_and_heals(run):
    diagnosed(run, BOTH)
    (run.path / "diagnosis" / "errors-errors.csv").unlink()
    assert run.lacks(BOTH) == ("errors",)
    assert run.load_diagnosis(partial=True)["errors"].state is Missing.DAMAGED
    diagnosed(run, replace(BOTH, parts=run.lacks(BOTH)))
    assert run.lacks(BOTH) == ()
    assert run.diagnosis["geometry"].computed


def test_a_folder_that_cannot_be_written_to(run, monkeypatch):
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: real(path, mode) and path != run.path)
    with pytest.raises(StoreError, match="not writable"):
        diagnosed(run, ERRORS)
    assert diagnosed(run, ERRORS, keep=None)["errors"].computed
    assert not (run.path / "diagnosis").exists()


def test_a_result_that_cannot_be_stored_with_its_run_is_still_there_to_be_saved_elsewhere(run):
    (run.path / "diagnosis").write_text("no folder")
    with pytest.raises(StoreError, match="Could not write"):
        diagnosed(run, ERRORS)
    found = diagnosed(run, ERRORS, keep=None)
    assert found["errors"].computed
    assert f"not stored with run {run.id}: Could not write" in found.notes[-1]


def test_a_diagnosis_that_is_not_kept(run):
    assert diagnosed(run, ERRORS, keep=False)["errors"].computed
    assert run.lacks(ERRORS) == ("errors",)


@pytest.mark.parametrize("content", ["{", "[]", "null", '{"format": "recombine-diagnosis-2"}', '{"facts": 3}'])
def test_unreadable_diagnoses_lack_everything(run, content):
    diagnosed(run, ERRORS)
    (run.path / "diagnosis" / "diagnosis.json").write_text(content)
    assert run.lacks(ERRORS) == ("errors",)
