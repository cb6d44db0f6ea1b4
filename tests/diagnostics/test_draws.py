"""Several draws of a generator's noise: mean, spread, and the verdict on each draw and on their mean."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import recombine as rc
from recombine.cli.app import app
from recombine.core.errors import InputError, Missing
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.draws import verdicts_of
from recombine.diagnostics.verdict import VerdictKind

SPACE = rc.FactorSpace(x=8, y=8)
CODE = rc.encodings.OneHot(SPACE)
SCENE = rc.scenes.Bump(SPACE)
HOLE = rc.holdouts.centre(SPACE, 2, 5)
TRUTH = SCENE(SPACE.values(torch.arange(64)))


class Right(nn.Module):
    """Draws the truth, with noise of a given strength added to every pixel alike."""

    def __init__(self, strength=0.01):
        super().__init__()
        self.strength = strength

    def forward(self, noise, code):
        x, y = code[:, :8].argmax(-1), code[:, 8:].argmax(-1)
        return TRUTH[8 * x + y] + self.strength * noise.reshape(-1, *TRUTH.shape[1:])


def diagnosed(model=None, **given):
    model = rc.adapt(Right(), noise=TRUTH.shape[1:]) if model is None else model
    given = {"target": SCENE, "parts": ["errors"], "progress": False, "draws": 4, **given}
    return rc.diagnose(model, SPACE, CODE, HOLE, **given)


@pytest.fixture(scope="module")
def right():
    return diagnosed()


def test_mean_and_spread_are_those_of_the_draws(right):
    model = rc.adapt(Right(), noise=TRUTH.shape[1:])
    noise = torch.stack([0.01 * model.draw(n).noise(1, TRUTH)[0] for n in range(4)])
    part = right["draws"]
    np.testing.assert_allclose(part.arrays["mean"], TRUTH + noise.mean(0), atol=1e-6)
    np.testing.assert_allclose(part.arrays["deviation"][0], noise.std(0, correction=0), atol=1e-6)
    np.testing.assert_allclose(part.arrays["spread"], [noise.var(0, correction=0).mean()] * 64, rtol=1e-4)
    assert [row["cells"] for row in part.table("spread")] == ["all", "id", "ood"]


def test_every_draw_and_the_mean_has_a_verdict(right):
    assert [row["draw"] for row in right["draws"].rows] == ["0", "1", "2", "3", "mean"]
    assert {row["verdict"] for row in right["draws"].rows} == {"composes"}
    assert right.verdict.kind is VerdictKind.COMPOSES
    assert "4 draws" in str(right.verdict)
    assert "4 draws" in str(right)
    assert not [note for note in right.notes if "draw" in note]
    found = verdicts_of(right["draws"])
    assert found is not None
    assert found.counts == {VerdictKind.COMPOSES: 4}


def test_draws_that_are_wrong_while_their_mean_is_right_are_noted():
    class Opposite(nn.Module):
        """Noise that cancels in the mean over draws."""

        def forward(self, code):
            x, y = code[:, :8].argmax(-1), code[:, 8:].argmax(-1)
            return TRUTH[8 * x + y] + 0.15 * torch.randn(len(code), *TRUTH.shape[1:])

    found = diagnosed(Opposite(), draws=8)
    assert found.verdict.kind is VerdictKind.NOT_LEARNT
    assert found["draws"].rows[-1]["verdict"] == "composes"
    assert any("their mean has the verdict composes" in note for note in found.notes)
    assert not any("stochastic" in note for note in found.notes)


def test_draws_that_differ_from_each_other_are_noted_and_the_frequent_kind_is_the_verdict():
    class Sometimes(Right):
        def forward(self, noise, code):
            wrong = noise[0, 0, 0] > 0.5
            out = super().forward(noise, code)
            return out.flip(1) if wrong else out

    model = rc.adapt(Sometimes(), noise=TRUTH.shape[1:])
    first = [float(model.draw(n).noise(1, TRUTH)[0, 0, 0]) > 0.5 for n in range(8)]
    found = diagnosed(model, draws=8)
    kinds = [row["verdict"] for row in found["draws"].rows[:-1]]
    assert [kind != "composes" for kind in kinds] == first
    assert 0 < sum(first) < 4
    assert found.verdict.kind is VerdictKind.COMPOSES
    assert any("differs between draws" in note for note in found.notes)


def test_a_model_without_noise_is_noted():
    found = diagnosed(rc.adapt(Right(0.0), noise=TRUTH.shape[1:]), draws=2)
    assert any("no noise" in note for note in found.notes)
    assert float(np.abs(found["draws"].arrays["spread"]).max()) == 0


def test_files_keep_it(right, tmp_path):
    again = Diagnosis.load(right.save(tmp_path / "kept"))
    assert again.verdict == right.verdict
    assert again["draws"].rows == right["draws"].rows
    assert verdicts_of(again["draws"]).mean == verdicts_of(right["draws"]).mean
    assert again.plot("draws")


def test_one_draw_is_as_before():
    found = diagnosed(draws=1)
    assert found["draws"].state is Missing.NOT_REQUESTED
    assert "draws" not in str(found)
    asked = diagnosed(draws=1, parts=["draws"])
    assert asked["draws"].state is Missing.NOT_APPLICABLE


def test_it_needs_no_truth_and_no_hold_out():
    model = rc.adapt(Right(), noise=TRUTH.shape[1:])
    found = rc.diagnose(model, SPACE, CODE, draws=2, parts=["draws"], progress=False)
    assert found["draws"].table("draws") == []
    assert found["draws"].missing["verdicts"].state is Missing.NO_HOLDOUT
    assert found["draws"].table("spread")[0]["relative"] > 0
    assert diagnosed(target=None, draws=2)["draws"].rows[0]["verdict"] in list(VerdictKind)


@pytest.mark.parametrize("draws", [0, 10**6])
def test_draws_that_cannot_be(draws):
    with pytest.raises(InputError, match="draws"):
        diagnosed(draws=draws)


def test_the_command_line_draws(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch, recombine as rc\n"
        "space = rc.FactorSpace(x=5, y=5)\n"
        "scene = rc.scenes.Bump(space)\n"
        "class Noisy(torch.nn.Module):\n"
        "    def forward(self, values):\n"
        "        return {'image': scene(values) + 0.01 * torch.randn(1, 5, 5)}\n"
        "def made():\n"
        "    return {'model': Noisy(), 'space': space, 'holdout': rc.holdouts.centre(space, 2, 3), 'target': scene,\n"
        "            'output': 'image'}\n"
    )
    command = ["diagnose", f"{tmp_path / 'mine.py'}:made", "--draws", "3", "--parts", "errors", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert [row["draw"] for row in json.loads(result.stdout)["parts"]["draws"]["draws"]] == ["0", "1", "2", "mean"]


def test_a_function_with_noise_for_every_code_is_described_as_it_is():
    net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, TRUTH[0].numel()))

    def sample(code):
        start = torch.randn(len(code), *TRUTH.shape[1:])
        return start + net(code).reshape(-1, *TRUTH.shape[1:]) + 0 * net(code).reshape(-1, *TRUTH.shape[1:])

    one, several = (diagnosed(sample, draws=draws).notes for draws in (1, 8))
    assert any("stochastic" in note and "draws=8" in note for note in one)
    for notes in (one, several):
        assert any("is a function, which hides the layers" in note for note in notes)
        assert not any("F.relu" in note or "mixes codes" in note for note in notes)
    assert any("different noise for every code" in note for note in several)


def test_mixing_within_a_batch_is_noted_for_several_draws_too():
    class Mixing(Right):
        def forward(self, noise, code):
            out = super().forward(noise, code)
            return out - 0.5 * out.mean(0)

    model = rc.adapt(Mixing(), noise=TRUTH.shape[1:])
    assert any("mixes codes" in note for note in diagnosed(model, draws=2).notes)


def test_the_figure_needs_no_other_part_and_its_bar_begins_at_zero(right):
    assert not right["outputs"].computed
    np.testing.assert_allclose(right["draws"].arrays["pictures/truth"], TRUTH[right["draws"].arrays["pictures/cells"]])
    still = diagnosed(rc.adapt(Right(0.0), noise=TRUTH.shape[1:]), draws=2)
    for found in (right, still):
        left, pictures = found.plot("draws").subfigs
        assert {ax.get_ylabel().split("\n")[0] for ax in pictures.axes} >= {"truth", "first draw", "mean", "deviation"}
        assert left.axes[0].images[0].get_clim()[0] == 0
