"""What `diagnose` refuses or notes, and the model it leaves alone."""

import math

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, Missing
from recombine.diagnostics.findings import PartResult
from tests.diagnostics.small import CODE, HOLE, SCENE, SPACE, network


class Bad(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.act, self.drop = how, nn.ReLU(), nn.Dropout(0.5)

    def forward(self, code):
        hidden = self.drop(self.act(code))
        if self.how == "nan":
            hidden = hidden.clone()
            hidden[code[:, 0] > 0.9] = torch.nan
        if self.how == "list":
            return [hidden]
        return torch.ones_like(hidden) if self.how == "constant" else hidden


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": Bad("nan")}, "NaN or infinite at x=0"),
        ({"model": Bad("list")}, "type list.*output=0"),
        ({"model": Bad("constant")}, "does not depend on the code"),
        ({"encode": lambda v: torch.cat([CODE(v)] * 2, dim=1)}, "failed on codes of shape"),
        ({"layers": "layer.1"}, "no layer 'layer.1'"),
        ({"layers": []}, "No layers"),
        ({"parts": ["probe"]}, "did you mean 'probes'"),
        ({"parts": []}, "No part"),
        ({"memory": -5}, "number of bytes.*Got -5"),
        ({"pictures": [0]}, "Not held out: 0"),
        ({"pictures": [27], "holdout": None}, "no hold-out was given"),
        ({"encode": lambda v: 1 / 0}, "`encode` failed.*ZeroDivisionError"),
        ({"target": lambda v: 1 / 0}, "target function failed.*ZeroDivisionError"),
        ({"geometry": "rough"}, "exact, finite difference or both"),
        ({"target": torch.zeros(64, 3)}, "as many numbers per cell as the model's output, 64"),
        (
            {"target": torch.zeros(64, 4, 16), "model": nn.Sequential(network(), nn.Unflatten(1, (16, 4)))},
            r"shape \(4, 16\) per cell, but the model's output has shape \(16, 4\)",
        ),
        ({"model": lambda code: torch.complex(code, code)}, "output is complex"),
        ({"target": lambda v: torch.complex(v, v)}, "target is complex"),
        ({"target": torch.zeros(64, 64, dtype=torch.complex64)}, "real number"),
        ({"target": torch.zeros(63, 64)}, "one row for each of the 64 cells"),
        (
            {"target": torch.where(torch.arange(64)[:, None] == 9, torch.nan, 1.0).expand(64, 64)},
            r"true outputs contain NaN .* cell 9 .*Check the true outputs of this cell",
        ),
        ({"holdout": []}, "list of held-out cells is empty.*'x': 0.0"),
        ({"holdout": "centre"}, "hold-out must be one of"),
        ({"holdout": {"kind": "centr"}}, "centre"),
        ({"model": lambda code: code.numpy()}, "torch.from_numpy"),
        ({"target": "bump"}, "scene, a function of factor values or an array"),
        ({"target": lambda v: v[0]}, "target function must map"),
        ({"holdout": rc.holdouts.centre(rc.FactorSpace(x=9, y=9), 3, 5)}, "another space"),
    ],
)
def test_misuse_is_refused_and_the_model_left_alone(given, message):
    subject = given.pop("model", network())
    call = {"encode": CODE, "holdout": HOLE, "target": SCENE, "progress": False, **given}
    if isinstance(subject, nn.Module):
        subject.train()
    before = torch.random.get_rng_state()
    with pytest.raises(InputError, match=message):
        rc.diagnose(subject, SPACE, **call)
    assert torch.equal(torch.random.get_rng_state(), before)
    if isinstance(subject, nn.Module):
        assert all(m.training and not m._forward_hooks for m in subject.modules())


@pytest.mark.parametrize(("given", "message"), [({"layers": [1]}, "by name.*Got 1"),
                                                ({"memory": "1GB"}, "number of bytes.*Got '1GB'")])  # fmt: skip
def test_wrong_types_are_refused_without_the_type_checker_too(given, message):
    request = rc.DiagnosisRequest()
    for name, value in given.items():
        object.__setattr__(request, name, value)
    with pytest.raises(InputError, match=message):
        request.__post_init__()


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 64)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.random.get_rng_state()
    rc.diagnose(model, SPACE, CODE, HOLE, target=SCENE, progress=False)
    assert torch.equal(torch.random.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(m.training and not m._forward_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_noise_and_mixing_within_a_batch_are_noted(model):
    options = {"parts": "outputs", "progress": False}
    assert rc.diagnose(model, SPACE, CODE, HOLE, **options).notes == []
    [note] = rc.diagnose(nn.Linear(16, 9), SPACE, CODE, HOLE, **options).notes
    assert "no inner layer was found" in note

    class Noisy(nn.Module):
        def __init__(self, how):
            super().__init__()
            self.how, self.net = how, network()

        def forward(self, code):
            out = self.net(code)
            if self.how == "squeezed":
                return out.squeeze()
            return out + torch.randn_like(out) if self.how == "noise" else out - out.mean(0)

    for how, message in (("noise", "stochastic"), ("mixing", "mixes codes"), ("squeezed", "single code")):
        found = rc.diagnose(Noisy(how), SPACE, CODE, HOLE, **options)
        assert message in found.notes[0]
        assert message in str(found)
        assert message in found._repr_html_()


def test_derivatives_that_are_zero_say_what_to_use():
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 5))
    for model, encode in ((lambda code: net(code).detach().round(), None), (net, lambda v: v.round()),
                          (nn.Sequential(nn.Embedding(8, 3), nn.Flatten()), lambda v: v.long())):  # fmt: skip
        found = rc.diagnose(model, SPACE, encode, HOLE, parts="geometry", progress=False)
        assert found["geometry"].state is Missing.NOT_DIFFERENTIABLE
        assert 'geometry="finite difference"' in found["geometry"].reason


def test_few_held_out_cells_are_marked(model):
    few = rc.holdouts.centre(SPACE, 3, 4)
    found = rc.diagnose(
        model, SPACE, CODE, few, target=SCENE, progress=False, parts=["probes", "errors", "superposition"]
    )
    assert found["probes"].missing["id_to_ood of x"].state is Missing.TOO_FEW_CELLS
    assert math.isnan(next(r["r2"] for r in found["probes"].rows if r["score"] == "id_to_ood"))
    assert found.verdict.kind == "undecided"
    assert found.verdict.reason == "too few cells"


def test_equal_reasons_of_missing_results_share_a_line(model):
    found = rc.diagnose(model, SPACE, CODE, HOLE, parts=["outputs"], progress=False)
    for part in ("errors", "kernels"):
        found.parts[part] = PartResult.absent(part, Missing.FAILED, "one reason")
    assert "  errors; kernels: one reason" in str(found).splitlines()
