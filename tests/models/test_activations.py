"""Reaching activations inside any module, ours or not."""

import pytest
import torch
from torch import nn

from recombine.core.errors import InputError
from recombine.models.activations import NONLINEARITIES, capture, nonlinearities


class Foreign(nn.Module):
    """A network that knows nothing of this library."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.bend = nn.Tanh()
        self.rest = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 4), nn.GELU(), nn.Dropout(), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.bend(self.first(x)))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Foreign().eval()


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) for m in model.modules())


def test_nonlinearities_are_found_in_order(model):
    assert nonlinearities(model) == ["bend", "rest.2"]
    assert nonlinearities(nn.Linear(2, 2)) == []
    assert nonlinearities(nn.ReLU()) == [""]


@pytest.mark.parametrize("kind", NONLINEARITIES, ids=lambda k: k.__name__)
def test_every_nonlinearity_of_torch_is_known(kind):
    assert nonlinearities(nn.Sequential(nn.Linear(2, 2), kind())) == ["1"]


def test_capture_collects_outputs_and_changes_nothing(model):
    x = torch.rand(6, 3)
    plain = model(x)
    with capture(model, nonlinearities(model)) as seen:
        out = model(x)
        assert hooks(model) == 2
    assert hooks(model) == 0
    assert torch.equal(out, plain)
    assert list(seen) == ["bend", "rest.2"]
    bend = torch.tanh(model.first(x))
    assert torch.equal(seen["bend"], bend)
    assert torch.equal(seen["rest.2"], nn.functional.gelu(model.rest[1](model.rest[0](bend))))


def test_captured_activations_carry_gradients(model):
    with capture(model, ["bend"]) as seen:
        model(torch.rand(6, 3))
    seen["bend"].sum().backward()
    assert model.first.weight.grad.abs().sum() > 0


def test_hooks_are_gone_after_an_error(model):
    with pytest.raises(RuntimeError), capture(model, ["bend"]):
        model(torch.rand(6, 4))
    assert hooks(model) == 0


def test_an_unknown_layer_is_explained(model):
    with pytest.raises(InputError) as caught, capture(model, ["bend", "rest.22"]):
        pass
    for part in ("'rest.22'", "'rest.2'?", "first, bend, rest, rest.0, rest.1, rest.2, rest.3, rest.4"):
        assert part in str(caught.value)
    assert hooks(model) == 0
