"""Metrics: what holds for every one of them, closed forms, and scikit-image as the oracle of PSNR and SSIM."""

import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from recombine.core import encodings, holdouts, scenes
from recombine.core.factors import FactorSpace
from recombine.core.task import Task
from recombine.scoring.metrics import METRICS, Direction, Metric, TruthMoments, metrics_of
from recombine.scoring.metrics.ssim import ssim
from recombine.scoring.scores import score
from tests.scoring.known_models import Truth, grey_task, scene_task

TASKS = {
    "grey": grey_task(),
    "inverted": grey_task(inverted=True),
    "colour": scene_task(3, 12, 14),
    "five channels": scene_task(5, 12, 14),
    "small": scene_task(3, 6, 6),
    "vector": scene_task(7),
    "one number": scene_task(1),
    "stripe": scene_task(stripe=True),
    "inverse": grey_task(inverse=True),
}
IMAGES = {"psnr", "ssim"}
PLACES = {"position_error", "localization"}
EXPECTED = {
    "grey": IMAGES | PLACES, "inverted": IMAGES | PLACES, "colour": IMAGES, "five channels": IMAGES, "small": {"psnr"},
    "vector": set(), "one number": set(), "stripe": IMAGES, "inverse": PLACES,
}  # fmt: skip
tasks = pytest.mark.parametrize("name", TASKS)


# --- what holds for every metric --------------------------------------------------------------------------------


@tasks
def test_a_task_has_the_metrics_that_apply_to_it(name):
    assert [metric.name for metric in metrics_of(TASKS[name])][:2] == ["mse", "relative_error"]
    assert {metric.name for metric in metrics_of(TASKS[name])} == {"mse", "relative_error", *EXPECTED[name]}


@pytest.mark.parametrize("kind", METRICS)
@tasks
def test_every_metric_prefers_the_truth(name, kind):
    task = TASKS[name]
    metric = METRICS[kind]
    assert metric.name == kind
    assert metric.label
    assert metric.direction in Direction
    right, wrong = (score(Truth(task, noise=noise), task).columns for noise in (0.0, 3.0))
    if not metric.applies(task):
        assert kind not in right
        return
    assert right[kind].shape == (len(task.space),)
    assert np.isfinite(right[kind]).all()
    sign = 1 if metric.direction is Direction.HIGHER else -1
    assert (sign * (right[kind] - wrong[kind]) >= 0).all()
    assert sign * (right[kind].mean() - wrong[kind].mean()) > 0


@tasks
def test_metrics_do_not_depend_on_how_cells_are_grouped(name):
    task = TASKS[name]
    whole, pieces = (score(Truth(task, noise=0.3), task, chunk=chunk).columns for chunk in (1000, 7))
    assert list(whole) == list(pieces)
    for column in whole:
        np.testing.assert_allclose(whole[column], pieces[column], rtol=1e-5)


def test_an_own_metric_joins_by_being_registered():
    try:

        @METRICS.register
        class Largest(Metric):
            name = "largest"
            label = "largest difference"

            def compute(self, outputs, targets, values, task):
                return (outputs - targets).abs().flatten(1).amax(1)

        scores = score(Truth(TASKS["colour"], shift=0.5), TASKS["colour"])
        assert np.allclose(scores.columns["largest"], 0.5)
        assert scores.summary().to_json()["ood_largest"] == pytest.approx(0.5)
        assert scores.to_csv().splitlines()[0].endswith(",largest")
    finally:
        METRICS.remove("largest")


# --- closed forms -----------------------------------------------------------------------------------------------


@tasks
def test_relative_error_of_the_best_constant_is_one_on_average(name):
    task = TASKS[name]
    values = task.space.values(torch.arange(len(task.space)))
    mean = task.targets(values).double().mean(0)

    class Constant(torch.nn.Module):
        def forward(self, given):
            return mean.to(given.dtype).expand(len(given), *mean.shape)

    assert score(Constant(), task).columns["relative_error"].mean() == pytest.approx(1, rel=1e-4)


def test_relative_error_of_a_truth_that_never_varies_is_not_a_number():
    moments = TruthMoments()
    moments.add(torch.full((6, 3, 2), 0.1))
    assert moments.variance == 0
    metric = METRICS["relative_error"]
    assert np.isnan(metric.finish(np.ones(6), moments)).all()


def test_truth_moments_are_those_of_all_targets():
    targets = torch.rand(20, 3, 4, generator=torch.Generator().manual_seed(0))
    moments = TruthMoments()
    for some in targets.split(7):
        moments.add(some)
    assert moments.variance == pytest.approx(float(targets.flatten(1).double().var(0, correction=0).mean()))


@pytest.mark.parametrize("shape", [(9, 8), (3, 12, 12)], ids=str)
def test_psnr_is_scikit_images(shape):
    task = scene_task(*shape, value_range=(-1.0, 2.0))
    metric = METRICS["psnr"]
    a, b = torch.rand(2, 4, *shape, dtype=torch.double, generator=torch.Generator().manual_seed(0)) * 3 - 1
    theirs = [peak_signal_noise_ratio(x, y, data_range=3.0) for x, y in zip(a.numpy(), b.numpy())]
    assert np.allclose(metric.compute(b, a, torch.zeros(4, 2), task).numpy(), theirs)


def test_psnr_of_an_exact_output_is_the_largest():
    task = TASKS["colour"]
    found = METRICS["psnr"].compute(torch.ones(2, 3, 12, 14), torch.ones(2, 3, 12, 14), None, task)
    assert found.tolist() == pytest.approx([120, 120])


@pytest.mark.parametrize("channels", [1, 3, 4, 7])
@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_ssim_over_channels_is_scikit_images(channels, scale):
    rng = np.random.default_rng(0)
    a = rng.uniform(0, scale, (3, channels, 13, 16))
    b = np.clip(a + rng.normal(0, 0.2 * scale, a.shape), 0, scale)
    ours = ssim(torch.from_numpy(a), torch.from_numpy(b), data_range=scale)
    theirs = [
        structural_similarity(
            one, other, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=scale, channel_axis=0
        )
        for one, other in zip(a, b)
    ]
    assert np.allclose(ours.numpy(), theirs, rtol=0, atol=1e-6)


def test_the_place_in_a_colour_image_is_where_all_channels_together_are_brightest():
    space = FactorSpace(x=5, y=5)

    class Twice(scenes.Scene):
        """A bump in each of two channels."""

        has_position = True

        def __init__(self) -> None:
            self.space, self.output_shape, self.grey = space, (2, 5, 5), scenes.Bump(space)

        def __call__(self, values, present=None):
            return torch.stack([self.grey(values, present)] * 2, dim=-3)

        def pixel_offsets(self, pixels, values):
            return self.grey.pixel_offsets(pixels, values)

    task = Task(Twice(), encodings.Bump(space), holdouts.centre(space, 2, 3))

    class Model(torch.nn.Module):
        def forward(self, code):
            image = task.scene(task.encoding.decode(code))
            image[:, 0, 0, 0] += 1.5  # the first channel alone would be localized in the corner
            image[:, 1, 0, 0] -= 1.5
            return image

    assert (score(Model(), task).columns["position_error"] == 0).all()


def test_a_wrong_category_is_not_localized():
    space = FactorSpace(x=5, colour=["red", "green", "blue"])

    class Values(scenes.Scene):
        def __init__(self) -> None:
            self.space, self.output_shape = space, (2,)

        def __call__(self, values, present=None):
            return values

    class Next(torch.nn.Module):
        """Decodes x one step too high, and of every second x the wrong colour."""

        def forward(self, values):
            wrong = values.clone()
            wrong[:, 0] = (wrong[:, 0] + 1).clamp(max=4)
            wrong[:, 1] = (wrong[:, 1] + values[:, 0] % 2) % 3
            return task.encoding(wrong)

    held = np.arange(15).reshape(space.shape) == 7
    task = Task(Values(), encodings.OneHot(space), holdouts.mask(space, held), inverse=True)
    columns = score(Next(), task).columns
    assert columns["position_error"].reshape(5, 3)[:, 0].tolist() == [1, 1, 1, 1, 0]
    assert columns["localization"].reshape(5, 3)[:, 0].tolist() == [1, 0, 1, 0, 1]


# --- SSIM of grey images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(11, 11), (12, 17), (28, 28), (31, 12)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_ssim_is_scikit_images(shape, scale):
    rng = np.random.default_rng(0)
    a = rng.uniform(0, scale, (5, *shape))
    b = np.clip(a + rng.normal(0, 0.2 * scale, a.shape), 0, scale)
    b[3] = a[3]
    b[4] = scale - a[4]
    ours = ssim(torch.from_numpy(a), torch.from_numpy(b), data_range=scale)
    theirs = [
        structural_similarity(
            one, other, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=scale
        )
        for one, other in zip(a, b)
    ]
    assert np.allclose(ours.numpy(), theirs, rtol=0, atol=1e-6)
    assert ours[3].item() == pytest.approx(1)
    assert ours[4].item() < 0


def test_ssim_of_inverted_images_loses_no_digits_in_single_precision():
    a = torch.rand(4, 20, 20, generator=torch.Generator().manual_seed(0)) * 0.01 + 0.99
    torch.testing.assert_close(ssim(a, 1 - a).double(), ssim(a.double(), 1 - a.double()), rtol=0, atol=1e-6)


def test_ssim_of_smooth_scenes_is_scikit_images():
    space = FactorSpace(x=28, y=28)
    images = scenes.Bump(space)(space.values(torch.arange(0, 784, 97)).double())
    other = scenes.Bump(space, sigma=1.3)(space.values(torch.arange(0, 784, 97)).double())
    theirs = [
        structural_similarity(a, b, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1)
        for a, b in zip(images.numpy(), other.numpy())
    ]
    assert np.allclose(ssim(images, other).numpy(), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(10, 28), (28, 10), (3, 3)], ids=str)
def test_ssim_of_small_images_is_not_a_number(shape):
    assert ssim(torch.rand(4, *shape), torch.rand(4, *shape)).isnan().tolist() == [True] * 4
