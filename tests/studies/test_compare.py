"""The benchmark: equal budgets, trials on inner cells only, what is left out, rows, ranks, tables and figures."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tools.publish_comparison import FIGURES, publish

from recombine import sweeps
from recombine.cli import compare as command
from recombine.core.errors import InputError
from recombine.core.holdouts import HOLDOUTS
from recombine.diagnostics.verdict.kinds import VerdictKind
from recombine.runs.store import Store
from recombine.studies.compare import figures, gallery, place, planning, results, running, tables
from recombine.studies.compare.limits import best_sum, limits
from recombine.studies.compare.own_scenes import own_scenes
from recombine.studies.compare.planning import built_scene, entries, merged, shapes_of, sized
from recombine.studies.compare.remedy import REMEDIES, TRIALS, Block, Remedy
from recombine.studies.compare.results import COLUMNS, Status, can_be_diagnosed, inner_error, ranks
from recombine.studies.compare.slots import slots_of, two_factors
from recombine.studies.compare.splits import SPLITS
from recombine.studies.compare.suite import SUITES, Budget, chosen, suite

TINY = replace(
    chosen(suite("mini"), remedies=["mlp", "interaction"], scenes=["bump"]), budget=Budget(5800, 4, 4, 2), seeds=1
)


def test_suites_are_as_large_as_they_are_said_to_be():
    sizes = {
        name: (len(s.remedies), len(s.scenes), len(s.splits), s.seeds) for name, s in SUITES.items() if name != "mini"
    }
    for name, least in (("small", (10, 4, 3, 3)), ("full", (14, 7, 5, 5))):
        assert all(have >= wanted for have, wanted in zip(sizes[name], least)), name
    for given in SUITES["small"].scenes.values():
        assert max(built_scene(given).output_shape[-2:]) <= 32


def test_every_remedy_has_the_same_number_of_trials():
    assert {len(remedy.trials) for remedy in REMEDIES.values()} == {TRIALS}
    with pytest.raises(InputError, match="9"):
        Remedy("more", {"kind": "cnn"}, trials=[{}] * 9)


@pytest.mark.parametrize("scene", SUITES["small"].scenes)
def test_equal_budgets_are_equal_within_a_tenth(scene):
    made, budget = built_scene(SUITES["small"].scenes[scene]), SUITES["small"].budget
    from recombine.models.decoders import DECODERS

    sized_ones = [name for name in SUITES["small"].remedies if REMEDIES[name].width is not None]
    assert len(sized_ones) >= 10
    for name in sized_ones:
        remedy = REMEDIES[name]
        model = DECODERS.build(sized(remedy, made, budget), shapes_of(made))
        goal = remedy.parameters * budget.parameters
        assert sum(p.numel() for p in model.parameters()) == pytest.approx(goal, rel=0.1), name


def test_networks_are_as_deep_as_the_image_requires():
    square = {"kind": "square", "rows": 64, "columns": 64, "factors": {"x": 8, "y": 8}}
    small, large = (sized(REMEDIES["cnn"], built_scene(given), Budget(100_000, 4, 4, 2))
                    for given in (SUITES["small"].scenes["bump"], square))  # fmt: skip
    assert (small["depth"], large["depth"]) == (3, 4)


def test_a_budget_that_no_width_meets_is_refused():
    made = built_scene(SUITES["small"].scenes["shapes"])
    with pytest.raises(InputError, match="No width"):
        sized(REMEDIES["mlp"], made, Budget(300, 4, 4, 2))


def test_blocks_tell_changed_budgets_apart():
    assert REMEDIES["cnn"].block is Block.EQUAL
    for name in ("cnn_longer", "cnn_stripes", "cnn_more", "cnn_wider", "cp_free", "composed"):
        assert REMEDIES[name].block is Block.OWN
    assert all(remedy.control in REMEDIES for remedy in REMEDIES.values() if remedy.control)


def test_memory_of_a_step_by_hand():
    """A linear layer keeps its input, and its mask of positive outputs keeps the output."""
    shapes = shapes_of(built_scene(SUITES["mini"].scenes["bump"]))
    decoder = {"kind": "mlp", "depth": 1, "width": 10}
    codes, pixels, batch = 16, 64, 8
    weights = codes * 10 + 10 + 10 * pixels + pixels
    expected = 4 * (4 * weights + batch * (codes + 10))
    assert planning.step_memory(decoder, shapes, batch) == pytest.approx(expected / 1e6, rel=0.15)


def test_coverage_per_value_by_hand():
    made = built_scene({"kind": "bump", "factors": {"x": 4, "y": 4}})
    held = HOLDOUTS.build({"kind": "cells", "cells": [{"x": [2, 3], "y": [1, 2, 3]}]}, made.space)
    assert planning.facts_of(held, made)["value_coverage"] == 0.25  # x = 2 is trained with y = 0 only


def test_more_combinations_are_taken_from_the_held_out_cells():
    cnn, more = entries(chosen(suite("mini"), remedies=["cnn", "cnn_more"], scenes=["bump"]))
    plain, fewer = (entry.final(0, 0).task().holdout.ood_mask for entry in (cnn, more))
    assert 0.25 < fewer.sum() / plain.sum() < 0.75
    assert not (fewer & ~plain).any()


def test_slots_are_told_where_objects_are():
    small = SUITES["small"].scenes
    assert slots_of(built_scene(small["sprites"])) == [[0], [1]]
    assert slots_of(built_scene(small["bump"])) is None
    assert slots_of(built_scene(SUITES["full"].scenes["hidden_balls"])) == [[0, 1], [2, 3]]
    composed = {
        scene: sized(REMEDIES["composed"], built_scene(small[scene]), SUITES["small"].budget) for scene in small
    }
    assert {scene: decoder.get("terms", 1) for scene, decoder in composed.items()} == {
        "bump": 1, "balls": 2, "shapes": 1, "sprites": 2,
    }  # fmt: skip


@pytest.mark.parametrize("split", [name for name in SPLITS if name != "data"])
@pytest.mark.parametrize("scene", ["bump", "shapes"])
def test_splits_leave_every_value_in_training(scene, split):
    made = built_scene(SUITES["small"].scenes[scene])
    if (scene, split) == ("bump", "element"):
        with pytest.raises(InputError, match="three factors"):
            HOLDOUTS.build(SPLITS[split](made), made.space)
        return
    holdout = HOLDOUTS.build(SPLITS[split](made), made.space)
    assert holdout.n_ood >= 5
    holdout.check()


def test_splits_cover_the_order_that_their_names_say():
    made = built_scene(SUITES["small"].scenes["shapes"])
    orders = {name: HOLDOUTS.build(SPLITS[name](made), made.space).covered_order() for name in SPLITS if name != "data"}
    assert orders["element"] == 2
    assert orders["range"] == orders["orthotopic"] == orders["levels"] == orders["disconnected"] == 1


def test_splits_of_objects_are_about_two_different_ones():
    full = SUITES["full"].scenes
    assert two_factors(built_scene(full["hidden_balls"])) == ("x1", "x2")
    assert two_factors(built_scene(full["sprites"])) == ("x1", "x2")
    assert two_factors(built_scene(full["shapes"])) == ("shape", "x")


@pytest.mark.parametrize("scene", SUITES["full"].scenes)
def test_the_diagonal_support_is_a_band_that_covers_all_values(scene):
    made = built_scene(SUITES["full"].scenes[scene])
    holdout = HOLDOUTS.build(SPLITS["diagonal"](made), made.space)
    holdout.check()
    assert holdout.covered_order() == 1
    trained = holdout.id_mask.any(axis=tuple(a for a, n in enumerate(made.space.names) if n not in two_factors(made)))
    assert trained[0, 0]
    assert not trained[0, -1]


@pytest.fixture
def pictures(tmp_path):
    """Colour pictures of 3 × 4 cells in a folder, one of which is missing; one cell is in the test part."""
    from PIL import Image

    folder = tmp_path / "my pictures"
    folder.mkdir()
    lines = ["file,colour,x,split"]
    for colour in range(3):
        for x in range(4):
            if (colour, x) == (0, 1):
                continue
            picture = np.zeros((6, 8, 3), np.uint8)
            picture[2:4, 2 * x : 2 * x + 2, colour] = 255
            Image.fromarray(picture).save(folder / f"{colour}{x}.png")
            lines.append(f"{colour}{x}.png,{'rgb'[colour]},{x},{'test' if (colour, x) == (2, 2) else 'train'}")
    (folder / "labels.csv").write_text("\n".join(lines))
    return folder


def test_own_data_are_compared_on_the_cells_that_exist(pictures):
    own = own_scenes([f"mine={pictures}"])
    given = chosen(suite("mini"), remedies=["mlp", "cnn_stripes"], splits=["range", "data"], own=own)
    assert list(given.scenes) == ["mine"]
    facts = planning.split_facts(given)
    assert facts["mine", "data"]["held_out"] == pytest.approx(1 / 11)
    on_range, _, on_data, stripes = entries(given)
    assert "Single-factor" in stripes.reason
    assert on_range.status is Status.LEFT_OUT  # some trained cells are in the test part only
    assert "test pictures" in on_range.reason
    assert on_data.final(0, 0).task().holdout.n_ood == 1
    assert list(chosen(suite("mini"), scenes=["bump"], own=own).scenes) == ["bump", "mine"]


def test_a_file_can_describe_an_own_scene(tmp_path):
    (tmp_path / "wide.yaml").write_text("scene: {kind: bump, sigma: 2.0, factors: {x: 9, y: 6}}")
    found = own_scenes([str(tmp_path / "wide.yaml")])
    assert built_scene(found["wide"]).space.shape == (9, 6)


def test_names_of_own_scenes_are_safe(pictures, tmp_path):
    for name in ("../../etc", "a/b", "", "x" * 50):
        with pytest.raises(InputError, match="valid name"):
            own_scenes([f"{name}={pictures}"])
    with pytest.raises(InputError, match=r"my pictures.*valid name"):
        own_scenes([str(pictures)])
    with pytest.raises(InputError, match="twice"):
        own_scenes([f"a={pictures}", f"a={pictures}"])
    (tmp_path / "empty.yaml").write_text("decoder: {kind: mlp}")
    with pytest.raises(InputError, match="scene"):
        own_scenes([str(tmp_path / "empty.yaml")])
    (tmp_path / "one.yaml").write_text("scene: {kind: bump, factors: {x: 9}}")
    with pytest.raises(InputError):
        own_scenes([str(tmp_path / "one.yaml")])
    with pytest.raises(InputError, match="nowhere"):
        own_scenes(["nowhere.npz"])
    with pytest.raises(InputError, match="name of a scene of the suite"):
        chosen(suite("mini"), scenes=["bump"], own=own_scenes([f"bump={pictures}"]))


def test_a_file_describes_nothing_but_the_scene(tmp_path):
    (tmp_path / "more.yaml").write_text("scene: {kind: bump, factors: {x: 9, y: 6}}\nholdout: {kind: random}\nseed: 3")
    with pytest.raises(InputError, match=r"`scene` only.*'holdout', 'seed'"):
        own_scenes([str(tmp_path / "more.yaml")])


def test_what_does_not_fit_is_left_out_with_its_reason_and_alone():
    broken = Remedy("broken", {"kind": "no such decoder"})
    REMEDIES.add("broken", broken)
    try:
        scenes = {"shapes": {"kind": "shapes", "factors": {"shape": 4, "x": 9}}}
        given = replace(TINY, scenes=scenes, splits=("random",), chosen=("mlp", "cnn_stripes", "broken"))
        found = {entry.remedy.name: entry for entry in entries(given)}
    finally:
        REMEDIES.remove("broken")
    assert found["mlp"].status is None
    assert found["cnn_stripes"].status is Status.LEFT_OUT
    assert found["broken"].status is Status.FAILED
    assert "no such decoder" in found["broken"].reason


def test_a_bug_of_a_plugin_is_a_failure_and_one_of_ours_stops(monkeypatch):
    given = replace(TINY, chosen=("mlp", "interaction"))
    sized = planning.sized

    def broken(remedy, *more):
        return {}[1] if remedy.name == "mlp" else sized(remedy, *more)

    monkeypatch.setattr(planning, "sized", broken)
    with pytest.raises(KeyError):
        entries(given)
    monkeypatch.setitem(REMEDIES.origin, "mlp", "mine.py")
    first, second = entries(given)
    assert first.status is Status.FAILED
    assert second.status is None


def test_a_remedy_names_its_suites():
    assert suite("mini").remedies == ("cnn", "additive", "cnn_stripes")
    REMEDIES.add("mine", Remedy("mine", {"kind": "mlp"}))
    try:
        assert all("mine" in suite(name).remedies for name in SUITES)
        assert chosen(suite("mini"), remedies=["mlp"]).remedies == ("mlp",)
    finally:
        REMEDIES.remove("mine")
    assert len(suite("full").remedies) == len(REMEDIES)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A whole comparison, in this process; a second call trains nothing."""
    out = tmp_path_factory.mktemp("compare")
    trained: list[str] = []

    def train(configs, store, request):
        result = sweeps.run(configs, store, diagnose=request, engine="in-process", quiet=True)
        trained.extend(result.trained)
        return {failure.run: failure.error for failure in (*result.failed, *result.undiagnosed)}

    first = running.compare(TINY, out, train=train)
    count = len(trained)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "draw", lambda *given: [])  # the figures are drawn already
        again = running.compare(TINY, out, train=train)
    assert len(trained) == count
    assert again.rows == first.rows
    return first


def test_a_comparison_gives_a_row_per_seed(compared):
    assert not compared.failed
    assert len(compared.rows) == 2
    assert {row["status"] for row in compared.rows} == {Status.DONE}
    for row in compared.rows:
        assert set(row) == set(COLUMNS)
        assert 0 <= row["right"] <= 1
        assert row["steps"] == 4
        assert row["parameters"] == pytest.approx(5800, rel=0.1)
        assert 0 < row["held_out"] < 1
    for name in (
        "rows.csv",
        "summary.csv",
        "ranks.csv",
        "published.csv",
        "limits.csv",
        "table.tex",
        "compare.json",
        "figures/heat_map.png",
    ):
        assert (compared.out / name).stat().st_size > 0


def test_galleries_show_truth_and_outputs_of_the_same_unseen_cells(compared):
    store = Store(compared.out / "runs")
    [found] = gallery.galleries(store, compared.rows)
    assert (found.scene, found.split) == ("bump", "random")
    assert [line.name for line in found.lines] == ["mlp", "interaction"]
    run = store.load(compared.rows[0]["run"])
    assert run.holdout.ood_mask.ravel()[found.cells].all()
    diagnosis = run.load_diagnosis(partial=True)
    outputs = diagnosis["outputs"].arrays
    assert np.allclose(found.lines[0].outputs, outputs["output"][found.cells], atol=1e-5)
    assert np.allclose(found.truth, outputs["truth"][found.cells], atol=1e-5)
    assert all(judged is not None for line in found.lines for judged in line.judged)
    assert [any(line.judged) for line in found.lines] == [line.right > 0 for line in found.lines]
    assert compared.out / "figures" / "outputs_bump_random.png" in compared.figures
    assert all(figure.stat().st_size > 0 for figure in compared.figures)


def test_a_gallery_draws_the_same_cells_again_and_at_most_some():
    held = np.arange(40) % 3 == 0
    cells = gallery.drawn(held, 5)
    assert len(cells) == 5
    assert held[cells].all()
    assert np.array_equal(cells, gallery.drawn(held, 5))
    assert np.array_equal(gallery.drawn(held, 99), np.flatnonzero(held))


def test_the_page_shows_all_remedies_and_as_many_cells_as_fit(compared):
    ids, images = [row["run"] for row in compared.rows], 2 * 64  # two models of 8 × 8 pixels
    assert running.shown_on_page(TINY, compared.rows) == (ids, 64)
    assert running.shown_on_page(TINY, compared.rows, 5 * images) == (ids, 5)
    assert running.shown_on_page(TINY, compared.rows, 5 * images - 1) == (ids, 4)
    assert running.shown_on_page(TINY, compared.rows, 0) == (ids, 1)
    later = [{**row, "seed": 1} for row in compared.rows]
    undiagnosed = [{**row, "id_error": None} for row in compared.rows]
    assert running.shown_on_page(TINY, later + undiagnosed) == ([], 0)


def test_a_page_that_is_too_large_gets_fewer_cells_and_then_fewer_models(compared, monkeypatch):
    asked = []

    def build(collected, *, cells, **options):
        asked.append((len(collected.models), cells))
        return SimpleNamespace(megabytes=99.0 if len(asked) < 6 else 1.0, html="page")

    monkeypatch.setattr("recombine.report.page.build", build)
    assert command._page(compared) == compared.out / "page.html"
    assert asked == [(2, 64), (2, 32), (2, 16), (2, 8), (2, 4), (1, 4)]


def plan_of(given, out, **changed):
    place.claim(out, replace(given, **changed))


def test_a_folder_is_for_one_comparison(compared, tmp_path):
    """More remedies, splits, scenes and seeds may be added to it. Everything else would lose rows."""
    main = compared.out / "compare.json"
    before = main.read_bytes()
    plan_of(TINY, compared.out, chosen=("mlp", "interaction", "cnn"), seeds=2, splits=("random", "comb"))
    for changed, name in (
        ({"chosen": ("mlp",)}, "interaction"),
        ({"splits": ("comb",)}, "random"),
        ({"budget": Budget(5800, 5, 4, 2)}, "budget"),
        ({"name": "small"}, "suite"),
        ({"scenes": {"bump": {"kind": "bump", "factors": {"x": 9, "y": 9}}}}, "bump"),
    ):
        with pytest.raises(InputError, match=f"another comparison.*{name}"):
            plan_of(TINY, compared.out, **changed)
    assert main.read_bytes() == before
    with pytest.raises(InputError, match="another comparison"):
        running.plan(replace(TINY, chosen=("mlp",)), compared.out, workers=1)
    with pytest.raises(InputError, match="Nothing can be compared"):
        running.plan(replace(TINY, chosen=("mlp",), splits=("element",)), tmp_path / "new", workers=1)
    assert not (tmp_path / "new").exists()
    plan_of(TINY, tmp_path / "new", seeds=2)
    plan_of(TINY, tmp_path / "new")  # nothing is lost without rows
    assert json.loads((tmp_path / "new" / "compare.json").read_text())["seeds"] == 1
    (tmp_path / "new" / "rows.csv").touch()
    plan_of(TINY, tmp_path / "new", seeds=2)
    (tmp_path / "new" / "compare.json").write_text(json.dumps(place.identity(replace(TINY, seeds=2))))
    with pytest.raises(InputError, match="2 seeds"):
        plan_of(TINY, tmp_path / "new")


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "recombine-sweep-1"}'])
def test_a_folder_with_something_else_is_refused(text, tmp_path):
    (tmp_path / "compare.json").write_text(text)
    with pytest.raises(InputError, match=r"compare\.json is not the file of a comparison"):
        plan_of(TINY, tmp_path)
    (tmp_path / "compare.json").rename(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="does not contain a comparison"):
        plan_of(TINY, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_damaged_and_wrong_places_are_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        place.check(tmp_path / "file", TINY)
    for name, value in (("remedies", None), ("seeds", "3"), ("scenes", [])):
        (tmp_path / "compare.json").write_text(json.dumps({**place.identity(TINY), name: value}))
        with pytest.raises(InputError, match="damaged"):
            place.check(tmp_path, TINY)


def test_a_comparison_of_constant_models_only_is_drawn(compared, tmp_path):
    rows = [{**row, "id_error": None, "ood_error": None, "right": 0.0} for row in compared.rows]
    drawn = running.draw(Store(compared.out / "runs"), tmp_path, rows, ranks(rows))
    assert {path.stem for path in drawn} == {"heat_map", "cost", "ranks", "outputs_bump_random"}
    figures.errors([{**row, "id_error": 0.0, "ood_error": 0.0} for row in compared.rows])


def test_a_comparison_of_nothing_is_an_error(tmp_path):
    shapes = {"shapes": {"kind": "shapes", "factors": {"shape": 4, "x": 9}}}
    given = replace(TINY, scenes=shapes, chosen=("cnn_stripes",))
    with pytest.raises(InputError, match=r"Nothing can be compared.*cnn_stripes on shapes"):
        running.compare(given, tmp_path / "out", train=lambda *more: {})
    assert not (tmp_path / "out").exists()


def test_published_claims_are_not_about_own_scenes():
    small = suite("small")
    own = replace(small, scenes={**small.scenes, "mine": {"kind": "bump"}, "bump": {"kind": "bump"}})
    given = [{"scene": scene} for scene in ("bump", "balls", "mine")]
    assert running.of_the_suite(small, given[:2]) == given[:2]
    assert running.of_the_suite(own, given) == [given[1]]


def test_a_comparison_is_published_with_a_page(compared, tmp_path):
    publish(compared.out, tmp_path / "small")
    text = (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    for row in compared.rows:
        share = f"{row['right']:.2f}"
        assert any(line.startswith(f"| {row['remedy']} |") and share in line for line in text.splitlines())
    assert {row["verdict"] for row in compared.rows} == {VerdictKind.NOT_LEARNT}  # after four steps
    assert all(
        "°" in line for line in text.splitlines() if line.startswith(("| mlp", "| interaction")) and "0." in line
    )
    for figure in (*FIGURES, "outputs_bump_random"):
        assert f"(figures/{figure}.png)" in text
        assert (tmp_path / "small" / "figures" / f"{figure}.png").is_file()
    assert not (tmp_path / "small" / "runs").exists()


def test_sums_reach_what_the_composition_of_a_scene_allows():
    small = chosen(suite("small"), scenes=["bump", "balls", "sprites"], splits=["range", "random"])
    found = {(row["scene"], row["split"]): row for row in limits(small, planning.split_facts(small))}
    assert [found["bump", split]["sum_right"] for split in ("range", "random")] == [0, 0]
    assert [found["balls", split]["sum_right"] for split in ("range", "random")] == [1, 1]
    assert found["balls", "range"]["sum_ood_error"] < 1e-12
    assert 0 < found["sprites", "random"]["sum_right"] < 1  # correct where the objects do not overlap
    assert found["bump", "range"]["pixel_coverage"] < 0.6
    assert found["bump", "range"]["cp_rank"] == 1


def test_terms_of_a_sum_are_objects_with_all_their_factors():
    """Two objects of two factors each that never hide one another are exactly a sum, although no sum over factors."""
    place = {"kind": "discrete", "size": 3, "low": 2.0, "step": 1.0}
    away = {**place, "low": 12.0}
    given = {"kind": "balls", "rows": 16, "columns": 8, "ground": "black", "diameter": 3.0,
             "factors": {"x1": place, "y1": place, "x2": place, "y2": away}}  # fmt: skip
    scene = built_scene(given)
    held = HOLDOUTS.build({"kind": "random", "fraction": 0.2, "seed": 0}, scene.space)
    values = scene.space.values(held.ood_cells)
    labels = torch.from_numpy(np.stack(np.unravel_index(held.ood_cells.numpy(), scene.space.shape), 1))
    blocks = slots_of(scene)
    assert blocks is not None
    assert blocks == [[0, 1], [2, 3]]
    assert torch.allclose(best_sum(scene, held, blocks)(labels), scene(values), atol=1e-6)
    assert not torch.allclose(best_sum(scene, held, [[0], [1], [2], [3]])(labels), scene(values), atol=0.05)


def test_trials_are_judged_on_inner_cells_only(compared):
    entry = next(e for e in entries(TINY) if e.remedy.name == "mlp")
    store = Store(compared.out / "runs")
    assert entry.base is not None
    trial, outer = entry.trials[0], entry.base["holdout"]
    scores = store.load(trial.hash).scores
    held = HOLDOUTS.build(outer, scores.holdout.space).ood_mask.ravel()
    assert not (held & scores.holdout.id_mask.ravel()).any()  # a trial never trains on reported cells
    inner = scores.holdout.ood_mask.ravel() & ~held
    assert inner_error(store, trial, outer) == pytest.approx(float(np.mean(scores.columns["mse"][inner])))
    missing = replace(trial, seed=99)
    assert inner_error(store, missing, outer) == math.inf


def test_a_model_that_ignores_its_code_counts_as_wrong_everywhere(compared):
    run = Store(compared.out / "runs").load(compared.rows[0]["run"])
    assert results._constant(run) is None
    for parameter in run.model.parameters():
        parameter.data.zero_()
    found = results._constant(run)
    assert found is not None
    assert found["right"] == 0
    assert found["verdict"] == VerdictKind.NOT_LEARNT


def test_a_model_that_ignores_its_code_is_in_the_gallery_and_is_no_failure(compared, monkeypatch):
    store, row = Store(compared.out / "runs"), compared.rows[0]
    config = store.load(row["run"]).config
    assert can_be_diagnosed(store, config)
    assert not can_be_diagnosed(store, replace(config, seed=99))
    constant = {**row, "right": 0.0, "id_error": None, "ood_error": None}
    [found] = gallery.galleries(store, [constant])
    assert set(found.lines[0].judged) == {False}
    monkeypatch.setattr(results, "_constant", lambda run: {"right": 0.0})
    assert not can_be_diagnosed(store, config)


def test_pictures_count_all_distinct_examples(tmp_path):
    [entry] = entries(replace(TINY, chosen=("cnn_stripes",)))
    config, store = entry.final(0, 0), Store(tmp_path / "runs")
    sweeps.run([config], store, diagnose=running.REQUEST, engine="in-process", quiet=True)
    row = results.row_of(store, entry, 0, 0, {}, {})
    assert row["pictures"] == config.task().holdout.n_id + 8 + 8


def rows_of(shares):
    common = {"block": "equal budget", "control": None, "status": "done", "seconds": 1.0, "id_error": 0.1}
    common |= {"ood_error": 0.2, "verdict": "composes", "failing": "", "parameters": 1, "steps": 1, "reason": None}
    common |= {"right_trained": 1.0, "memory_mb": 1.0}
    return [
        {**common, "remedy": remedy, "scene": scene, "split": "random", "seed": seed, "right": share}
        for (remedy, scene, seed), share in shares.items()
    ]


def test_ranks_share_ties_and_skip_what_is_left_out():
    rows = rows_of({("a", "s", 0): 1.0, ("b", "s", 0): 0.5, ("c", "s", 0): 0.5, ("a", "t", 0): 0.0, ("b", "t", 0): 0.3})
    found = {row["remedy"]: row["mean_rank"] for row in ranks(rows)}
    assert found == {"a": 1.5, "b": (2.5 + 1) / 2, "c": 2.5}


def test_intervals_of_ranks_are_students():
    rows = rows_of({(r, "s", seed): share for r, shares in (("a", (1, 1, 0)), ("b", (0.5, 0, 1)))
                    for seed, share in enumerate(shares)})  # fmt: skip
    expected = stats.ttest_1samp([1, 1, 2], 0).confidence_interval(0.95)
    [first, _] = ranks(rows)
    assert (first["remedy"], first["seeds"]) == ("a", 3)
    assert (first["low"], first["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    [alone] = ranks(rows_of({("a", "s", 0): 1.0}))
    assert (alone["low"], alone["high"]) == (None, None)


def test_tables_and_figures_show_means_and_gaps():
    rows = rows_of({("a_1", "s", 0): 1.0, ("a_1", "s", 1): 0.5, ("b", "t", 0): 0.3})
    text = tables.latex(rows)
    assert r"a\_1 & \textbf{0.75} & -- \\" in text
    found = {(row["remedy"], row["scene"]): row for row in tables.summary(rows)}
    assert found["a_1", "s"]["right"] == 0.75
    assert found["a_1", "s"]["verdicts"] == "composes 2"
    assert found["a_1", "s"]["learnt"] == 1
    assert found["a_1", "s"]["ood_over_id"] == pytest.approx(2)
    [first, second] = tables.shares(rows)
    assert (first["s, random"], first["t, random"], second["t, random"]) == (0.75, None, 0.3)
    axes = figures.heat_map(rows).axes[0]
    assert {text.get_text() for text in axes.texts} == {"0.75", "–", "0.30"}
    rows[-1] |= {"verdict": "not learnt", "block": "own budget"}
    text = tables.latex(rows)
    assert r"b & -- & \textbf{0.30}$^\circ$ \\" in text
    assert r"\multicolumn{3}{l}{\emph{own budget}}" in text
    assert "0.30°" in {text.get_text() for text in figures.heat_map(rows).axes[0].texts}
    figures.errors(rows)
    figures.cost(rows)


def test_settings_are_merged_deeply():
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 5}}) == {"a": {"b": 5, "c": 2}, "d": 3}


@pytest.mark.parametrize("seeds", [0, 10**8])
def test_the_number_of_seeds_is_limited(seeds):
    with pytest.raises(InputError, match="between 1 and 200"):
        chosen(suite("mini"), seeds=seeds)


def test_unknown_names_are_explained():
    for option, given, name in (("remedies", "cn", "cnn"), ("scenes", "bumb", "bump"), ("splits", "com", "comb")):
        options: dict[str, Any] = {option: [given]}
        with pytest.raises(InputError, match=f"did you mean '{name}'"):
            chosen(suite("small"), **options)
