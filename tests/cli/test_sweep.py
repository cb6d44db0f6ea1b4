"""`recombine sweep` as a user types it."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.cli.sweep.run import in_bytes
from recombine.runs.store import Store

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.kind=mlp",
        "decoder.width=8", "training.steps=5"]  # fmt: skip
HERE = ["--engine", "in-process", "--device", "cpu"]


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "runs"
    answer = json.loads(call("sweep", *TINY, "seed=0..2,1", "--out", out, *HERE, "--json").stdout)
    assert (answer["runs"], answer["merged"], len(answer["finished"]), answer["failed"]) == (3, 1, 3, [])
    return out


def test_an_empty_table_says_so(tmp_path):
    answer = call("sweep", "table", tmp_path, "--json")
    assert json.loads(answer.stdout) == []
    assert f"no run in {tmp_path} is finished" in answer.stderr


def test_sweep_status_and_table_are_told_apart(done, tmp_path):
    assert "0 of 0" not in call("sweep", "status", done).stdout
    assert "3 of 3 runs finished" in call("sweep", "status", done).stdout
    assert json.loads(call("sweep", "status", done, "--json").stdout)["finished"] == 3
    table = call("sweep", "table", done).stdout
    assert table.startswith("run,encoding.kind,")
    assert len(table.splitlines()) == 4
    assert len(json.loads(call("sweep", "table", done, "--group", "--json").stdout)) == 1
    call("sweep", "table", done, "--save", tmp_path / "t.csv", "--save", tmp_path / "t.parquet", "--plot",
         tmp_path / "t.png", "--y", "id_mse")  # fmt: skip
    assert (tmp_path / "t.csv").read_text() == table
    assert (tmp_path / "t.png").stat().st_size > 1000
    help_text = call("sweep", "--help").stdout
    for word in ("run", "status", "table", "decoder.depth=2,3,4"):
        assert word in help_text
    assert "--time-limit" in call("sweep", "run", "--help").stdout


def test_settings_of_single_parts_reach_the_diagnosis(done, tmp_path):
    out = shutil.copytree(done, tmp_path / "runs")
    asked = ["--diagnose", "superposition,kernels", "--cells", "27,28", "--budget", "0.5"]
    answer = json.loads(call("sweep", *TINY, "seed=0", "--out", out, *HERE, *asked, "--json").stdout)
    found = Store(out).load(answer["diagnosed"][0]).diagnosis
    assert found["superposition"].facts["pictures"] == [27, 28]
    assert found["superposition"].by_layer("pictures")["cells"].tolist() == [27, 28]
    assert found["kernels"].facts["budget"] == 0.5
    call("sweep", *TINY, "seed=0", "--out", out, *HERE, *asked[2:], code=2)  # nothing to diagnose


def test_the_same_command_again_trains_nothing_and_says_so(done):
    told = call("sweep", *TINY, "seed=0..2", "--out", done, *HERE).stdout
    assert "3 of 3 runs are finished (3 of them earlier or by other processes) and 0 failed" in told


def test_dry_run_lists_runs_says_what_is_stored_and_how_long_it_takes(done, tmp_path):
    plan = json.loads(call("sweep", *TINY, "seed=0..5", "--out", done, "--dry-run", "--json").stdout)
    assert (plan["runs"], plan["stored"], plan["to_train"], plan["jobs"]) == (6, 3, 3, 2)
    assert [row["status"] for row in plan["plan"]] == ["finished"] * 3 + ["to train"] * 3
    assert 0 < plan["estimated_seconds"] < 60
    told = call("sweep", *TINY, "seed=0..1", "seed=0,0", "--out", tmp_path / "new", "--dry-run").stdout
    assert "1 of 2 runs were given more than once" in told
    assert "to train" in told
    assert not (tmp_path / "new").exists()


def test_the_estimate_grows_with_the_steps(tmp_path):
    seconds = []
    for steps in (50, 5000):
        words = [*TINY, f"training.steps={steps}", "--out", tmp_path, "--dry-run", "--json", "--max-parallel", 1]
        seconds.append(json.loads(call("sweep", *words).stdout)["estimated_seconds"])
    assert 10 < seconds[1] / max(seconds[0], 0.05) < 1000


def test_a_file_is_a_word_that_ends_in_yaml(tmp_path):
    spec = tmp_path / "s.yaml"
    spec.write_text("grid: {seed: 0..3}\nexclude: [{seed: 2}]\n")
    plan = json.loads(call("sweep", spec, *TINY, "--out", tmp_path / "o", "--dry-run", "--json").stdout)
    assert [row["config"]["seed"] for row in plan["plan"]] == [0, 1, 3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["decoder.widht=3"], "did you mean 'decoder.width'?"),
        (["seed=3..1"], "first..last"),
        (["nothing.yaml"], "is missing"),
        (["a.yaml", "b.yaml"], "one file"),
        (["seed=0", "--engine", "slurm"], "in-process, processes, ray"),
        (["seed=0", "--memory", "lots"], "2GB or 512MiB"),
        (["seed=0", "--cpus", "100000"], "Request fewer"),
        (["seed=0", "--gpus", "1.5"], "an integer"),
        (["seed=0", "--max-parallel", "0"], "must be at least 1"),
        (["seed=0", "--time-limit", "0"], "above 0 s"),
        (["seed=0", "--time-limit", "inf"], "above 0 s"),
        (["seed=0", "--checkpoint-seconds", "-5"], "at least 0 s"),
        (["seed=0", "--dry-run", "--max-parallel", "0"], "must be at least 1"),
        (["seed=0", "--dry-run", "--max-parallel", "1", "--engine", "slurm"], "in-process, processes, ray"),
        (["seed=0", "--dry-run", "--retries", "-1"], "at least 0"),
        (["seed=0", "--device", "cuda:77"], "There is no device"),
        (["seed=0", "--address", "auto"], "only for cluster engines"),
    ],
)
def test_bad_input_ends_with_code_2_and_writes_nothing(tmp_path, words, message):
    result = call("sweep", *words, "--out", tmp_path / "out", code=2)
    assert message in result.stderr
    assert not (tmp_path / "out").exists()
    assert message in json.loads(call("sweep", *words, "--out", tmp_path / "out", "--json", code=2).stdout)["error"]


@pytest.mark.parametrize("command", ["status", "table"])
def test_a_folder_that_is_no_sweep_is_an_error(tmp_path, command):
    assert "nothing" in call("sweep", command, tmp_path / "nothing", code=2).stderr


def test_failed_runs_end_with_code_1(tmp_path):
    words = [*TINY, "training.learning_rate=1e18", "--out", tmp_path, *HERE]
    assert "Run the same command again" in call("sweep", *words, code=1).stderr
    assert len(json.loads(call("sweep", *words, "--json", code=1).stdout)["failed"]) == 1


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("2GB", 2 * 10**9), ("1.5GiB", 3 * 2**29), ("512 mb", 512 * 10**6), ("7B", 7)]
)
def test_memory_in_words(text, number):
    assert in_bytes(text) == number


def test_nothing_but_failures_is_printed_without_a_terminal(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "recombine", "sweep", *TINY, "--out", str(tmp_path / "o"), *HERE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_the_bars_show_all_runs_and_each_running_job(capsys):
    from recombine.sweeps.progress import SweepProgress

    with SweepProgress(3, show=True) as progress:
        progress.advance(1)
        progress.show(["one job", "another job"])
        progress.failed("a run", "broke", "Traceback …", "its.log")
        progress.advance(1)
        assert [task.description.strip() for task in progress._bars.tasks] == ["sweep", "one job", "another job"]
        progress.show(["another job"])
        assert len(progress._bars.tasks) == 2
    told = capsys.readouterr().err
    for part in ("sweep", "2/3, 1 failed", "failed: a run: broke", "log: its.log"):
        assert part in told
