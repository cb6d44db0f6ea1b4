"""The composed decoder: which codes it takes, and that its settings reach the composer."""

import pytest
import torch

import recombine as rc
from recombine.core.errors import InputError


def task(encoding) -> rc.Task:
    space = rc.FactorSpace(x=6, y=6)
    return rc.Task(rc.scenes.Bump(space), encoding(space), rc.holdouts.centre(space, 2, 3))


def test_a_code_without_an_entry_per_value_or_factor_is_refused():
    with pytest.raises(InputError, match=r"one entry per factor value \(12; onehot, bump\)") as caught:
        rc.decoders.Composed(task(rc.encodings.Positional))
    assert caught.value.key == "encoding.kind"


@pytest.mark.parametrize("encoding", [rc.encodings.OneHot, rc.encodings.Bump, rc.encodings.Ramp])
def test_it_is_built_again_from_its_configuration(encoding):
    given = task(encoding)
    model = rc.decoders.Composed(given, terms=2, blend="over")
    again = rc.decoders.DECODERS.build(model.config, given)
    again.load_state_dict(model.state_dict())
    codes = given.inputs(given.space.values(torch.arange(36)))
    torch.testing.assert_close(again(codes), model(codes))
    added = rc.decoders.Composed(given, terms=2)
    added.load_state_dict(model.state_dict())
    assert not torch.allclose(added(codes), model(codes))


def test_warps_are_described_and_stored(tmp_path):
    given = task(rc.encodings.Ramp)
    model = rc.decoders.Composed(given)
    assert "warp" not in model.describe(["x", "y"])
    model.composer.warps = torch.zeros(12, 1, 4)
    model.composer.warps_of(0)[:, 0, 0] = torch.linspace(-0.5, 0, 6)
    warp = model.describe(["x", "y"])["warp"]
    assert warp["y"] == [0] * 6
    assert warp["x"] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0], abs=1e-6)
    model.save_pretrained(tmp_path / "model")
    again = rc.decoders.Composed.from_pretrained(tmp_path / "model")
    between = torch.rand(5, 2)
    torch.testing.assert_close(again(between), model(between))
