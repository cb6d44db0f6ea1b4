"""Runs keep their names when the library learns a new setting, a new metric or a new part."""

from typing import Annotated, ClassVar

import pytest
from pydantic import create_model

from recombine.core.registry import Since
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.part import PARTS, Part
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.scoring.metrics import METRICS, Metric
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


class Sharpness(Metric):
    name = "sharpness"
    label = "sharpness"

    def compute(self, outputs, targets, values, task):
        return outputs.flatten(1).std(1)


class Darkness(Part):
    name = "darkness"
    tables: ClassVar = {"cells": {"cell": "Number of the cell.", "darkness": "One minus the mean of its output."}}

    def compute(self, inputs):
        means = inputs.outputs.flatten(1).mean(1).tolist()
        return PartResult(self.name, {"cells": [{"cell": i, "darkness": 1 - m} for i, m in enumerate(means)]})

    def summary(self, result):
        return f"{len(result.table('cells'))} cells"


@pytest.fixture
def more_members():
    """A metric and a part that were added later."""

    def learn():
        METRICS.add("sharpness", Sharpness())
        PARTS.add("darkness", Darkness())

    yield learn
    METRICS.remove("sharpness")
    PARTS.remove("darkness")


def test_stored_runs_are_read_by_code_with_another_metric_and_another_part(tmp_path, more_members):
    config, store = RunConfig.parse(TINY), Store(tmp_path)
    [run] = store.train([config], progress=False)
    run.diagnose(parts=["errors"], progress=False)
    more_members()
    assert RunConfig.parse(TINY).hash == run.id
    assert store.is_finished(config)
    again = store.load(run.id)
    assert set(again.scores.columns) == set(run.scores.columns)
    assert again.diagnosis["errors"].computed
    assert not again.diagnosis["darkness"].computed
    both = again.diagnose(parts=["errors", "darkness"], progress=False)
    assert both["errors"].computed
    assert both["darkness"].computed
    [newer] = store.train([RunConfig.parse([*TINY, "seed=1"])], progress=False)
    assert set(newer.scores.columns) == {*run.scores.columns, "sharpness"}
    assert [row.status.finished for row in store.list()] == [True, True]


def test_runs_with_a_metric_and_a_part_that_are_unknown_now_are_read_as_they_are(tmp_path, more_members):
    store = Store(tmp_path)
    more_members()
    [run] = store.train([RunConfig.parse(TINY)], progress=False)
    run.diagnose(parts=["errors", "darkness"], progress=False)
    METRICS.remove("sharpness")
    PARTS.remove("darkness")
    again = store.load(run.id)
    assert "sharpness" in again.scores.columns
    assert again.diagnosis["errors"].computed
    assert store.list()[0].status.finished
    assert store.check_removable(run.id) == run.path


def test_a_composed_run_is_named_as_before_its_terms_could_cover_each_other():
    """The first hash was computed when the decoder had no setting `blend`."""
    words = ["encoding.kind=onehot", "decoder.kind=composed", "training.kind=composed"]
    assert RunConfig.parse(words).hash == "6c6faad17728abd5"
    assert RunConfig.parse([*words, "decoder.blend=over"]).hash != "6c6faad17728abd5"
