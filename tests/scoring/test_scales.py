"""Truth in bytes and outputs in shares are told apart before anything is computed."""

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.errors import InputError
from recombine.scoring.scales import check_scale

pytestmark = pytest.mark.quick


def test_bytes_against_shares_are_refused():
    unit = torch.rand(9, 4)
    for truth, outputs in ((255 * unit, unit), (unit, 255 * unit)):
        with pytest.raises(InputError, match=r"goes up to 2\d\d.*Divide .* by 255"):
            check_scale(truth, outputs)


@pytest.mark.parametrize(("truth", "outputs"), [(1.0, 1.0), (255.0, 255.0), (1.0, 3.0), (30.0, 1.0), (1000.0, 1.0)])
def test_other_differences_are_the_models_own(truth, outputs):
    check_scale(truth * torch.rand(9, 4), outputs * torch.rand(9, 4))


def test_diagnose_names_the_scales():
    torch.manual_seed(0)
    space = rc.FactorSpace(x=4, y=4)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 6), nn.Sigmoid())
    images = torch.randint(0, 256, (16, 6))
    with pytest.raises(InputError) as caught:
        rc.diagnose(model, space, holdout=rc.holdouts.centre(space, 1, 2), target=images, parts=["errors"])
    assert caught.value.key == "target"


def test_score_names_the_scales_unless_any_will_do():
    space = rc.FactorSpace(x=4, y=4)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.OneHot(space), rc.holdouts.centre(space, 1, 2))
    model = nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), nn.Unflatten(1, (4, 4)), nn.Hardtanh(0, 1))
    model.append(nn.Threshold(2.0, 255.0))
    with pytest.raises(InputError, match="output goes up to 255, the truth to"):
        rc.score(model, task)
    assert rc.score(model, task, any_scale=True).columns["mse"].min() > 1e4
