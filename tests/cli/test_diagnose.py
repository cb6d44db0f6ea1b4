"""`recombine diagnose`, as a user types it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.core.errors import StoreError
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.runs.config import RunConfig
from recombine.runs.store import Store

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.kind=mlp",
        "decoder.width=16", "training.steps=20"]  # fmt: skip
OWN = """
import torch
from torch import nn
import recombine as rc
import beside

space = rc.FactorSpace(x=6, y=6)

def mine():
    return {"model": nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 5)), "space": space,
            "holdout": rc.holdouts.centre(space, 2, 3)}

class Bundle:
    model, space, encode, holdout, target = staticmethod(torch.sin), space, None, None, staticmethod(torch.sin)

def bundle():
    return Bundle()

def wrong():
    return {"model": torch.sin, "spaces": space}

def loud():
    print("hello")
    def model(code):
        print("there")
        return torch.sin(code)
    return {"model": model, "space": space}

def needs(something):
    return {}

def raises():
    return {"model": torch.sin, "space": space, "encode": lambda values: values["x"]}

def broken():
    return {"model": lambda code: "text", "space": space}
"""


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    [run] = Store(folder).train([RunConfig.parse(TINY)], progress=False)
    return folder, run.id


@pytest.fixture
def own(tmp_path):
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


def test_a_run_is_diagnosed_and_the_result_kept_with_it(store, tmp_path):
    folder, run = store
    with pytest.raises(StoreError, match="has no diagnosis yet"):
        Store(folder).load(run).diagnosis  # noqa: B018
    shown = call("diagnose", run[:6], "--out", folder, "--figures", tmp_path / "figures")
    assert "Verdict: " in shown.stdout
    assert "layers.1.act" in shown.stdout
    assert len(list((tmp_path / "figures").glob("*.png"))) == 9
    kept = Store(folder).load(run).diagnosis
    assert kept.source["run"] == run
    assert (kept.holdout.mask == Store(folder).load(run).task.holdout.mask).all()


def test_a_diagnosis_of_other_weights_is_refused(store, tmp_path):
    folder, run = store
    call("diagnose", run, "--out", folder, "--parts", "errors")
    path = folder / run / "diagnosis" / "diagnosis.json"
    content = json.loads(path.read_text())
    content["source"]["model"] = "0" * 64
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="other weights"):
        Store(folder).load(run).diagnosis  # noqa: B018


def test_parts_are_added_to_what_is_kept(store):
    folder, run = store
    kept = Store(folder).load(run)
    call("diagnose", run, "--out", folder, "--parts", "errors,superposition,probes")
    verdict = kept.diagnosis.verdict
    assert (
        "mean squared error (relative to the variance of the truth): ALL"
        in call("diagnose", run, "--out", folder, "--parts", "errors").stdout
    )
    assert kept.diagnosis["probes"].computed
    assert kept.diagnosis.verdict == verdict
    call("diagnose", run, "--out", folder, "--parts", "tuning")
    assert all(kept.diagnosis[part].computed for part in ("errors", "superposition", "probes", "tuning"))
    shown = call("diagnose", run, "--out", folder, "--parts", "errors", "--layers", "out")
    assert "not stored with run" in shown.stdout
    assert kept.diagnosis["tuning"].computed
    everything = "errors,superposition,probes,tuning"
    call("diagnose", run, "--out", folder, "--parts", everything, "--layers", "out")
    assert kept.diagnosis.layers == ("out",)
    written = json.loads((folder / run / "diagnosis" / "diagnosis.json").read_text())["files"]
    assert {path.name for path in (folder / run / "diagnosis").iterdir()} == {"diagnosis.json", *written}


def test_a_diagnosis_replaced_leaves_no_files_behind(own, tmp_path):
    for parts in ("superposition,probes", "probes"):
        call("diagnose", f"{own}:mine", "--parts", parts, "--save", tmp_path / "kept")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "diagnosis.json", "probes-scores.csv", "probes.safetensors"]  # fmt: skip


def test_json_layers_and_parts(store):
    folder, run = store
    words = ["--layers", "layers.*.act,out", "--parts", "geometry,probes", "--geometry", "finite difference", "--json"]
    answer = json.loads(call("diagnose", run, "--out", folder, *words).stdout)
    assert [row["layer"] for row in answer["layers"]] == ["layers.1.act", "layers.2.act", "layers.3.act", "out"]
    assert set(answer["parts"]) == {"geometry", "probes"}
    assert answer["verdict"]["kind"] == "undecided"
    assert answer["verdict"]["thresholds"]["right"] == 0.1


def test_a_model_of_ones_own(own, tmp_path):
    shown = call("diagnose", f"{own}:mine", "--parts", "superposition,probes", "--save", tmp_path / "kept")
    assert "undecided" in shown.stdout
    assert Diagnosis.load(tmp_path / "kept").source == {"function": f"{own}:mine"}
    answer = json.loads(call("diagnose", f"{own}:bundle", "--parts", "errors", "--json").stdout)
    assert answer["parts"]["errors"]["errors"][0]["mse"] == 0
    assert str(own.parent) not in sys.path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{own}:nothing"], "has no function 'nothing'"),
        (["{own}:wrong"], "must return a dict or an object with model and space"),
        (["{own}:broken"], "must be a tensor"),
        (["{own}.txt:mine"], "There is no Python file"),
        (["xyz"], "up to 16 hexadecimal digits"),
        (["0123"], "There is no run"),
        (["{own}:needs"], "missing 1 required positional argument: 'something'"),
        (["{own}:raises"], "`encode` failed on factor values"),
        (["{bad}:mine"], "SyntaxError"),
        (["{lost}:mine"], "No module named 'nowhere'"),
        (["{own}:mine", "--save", "{own}"], "must be a writable folder"),
        (["{own}:mine", "--figures", "{own}"], "must be a writable folder"),
        (["{own}:mine", "--parts", ","], "No part"),
        (["{own}:mine", "--cells", "a"], "must be a list of cell numbers"),
        (["{own}:mine", "--cells", "1" * 5000], "must be a list of cell numbers"),
        (["{own}:mine", "--cells", "0"], "Not held out: 0"),
        (["{own}:mine", "--parts", "prbes"], "did you mean 'probes'"),
        (["{own}:mine", "--layers", "nothing"], "no layer 'nothing'"),
    ],
)
def test_errors_end_with_code_2(own, tmp_path, words, message):
    names = {"own": own, "bad": tmp_path / "bad.py", "lost": tmp_path / "lost.py"}
    names["bad"].write_text("def mine(:\n")
    names["lost"].write_text("import nowhere\n")
    result = call("diagnose", *(word.format(**names) for word in words), "--out", tmp_path / "runs", code=2)
    assert message in result.stderr


def test_what_a_users_function_prints_is_kept_out_of_the_json(own):
    result = call("diagnose", f"{own}:loud", "--parts", "outputs", "--json")
    assert json.loads(result.stdout)["verdict"]["kind"] == "undecided"
    assert "hello" in result.stderr
    assert "there" in result.stderr


def test_cells_to_keep_pictures_of(own, tmp_path):
    call("diagnose", f"{own}:mine", "--parts", "superposition", "--cells", "20,14", "--save", tmp_path / "kept")
    assert Diagnosis.load(tmp_path / "kept")["superposition"].arrays["pictures/cells"].tolist() == [20, 14]


def test_help_loads_no_torch():
    program = "import sys; sys.argv = ['recombine', 'diagnose', '--help']\nfrom recombine.cli.app import app\n" \
              "try:\n    app()\nexcept SystemExit:\n    pass\nprint('torch' in sys.modules)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "FILE.py:FUNCTION" in done.stdout
    assert done.stdout.split()[-1] == "False"
