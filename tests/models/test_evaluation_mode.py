"""Evaluation mode for a while: every submodule has its own mode again, also after an exception."""

import pytest
from torch import nn

from recombine.models.evaluation_mode import evaluation_mode

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("fails", [False, True])
def test_modes_come_back_one_by_one(fails):
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()))
    model[1][0].eval()  # a frozen norm inside a model in training
    before = [module.training for module in model.modules()]
    assert len(set(before)) == 2
    try:
        with evaluation_mode(model, model[1]):
            assert not any(module.training for module in model.modules())
            if fails:
                raise RuntimeError
    except RuntimeError:
        assert fails
    assert [module.training for module in model.modules()] == before


def test_a_model_that_overrides_train_is_asked():
    class Noisy(nn.Module):
        noise = True

        def train(self, mode: bool = True):
            self.noise = mode
            return super().train(mode)

    model = Noisy()
    with evaluation_mode(model):
        assert not model.noise
    assert model.noise
