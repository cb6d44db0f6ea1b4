"""The ablation: configurations, rows, medians and the figure, on tiny models."""

import pytest

from recombine.core.errors import InputError
from recombine.runs.store import Store
from recombine.studies.paper.r07_ablation import VARIANTS, AblationRow, ablation, configs, medians, plot

TINY = ["scene.factors.x=6", "scene.factors.y=6", "holdout.threshold=3", "training.steps=3"]


def row(variant: str, seed: int, id_mse: float, ood_mse: float) -> AblationRow:
    return AblationRow(seed, variant, "0" * 16, id_mse, ood_mse, 1.0, 0.5, 2.0, 0.9)


def test_variants_differ_in_their_penalties_alone():
    made = configs([0], epochs=300)
    assert list(made) == ["none", "entropy", "variance", "both"]
    for variant, [config] in made.items():
        training = config.recipe()
        assert set(training.terms) == set(VARIANTS[variant])
        assert (training.epochs, training.batch, training.learning_rate) == (300, 32, 1e-3)
        assert config.task().holdout.n_ood == 400
    assert made["both"][0].recipe().terms["entropy"]["weight"] == 0.1
    assert made["both"][0].recipe().terms["variance"]["weight"] == 0.01
    assert configs([0], variants=["both"])["both"][0].recipe().epochs == 1000


def test_rows_come_from_the_store_the_second_time(tmp_path):
    store = Store(tmp_path)
    rows = ablation(store, seeds=[0, 1], setting=TINY, variants=["none", "both"])
    assert [(r.variant, r.seed) for r in rows] == [("none", 0), ("none", 1), ("both", 0), ("both", 1)]
    assert all(1 <= r.effective_rank <= 6 and 0 <= r.banding <= 1 and r.ood_mse > 0 for r in rows)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/run.json")}
    assert ablation(store, seeds=[0, 1], setting=TINY, variants=["none", "both"]) == rows
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/run.json")} == written


def test_medians_are_over_seeds():
    rows = [row("both", seed, 1e-5, ood) for seed, ood in enumerate([1e-5, 4e-5, 9e-5])]
    assert medians(rows)["both"]["ood_mse"] == 4e-5
    assert medians(rows)["both"]["ratio"] == pytest.approx(4)


def test_the_figure_states_the_seeds_and_draws_every_run():
    rows = [
        row(variant, seed, 1e-5 * (i + 1), 1e-4 * (seed + 1)) for i, variant in enumerate(VARIANTS) for seed in (0, 1)
    ]
    [ax] = plot(rows).axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert sum(len(c.get_offsets()) for c in ax.collections) == 8
    assert [t.get_text() for t in ax.get_legend().get_texts()][:2] == ["none (2 seeds)", "entropy (2 seeds)"]


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"no variant varianz\. Variants: none, entropy"):
        configs([0], variants=["varianz"])
    with pytest.raises(InputError, match="at least one seed"):
        configs([])
    with pytest.raises(InputError, match=r"one variant\. Got 1 and 0"):
        configs([0], variants=[])
    drawn = configs([0, 0], variants=(name for name in ("none", "both")))
    assert {name: len(group) for name, group in drawn.items()} == {"none": 1, "both": 1}
    with pytest.raises(InputError, match="no rows"):
        plot([])
