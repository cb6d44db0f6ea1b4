"""Decoders: the contract every one keeps, and the CNN against the transposed convolutions it stands for."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.func import stack_module_state

from recombine.core.encodings import Bump as BumpCode
from recombine.core.errors import InputError, StoreError
from recombine.core.factors import FactorSpace
from recombine.core.files import write_json
from recombine.core.holdouts import centre
from recombine.core.scenes import Bump
from recombine.core.task import Shapes, Task
from recombine.models import decoders
from recombine.models.activations import nonlinearities
from recombine.models.decoders import CNN, DECODERS, MLP, Decoder, Deconv, Encoder, PixelMLP, Transformer
from recombine.models.decoders.cnn import SameConvolution, Spread

# A small network of every kind, and the number of its nonlinearities; a new decoder joins the contract by one entry.
CASES = {
    "cnn": ({"depth": 3, "width": 8}, 4),
    "composed": ({"terms": 2, "depth": 1, "width": 8}, 1),
    "mlp": ({"depth": 3, "width": 16}, 3),
    "transformer": ({"depth": 2, "width": 16, "heads": 2, "feedforward": 24}, 2),
    "pixel_mlp": ({"depth": 2, "width": 16}, 2),
    "encoder": ({"width": 16}, 4),
    "rendered": ({"rank": 2}, 3),
    "deconv": ({"width": 8}, 2),
    "additive": ({"width": 8}, 4),
    "masked_slots": ({"width": 8}, 4),
    "occlusion_sum": ({"width": 8}, 4),
    "cp": ({"width": 8}, 4),
    "film": ({"width": 8}, 4),
    "coordconv": ({"width": 8}, 4),
    "spatial_broadcast": ({"depth": 2, "width": 8}, 2),
    "cross_attention": ({"width": 16, "heads": 2}, 2),
}
SIZES = {
    "14×14": Shapes(10, (14, 14), (6, 4)),
    "odd": Shapes(7, (13, 13), (3, 4)),
    "rectangular": Shapes(9, (14, 28), (5, 4)),
    "tall": Shapes(9, (21, 5), (9,)),
    "tiny": Shapes(3, (3, 3), (1, 2)),
    "colour": Shapes(9, (3, 14, 28), (5, 4)),
    "one channel": Shapes(7, (1, 13, 14), (3, 4)),
    "many channels": Shapes(7, (5, 9, 8), (3, 4)),
}
VECTORS = ("mlp",)  # kinds that also give plain vectors
kinds = pytest.mark.parametrize("kind", DECODERS.components)
sizes_ = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def build(kind: str, sizes: Shapes = SIZES["14×14"], seed: int = 0) -> Decoder:
    """In evaluation mode: in training mode batch norm makes an image depend on the others of its batch."""
    return DECODERS.build({"kind": kind, **CASES[kind][0]}, sizes).initialize(seed).eval()


def inputs(model: Decoder, n: int = 4, dtype: torch.dtype = torch.float) -> torch.Tensor:
    shape = model.shapes.output_shape if model.inverse else (model.shapes.code_size,)
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


# --- contract ---------------------------------------------------------------------------------------------------


def test_every_kind_is_under_contract():
    assert set(CASES) == set(DECODERS.components)


@kinds
@sizes_
def test_output_shape(kind, sizes):
    model = build(kind, sizes)
    expected = (sizes.code_size,) if model.inverse else sizes.output_shape
    assert model(inputs(model)).shape == (4, *expected)
    assert model(inputs(model, n=1)).shape == (1, *expected)


@kinds
@pytest.mark.parametrize("shape", [(11,), (1,), (2, 3, 4, 5)], ids=str)
def test_outputs_that_are_no_images(kind, shape):
    sizes = Shapes(7, shape, (3, 4))
    if kind not in VECTORS:
        with pytest.raises(InputError) as caught:
            build(kind, sizes)
        assert caught.value.key == "decoder.kind"
        return
    model = build(kind, sizes)
    assert model(inputs(model)).shape == (4, *shape)


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind != "encoder"])
def test_channels_are_drawn_apart(kind):
    """Every channel has weights of its own, and one channel is the grey image with an axis more."""
    grey, one, three = (build(kind, Shapes(10, shape, (6, 4))) for shape in ((14, 14), (1, 14, 14), (3, 14, 14)))
    one.load_state_dict(grey.state_dict())
    codes = inputs(grey)
    assert torch.equal(one(codes), grey(codes).unsqueeze(1))
    channels = three(codes).unbind(1)
    assert not torch.allclose(channels[0], channels[1])
    assert not torch.allclose(channels[1], channels[2])


@kinds
@sizes_
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float, 1e-5), (torch.double, 1e-12)], ids=["32", "64"])
def test_a_batch_is_its_stacked_singles(kind, sizes, dtype, tolerance):
    model = build(kind, sizes).to(dtype)
    batch = inputs(model, dtype=dtype)
    together = model(batch)
    assert together.dtype == dtype
    singles = torch.cat([model(one.unsqueeze(0)) for one in batch])
    assert torch.allclose(together, singles, rtol=0, atol=tolerance)
    assert not torch.allclose(together[0], together[1], rtol=0, atol=10 * tolerance)


@kinds
@pytest.mark.parametrize("dtype", [torch.float, torch.double, torch.bfloat16], ids=str)
def test_saving_and_loading_changes_no_bit(kind, dtype, tmp_path):
    model = build(kind, SIZES["colour" if dtype == torch.double else "14×14"]).to(dtype)
    model.save_pretrained(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    again = decoders.load(tmp_path)
    assert type(again) is type(model)
    assert again.config == model.config
    assert again.shapes == model.shapes
    for (name, a), (other, b) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other
        assert a.dtype == b.dtype
        assert a.dtype == dtype or not a.is_floating_point()  # batch norm counts batches
        assert a.stride() == b.stride()
        assert torch.equal(a, b)
    if dtype == torch.bfloat16:
        return  # not every processor computes in it
    batch = inputs(model, dtype=dtype)
    assert torch.equal(model(batch), again(batch))
    assert torch.equal(type(model).from_pretrained(tmp_path)(batch), model(batch))
    assert not again.training


@kinds
def test_initial_weights_are_a_function_of_the_seed(kind):
    model = build(kind, seed=3)
    first = weights(model)
    assert all(map(torch.equal, first, weights(build(kind, seed=3))))
    other = weights(model.initialize(4))
    random = [i for i, w in enumerate(first) if w.unique().numel() > 1]  # not norms and slopes, which start constant
    assert len(random) >= 4
    assert not any(torch.equal(first[i], other[i]) for i in random)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    assert all(map(torch.equal, first, weights(model.initialize(3))))


@kinds
def test_initialize_leaves_the_global_random_state_alone(kind):
    model = build(kind)
    before = torch.get_rng_state()
    model.initialize(5)
    assert torch.equal(before, torch.get_rng_state())


@kinds
def test_initialize_draws_from_the_distribution_of_construction(kind):
    built = DECODERS.build({"kind": kind, **CASES[kind][0]}, SIZES["14×14"])
    names = [name for name, p in built.named_parameters() if p.numel() > 200]
    before = {name: p.square().mean().sqrt().item() for name, p in built.named_parameters()}
    after = {name: p.square().mean().sqrt().item() for name, p in built.initialize(0).named_parameters()}
    assert names
    for name in names:
        assert after[name] == pytest.approx(before[name], rel=0.2), name


@kinds
def test_activations_are_named_and_counted(kind):
    model, count = build(kind), CASES[kind][1]
    batch = inputs(model)
    seen = model.activations(batch)
    assert list(seen) == ["in", *(str(i) for i in range(1, count + 1)), "out"]
    assert torch.equal(seen["in"], batch)
    assert torch.equal(seen["out"], model(batch))
    assert nonlinearities(model) == [f"layers.{i}.act" for i in range(1, count + 1)]
    for i in range(1, count + 1):
        assert len(seen[str(i)]) == len(batch)
        if kind not in ("composed", "pixel_mlp", "rendered"):  # whose nonlinearity is no ReLU
            assert seen[str(i)].min() == 0
    assert not any(m._forward_hooks for m in model.modules())


@kinds
def test_a_wrong_size_is_explained(kind):
    model = build(kind)
    wrong = torch.zeros(2, 15, 14) if model.inverse else torch.zeros(2, 11)
    what, shape = ("images", "14, 14") if model.inverse else ("codes", "10")
    with pytest.raises(InputError) as caught:
        model(wrong)
    assert f"This {type(model).__name__} takes {what} of shape (batch, {shape}). Got {tuple(wrong.shape)}." in str(
        caught.value
    )
    assert f"Build it from the task that provides its {what}." in str(caught.value)


@kinds
def test_every_parameter_gets_a_gradient(kind):
    model = build(kind)
    model(inputs(model)).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.abs().sum() > 0, name


@kinds
def test_built_from_a_task_or_its_sizes(kind):
    space = FactorSpace(x=14, y=14)
    task = Task(Bump(space), BumpCode(space), centre(space, 4, 9))
    model = DECODERS.build({"kind": kind, **CASES[kind][0]}, task)
    assert model.shapes == task.shapes
    assert (model.shapes.code_size, model.shapes.output_shape) == (28, (14, 14))
    assert model.config == {**model.config, "kind": kind, **CASES[kind][0]}


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_depth_is_the_number_of_layers(depth):
    assert nonlinearities(MLP(SIZES["tiny"], depth=depth, width=4)) == [f"layers.{i + 1}.act" for i in range(depth)]
    assert len(nonlinearities(CNN(SIZES["tiny"], depth=depth, width=4))) == depth + 1
    assert len(nonlinearities(PixelMLP(SIZES["tiny"], depth=depth, width=4))) == depth
    assert len(nonlinearities(Transformer(SIZES["tiny"], depth=depth, width=4, heads=2))) == depth


# --- the CNN ----------------------------------------------------------------------------------------------------


def transposed_stack(model: CNN, depth: int, width: int) -> nn.Sequential:
    """The network as the paper writes it, given the weights of ours."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(model.shapes.code_size, width, 7), nn.ReLU()]
    side = 7
    for _ in range(depth):
        if side < max(model.shapes.output_shape):
            layers += [nn.ConvTranspose2d(width, width, 4, stride=2, padding=1), nn.ReLU()]
            side *= 2
        else:
            layers += [nn.ConvTranspose2d(width, width, 3, stride=1, padding=1), nn.ReLU()]
    layers.append(nn.ConvTranspose2d(width, 1, 3, stride=1, padding=1))
    stack = nn.Sequential(*layers).to(model.out.weight.dtype)
    ours = [m for m in model.modules() if isinstance(m, nn.ConvTranspose2d | nn.Conv2d)]
    theirs = [m for m in layers if isinstance(m, nn.ConvTranspose2d)]
    with torch.no_grad():
        for mine, its in zip(ours, theirs, strict=True):
            # a transposed convolution of stride 1 is a convolution with its kernel turned by 180°, its channels swapped
            same = isinstance(mine, SameConvolution)
            its.weight.copy_(mine.weight.flip(-1, -2).transpose(0, 1) if same else mine.weight)
            its.bias.copy_(mine.bias)
    return stack


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("image", [(28, 28), (14, 14), (20, 20), (24, 16)], ids=str)
def test_cnn_equals_the_transposed_convolutions_of_the_paper(depth, image):
    model = CNN(Shapes(12, image), depth=depth, width=6).initialize(0).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)  # so that biases and weights count
    stack = transposed_stack(model, depth, 6)
    code = torch.rand(5, 12, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    expected = stack(code[:, :, None, None])
    if expected.shape[-2:] != image:
        expected = F.interpolate(expected, image, mode="bilinear", align_corners=False)
    assert torch.allclose(model(code), expected.squeeze(1), rtol=0, atol=1e-12)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in stack.parameters())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: Spread(20, 16), lambda: nn.ConvTranspose2d(20, 16, 7)),
        (lambda: SameConvolution(16, 16), lambda: nn.ConvTranspose2d(16, 16, 3, padding=1)),
        (lambda: SameConvolution(64, 1), lambda: nn.ConvTranspose2d(64, 1, 3, padding=1)),
    ],
    ids=["first", "same", "last"],
)
def test_cnn_layers_start_like_transposed_convolutions(ours, theirs):
    torch.manual_seed(0)
    mine, its = ours(), theirs()
    bound = 1 / math.sqrt(its.weight.shape[1] * its.weight.shape[2] * its.weight.shape[3])
    for a, b in ((mine.weight, its.weight), (mine.bias, its.bias)):
        assert a.numel() == b.numel()
        assert a.abs().max() <= bound
        assert b.abs().max() <= bound
    assert mine.weight.abs().max() > 0.95 * bound
    assert mine.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert abs(mine.weight.mean().item()) < 0.2 * bound


def test_cnn_starts_like_transposed_convolutions_after_initialize():
    model = CNN(Shapes(56, (28, 28)), depth=4, width=64).initialize(0)
    first = model.layers[0].conv.weight
    assert first.abs().max().item() == pytest.approx(1 / math.sqrt(64 * 49), rel=1e-2)
    assert model.out.weight.abs().max().item() == pytest.approx(1 / 3, rel=2e-2)


def test_cnn_is_channels_last():
    model = CNN(Shapes(12, (28, 28)), depth=4, width=8)
    seen = model.activations(inputs(model))
    assert all(seen[str(i)].is_contiguous(memory_format=torch.channels_last) for i in range(1, 6))
    assert model.layers[0].conv.weight.permute(0, 2, 3, 1).is_contiguous()


def test_cnn_sides_double_until_they_reach_the_image():
    seen = build("cnn", Shapes(5, (14, 14))).activations(torch.rand(2, 5))
    assert [seen[str(i)].shape[-1] for i in range(1, 5)] == [7, 14, 14, 14]
    seen = build("cnn", Shapes(5, (20, 28))).activations(torch.rand(2, 5))
    assert [seen[str(i)].shape[-1] for i in range(1, 5)] == [7, 14, 28, 28]
    assert seen["out"].shape == (2, 20, 28)


# --- the others -------------------------------------------------------------------------------------------------


def test_pixel_mlp_sees_each_pixel_alone():
    """Changing one pixel's position changes that pixel only; in a transformer it changes others too."""
    for kind, alone in (("pixel_mlp", True), ("transformer", False)):
        model = build(kind)
        batch = inputs(model)
        before = model(batch).flatten(1)
        with torch.no_grad():
            model.tokens.positions[17] += 1.0  # type: ignore[union-attr, index, operator]
        changed = (model(batch).flatten(1) - before).abs() > 1e-7
        assert changed[:, 17].all()
        assert changed.sum().item() == len(batch) or not alone
        assert changed.sum() > len(batch) or alone


def test_pixel_positions_differ():
    positions = build("pixel_mlp", SIZES["rectangular"]).tokens.positions
    assert positions.shape == (14 * 28, 16)
    assert torch.pdist(positions).min() > 0.1


def test_transformer_layer_is_torchs_own():
    """Our block against nn.TransformerEncoderLayer (post-norm, no dropout) with the same weights."""
    model = build("transformer").double()
    block = model.layers[0]
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True).double()
    state = {
        "self_attn.in_proj_weight": block.attend_in.weight, "self_attn.in_proj_bias": block.attend_in.bias,
        "self_attn.out_proj.weight": block.attend_out.weight, "self_attn.out_proj.bias": block.attend_out.bias,
        "linear1.weight": block.widen.weight, "linear1.bias": block.widen.bias,
        "linear2.weight": block.narrow.weight, "linear2.bias": block.narrow.bias,
        "norm1.weight": block.norm_attention.weight, "norm1.bias": block.norm_attention.bias,
        "norm2.weight": block.norm_feedforward.weight, "norm2.bias": block.norm_feedforward.bias,
    }  # fmt: skip
    layer.load_state_dict(state)
    tokens = torch.rand(3, 9, 16, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(block(tokens), layer(tokens), rtol=0, atol=1e-12)


def test_mlp_is_a_chain_of_linear_layers():
    model = build("mlp")
    batch = inputs(model)
    hidden = batch
    for layer in model.layers:
        hidden = F.relu(F.linear(hidden, layer.linear.weight, layer.linear.bias))
    assert torch.equal(model(batch), model.out(hidden).reshape(4, 14, 14))


def test_deconv_is_the_network_of_the_rotation_study():
    model = Deconv(Shapes(2, (28, 28))).double().initialize(0)
    norms = [layer.norm for layer in model.layers]
    reference = nn.Sequential(
        nn.Linear(2, 128 * 7 * 7), nn.Unflatten(1, (128, 7, 7)),
        nn.ConvTranspose2d(128, 128, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(128), nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 1, 3, padding=1), nn.Sigmoid(), nn.Flatten(0, 1),
    ).double()  # fmt: skip
    named = dict(zip(reference.state_dict(), model.state_dict().values(), strict=True))
    for name in ("0.weight", "0.bias"):  # ours has the channels last
        named[name] = named[name].unflatten(0, (7, 7, 128)).movedim(2, 0).flatten(0, 2)
    reference.load_state_dict(named)
    code = torch.rand(5, 2, dtype=torch.double)
    for training in (True, True, False):  # the averages of batch norm move on in training mode
        torch.testing.assert_close(model.train(training)(code), reference.train(training)(code))
    assert norms[0].num_batches_tracked == 2
    assert model.initialize(0).layers[0].norm.num_batches_tracked == 0


def test_deconv_without_norm_and_sigmoid():
    model = Deconv(Shapes(2, (28, 28)), width=4, batch_norm=False, sigmoid=False).initialize(0)
    assert not list(model.buffers())
    with torch.no_grad():
        model.out.bias.fill_(7.0)
        assert model(torch.zeros(1, 2)).min() > 1


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CNN(Shapes(56, (28, 20)), depth=1),
            "A CNN of depth 1 produces at most 14×14 pixels, but the image has 28×20. Use depth ≥ 2.",
        ),
        (lambda: CNN(Shapes(56, (100, 100)), depth=3), "Use depth ≥ 4."),
        (lambda: CNN(Shapes(56, (28, 28)), depth=0), "greater than or equal to 1. Got 0 instead."),
        (lambda: MLP(Shapes(56, (28, 28)), dept=2, witdh=3), "(did you mean 'depth'?)"),  # type: ignore[call-arg]
        (lambda: MLP(Shapes(56, (28, 28)), dept=2, witdh=3), "(did you mean 'width'?)"),  # type: ignore[call-arg]
        (lambda: Transformer(Shapes(56, (28, 28)), width=18, heads=2), "a width divisible by 4"),
        (lambda: Transformer(Shapes(56, (28, 28)), width=16, heads=3), "divisible by its heads. Got 16 and 3."),
        (lambda: PixelMLP(Shapes(56, (28, 28)), width=10), "divisible by 4 (sines and cosines of two axes). Got 10."),
        (lambda: Encoder(Shapes(56, (28, 28)), depth=4), "Unknown parameter 'depth' of decoder 'encoder'"),  # type: ignore[call-arg]
        (
            lambda: DECODERS.build({"kind": "cnnn"}, SIZES["tiny"]),
            "no decoder of kind 'cnnn' (did you mean 'cnn'?). Kinds: ",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_explained(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)


def test_the_depth_an_error_advises_is_enough():
    for side in (8, 14, 15, 28, 29, 57):
        if side > 14:
            with pytest.raises(InputError, match="Use depth ≥"):
                CNN(Shapes(4, (side, side)), depth=1, width=2)
        needed = math.ceil(math.log2(side / 7))
        assert CNN(Shapes(4, (side, side)), depth=needed, width=2)(torch.rand(1, 4)).shape == (1, side, side)


@pytest.fixture
def saved(tmp_path):
    build("mlp").save_pretrained(tmp_path)
    return tmp_path


def message_of(folder) -> str:
    with pytest.raises(StoreError) as caught:
        decoders.load(folder)
    return str(caught.value)


def test_loading_what_is_missing_or_foreign(saved):
    with pytest.raises(StoreError, match="contains a MLP, not a CNN"):
        CNN.from_pretrained(saved)
    assert "config.json is missing" in message_of(saved / "elsewhere")
    (saved / "model.safetensors").unlink()
    assert "model.safetensors is missing" in message_of(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shapes": None}, "does not describe a decoder"),
        ({"shapes": {"code_size": 10}}, "does not describe a decoder"),
        ({"shapes": {"code_size": "many", "output_shape": [14, 14]}}, "does not describe a decoder"),
        ({"shapes": {"code_size": -3, "output_shape": [14, 14]}}, "does not describe a decoder"),
        ({"shapes": {"code_size": 10, "output_shape": [14]}}, "does not describe a decoder"),
        ({"shapes": {"code_size": 10, "output_shape": [], "factor_sizes": []}}, "does not describe a decoder"),
        ({"kind": "mpl"}, "(did you mean 'mlp'?)"),
        ({"width": -1}, "greater than or equal to 1"),
        ({"wdith": 4}, "(did you mean 'width'?)"),
        ({"width": 17}, "model.safetensors does not fit its config.json"),
        ({"depth": 2}, "model.safetensors does not fit its config.json"),
    ],
)
def test_loading_a_changed_configuration(saved, change, message):
    config = json.loads((saved / "config.json").read_text())
    write_json(saved / "config.json", {**config, **change})
    assert message in message_of(saved)


@pytest.mark.parametrize("content", ["[1, 2]", "null", "3", '"text"', "{", ""])
def test_loading_a_foreign_configuration(saved, content):
    (saved / "config.json").write_text(content)
    assert "config.json" in message_of(saved)


def test_loading_changed_weights(saved):
    path = saved / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert "truncated or not a safetensors file" in message_of(saved)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "its digest does not match" in message_of(saved)
    save_file({"weight": torch.zeros(3, dtype=torch.bfloat16)}, path)
    assert "was not written by recombine" in message_of(saved)


# --- several seeds at once --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("mlp", {"depth": 3, "width": 5}),
        ("rendered", {}),
        ("rendered", {"width": 3, "channels": 2, "activation": "relu", "depth": 1}),
        ("rendered", {"width": 3, "channels": 2, "activation": "gelu", "rank": 2}),
        ("rendered", {"padding": "replicate"}),
    ],
)
@pytest.mark.parametrize("sizes", ["rectangular", "colour"])
def test_several_seeds_at_once_equal_each_alone(kind, parameters, sizes):
    models = [DECODERS.build({"kind": kind, **parameters}, SIZES[sizes]).double().initialize(seed) for seed in range(3)]
    codes = torch.rand(3, 7, 9, dtype=torch.float64)
    together = models[0].stacked_forward(stack_module_state(models)[0], codes)
    for i, model in enumerate(models):
        torch.testing.assert_close(together[i], model(codes[i]))


def test_decoders_with_a_way_of_their_own_use_it():
    assert {kind for kind, c in DECODERS.components.items() if hasattr(c, "stacked_forward")} == {"mlp", "rendered"}
    assert all(DECODERS.components[kind].stacks for kind in ("mlp", "rendered"))


# --- a training step of a CNN ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "sides"),
    [
        ({"depth": 4, "width": 16}, (28, 28)),
        ({"depth": 2, "width": 1}, (28, 28)),  # no layer that keeps the side; seed 1 is not dead from the start
        ({"depth": 1, "width": 5}, (14, 11)),  # resized
        ({"depth": 3, "width": 3}, (7, 7)),  # no layer that doubles it
        ({"depth": 3, "width": 4}, (3, 28, 28)),
        ({"depth": 2, "width": 3}, (2, 14, 11)),
    ],
)
@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_training_pass_of_a_cnn_equals_forward_and_its_gradient(parameters, sides, batch, dtype):
    model = DECODERS.build({"kind": "cnn", **parameters}, Shapes(9, sides, (4, 5))).initialize(1).to(dtype)
    assert isinstance(model, CNN)
    codes, weights = torch.rand(batch, 9, dtype=dtype), torch.rand(batch, *sides, dtype=dtype)
    found = []
    for run in (model, model.training_forward):
        outputs = run(codes)
        found.append([outputs, *torch.autograd.grad((outputs * weights).sum(), list(model.parameters()))])
    near = 1e-5 if dtype == torch.float32 else 1e-13
    for plain, quick in zip(*found, strict=True):
        torch.testing.assert_close(quick, plain, rtol=10 * near, atol=near * plain.abs().max().item())


def test_only_the_first_derivatives_of_a_training_pass_are_claimed():
    model = CNN(SIZES["rectangular"], depth=2, width=2).initialize(0)
    loss = model.training_forward(torch.rand(2, 9)).square().sum()
    slope = torch.autograd.grad(loss, model.out.weight, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("place", ["layers.1.conv.bias", "layers.2.conv.weight", "layers.3.conv.bias", "out.weight"])
def test_a_training_pass_does_not_hide_what_is_not_finite(place):
    model = CNN(SIZES["14×14"], depth=2, width=4).initialize(0)
    parameter = model.get_parameter(place).data
    parameter[(0,) * parameter.ndim] = math.nan
    codes = torch.rand(2, 10)
    broken = model(codes).isnan()
    assert broken.any()
    assert torch.equal(model.training_forward(codes).isnan(), broken)


def test_a_training_pass_reads_weights_as_they_lie_in_memory():
    model = CNN(SIZES["14×14"], depth=2, width=4).initialize(0)
    columns = torch.rand(4, 2)
    for i, layer in enumerate(list(model.layers)[1:]):
        layer.conv.bias = nn.Parameter(columns[:, i])
        layer.conv.weight = nn.Parameter(layer.conv.weight.detach().transpose(2, 3))
    codes = torch.rand(2, 10)
    torch.testing.assert_close(model.training_forward(codes), model(codes))


def test_a_training_pass_in_mixed_precision_is_forward(monkeypatch):
    """Only who is called: not every processor has half precision."""
    model, image = CNN(SIZES["14×14"], depth=2, width=4), torch.rand(2, 14, 14)
    monkeypatch.setattr(CNN, "forward", lambda self, code: image)
    with torch.autocast("cpu", torch.bfloat16):
        assert model.training_forward(torch.rand(2, 10)) is image
    assert model.training_forward(torch.rand(2, 10)) is not image
