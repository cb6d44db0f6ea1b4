"""Loss terms and example sources of the field: zero where they should be, and known values elsewhere."""

import pytest
import torch
from torch import nn

import recombine as rc
from recombine.core.encodings import OneHot
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace
from recombine.core.holdouts import centre
from recombine.core.scenes import Bump
from recombine.core.task import Shapes, Task
from recombine.models.decoders import CP, MLP, Additive, CrossAttention
from recombine.training.examples import EXAMPLES
from recombine.training.loss_terms import Batch, Contrast, Hessian, Interaction
from recombine.training.loss_terms.interaction import pairwise_products
from recombine.training.recipe import recipe

SHAPES = Shapes(9, (8, 6), (5, 4))


def batch_of(model: nn.Module, progress: float = 0.5) -> Batch:
    codes = torch.rand(4, 9, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    outputs = model.double()(codes)
    return Batch(codes, torch.zeros_like(outputs), outputs, progress)


class Apart(nn.Module):
    """Each pixel depends on one factor: the left half on the first, the right half on the second."""

    shapes = SHAPES

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(5, 24), nn.Linear(4, 24)

    def forward(self, code):
        halves = (self.left(code[:, :5]).tanh().unflatten(1, (8, 3)), self.right(code[:, 5:]).unflatten(1, (8, 3)))
        return torch.cat(halves, 2)


def test_contrast_is_zero_if_pixels_depend_on_one_factor():
    model = Apart()
    assert float(Contrast(1.0)(model, batch_of(model)).detach()) < 1e-100
    for other in (Additive(SHAPES, width=4).initialize(0), CP(SHAPES, width=4).initialize(0)):
        assert float(Contrast(1.0)(other, batch_of(other)).detach()) > 1e-8


def test_contrast_is_its_definition():
    class Linear(nn.Module):
        shapes = Shapes(2, (1, 2), (1, 1))

        def forward(self, code):
            return (code @ torch.tensor([[1.0, 3.0], [2.0, -4.0]], dtype=code.dtype)).unsqueeze(1)

    codes = torch.rand(3, 2, dtype=torch.double)
    batch = Batch(codes, codes, Linear()(codes), 0.5)
    assert float(Contrast(0.1)(Linear(), batch)) == pytest.approx(0.1 * (1 * 2 + 3 * 4))


@pytest.mark.parametrize("progress", [0.2, 0.5, 0.9])
def test_the_hessian_penalty_is_zero_for_sums(progress):
    additive, product = Additive(SHAPES, width=4).initialize(0), CP(SHAPES, width=4, maps="free").initialize(0)
    assert float(Hessian(1.0)(additive, batch_of(additive, progress)).detach()) < 1e-18
    assert float(Hessian(1.0)(product, batch_of(product, progress)).detach()) > 1e-6


def test_the_hessian_penalty_draws_the_same_again():
    model = CP(SHAPES, width=4, maps="free").initialize(0)
    first, again, later = (float(Hessian(1.0)(model, batch_of(model, p)).detach()) for p in (0.5, 0.5, 0.6))
    assert first == again
    assert first != later


def test_interaction_is_between_none_and_even_attention():
    assert pairwise_products(torch.tensor([0.0, 1.0, 0.0])) == 0
    assert float(pairwise_products(torch.full((3,), 1 / 3))) == pytest.approx((1 - 1 / 3) / 2)
    model = CrossAttention(SHAPES, width=8, heads=2).initialize(0)
    with torch.no_grad():
        for layer in model.layers:
            layer.ask.weight.zero_()
            layer.ask.bias.zero_()
    assert float(Interaction(0.05)(model, batch_of(model)).detach()) == pytest.approx(0.05 * 0.25)


@pytest.mark.parametrize("term", [Contrast, Hessian])
def test_weights_rise_over_the_warmup(term):
    model = CP(SHAPES, width=4).initialize(0)
    assert float(term(1.0, warmup=0.5)(model, batch_of(model, 0.0)).detach()) == 0


def test_terms_refuse_models_that_they_do_not_suit():
    mlp = MLP(SHAPES, width=4).initialize(0)
    with pytest.raises(InputError) as caught:
        Interaction()(mlp, batch_of(mlp))
    assert caught.value.key == "training.terms.interaction"
    plain = nn.Linear(9, 4)
    for term in (Contrast(), Hessian()):
        with pytest.raises(InputError) as caught:
            term(plain, batch_of(plain))
        assert caught.value.key == f"training.terms.{term.name}"


@pytest.mark.parametrize(
    ("decoder", "terms"),
    [
        ({"kind": "mlp", "width": 8}, {"contrast": {}, "hessian": {}}),  # seeds stacked under vmap
        ({"kind": "cnn", "width": 2, "depth": 1}, {"contrast": {}, "hessian": {}}),
        ({"kind": "cross_attention", "width": 4, "heads": 1}, {"interaction": {}}),
    ],
    ids=lambda given: given.get("kind"),
)
def test_terms_train_with_several_seeds(decoder, terms):
    space = FactorSpace(x=6, y=6)
    task = Task(Bump(space), OneHot(space), centre(space, 2, 3))
    models = [rc.decoders.DECODERS.build(decoder, task).initialize(seed) for seed in range(2)]
    plan = recipe("recommended", steps=2, batch=3, terms=terms)
    for seed, model in enumerate(models):
        run = rc.train(model, task, training=plan, seed=seed, progress=False)
        assert set(terms) <= set(run.history[-1])


def test_mixup_mixes_inputs_and_targets_alike():
    space = FactorSpace(x=6, y=6)
    task = Task(Bump(space), OneHot(space), centre(space, 2, 3))
    source = EXAMPLES.build({"kind": "mixup", "count": 50}, task)
    inputs, targets = source.examples(torch.arange(50), torch.device("cpu"), torch.double)
    assert torch.allclose(
        inputs.sum(1), torch.full((50,), 2.0, dtype=torch.double)
    )  # two blocks, whose shares sum to 1
    blocks = inputs.split(6, dim=1)
    assert (blocks[0].count_nonzero(1) <= 2).all()
    first, second = (task.space.values(source.cells[source.pairs[:, i]]).double() for i in (0, 1))
    share = source.shares[:, None, None]
    assert torch.allclose(targets, share * task.scene(first) + (1 - share) * task.scene(second))
    again = EXAMPLES.build({"kind": "mixup", "count": 50}, task)
    assert torch.equal(again.shares, source.shares)
    assert torch.equal(again.pairs, source.pairs)
    assert len(EXAMPLES.build({"kind": "mixup"}, task)) == task.holdout.n_id
