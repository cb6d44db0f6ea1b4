"""Every command, as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.runs.config import RunConfig, differing, flat

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.kind=mlp",
        "decoder.width=16", "training.steps=20"]  # fmt: skip
RUN = RunConfig.parse(TINY).hash


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def snapshot(folder: Path):
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_train_prints_the_scores_as_json(tmp_path):
    answer = json.loads(call("train", *TINY, "--out", tmp_path, "--json").stdout)
    assert answer["run"] == RUN
    for key in ("id_mse", "ood_mse", "id_localization", "ood_localization"):
        assert 0 <= answer[key] <= 1
    assert Path(answer["path"], "run.json").is_file()


def test_the_effective_rank_of_every_factor_value_is_told(tmp_path):
    words = [*TINY[:4], "encoding.kind=onehot", "decoder.kind=rendered", "decoder.rank=3", "training.kind=low_rank",
             "training.steps=2"]  # fmt: skip
    answer = json.loads(call("train", *words, "--out", tmp_path, "--json").stdout)
    assert {name: len(ranks) for name, ranks in answer["effective_rank"].items()} == {"x": 8, "y": 8}
    assert all(1 <= rank <= 3 for ranks in answer["effective_rank"].values() for rank in ranks)
    highest = max(answer["effective_rank"]["y"])
    for command in (["train", *words], ["runs", "show", answer["run"]]):
        text = call(*command, "--out", tmp_path).stdout
        [line] = [line for line in text.splitlines() if "effective rank of y" in line]
        assert f"maximum {highest:.2f}" in line
    assert "effective_rank" not in json.loads(call("train", *TINY, "--out", tmp_path, "--json").stdout)


def test_train_again_changes_nothing_and_force_redoes(tmp_path):
    call("train", *TINY, "--out", tmp_path)
    before = snapshot(tmp_path)
    assert RUN in call("train", *TINY, "--out", tmp_path).stdout
    assert snapshot(tmp_path) == before
    call("train", *TINY, "--out", tmp_path, "--force")
    redone = snapshot(tmp_path)
    assert redone[str(tmp_path / RUN / "scores.csv")] == before[str(tmp_path / RUN / "scores.csv")]


def test_several_seeds_give_a_run_each(tmp_path):
    rows = json.loads(call("train", *TINY, "seed=0..2", "--out", tmp_path, "--json").stdout)
    assert [row["seed"] for row in rows] == [0, 1, 2]
    assert "ood_localization" in call("train", *TINY, "seed=0,2", "--out", tmp_path).stdout
    assert len(list(tmp_path.iterdir())) == 3


def test_seed_option_and_config_file(tmp_path):
    call("train", *TINY, "--seed", 4, "--out", tmp_path)
    run = RunConfig.parse([*TINY, "seed=4"]).hash
    config = tmp_path / run / "config.json"
    answer = json.loads(call("train", "--config", config, "seed=5", "--out", tmp_path, "--dry-run", "--json").stdout)
    assert answer[0]["run"] == RunConfig.parse([*TINY, "seed=5"]).hash


def test_dry_run_refuses_a_place_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    answer = call("train", *TINY, "--out", tmp_path / "file" / "runs", "--dry-run", code=2)
    assert "cannot be a run store" in answer.stderr


def test_dry_run_writes_nothing(tmp_path):
    assert "to train" in call("train", *TINY, "--out", tmp_path / "new", "--dry-run").stdout
    assert not (tmp_path / "new").exists()
    plan = json.loads(call("demo", "--out", tmp_path / "new", "--dry-run", "--json").stdout)
    assert [row["status"] for row in plan] == 3 * ["to train"]
    assert not (tmp_path / "new").exists()


def test_runs_list_show_and_rm(tmp_path):
    assert "There are no runs" in call("runs", "list", "--out", tmp_path).stdout
    call("train", *TINY, "--out", tmp_path)
    assert RUN in call("runs", "list", "--out", tmp_path).stdout
    assert json.loads(call("runs", "list", "--out", tmp_path, "--json").stdout)[0]["run"] == RUN
    shown = call("runs", "show", RUN[:5], "--out", tmp_path).stdout
    assert "mlp" in shown
    assert "OOD" in shown
    assert json.loads(call("runs", "show", RUN, "--out", tmp_path, "--json").stdout)["config"]["seed"] == 0
    assert "Would delete" in call("runs", "rm", RUN, "--out", tmp_path, "--dry-run").stdout
    assert (tmp_path / RUN).exists()
    assert json.loads(call("runs", "rm", RUN[:6], "--out", tmp_path, "--json").stdout)["removed"] == [RUN]
    assert not (tmp_path / RUN).exists()


def test_the_list_of_runs_shows_the_settings_in_which_they_differ(tmp_path):
    call("train", *TINY, "--out", tmp_path)
    assert "training" not in call("runs", "list", "--out", tmp_path).stdout
    call("train", *TINY, "training.steps=5", "training.optimizer.beta1=0.8", "--out", tmp_path)
    head, *rows = (line.split() for line in call("runs", "list", "--out", tmp_path).stdout.splitlines())
    assert head[5:8] == ["training.steps", "training.optimizer.beta1", "seed"]
    assert {tuple(row[6:8]) for row in rows} == {("20", "0.9"), ("5", "0.8")}


@pytest.mark.quick
def test_settings_that_differ_are_those_with_two_values_among_the_runs_that_have_them():
    given = [{"decoder": {"kind": "mlp"}, "seed": 0}, {"decoder": {"kind": "cnn", "optimizer": {"lr": 1}}, "seed": 0}]
    assert differing(flat(one, levels=3) for one in given) == ["decoder.kind"]
    both = differing((flat(one, levels=3) for one in given), absent_differs=True)
    assert both == ["decoder.kind", "decoder.optimizer.lr"]  # an absent setting counts as None
    given.append({"decoder": {"kind": "cnn", "optimizer": {"lr": 2}}, "seed": 0})
    assert differing(flat(one, levels=3) for one in given) == ["decoder.kind", "decoder.optimizer.lr"]


def test_all_runs_are_checked_before_the_first_is_deleted(tmp_path):
    call("train", *TINY, "--out", tmp_path)
    foreign = tmp_path / "0123456789abcdef"
    foreign.mkdir()
    (foreign / "precious.txt").write_text("mine")
    before = snapshot(tmp_path)
    for dry in ([], ["--dry-run"]):
        assert "precious.txt" in call("runs", "rm", RUN, "01", "--out", tmp_path, *dry, code=2).stderr
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["model/config.json", "model/model.safetensors", "scores.csv", "history.jsonl", "losses.safetensors"]
)
def test_a_damaged_run_is_told_of_by_every_command(tmp_path, name):
    call("train", *TINY, "--out", tmp_path)
    path = tmp_path / RUN / name
    path.write_bytes(path.read_bytes()[:-5])
    for command in (["train", *TINY], ["runs", "show", RUN]):
        for style in ([], ["--json"]):
            result = call(*command, "--out", tmp_path, *style, code=2)
            assert f"{name} was changed after the run finished" in result.stderr
            assert result.stdout.startswith('{\n  "error"' if style else "")
        assert command[0] == "runs" or not result.stdout.startswith("run ")
    plan = call("train", *TINY, "--out", tmp_path, "--dry-run")
    assert f"{RUN}  damaged  mlp" in plan.stdout
    assert f"{name} was changed" in plan.stderr


def test_a_damaged_run_is_listed_with_its_reason_below_the_table(tmp_path):
    call("train", *TINY, "--out", tmp_path)
    (tmp_path / RUN / "run.json").write_text("{")
    result = call("runs", "list", "--out", tmp_path)
    assert result.stdout.splitlines()[-1] == f"{RUN}  damaged"
    assert "cannot be read as JSON" in result.stderr


def test_dry_run_says_what_would_happen(tmp_path):
    def plan(*words):
        [row] = json.loads(call("train", *TINY, "--out", tmp_path, "--dry-run", "--json", *words).stdout)
        return row["status"], row["found"]["status"]

    call("train", *TINY, "--out", tmp_path)
    assert plan() == ("finished", "finished")
    assert plan("--force") == ("to train again", "finished")
    (tmp_path / RUN / "scores.csv").write_text("")
    assert plan() == ("damaged", "damaged")
    assert plan("--force") == ("to train again", "damaged")
    (tmp_path / RUN / "run.json").unlink()
    assert plan() == plan("--force") == ("to train", "not started")
    (tmp_path / RUN / "checkpoint.safetensors").write_text("junk")
    assert plan() == plan("--force") == ("to train", "damaged")


@pytest.mark.parametrize("command", [["runs", "list"], ["train", *TINY]])
def test_a_folder_that_may_not_be_entered_ends_with_code_2(tmp_path, monkeypatch, command):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr("recombine.runs.store.listed_runs", refuse)
    monkeypatch.setattr("recombine.runs.store.Store.is_finished", refuse)
    assert f"Cannot use {tmp_path}: Permission denied" in call(*command, "--out", tmp_path, code=2).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "training.examples.cells.samples=1099511627776"], "at most"),
        (["train", "training.batch=1099511627776"], "at most"),
        (["train", "training.examples.single_factor.repeats=1099511627776"], "at most"),
        (["train", "decoder.widht=3"], "did you mean 'decoder.width'?"),
        (["train", "decoder.depth=0"], "greater than or equal to 1"),
        (["train", "holdout.lo=0", "holdout.hi=27"], "there are no ID cells"),
        (["train", "holdout.kind=gap", "holdout.factor=x", "holdout.lo=1", "holdout.hi=2"], "x ∈ {1, 2}"),
        (["train", "scene.factors.x=64", "scene.factors.y=64", "decoder.depth=2"], "Use depth ≥ 4"),
        (["train", "encoding.kind=ramp", "training.examples.single_factor={}"], "presence flag"),
        (["train", "training.examples.cells.count=1000"], "more than the 495 ID cells that the hold-out leaves"),
        (["train", "seed=3..1"], "first..last"),
        (["train", "seed=²..³"], "first..last"),
        (["train", "seed=3..1", "decoder.dept=3"], "did you mean 'decoder.depth'?"),
        (["train", "seed=3..1", "decoder.dept=3"], "first..last"),
        (["train", "seed=0..1000000000"], "at most 10000"),
        (["train", "decoder.kind=mlp", "training.kind=low_rank"], "requires a FactorRenderer"),
        (
            [
                "train",
                "encoding.kind=mixed",
                'encoding.factors={"x":{"kind":"ramp"},"y":{"kind":"bump"}}',
                "training.examples.single_factor={}",
            ],
            "presence flag",
        ),
        (["train", 'scene.factors.x={"kind":"discrete","size":10,"low":"a"}'], "scene.factors is invalid"),
        (["train", "scene.factors.x=99999999999999999999"], "Got"),
        (["train", "decoder.width=1000000000"], "must be at most 1000000"),
        (["train", "scene.factors.x=10000000", "scene.factors.y=10000000"], "would need 6.4 PB"),
        (["train", "decoder.width=99999999999999999999"], "less than or equal to"),
        (["train", "--device", "cuda:77"], "There is no device 'cuda:77'"),
        (["train", "--config", "nowhere.json"], "nowhere.json is missing"),
        (["runs", "show", "0123"], "There is no run"),
        (["runs", "show", "../../etc"], "hexadecimal digits"),
        (["runs", "rm", "0123"], "There is no run"),
        (["demo", "--device", "tpu"], "There is no device 'tpu'"),
    ],
)
def test_bad_input_ends_with_code_2_says_why_and_writes_nothing(tmp_path, words, message):
    result = call(*words, "--out", tmp_path / "out", code=2)
    assert message in result.stderr
    assert not (tmp_path / "out").exists()
    again = call(*words, "--out", tmp_path / "out", "--json", code=2)
    assert message in json.loads(again.stdout)["error"]


def test_an_output_that_cannot_be_written_ends_with_code_2(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "is a file" in call("train", *TINY, "--out", tmp_path / "file", code=2).stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_divergence_ends_with_code_1(tmp_path):
    words = [*TINY, "training.learning_rate=1e18"]
    assert "learning rate that is too high" in call("train", *words, "--out", tmp_path, code=1).stderr


def test_help_is_quick_and_imports_no_torch():
    code = "import sys; from recombine.cli.app import app; assert 'torch' not in sys.modules, 'torch'"
    subprocess.run([sys.executable, "-c", code], check=True)
    command = [sys.executable, "-m", "recombine", "--help"]
    times = []
    for _ in range(5):
        start = sum(os.times()[2:4])  # the processor time of children: the machine may be busy with others
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"})
        times.append(sum(os.times()[2:4]) - start)
    assert "demo" in done.stdout
    assert "train" in done.stdout
    assert min(times) < 0.3 * 2, times  # twice the promise: a busy machine's processors are slower


def test_the_commands_exit_codes_reach_the_shell(tmp_path):
    command = [sys.executable, "-m", "recombine", "train", "decoder.kind=nothing", "--out", str(tmp_path / "o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no decoder of kind 'nothing'" in done.stderr
    assert "Traceback" not in done.stderr
