"""Runs keep their names when the library learns a new setting, a new metric or a new part."""

from typing import Annotated

import pytest
from pydantic import create_model

from recombine.core.registry import Since
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.training.losses import LOSSES
from recombine.training.recipes import RECIPES, Paper

TINY = ["scene.factors.x=6", "scene.factors.y=6", "holdout.lo=2", "holdout.hi=3", "decoder.kind=mlp", "decoder.width=8",
        "training.steps=2"]  # fmt: skip


@pytest.fixture
def later(monkeypatch):
    """The schema with a setting of recipes and one of a nested loss that were added after format 2."""
    recipe = create_model("Paper", __base__=Paper, clipping=(Annotated[float, Since(3)], 0.0))
    loss = create_model("mse", __base__=LOSSES.models["mse"], scale=(Annotated[float, Since(3, 1.0)], 2.0))

    def learn():
        monkeypatch.setitem(RECIPES.models, "paper", recipe)
        monkeypatch.setitem(LOSSES.models, "mse", loss)

    return learn


def test_stored_runs_keep_their_names_count_as_finished_and_are_read(tmp_path, later):
    config = RunConfig.parse(TINY)
    [before] = Store(tmp_path).train([config], progress=False)
    scores = before.path / "scores.csv"
    later()
    stored = RunConfig.from_stored(before.config.to_dict())
    assert stored.hash == before.id
    assert (stored.training["clipping"], stored.training["loss"]["scale"]) == (0.0, 1.0)
    store = Store(tmp_path)
    assert store.is_finished(stored)
    assert store.load(before.id).facts == before.facts
    assert store.list()[0].status.finished
    # the new setting counts when it is used, and so does a default that changed after its introduction
    assert RunConfig.parse([*TINY, "training.clipping=1.0", "training.loss.scale=1.0"]).hash != before.id
    assert RunConfig.parse([*TINY, "training.loss.scale=1.0"]).hash == before.id
    assert RunConfig.parse(TINY).hash != before.id
    assert scores.is_file()


def test_a_table_with_another_metric_and_a_diagnosis_with_another_part_are_read_as_they_are(tmp_path):
    [run] = Store(tmp_path).train([RunConfig.parse(TINY)], progress=False)
    header, *rows = (run.path / "scores.csv").read_text().splitlines()
    wider = "\n".join([f"{header},sharpness", *(f"{row},0.5" for row in rows)]) + "\n"
    (tmp_path / "wider.csv").write_text(wider)
    read = type(run.scores).from_csv(tmp_path / "wider.csv", run.holdout.space)
    assert set(read.columns) == {*run.scores.columns, "sharpness"}
    run.diagnose(parts=["errors"], progress=False)
    (run.path / "diagnosis" / "of_a_later_part.csv").write_text("a\n1\n")
    assert Store(tmp_path).load(run.id).diagnosis["errors"].computed
    assert Store(tmp_path).check_removable(run.id) == run.path


def test_a_composed_run_is_named_as_before_its_terms_could_cover_each_other():
    """The first hash was computed when the decoder had no setting `blend`."""
    words = ["encoding.kind=onehot", "decoder.kind=composed", "training.kind=composed"]
    assert RunConfig.parse(words).hash == "6c6faad17728abd5"
    assert RunConfig.parse([*words, "decoder.blend=over"]).hash != "6c6faad17728abd5"
