"""`recombine report`, as a user types it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.runs.config import RunConfig
from recombine.runs.store import Store

TINY = ["scene.factors.x=6", "scene.factors.y=6", "holdout.lo=2", "holdout.hi=3", "decoder.kind=mlp",
        "decoder.width=8", "training.steps=5"]  # fmt: skip


def call(*words, code=0):
    result = CliRunner().invoke(app, ["report", *map(str, words)])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("store") / "runs")
    return store.train([RunConfig.parse(TINY)], progress=False)[0]


def test_it_says_how_to_diagnose_or_does_it(run, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    refused = call(run.path, "-o", page, code=2)
    assert f"recombine diagnose {run.id}" in refused.stderr
    assert "--diagnose" in refused.stderr
    assert not page.exists()
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    made = call(f"mine={run.path}", "-o", page, "--diagnose", "--open")
    assert str(page) in made.stdout
    assert opened == [page.as_uri()]
    answer = json.loads(call(run.id, "--out", run.path.parent, "-o", page, "--json").stdout)
    assert answer["models"] == ["mlp(3, 8), bump code"]
    assert answer["mb"] == pytest.approx(page.stat().st_size / 1e6)
    assert answer["mb"] == pytest.approx(sum(answer["blocks_mb"].values()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "There is nothing to show at 'nothing'"),
        (["{run}", "-o", "{folder}"], "is a folder"),
        (["{run}", "--out", "{folder}/page.html"], "use -o {folder}/page.html"),
        (["{run}", "-o", "{folder}/file/page.html"], "Could not write"),
        (["{run}", "--max-mb", "0.01", "-o", "{folder}/page.html"], "exceeds --max-mb 0.01"),
    ],
)
def test_errors_end_with_code_2(run, tmp_path, words, message):
    (tmp_path / "file").write_text("")
    call(run.path, "--diagnose", "-o", tmp_path / "first.html")
    result = call(*(word.format(run=run.path, folder=tmp_path) for word in words), code=2)
    assert message.format(folder=tmp_path) in result.stderr.replace("\n", "")
    assert not (tmp_path / "page.html").exists()


def test_help_loads_no_torch():
    program = "import sys; sys.argv = ['recombine', 'report', '--help']\nfrom recombine.cli.app import app\n" \
              "try:\n    app()\nexcept SystemExit:\n    pass\nprint('torch' in sys.modules)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
