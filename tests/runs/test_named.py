"""Runs of one's own modules: saved under a name, listed, diagnosed and reported without their class."""

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import recombine as rc
from recombine.cli.app import app
from recombine.core.errors import InputError, StoreError
from recombine.report.collect import collect
from recombine.runs.store import Store


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 36))

    def forward(self, code):
        return self.net(code).unflatten(1, (6, 6))


class OwnScene(rc.scenes.Bump):
    """Not registered under a kind of its own."""

    config = {}  # noqa: RUF012


@pytest.fixture(scope="module")
def task():
    space = rc.FactorSpace(x=6, y=6)
    return rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 3))


def absolute(outputs, targets):
    return (outputs - targets).abs().mean()


@pytest.fixture(scope="module")
def run(task):
    torch.manual_seed(0)
    return rc.train(Own(), task, training=rc.recipe("paper", steps=20), loss=absolute, progress=False)


@pytest.fixture(scope="module")
def stored(run, tmp_path_factory):
    return run.save(tmp_path_factory.mktemp("named") / "runs", name="my own")


def test_a_run_says_in_one_line_what_it_is(run):
    assert repr(run).startswith("Run(Own, seed 0, 20 steps, ID error ")
    ood = run.scores.columns["mse"][run.scores.is_ood].mean()
    assert repr(run).endswith(f"OOD error {ood:.2g})")
    assert "\n" not in repr(run)
    assert run.loss_names == ["loss", "absolute"]


def test_a_saved_run_is_listed_and_read_without_its_class(run, stored):
    [row] = Store(stored.path.parent).list()
    assert (row.name, row.status.finished, row.id) == ("my own", True, stored.id)
    read = rc.load_run("my own", stored.path.parent)
    read.verify()
    assert read.scores.columns["mse"].tolist() == run.scores.columns["mse"].tolist()
    assert read.history == run.history
    assert read.task.holdout.hash == run.task.holdout.hash
    with pytest.raises(StoreError):
        read.model  # noqa: B018


def test_an_adapted_module_is_stored_by_its_own_class(task, tmp_path):
    run = rc.train(rc.adapt(Own(), task), task, training=rc.recipe("paper", steps=2), progress=False)
    stored = run.save(tmp_path / "runs", name="adapted")
    assert json.loads((stored.path / "config.json").read_text())["decoder"]["class"] == "Own"
    assert json.loads((stored.path / "model" / "config.json").read_text())["class"] == "Own"


def test_its_module_brings_it_back(run, stored, task):
    read = rc.load_run("my own", stored.path.parent, module=Own())
    codes = task.inputs(task.space.values(torch.arange(5)))
    assert torch.equal(read.model(codes), run.model.eval()(codes))
    with pytest.raises(InputError) as caught:
        rc.load_run("my own", stored.path.parent, module=nn.Linear(2, 2)).model  # noqa: B018
    assert caught.value.key == "module"


def test_it_is_diagnosed_from_its_outputs_alone(stored):
    read = rc.load_run("my own", stored.path.parent)
    found = read.diagnose(parts=["errors"], progress=False)
    assert found["errors"].computed
    assert rc.load_run("my own", stored.path.parent).diagnosis["errors"].computed


def test_a_diagnosis_made_before_is_kept_and_a_page_written(run, tmp_path):
    run.diagnose(parts=["outputs", "errors"], progress=False)
    saved = run.save(tmp_path / "runs", name="diagnosed")
    assert saved.diagnosis["errors"].computed
    assert run.report(tmp_path / "page.html").stat().st_size > 10_000


def test_list_and_page_call_it_by_its_name(stored):
    assert repr(stored).startswith(f"StoredRun({stored.name}, seed ")
    listed = CliRunner().invoke(app, ["runs", "list", "--out", str(stored.path.parent)]).output
    assert stored.name in listed
    stored.diagnose(parts=["outputs", "errors", "superposition"], progress=False)
    [model] = collect([str(stored.path)]).models
    assert model.name.startswith(stored.name)


def test_a_name_is_taken_once_per_seed_unless_replaced(run, stored):
    folder = stored.path.parent
    with pytest.raises(StoreError):
        run.save(folder, name="my own")
    assert run.save(folder, name="my own", replace=True).id == stored.id
    with pytest.raises(InputError) as caught:
        run.save(folder, name="a/b")
    assert caught.value.key == "name"


def test_a_task_of_ones_own_is_given_back(tmp_path):
    space = rc.FactorSpace(x=6, y=6)
    scene = OwnScene(space)
    scene.config = {}
    own = rc.Task(scene, rc.encodings.Bump(space), rc.holdouts.centre(space, 2, 3))
    rc.train(Own(), own, training=rc.recipe("paper", steps=2), progress=False).save(tmp_path, name="x")
    read = rc.load_run("x", tmp_path)
    assert read.scores.columns["mse"].shape == (36,)
    with pytest.raises(StoreError):
        read.task  # noqa: B018
    assert rc.load_run("x", tmp_path, task=own).task is own


def test_seeds_of_ones_own_module_come_from_a_factory(task, tmp_path):
    runs = rc.train_seeds(lambda seed: Own(), task, [0, 1], training=rc.recipe("paper", steps=3), progress=False)
    assert not torch.equal(runs[0].model.net[0].weight, runs[1].model.net[0].weight)
    again = rc.train_seeds(lambda seed: Own(), task, [1], training=rc.recipe("paper", steps=3), progress=False)
    assert torch.equal(again[0].model.net[0].weight, runs[1].model.net[0].weight)
    ids = [run.save(tmp_path, name="both").id for run in runs]
    assert len(set(ids)) == 2
    with pytest.raises(InputError) as caught:
        rc.load_run("both", tmp_path)
    assert caught.value.key == "name"
    assert rc.load_run(ids[1], tmp_path).config.seed == 1
    assert json.loads((tmp_path / ids[0] / "run.json").read_text())["name"] == "both"


def test_a_name_that_no_run_has_is_named_with_the_nearest(stored):
    with pytest.raises(
        InputError, match=r"named 'my owl' \(did you mean 'my own'\?\)\. Names there: my own\."
    ) as caught:
        rc.load_run("my owl", stored.path.parent)
    assert caught.value.key == "name"


def test_a_module_that_does_not_fit_is_refused_when_the_run_is_loaded(stored):
    with pytest.raises(InputError, match="do not fit the module") as caught:
        rc.load_run("my own", stored.path.parent, module=nn.Linear(3, 4))
    assert caught.value.key == "module"
