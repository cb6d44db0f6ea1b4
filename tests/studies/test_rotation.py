"""The study of rotation: what is held out, what a blend is, effect sizes from rows, digits of one's own."""

import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.core.scenes.mnist import packaged_digits
from recombine.core.scenes.rotated_digit import packed
from recombine.diagnostics.findings import PartResult
from recombine.studies.framework.profiles import profile, with_digits
from recombine.studies.paper.r12_rotation import SETTINGS, blended, config, correlation, effects

SMOKE = profile("smoke")


@pytest.mark.parametrize("name", ["smoke", "quick", "paper"])
def test_the_gap_is_held_out_for_one_digit(name):
    one, several = (config(profile(name), variant, 0).task() for variant in ("one", "several"))
    angles = one.space.values(one.holdout.ood_cells).flatten()
    assert angles.min() > 160
    assert angles.max() < 200
    inside = [a for a in one.space.factors["angle"].grid().tolist() if 160 < a < 200]
    assert len(angles) == len(inside)
    digit = several.space.axis("digit")
    held = several.space.values(several.holdout.ood_cells)
    assert len(held[:, digit].unique()) == 1
    assert several.holdout.coverage().complete
    assert not one.holdout.coverage().complete


def test_the_paper_profile_is_the_papers_setting():
    run = config(profile("paper"), "one", 0)
    recipe, factor = run.recipe(), run.scene["factors"]["angle"]
    assert (factor["size"], recipe.epochs, recipe.learning_rate, recipe.optimizer["weight_decay"]) == (
        1000,
        200,
        1e-3,
        1e-4,
    )
    assert run.decoder == {"kind": "deconv", "width": 128, "batch_norm": True, "sigmoid": True}
    assert run.scene["digits"] == [4]
    assert run.task().encoding.size == 2


@pytest.mark.parametrize(("column", "name"), [(2, "quick"), (3, "standard"), (4, "paper")])
def test_the_guide_names_the_sizes(column, name):
    guide = (Path(__file__).parents[2] / "docs/reproduce.md").read_text(encoding="utf-8")
    [row] = [line.split("|") for line in guide.splitlines() if line.startswith("| rotation (R12) |")]
    settings, recipe = SETTINGS[name], config(profile(name), "several", 0).recipe()
    assert row[column].strip() == (
        f"width {settings.width}, {settings.angles} angles, {recipe.epochs} epochs; "
        f"{len(settings.digits)} digits × {settings.several_angles} angles"
    )


def test_a_blend_goes_from_edge_to_edge():
    task = config(SMOKE, "several", 0).task()
    values = torch.tensor([[160.0, 0.0], [170.0, 0.0], [200.0, 0.0], [180.0, 1.0]])
    blend = blended(task, values)
    assert torch.allclose(blend[[0, 2]], task.targets(values[[0, 2]]))
    assert torch.allclose(blend[1], 0.75 * blend[0] + 0.25 * blend[2])
    edges = task.targets(torch.tensor([[160.0, 1.0], [200.0, 1.0]]))
    assert torch.allclose(blend[3], edges.mean(0))


def test_correlation_is_pearsons():
    a, b = torch.rand(4, 28, 28, dtype=torch.double), torch.rand(4, 28, 28, dtype=torch.double)
    expected = [np.corrcoef(x.flatten(), y.flatten())[0, 1] for x, y in zip(a, b)]
    assert np.allclose(correlation(a, b), expected)
    assert torch.allclose(correlation(a, 3 * a + 1), torch.ones(4, dtype=torch.double))
    assert correlation(a, torch.ones_like(a)).isnan().all()


def test_effects_are_means_over_the_gap_of_the_single_digit():
    def row(variant: str, seed: int, held: bool, truth: float, blend: float, r: float):
        return {
            "variant": variant,
            "seed": seed,
            "held_out": held,
            "mse_truth": truth,
            "mse_blend": blend,
            "r_blend": r,
        }

    table = [
        row("one", 0, True, 0.3, 0.01, 0.9), row("one", 0, True, 0.1, 0.03, 1.0),
        row("one", 0, False, 9.0, math.nan, math.nan),
        row("one", 1, True, 0.01, 0.1, 0.5), row("several", 0, True, 5.0, 5.0, 0.0),
    ]  # fmt: skip
    found = effects(PartResult("rotation", {"scores": [], "angles": table}))
    assert found["C13.nearer"].values == pytest.approx({0: 1.0, 1: -1.0})
    assert found["C13.alike"].values == pytest.approx({0: 0.95, 1: 0.5})


def write_idx(folder, images: torch.Tensor, labels: list[int]) -> None:
    head = bytes([0, 0, 8, 3]) + struct.pack(">3I", *images.shape)
    (folder / "train-images-idx3-ubyte").write_bytes(head + images.numpy().tobytes())
    (folder / "train-labels-idx1-ubyte").write_bytes(
        bytes([0, 0, 8, 1]) + struct.pack(">I", len(labels)) + bytes(labels)
    )


def test_digits_of_ones_own_give_other_runs_and_mnists_give_the_same(tmp_path):
    digits = packaged_digits()
    write_idx(tmp_path, digits, list(range(10)))
    assert with_digits(SMOKE, tmp_path) == SMOKE
    write_idx(tmp_path, digits.flip(0), list(range(10)))  # "4" is now a 5
    own = with_digits(SMOKE, tmp_path)
    for variant in ("one", "several"):
        assert config(own, variant, 0).hash != config(SMOKE, variant, 0).hash
    assert config(own, "several", 0).scene["images"] == [packed(digits[5]), packed(digits[2])]
    assert config(own, "one", 0).task().targets(torch.tensor([[0.0]]))[0].allclose(digits[5] / 255)


def test_the_command_reads_them(tmp_path):
    write_idx(tmp_path, packaged_digits().flip(0), list(range(10)))
    words = ["reproduce", "R12", "--profile", "smoke", "--dry-run", "--json", "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(app, [*words, "--mnist", str(tmp_path)])
    assert done.exit_code == 0, done.output
    [plan] = json.loads(done.stdout)["studies"]
    assert all(run["config"]["scene"]["images"] for run in plan["to_train"])


def test_damaged_digits_are_an_error_of_the_command(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"no images")
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"no labels")
    words = ["reproduce", "R12", "--profile", "smoke", "--out", str(tmp_path / "o"), "--mnist", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "is not an IDX file of unsigned bytes" in done.output
    assert not (tmp_path / "o").exists()
