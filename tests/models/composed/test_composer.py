"""The composer against plain convolutions, its codes, its derivatives, and what it takes from images."""

import pytest
import torch
from scipy.signal import convolve2d
from torch.func import jacfwd, jacrev

from recombine.core.errors import InputError
from recombine.models.composed.composer import FactorComposer

SIZES = (2, 3)


@pytest.fixture
def composer() -> FactorComposer:
    torch.manual_seed(0)
    made = FactorComposer(SIZES, (2, 6, 7), terms=2, operators=("kernel", "gain", "map")).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn_like(parameter) / 3)
        made.contrast.fill_(1.5)
    return made


def all_cells(sizes=SIZES) -> torch.Tensor:
    return torch.cartesian_prod(*(torch.arange(size) for size in sizes))


def test_it_is_the_formula(composer):
    """Whole convolutions, cut around the centre. Kernels keep to the middle, so that nothing wraps around."""
    with torch.no_grad():
        for kernel in composer.kernels:
            kernel[..., :2, :] = kernel[..., 5:, :] = kernel[..., :, :2] = kernel[..., :, 5:] = 0
    rows, columns = composer.identity.shape
    cells = all_cells()
    outputs = composer(cells)
    for cell, output in zip(cells.tolist(), outputs):
        expected = composer.background.clone()
        for t in range(2):
            image = (composer.drawing[t] + composer.identity).detach().numpy()
            for k, v in enumerate(cell):
                image = convolve2d(image, (composer.kernels[k][v, t] + composer.identity).detach().numpy())
            at = 2 * (rows // 2), 2 * (columns // 2)
            image = torch.from_numpy(image[at[0] : at[0] + rows, at[1] : at[1] + columns])
            gain = 1 + composer.colours[t]
            for k, v in enumerate(cell):
                gain = gain * (1 + composer.gains[k][v, t])
                image = image * (1 + composer.maps[k][v, t])
            expected = expected + gain[:, None, None] * image
        torch.testing.assert_close(output, composer.contrast * expected)


def test_terms_that_cover_each_other_are_composited_in_order():
    """Two opaque squares on a textured background: the last term hides the first one and both hide the background."""
    composer = FactorComposer((2, 2), (3, 8, 8), terms=2, blend="over")
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        composer.background.copy_(torch.rand(3, 8, 8))
        composer.drawing[0, 1:5, 1:5], composer.drawing[1, 3:7, 3:7] = 1, 1
        composer.drawing.sub_(composer.identity)
        composer.colours.copy_(torch.tensor([[0.5, 0, 0], [0, -0.5, 0]]))
    cells = torch.tensor([[0, 1]])
    red, green = (composer.background.mean((1, 2)) + 1 + own for own in composer.colours)
    expected = composer.background.clone()
    expected[:, 1:5, 1:5] = red[:, None, None]
    expected[:, 3:7, 3:7] = green[:, None, None]
    torch.testing.assert_close(composer(cells)[0], expected)
    composer.reorder([1, 0])
    expected[:, 1:5, 1:5] = red[:, None, None]
    torch.testing.assert_close(composer(cells)[0], expected)


def test_blending_does_not_matter_where_nothing_overlaps_on_a_flat_background():
    torch.manual_seed(0)
    added, covering = (FactorComposer((2, 2), (6, 6), terms=1, blend=blend) for blend in ("add", "over"))
    covering.load_state_dict(added.state_dict())
    torch.testing.assert_close(added(all_cells((2, 2))), covering(all_cells((2, 2))))


def test_operators_at_the_identity_leave_a_dot_in_the_centre():
    composer = FactorComposer((3, 4), (5, 8))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
    expected = torch.zeros(5, 8)
    expected[2, 4] = 1
    torch.testing.assert_close(composer(torch.tensor([[0, 0], [2, 3]])), expected.expand(2, 5, 8))


def test_a_kernel_moves_by_its_dot():
    composer = FactorComposer((2, 2), (6, 6))
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        composer.kernels[0][1, 0, 3, 3], composer.kernels[0][1, 0, 3, 5] = -1, 1  # two columns to the right
        composer.kernels[1][1, 0, 3, 3], composer.kernels[1][1, 0, 1, 3] = -1, 1  # two rows up
    image = composer(torch.tensor([[1, 1]]))[0]
    assert image.argmax() == 1 * 6 + 5
    assert image.sum().item() == pytest.approx(1, abs=1e-5)


def test_shifts_of_all_factors_add_up_and_reorder_with_their_terms():
    composer = FactorComposer((2, 3), (6, 8), terms=2)
    with torch.no_grad():
        for parameter in composer.parameters():
            parameter.zero_()
        composer.colours[1] = 1  # the second dot is twice as bright
        composer.shifts_of(0)[1, 0] = torch.tensor([1.0, 0.5])
        composer.shifts_of(1)[2, 0] = torch.tensor([-3.0, 1.5])
    expected = torch.zeros(6, 8)
    expected[3, 4], expected[1, 6] = 2, 1
    torch.testing.assert_close(composer(torch.tensor([[1, 2]]))[0], expected)
    composer.reorder([1, 0])
    torch.testing.assert_close(composer(torch.tensor([[1, 2]]))[0], expected)
    composer.reset_parameters()
    assert not composer.shifts.any()


def test_indices_one_hot_codes_and_grid_points_of_a_continuous_code_are_the_same(composer):
    cells = all_cells()
    code = torch.cat([torch.nn.functional.one_hot(cells[:, k], size) for k, size in enumerate(SIZES)], 1).double()
    ramp = cells / torch.tensor([size - 1 for size in SIZES])
    torch.testing.assert_close(composer(code), composer(cells))
    torch.testing.assert_close(composer(ramp.double()), composer(cells))


def test_an_absent_factor_does_nothing(composer):
    code = torch.zeros(1, 5, dtype=torch.double)
    code[0, 1] = 1
    with torch.no_grad():
        for own in (composer.kernels, composer.gains, composer.maps):
            own[1][2] = 0
    torch.testing.assert_close(composer(code), composer(torch.tensor([[1, 2]])))


def test_between_two_values_operators_are_interpolated(composer):
    low, high = composer.weights(torch.tensor([[0.0, 0.25]]))
    torch.testing.assert_close(low, torch.tensor([[1.0, 0.0]], dtype=torch.double))
    torch.testing.assert_close(high, torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.double))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, of forward mode
@pytest.mark.parametrize("ways", [jacfwd, jacrev])
def test_slopes_at_a_value_are_means_of_both_sides(composer, ways):
    """Where the slope changes, derivatives agree with central differences; at the ends with the slope inside."""
    slopes = [ways(lambda t: composer.weights(t.reshape(1, 2))[1][0])(torch.tensor([0.0, t])) for t in (0, 0.5, 1)]
    expected = torch.tensor([[-2.0, 2, 0], [-1, 0, 1], [0, -2, 2]], dtype=torch.double)
    torch.testing.assert_close(torch.stack(slopes)[..., 1].double(), expected)


@pytest.mark.parametrize("warps", [False, True])
def test_no_samples_have_no_images(composer, warps):
    if warps:
        composer.warps = torch.ones(5, composer.terms, 4, dtype=torch.double)
    assert composer(torch.zeros(0, 2, dtype=torch.long)).shape == (0, *composer.image_shape)


def test_maps_alone_multiply_drawings():
    composer = FactorComposer((2, 2), (4, 4), operators=("map",))
    maps = [1 + own[:, 0] for own in composer.maps]
    expected = maps[0][1] * maps[1][0] * (1 + composer.drawing[0]) * (1 + composer.colours[0]) + composer.background[0]
    torch.testing.assert_close(composer(torch.tensor([[1, 0]]))[0], expected)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, of forward mode
@pytest.mark.parametrize("blend", ["add", "over"])
def test_second_derivatives_are_right(blend):
    torch.manual_seed(0)
    composer = FactorComposer((2, 2), (3, 3), 2, ("kernel", "gain", "map"), blend=blend).double()
    composer.shifts.copy_(torch.randn_like(composer.shifts))
    code = torch.rand(1, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(composer, (code,))

    def one(z):
        return composer(z.unsqueeze(0))[0]

    z = code.detach()[0]
    torch.testing.assert_close(jacfwd(jacfwd(one))(z), jacrev(jacrev(one))(z))


def test_background_contrast_and_energy_come_from_the_images():
    images = torch.full((5, 1, 4, 4), 0.8)
    for i in range(5):
        images[i, 0, 0, i % 4] = 0.3
    composer = FactorComposer((5,), (1, 4, 4), images=images)
    torch.testing.assert_close(composer.contrast * composer.background, torch.full((1, 4, 4), 0.8))
    assert composer.contrast.item() == pytest.approx(0.5)
    assert composer.energy.item() == pytest.approx(0.25 / 16)
    with torch.no_grad():
        composer.background.zero_()
    composer.reset_parameters()
    torch.testing.assert_close(composer.contrast * composer.background, torch.full((1, 4, 4), 0.8))


def test_gains_alone_are_refused_where_images_differ_in_more_than_gains():
    """A dot of constant brightness that moves has no gain of its own; two tints of one picture have."""
    moving = torch.eye(16).reshape(16, 1, 4, 4)
    with pytest.raises(InputError, match=r"explain only 7% of the differences.*Add 'kernel'") as caught:
        FactorComposer((4, 4), (1, 4, 4), operators=("gain",), images=moving)
    assert caught.value.key == "operators"
    FactorComposer((4, 4), (1, 4, 4), images=moving)
    tints = torch.rand(5, 3, 1, 1) * torch.rand(4, 4) + torch.rand(3, 4, 4)
    FactorComposer((5,), (3, 4, 4), operators=("gain",), images=tints)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FactorComposer((), (4, 4)), "at least one factor"),
        (lambda: FactorComposer((3, 0), (4, 4)), "at least one value"),
        (lambda: FactorComposer((3,), (4,)), r"image_shape.*Got \(4,\)"),
        (lambda: FactorComposer((3,), (4, 4), terms=0), "at least one term"),
        (lambda: FactorComposer((3,), (4, 4), operators=()), "among kernel"),
        (lambda: FactorComposer((3,), (4, 4), images=torch.zeros(2, 5, 5)), r"\(image, 4, 4\). Got \(2, 5, 5\)"),
        (lambda: FactorComposer((3,), (4, 4), images=torch.ones(2, 4, 4)), "nothing to compose"),
        (lambda: FactorComposer((3,), (4, 4), images=torch.full((2, 4, 4), torch.nan)), "must be finite"),
        (lambda: FactorComposer((3,), (3, 2, 2)), r"at least 3 pixels.*Got 2 × 2"),
        (lambda: FactorComposer((3,), (4, 4))(torch.tensor([[3]])), r"values 0 … 2. Got index 3"),
        (lambda: FactorComposer((3,), (4, 4))(torch.zeros(1, 2)), r"1 indices, 1 numbers.*3 weights.*Got 2"),
        (lambda: FactorComposer((3,), (4, 4))(torch.tensor([[True]])), "Got torch.bool"),
        (lambda: FactorComposer((3,), (4, 4))(torch.tensor([[2.0]])), r"in \[0, 1\].*Got 2. Pass indices as integers"),
        (lambda: FactorComposer((3,), (4, 4)).fit_codes([torch.eye(4)]), r"codes must.*shapes \(3, 3\). Got \(4, 4\)"),
        (lambda: FactorComposer((3,), (4, 4)).fit_codes(None, []), r"between must.*Got none"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize("blend", ["add", "over"])
def test_what_lies_behind_an_object_that_never_leaves(blend):
    """In the middle, the median is the object. Opaque objects hide what lies behind them."""
    images = torch.full((5, 1, 4, 4), 0.25)
    images[:, :, 1:3, 1:3] = 0.5
    for i in range(4):
        images[i, :, 1 + i // 2, 1 + i % 2] = 1
    composer = FactorComposer((5,), (1, 4, 4), images=images, blend=blend)
    middle = composer.start[0, 1:3, 1:3]
    assert (middle == (0.25 if blend == "over" else 0.5)).all()
    images[:, 0, 0] = torch.linspace(0, 1, 4)  # the still pixels have several colours
    composer = FactorComposer((5,), (1, 4, 4), images=images, blend=blend)
    assert (composer.start == images.median(0).values).all()
    images += torch.rand(5, 1, 4, 4)  # no pixel is still
    composer = FactorComposer((5,), (1, 4, 4), images=images, blend=blend)
    assert (composer.start == images.median(0).values).all()
