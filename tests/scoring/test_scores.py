"""Scores: models whose errors are known beforehand, summaries, the table as text. Metrics have tests of their own."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from recombine.core import encodings, holdouts, scenes
from recombine.core.errors import InputError, StoreError
from recombine.core.factors import FactorSpace, cyclic, discrete
from recombine.core.task import Task
from recombine.models import decoders
from recombine.scoring.scores import Scores, score
from tests.colour import coloured_task
from tests.scoring.known_models import PLANE, Truth, grey_task, scene_task

METRICS = ("mse", "relative_error", "psnr", "ssim", "position_error", "localization")  # of a grey scene

SCENES = {
    "upright": grey_task(),
    "inverted": grey_task(inverted=True),
    "half": grey_task(pixel_centres="half"),
    "n=4": grey_task(
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
    assert (scores.columns["localization"] == 1).all()
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
    assert (scores.columns["localization"][inside] == (max(abs(right), abs(up)) <= 1)).all()
    assert (scores.columns["mse"][inside] > 0).all()
    assert (scores.columns["ssim"][inside] < 0.999).all()


def test_mse_is_the_mean_over_pixels():
    task = SCENES["upright"]

    assert np.allclose(score(Truth(task, shift=0.1), task).columns["mse"], 0.01, rtol=1e-4)


def test_what_does_not_apply_is_absent():
    task = scene_task(stripe=True)
    scores = score(Truth(task), task)
    assert list(scores.columns) == ["mse", "relative_error", "psnr", "ssim"]
    assert (scores.columns["mse"] == 0).all()
    assert "ood_localization" not in scores.summary().to_json()
    assert "localization" not in scores.to_csv()
    assert "localization" not in str(scores.summary())


def test_outputs_that_are_not_finite_are_not_averaged_away():
    task = grey_task()
    scores = score(Truth(task, shift=math.nan), task)
    assert all(np.isnan(column).all() for column in scores.columns.values())
    assert set(scores.summary().to_json().values()) == {None}


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
    assert (scores.columns["localization"] == (steps <= 1)).all()
    assert "ssim" not in scores.columns


@pytest.mark.parametrize("dtype", [torch.float, torch.double], ids=["32", "64"])
def test_model_keeps_its_mode_and_type_and_chunks_do_not_matter(dtype):
    task = grey_task()
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
    task = grey_task()
    noisy = nn.Sequential(Truth(task), nn.Dropout(0.5))
    noisy.train()
    assert (score(noisy, task).columns["mse"] == 0).all()


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


# --- summaries --------------------------------------------------------------------------------------------------


def made_scores(seed: int = 0) -> Scores:
    random = np.random.default_rng(seed)
    holdout = holdouts.centre(PLANE, 4, 7)
    columns = {name: random.uniform(size=len(PLANE)) for name in METRICS}
    columns["mse"][:3] = [1 / 3, 1e-300, 123456789.123456789]
    return Scores(holdout, columns)


def test_summary_means_by_split():
    scores = made_scores()
    summary = scores.summary()
    ood = scores.holdout.mask.ravel()
    for split, chosen in (("id", ~ood), ("ood", ood)):
        for metric in METRICS:
            row = summary[split, metric]
            assert row.mean == pytest.approx(scores.columns[metric][chosen].mean())
            assert row.low <= row.mean <= row.high
            assert row.cells == chosen.sum()
    with pytest.raises(KeyError):
        summary["odd", "mse"]


def test_summary_as_json_text_and_table():
    summary = made_scores().summary()
    flat = summary.to_json()
    assert list(flat) == [f"{split}_{metric}" for split in ("id", "ood") for metric in METRICS]
    assert flat["ood_mse"] == summary["ood", "mse"].mean
    assert len(str(summary).splitlines()) == 1 + len(METRICS)
    assert len(summary.to_pandas()) == 2 * len(METRICS)
    assert "<table" in summary._repr_html_()


def test_summary_is_seeded():
    scores = made_scores()
    assert str(scores.summary(seed=1)) == str(scores.summary(seed=1))
    assert scores.summary(seed=1)["id", "mse"].low != scores.summary(seed=2)["id", "mse"].low


# --- tables -----------------------------------------------------------------------------------------------------


def test_csv_gives_every_number_back_exactly(tmp_path):
    scores = made_scores()
    path = tmp_path / "scores.csv"
    path.write_text(scores.to_csv())
    again = Scores.from_csv(path, scores.holdout.space)
    for name in METRICS:
        assert np.array_equal(again.columns[name], scores.columns[name], equal_nan=True)
    assert again.to_csv() == scores.to_csv()
    assert np.array_equal(again.holdout.ood_mask, scores.holdout.ood_mask)
    assert path.read_text().splitlines()[0] == ",".join(["x", "y", "split", *METRICS])


def test_categorical_factors_are_written_by_their_labels(tmp_path):
    space = FactorSpace(x=3, colour=["red", "=green"])
    scores = Scores(holdouts.mask(space, np.zeros(space.shape, bool)), {"mse": np.arange(6.0)})
    path = tmp_path / "scores.csv"
    path.write_text(scores.to_csv())
    assert path.read_text().splitlines()[1:3] == ["0.0,red,id,0.0", "0.0,'=green,id,1.0"]
    assert scores.to_pandas()["colour"].tolist() == ["red", "=green"] * 3
    assert np.array_equal(Scores.from_csv(path, scores.holdout.space).columns["mse"], scores.columns["mse"])


def test_a_table_with_other_metrics_is_read_as_it_is(tmp_path):
    path = tmp_path / "scores.csv"
    rows = [f"{x},{y},id,{x + y}," for x in range(14) for y in range(12)]
    path.write_text("\n".join(["x,y,split,later,unknown", *rows]))
    scores = Scores.from_csv(path, PLANE)
    assert list(scores.columns) == ["later", "unknown"]
    assert scores.columns["later"][-1] == 24
    assert scores.summary()["id", "later"].mean == pytest.approx(12)
    assert list(scores.summary().to_json()) == ["id_later", "id_unknown"]


def test_table_has_a_row_per_cell():
    scores = made_scores()
    table = scores.to_pandas()
    assert list(table.columns) == ["x", "y", "split", *METRICS]
    assert len(table) == len(PLANE)
    assert ((table["split"] == "ood") == scores.is_ood).all()
    held = table[table["split"] == "ood"]
    assert (held["x"].min(), held["x"].max(), held["y"].min(), held["y"].max()) == (4, 7, 4, 7)


def test_unavailable_cells_are_never_scored_or_averaged(tmp_path):
    task = coloured_task()
    asked = []

    class Watched(Truth):
        def forward(self, code):
            asked.append(len(code))
            return super().forward(code)

    scores = score(Watched(task, shift=0.1), task)
    gone = ~task.holdout.available.ravel()
    assert gone.any()
    assert sum(asked) == (~gone).sum()
    assert np.isnan(scores.columns["mse"][gone]).all()
    assert np.allclose(scores.columns["mse"][~gone], 0.01, rtol=1e-4)
    assert set(scores.split[gone]) == {"unavailable"}
    summary = scores.summary()
    assert summary["id", "mse"].cells + summary["ood", "mse"].cells == (~gone).sum()
    assert summary["id", "mse"].mean == pytest.approx(0.01, rel=1e-4)
    path = tmp_path / "scores.csv"
    path.write_text(scores.to_csv())
    assert next(line for line in path.read_text().splitlines() if "unavailable" in line).endswith(",unavailable,,,,")
    again = Scores.from_csv(path, task.space)
    assert again.summary().to_json() == summary.to_json()
    assert not set(scores.draw(50).tolist()) & set(np.flatnonzero(gone))


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
        (None, "is not a table of scores"),
        ("x,y,mse\n1,2,3\n", "has 1 rows, but the grid has 168 cells."),
        ("", "has 0 rows, but the grid has 168 cells."),
        ("x,y,mse\n" + "1,2,3\n" * 168, "it lacks split"),
        ("x,split,mse\n" + "1,id,3\n" * 168, "it lacks y"),
        ("x,y,split,mse\n" + "1,2,id,3\n" * 167 + "1,2,id,x\n", "mse contains text"),
        ("x,y,split,mse\n1,2\n", "rows differ in length"),
        ("x,y,split,mse\n" + "1,2,odd,3\n" * 168, "a split must be id, ood or unavailable, not odd"),
    ],
)
def test_a_foreign_table_is_explained(tmp_path, content, message):
    path = tmp_path / "scores.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StoreError) as caught:
        Scores.from_csv(path, PLANE)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_pictures_need_the_model():
    with pytest.raises(StoreError, match="read without their model"):
        made_scores().plot_samples()
