"""The benchmarks run, and the script they measure against computes what the library computes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import reference, reference_rendering
from benchmarks.cases import CASES, cnn_mflop, task
from torch import nn

import recombine as rc
from recombine.models.decoders.cnn import SameConvolution
from recombine.training.loss_terms import Entropy, Variance

ROOT = Path(__file__).parents[1]


def linear_layers(model: nn.Module) -> list[nn.Module]:
    return [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d | nn.Linear)]


def reference_with_weights_of(ours: nn.Module, plain: nn.Module) -> nn.Module:
    for source, target in zip(linear_layers(ours), linear_layers(plain), strict=True):
        weight = source.weight.detach()
        if isinstance(source, SameConvolution):
            weight = weight.transpose(0, 1).flip(2, 3)
        target.weight.data.copy_(weight)
        target.bias.data.copy_(source.bias.detach())
    return plain


@pytest.mark.parametrize("cases", [["data", "mlp"], pytest.param(list(CASES), marks=pytest.mark.long)])
def test_quick_run_writes_every_case(cases: list[str], tmp_path: Path):
    out = tmp_path / "bench.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", ",".join(cases), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    table = json.loads(out.read_text())
    assert {"cores", "avx2", "avx512", "threads", "torch"} <= table["machine"].keys()
    assert {row["case"] for row in table["rows"]} == set(cases)
    for row in table["rows"]:
        assert row["name"] in done.stdout
        assert row["value"] >= 0
        assert row["raw"]
        assert row["met"] == (None if row["target"] is None else row["value"] >= row["target"])


def test_unknown_case_is_named():
    command = [sys.executable, "-m", "benchmarks", "--only", "cnm"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no benchmark cnm" in done.stderr


def test_data_agree():
    problem = task()
    for x, y in ((0, 0), (5, 22), (27, 3)):
        values = torch.tensor([float(x), float(y)])
        torch.testing.assert_close(reference.bump_code(x, y), problem.inputs(values))
        torch.testing.assert_close(reference.bump_image(x, y), problem.targets(values))
    rows = {(int(c[:28].argmax()), int(c[28:].argmax())) for c, _ in reference.BumpData(300).samples}
    id_values = {(int(x), int(y)) for x, y in problem.space.values(problem.holdout.id_cells)}
    assert rows <= id_values


@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (lambda: rc.decoders.CNN(task(), depth=4, width=16), lambda: reference.cnn(4, 16)),
        (lambda: rc.decoders.MLP(task(), depth=3, width=32), lambda: reference.mlp(3, 32)),
    ],
    ids=["cnn", "mlp"],
)
def test_models_agree(ours, plain):
    model = ours().initialize(0)
    twin = reference_with_weights_of(model, plain())
    codes = torch.stack([reference.bump_code(x, 27 - x) for x in range(28)])
    torch.testing.assert_close(twin(codes), model(codes), atol=1e-5, rtol=0)


def test_the_plain_rendered_network_computes_the_same():
    problem = reference_rendering.task()
    ours, plain = rc.decoders.FactorRendered(problem).initialize(0), reference_rendering.PlainRendered()
    for name in ("strengths", "rows", "columns"):
        given = getattr(ours.renderer, name).detach()
        getattr(plain, name).data = given.reshape(getattr(plain, name).shape)
    plain.head.load_state_dict(dict(zip(plain.head.state_dict(), ours.layers.state_dict().values())))
    cells, images = (torch.stack(parts) for parts in zip(*reference_rendering.CellData().samples))
    assert len(cells) == problem.holdout.n_id
    torch.testing.assert_close(plain(cells), ours(problem.inputs(cells.float())), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(images, problem.targets(cells.float()))
    assert not problem.holdout.contains(cells.float()).any()
    penalty = Entropy()(ours) + Variance()(ours)
    torch.testing.assert_close(plain.penalties(), penalty, rtol=1e-4, atol=0)


def test_training_agrees_in_kind():
    steps = 20
    run = rc.train(rc.decoders.MLP(task(), depth=3, width=64), task(), training=rc.recipe("paper", steps=steps))
    torch.manual_seed(0)
    trained = reference.train(reference.mlp(3, 64), reference.BumpData(steps * 32), steps)
    ours, plain = run.losses[:, 0], torch.tensor(trained.losses)
    torch.testing.assert_close(plain[:5].mean(), ours[:5].mean(), rtol=0.3, atol=0)
    torch.testing.assert_close(plain[-5:].mean(), ours[-5:].mean(), rtol=0.3, atol=0)


def test_work_of_the_standard_network():
    assert cnn_mflop(4, 64) == pytest.approx(448, rel=0.01)
