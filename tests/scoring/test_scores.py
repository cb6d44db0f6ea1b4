"""Scores: models whose errors are known beforehand, SSIM against scikit-image, intervals, the table as text."""

import math

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity
from torch import nn

from recombine.core import encodings, holdouts, scenes
from recombine.core.errors import InputError, StoreError
from recombine.core.factors import FactorSpace, cyclic, discrete
from recombine.core.task import Task
from recombine.models import decoders
from recombine.scoring.metrics.ssim import ssim
from recombine.scoring.scores import METRICS, Scores, bootstrap_interval, score

PLANE = FactorSpace(x=14, y=12)


def task_of(space: FactorSpace = PLANE, **scene) -> Task:
    return Task(scenes.Bump(space, **scene), encodings.Bump(space), holdouts.centre(space, 4, 7, factors=["x", "y"]))


class Truth(nn.Module):
    """Decodes the code and renders what is asked for, moved by some pixels; it has no parameters."""

    def __init__(self, task: Task, right: float = 0.0, up: float = 0.0) -> None:
        super().__init__()
        self.task, self.move = task, (right, up)

    def forward(self, code: torch.Tensor) -> torch.Tensor:
        values = self.task.encoding.decode(code)
        for name, by in zip(("x", "y"), self.move):
            values[:, self.task.space.axis(name)] += by
        return self.task.scene(values)


SCENES = {
    "upright": task_of(),
    "inverted": task_of(inverted=True),
    "half": task_of(pixel_centres="half"),
    "n=4": task_of(
        FactorSpace(y=12, x=14, size=discrete(2, low=1.0, step=0.5), brightness=discrete(2, low=0.5, step=0.5))
    ),
}
tasks = pytest.mark.parametrize("task", SCENES.values(), ids=SCENES)


# --- known models -----------------------------------------------------------------------------------------------


@tasks
def test_the_truth_scores_perfectly(task):
    scores = score(Truth(task), task)
    offset = math.sqrt(0.5) if task.scene.config["pixel_centres"] == "half" else 0.0  # no pixel centre on the grid
    assert scores.columns["mse"].max() == 0
    assert np.allclose(scores.columns["position_error"], offset)
    assert (scores.columns["localized"] == 1).all()
    assert np.allclose(scores.columns["ssim"], 1)
    assert {name: len(column) for name, column in scores.columns.items()} == dict.fromkeys(METRICS, len(task.space))
    assert all(column.dtype == np.float64 for column in scores.columns.values())


@pytest.mark.parametrize("name", ["upright", "inverted", "n=4"])
@pytest.mark.parametrize(("right", "up"), [(1, 0), (0, -1), (1, 1), (2, 0), (0, 3), (-3, 4)])
def test_a_shift_is_the_position_error(name, right, up):
    task = SCENES[name]
    scores = score(Truth(task, float(right), float(up)), task)
    values = task.space.values(torch.arange(len(task.space))).numpy()
    x, y = (values[:, task.space.axis(n)] for n in ("x", "y"))
    inside = (x + right >= 0) & (x + right < 14) & (y + up >= 0) & (y + up < 12)
    assert inside.sum() > len(inside) / 3
    assert np.allclose(scores.columns["position_error"][inside], math.hypot(right, up))
    assert (scores.columns["localized"][inside] == (max(abs(right), abs(up)) <= 1)).all()
    assert (scores.columns["mse"][inside] > 0).all()
    assert (scores.columns["ssim"][inside] < 0.999).all()


def test_mse_is_the_mean_over_pixels():
    task = SCENES["upright"]

    class Off(Truth):
        def forward(self, code):
            return super().forward(code) + 0.1

    assert np.allclose(score(Off(task), task).columns["mse"], 0.01, rtol=1e-4)


def test_a_stripe_has_no_place():
    task = Task(scenes.Stripe(PLANE), encodings.Bump(PLANE), holdouts.centre(PLANE, 4, 7))
    scores = score(Truth(task), task)
    assert np.isnan(scores.columns["position_error"]).all()
    assert np.isnan(scores.columns["localized"]).all()
    assert (scores.columns["mse"] == 0).all()
    assert scores.summary().to_json()["ood_localization"] is None


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_inverse_task_scores_decoded_factor_values(steps):
    space = FactorSpace(x=12, angle=cyclic(360.0, 8), y=12)

    class Render(scenes.Scene):
        """Shows the values themselves."""

        def __init__(self) -> None:
            self.space, self.output_shape = space, (1, 3)

        def __call__(self, values, present=None):
            return values.unsqueeze(-2)

    class Turned(nn.Module):
        def forward(self, image):
            values = image.squeeze(-2).clone()
            values[:, 1] = (values[:, 1] + 45 * steps) % 360
            return task.encoding(values)

    task = Task(Render(), encodings.Bump(space), holdouts.centre(space, 4, 7, factors=["x", "y"]), inverse=True)
    scores = score(Turned(), task)
    assert np.allclose(scores.columns["position_error"], steps)
    assert (scores.columns["localized"] == (steps <= 1)).all()
    assert np.isnan(scores.columns["ssim"]).all()


@pytest.mark.parametrize("dtype", [torch.float, torch.double], ids=["32", "64"])
def test_model_keeps_its_mode_and_type_and_chunks_do_not_matter(dtype):
    task = task_of()
    model = decoders.MLP(task, depth=1, width=8).initialize(0).to(dtype)
    model.train()
    whole = score(model, task)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    pieces = score(model.eval(), task, chunk=7)
    assert not model.training
    for name in METRICS:
        assert np.allclose(whole.columns[name], pieces.columns[name], rtol=1e-4)


def test_dropout_is_off_while_scoring():
    task = task_of()
    noisy = nn.Sequential(Truth(task), nn.Dropout(0.5))
    noisy.train()
    assert (score(noisy, task).columns["mse"] == 0).all()


# --- SSIM -------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda scores: scores.plot_landscape("foo"), "no metric 'foo'. Metrics: mse, "),
        (lambda scores: scores.plot_samples([]), "at least one cell"),
        (lambda scores: scores.plot_samples(n=0), "at least one cell"),
        (lambda scores: scores.plot_samples([10**6]), "Cells are numbered 0 … "),
        (lambda scores: scores.plot_samples([-1]), "Cells are numbered 0 … "),
    ],
)
def test_pictures_of_nothing_are_refused(call, message):
    space = FactorSpace(x=8, y=8)
    task = Task(scenes.Bump(space), encodings.Bump(space), holdouts.centre(space, 2, 5))
    with pytest.raises(InputError, match=message):
        call(score(decoders.MLP(task, width=8), task))


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


# --- summaries --------------------------------------------------------------------------------------------------


def made_scores(seed: int = 0) -> Scores:
    random = np.random.default_rng(seed)
    holdout = holdouts.centre(PLANE, 4, 7)
    columns = {name: random.uniform(size=len(PLANE)) for name in METRICS}
    columns["ssim"][:] = math.nan
    columns["mse"][:3] = [1 / 3, 1e-300, 123456789.123456789]
    return Scores(holdout, columns)


def test_summary_means_by_split():
    scores = made_scores()
    summary = scores.summary()
    ood = scores.holdout.mask.ravel()
    for split, chosen in (("id", ~ood), ("ood", ood)):
        for metric in ("mse", "position_error", "localized"):
            row = summary[split, metric]
            assert row.mean == pytest.approx(scores.columns[metric][chosen].mean())
            assert row.low <= row.mean <= row.high
            assert row.cells == chosen.sum()
    assert math.isnan(summary["id", "ssim"].mean)
    with pytest.raises(KeyError):
        summary["odd", "mse"]


def test_summary_as_json_text_and_table():
    summary = made_scores().summary()
    flat = summary.to_json()
    assert list(flat) == [
        "id_mse", "id_position_error", "id_localization", "id_ssim",
        "ood_mse", "ood_position_error", "ood_localization", "ood_ssim",
    ]  # fmt: skip
    assert flat["ood_mse"] == summary["ood", "mse"].mean
    assert flat["id_ssim"] is None
    assert len(str(summary).splitlines()) == 1 + len(METRICS)
    assert len(summary.to_pandas()) == 2 * len(METRICS)
    assert "<table" in summary._repr_html_()


def test_summary_is_seeded():
    scores = made_scores()
    assert str(scores.summary(seed=1)) == str(scores.summary(seed=1))
    assert scores.summary(seed=1)["id", "mse"].low != scores.summary(seed=2)["id", "mse"].low


def test_bootstrap_interval_is_sane():
    values = np.random.default_rng(0).normal(size=200)
    low, high = bootstrap_interval(values, seed=3)
    assert (low, high) == bootstrap_interval(values, seed=3)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(200), rel=0.15)
    narrow = bootstrap_interval(values, seed=3, level=0.5)
    assert low < narrow[0] < narrow[1] < high
    assert bootstrap_interval(np.full(5, 2.0)) == (2.0, 2.0)


def test_bootstrap_interval_covers_the_true_mean_as_often_as_it_says():
    random = np.random.default_rng(0)
    hits = 0
    for trial in range(400):
        low, high = bootstrap_interval(random.normal(size=60), resamples=300, seed=trial)
        hits += low <= 0 <= high
    assert 0.90 <= hits / 400 <= 0.98


def test_bootstrap_interval_of_nothing_is_not_a_number():
    assert all(map(math.isnan, bootstrap_interval(np.array([]))))
    assert all(map(math.isnan, bootstrap_interval(np.array([1.0, math.nan]))))


def test_bootstrap_interval_of_many_values_works_in_blocks():
    values = np.random.default_rng(0).uniform(size=50_000)
    low, high = bootstrap_interval(values, resamples=100)
    assert low < values.mean() < high
    assert high - low < 0.01


# --- tables -----------------------------------------------------------------------------------------------------


def test_csv_gives_every_number_back_exactly(tmp_path):
    scores = made_scores()
    path = tmp_path / "scores.csv"
    path.write_text(scores.to_csv())
    again = Scores.from_csv(path, scores.holdout)
    for name in METRICS:
        assert np.array_equal(again.columns[name], scores.columns[name], equal_nan=True)
    assert again.to_csv() == scores.to_csv()
    assert path.read_text().splitlines()[0] == "x,y,split,mse,position_error,localized,ssim"


def test_table_has_a_row_per_cell():
    scores = made_scores()
    table = scores.to_pandas()
    assert list(table.columns) == ["x", "y", "split", *METRICS]
    assert len(table) == len(PLANE)
    assert ((table["split"] == "ood") == scores.is_ood).all()
    held = table[table["split"] == "ood"]
    assert (held["x"].min(), held["x"].max(), held["y"].min(), held["y"].max()) == (4, 7, 4, 7)


def test_drawn_cells_are_seeded_and_split():
    scores = made_scores()
    drawn = scores.draw(5, seed=1)
    assert torch.equal(drawn, scores.draw(5, seed=1))
    assert not torch.equal(drawn, scores.draw(5, seed=2))
    assert scores.is_ood[drawn.numpy()].tolist() == [False] * 5 + [True] * 5
    assert len(drawn.unique()) == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no table of scores"),
        ("a,b\n1,2\n", "is no table of scores: KeyError('mse')"),
        ("mse,position_error,localized,ssim\n1,2,x,4\n", "is no table of scores: ValueError"),
        ("mse,position_error,localized,ssim\n1,2\n", "is no table of scores: TypeError"),
        ("mse,position_error,localized,ssim\n1,2,3,4\n", "has 1 rows, but the grid has 168 cells."),
        ("", "has 0 rows, but the grid has 168 cells."),
    ],
)
def test_a_foreign_table_is_explained(tmp_path, content, message):
    path = tmp_path / "scores.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StoreError) as caught:
        Scores.from_csv(path, holdouts.centre(PLANE, 4, 7))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_pictures_need_the_model():
    with pytest.raises(StoreError, match="read without their model"):
        made_scores().plot_samples()
