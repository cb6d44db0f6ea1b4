"""The page's content before any browser opens it: sizes, groups, charts, claims, commands."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recombine as rc
from recombine.core.errors import InputError, StoreError
from recombine.diagnostics.part import PARTS
from recombine.diagnostics.verdict import VerdictKind
from recombine.report.arrays import Blobs
from recombine.report.claims import claims_json
from recombine.report.collect import Collected, Model, Table, collect
from recombine.report.curves import layer_curves, score_scatter, threshold_points
from recombine.report.explorer import Group, drawn, group_json, grouped
from recombine.report.facts import overrides, train_command
from recombine.report.labels import LONGEST, distinct_names, groups_of, names_of, under_given_names
from recombine.report.page import build, check_target, script, write_report
from recombine.runs.config import RunConfig


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_seeds_of_a_configuration_have_a_common_verdict(store):
    [common] = data_of(build(collect([str(store.root)]), units=0, kernel=False).html)["over_seeds"]
    assert "2 runs" in common["explanation"]
    assert common["kind"] in list(VerdictKind)


def test_a_part_with_numbers_that_do_not_fit_is_missing_and_the_rest_is_shown(runs):
    """A diagnosis that someone else prepared: cells outside the grid, classes that do not exist."""
    found = runs[0].diagnosis
    part = found["superposition"]
    for wrong in ({"cell": 10**6}, {"class": "<img>"}):
        rows = [{**row, **wrong} for row in part.table("classes")]
        bad = replace(part, tables={**part.tables, "classes": rows})
        foreign = replace(found, parts={**found.parts, "superposition": bad})
        [group] = data_of(build(Collected(models=[Model("foreign", foreign)]), units=0, kernel=False).html)["groups"]
        [model] = group["models"]
        assert "superposition" in model["missing"]
        assert model["output"] is not None


def test_the_page_is_complete_and_asks_for_nothing(report):
    html = report.read_text(encoding="utf-8")
    assert html.count("<script>") == 1
    assert not re.search(r'(?:src|href)="(?!#)', html.split('type="application/json"')[0])
    assert "<!--" not in html.split('id="data"')[0]
    assert "Content-Security-Policy" in html
    assert "default-src 'none'" in html


def test_every_script_is_part_of_the_page():
    from importlib.resources import files

    folder = Path(str(files("recombine.report") / "static"))
    for path in folder.rglob("*.js"):
        assert path.read_text(encoding="utf-8") in script(), path.name


def test_a_parts_tables_are_on_the_page_with_the_meaning_of_their_columns(runs):
    [group] = data_of(build(collect([runs[0].path])).html)["groups"]
    tables = {table["name"]: table for table in group["models"][0]["tables"]}
    found = tables["geometry: layers"]
    rows = runs[0].diagnosis["geometry"].table("layers")
    assert found["of"] == len(rows)
    assert found["rows"][0][found["columns"].index("layer")] == rows[0]["layer"]
    assert all(found["meanings"])


def test_sizes_add_up_and_too_large_a_page_says_what_to_drop(runs, tmp_path):
    collected = collect([run.path for run in runs])
    page = build(collected)
    assert sum(page.sizes.values()) == len(page.html.encode())
    path = tmp_path / "page.html"
    with pytest.raises(InputError, match=r"exceeds --max-mb 0\.1(.|\n)*--no-kernel saves(.|\n)*--units 0 saves"):
        write_report(collected, path, max_mb=0.1)
    assert not path.exists()
    small = build(collected, kernel=False, units=0)
    assert small.megabytes < page.megabytes
    assert not any(block.kind in ("kernels", "tuning") for block in small.sizes)


def test_an_output_that_cannot_be_written(runs, tmp_path):
    collected = collect([runs[0].path])
    with pytest.raises(InputError, match="is a folder"):
        write_report(collected, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Could not write"):
        write_report(collected, tmp_path / "file" / "page.html")
    with pytest.raises(StoreError, match="file is a file, not a folder"):
        check_target(tmp_path / "file" / "more" / "page.html")
    check_target(tmp_path / "new" / "page.html")


def test_models_of_stores_are_limited_one_seed_each_first(store):
    page = build(collect([store.root]), models=2)
    shown = [m["name"] for group in data_of(page.html)["groups"] for m in group["models"]]
    assert len(shown) == 2
    assert len({("single factor" in name) for name in shown}) == 2  # two configurations, not two seeds of one
    assert "shows 2 of 3 models" in page.notes[0]


def test_groups_by_space_holdout_and_truth(runs):
    first, second = (run.diagnosis for run in runs)
    space = rc.FactorSpace(x=4, y=4)
    other = rc.diagnose(lambda v: v, space, holdout=rc.holdouts.centre(space, 1, 2), parts=["outputs"], progress=False)
    models = [Model(str(i), d) for i, d in enumerate([other, first, second, other])]
    assert [[m.name for m in g.models] for g in grouped(models)] == [["0", "3"], ["1", "2"]]
    assert grouped(models)[0].truth is None
    assert grouped(models)[1].start_among(None) == [3, 3]
    shifted = rc.diagnose(lambda v: v, space, holdout=rc.holdouts.corner(space, 2), parts=["outputs"], progress=False)
    titles = [g["title"] for g in data_of(build(Collected(models=[models[0], Model("c", shifted)])).html)["groups"]]
    assert titles == [f"x 4 × y 4, 4 of 16 combinations held out: {name}" for name in ("0", "c")]


def test_a_draw_of_cells_contains_held_out_ones_first(runs):
    diagnosis = runs[0].diagnosis
    [group] = grouped([Model("a", diagnosis)])
    held = diagnosis.held_out
    for most, trained in ((5, 0), (held.sum(), 0), (held.sum() + 3, 3)):
        chosen = drawn(group, most)
        assert chosen is not None
        assert chosen.sum() == most
        assert (chosen & ~held).sum() == trained
        assert np.array_equal(chosen, drawn(group, most))
        assert chosen[np.ravel_multi_index(group.start_among(chosen), group.space.shape)]
    assert drawn(group, None) is drawn(group, len(group.space)) is None


def test_a_page_with_a_draw_of_cells_is_smaller(runs):
    collected = Collected(models=[Model("a", runs[0].diagnosis)])
    whole, part = (build(collected, cells=cells).sizes for cells in (None, 5))
    sizes = [{block.kind: size for block, size in found.items()} for found in (whole, part)]
    assert sizes[1]["outputs"] < 0.3 * sizes[0]["outputs"]
    assert sizes[1]["truth"] < sizes[0]["truth"]


def test_curves_have_intervals_over_seeds(store, runs):
    charts = {c["quantity"]: c for c in layer_curves(collect([store.root]).models, [])}
    assert {"factorization", "probe_in_sample", "log_volume"} <= set(charts)
    series = {s["name"]: s["points"] for s in charts["factorization"]["series"]}
    [two] = [points for points in series.values() if points[0]["seeds"] == 2]
    [one] = [points for points in series.values() if points[0]["seeds"] == 1]
    assert all(p["low"] <= p["mean"] <= p["high"] for p in two)
    assert all(p["low"] is None for p in one)
    rows = [r for r in runs[1].diagnosis["geometry"].rows if r["cells"] == "all" and r["pair"] == "all"]
    assert [p["mean"] for p in one] == pytest.approx([r["factorization_pointwise"] for r in rows])
    assert [p["layer"] for p in one] == list(runs[1].diagnosis.layers)


def test_tables_become_curves_and_points():
    rows = [{"encoding": e, "seed": s, "layer": float(i), "probe_ridge_ood": i / 10 + s, "unknown": 1.0}
            for e in "ab" for s in (0.0, 1.0) for i in range(3)]  # fmt: skip
    [chart] = layer_curves([], [Table("t", rows)])
    assert chart["quantity"] == "probe_ridge_ood"
    assert chart["title"] == PARTS["probes"].layer_columns["probe_ridge_ood"].heading
    assert [s["name"] for s in chart["series"]] == ["a", "b"]
    assert [p["mean"] for p in chart["series"][0]["points"]] == pytest.approx([0.5, 0.6, 0.7])
    row = {"variant": "both", "run": "ab", "seed": 1.0, "id_mse": 1e-5, "ood_mse": 1e-4, "id_l1": 0.0, "ood_l1": 2.0}
    found = score_scatter([], [Table("ablation", [row, {**row, "id_mse": 0.0, "ood_l1": None}])])
    assert [metric["name"] for metric in found["metrics"]] == ["mse", "l1"]
    assert [metric["log"] for metric in found["metrics"]] == [True, False]
    assert found["points"] == [
        {"series": "both", "run": "ab", "seed": 1.0, "values": {"mse": [1e-5, 1e-4], "l1": [0.0, 2.0]}}
    ]
    assert score_scatter([], [Table("nothing", [{"seed": 1.0}])]) == {}


def test_rows_of_a_reproduction_are_understood():
    row = {"code": "bump", "depth": 2.0, "seed": 0.0, "run": "ab", "layer": 0.0, "name": "in", "kind": "in",
           "probe_id_to_ood": 0.5, "log_volume": -0.75}  # fmt: skip
    rows = [row, {**row, "layer": 1.0, "name": "layers.1.act", "kind": "hidden"}]
    charts = layer_curves([], [Table("layers", rows), Table("depths", [{"decoder": "cnn", **r} for r in rows])])
    assert {chart["quantity"] for chart in charts} == {"probe_id_to_ood", "log_volume"}
    for chart in charts:
        [series] = chart["series"]  # the layer's name is no series, and the same run counts once
        assert series["name"] == "bump, depth 2"
        mean = row[chart["quantity"]]
        assert [(p["mean"], p["seeds"]) for p in series["points"]] == [(mean, 1), (mean, 1)]
    needed = {"kind": "bumps", "side": 16.0, "seed": 0.0, "reached": "True", "bumps": 64.0, "examples": 70.0}
    [point] = threshold_points([Table("scaling-thresholds", [needed, {**needed, "reached": "False"}])])
    assert (point["series"], point["samples"]) == ("bumps", 70.0)
    assert threshold_points([Table("scaling-tried", [{"side": 16.0, "bumps": 1.0, "ood_localization": 0.0}])]) == []


def test_many_runs_are_grouped_by_what_can_be_read():
    configs = [RunConfig.parse([f"decoder.depth={d}", f"training.steps={s}", f"scene.sigma={s}.5"]).to_dict()
               for d in range(2, 6) for s in range(1, 6)]  # fmt: skip
    assert set(groups_of(configs)) == {f"cnn({d}, 64), bump code" for d in range(2, 6)}
    assert set(groups_of(configs, most=2)) == {"cnn, bump code"}
    assert len(set(groups_of(configs[:5]))) == 5


def test_claims_find_their_figures():
    picture = b"\x89PNG\r\n\x1a\nIEND\xaeB`\x82"
    names = ["R05_a.png", "R5_b.png", "R15_c.png", "own.png"]
    figures = {("here", name): picture for name in names} | {("here", "R1_x.png"): b"no"}
    claims = [
        {"claim": "C5", "results": ["R5"]},
        {"claim": "C1", "figure": "figures/own.png"},
        {"claim": "new", "results": "R15"},
    ]
    found, notes = claims_json([("here", {"claims": claims}), ("there", "text")], figures, Blobs())
    assert [row["figures"] for row in found["rows"]] == [["R05_a.png", "R5_b.png"], ["own.png"], ["R15_c.png"]]
    assert found["others"] == []
    assert len(notes) == 2


def test_a_claim_shows_figures_of_its_own_study_only():
    picture = b"\x89PNG\r\n\x1a\n%sIEND\xaeB`\x82"
    figures = {(folder, "R05.png"): picture % folder.encode() for folder in ("one", "two")}
    found, _ = claims_json(
        [(s, [{"claim": "C5", "results": ["R5"]}]) for s in ("one", "two", "three")], figures, Blobs()
    )
    assert [row["figures"] for row in found["rows"]] == [["one/R05.png"], ["two/R05.png"], []]
    assert len(set(found["figures"].values())) == 2


CYCLIC = '{"y": 9, "x": {"kind": "cyclic", "size": 8, "low": 0.0, "step": 45.0}}'
RENDERED = ["decoder.kind=rendered", "encoding.kind=onehot", "training.kind=low_rank"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["seed=3"],
        ["decoder.kind=mlp", "decoder.depth=5", "training.examples.single_factor={}"],
        ["training.examples.cells.count=3", "training.examples.single_factor.repeats=2", "training.loss.kind=l1"],
        ["training.examples.cells=null", 'training.examples.few={"kind":"cells","count":3}'],
        [f"scene.factors={CYCLIC}", "holdout.lo=2"],
        [*RENDERED, 'training.terms={"entropy": {"weight": 0.1}}'],
    ],
)
def test_the_command_of_a_run_makes_the_same_run(words):
    config = RunConfig.parse(words)
    assert RunConfig.parse(overrides(config)).hash == config.hash


def test_the_command_is_one_for_a_shell(runs):
    words = shlex.split(train_command(runs[1]))
    assert words[:2] == ["recombine", "train"]
    assert RunConfig.parse(words[2:]).hash == runs[1].id


def test_names_say_how_runs_differ():
    base = RunConfig.parse([]).to_dict()
    deep = RunConfig.parse(["decoder.depth=6", "holdout.kind=corner", "seed=2"]).to_dict()
    assert names_of([base]) == ["cnn(4, 64), bump code"]
    first, second = names_of([base, deep])
    assert second.startswith("cnn(6, 64), bump code")
    assert "corner holdout" in second
    assert "seed 2" in second
    assert "seed 0" in first
    holdouts = names_of([RunConfig.parse([f"holdout.lo={lo}"]).to_dict() for lo in (2, 3)])
    assert holdouts == [f"cnn(4, 64), bump code, holdout lo {lo}" for lo in (2, 3)]


def test_names_of_a_mixed_store_are_short_and_distinct():
    """Runs over different scenes, spaces and hold-outs: no name is cut off, no two are alike, none is JSON."""
    mixed = [
        RunConfig.parse([f"scene.factors.x={size}", f"holdout.kind={kind}", f"decoder.kind={decoder}", f"seed={seed}",
                         f"training.examples.single_factor={stripes}", f"training.batch={size}",
                         f"scene.sigma={size / 10}", f"training.learning_rate={size / 1000}",
                         f"training.steps={size}"]).to_dict()
        for size in (16, 20) for kind in ("centre", "corner") for decoder in ("cnn", "mlp")
        for stripes in ("{}", "null") for seed in (0, 1)
    ]  # fmt: skip
    assert any(len(name) > LONGEST for name in names_of(mixed))
    names = distinct_names(mixed, [f"{i:016x}"[::-1] for i in range(len(mixed))])
    assert len(set(names)) == len(mixed)
    assert not [name for name in names if len(name) > LONGEST or set(name) & set('{}[]"')]
    assert len(set(distinct_names([mixed[0], mixed[0]], ["a", "b"]))) == 1


def test_a_given_name_reaches_curves_scatter_and_runs(store, runs):
    data = data_of(build(collect([f"my name={runs[0].path}", store.root])).html)
    assert len(data["runs"]) == 3
    assert [run["name"] for run in data["runs"] if run["run"] == runs[0].id] == ["my name"]
    assert [point["series"] for point in data["curves"]["scatter"]["points"] if point["run"] == runs[0].id] == [
        "my name"
    ]
    series = {s["name"]: s["points"] for s in data["curves"]["layers"][0]["series"]}
    assert [point["seeds"] for point in series["my name"]] == [2] * len(series["my name"])
    assert set(series) == {"my name", "mlp(3, 16), bump code, single factor"}
    assert under_given_names(["a", "a", "b", "b"], ["one", None, "two", "three"]) == ["one", "one", "b", "b"]


def test_the_page_learns_where_row_0_is(runs):
    space = rc.FactorSpace(a=5)
    found = rc.diagnose(lambda v: np.sin(1) * v, space, parts=["outputs"], progress=False)
    upward = replace(found, facts=found.facts | {"row_0": "bottom"})
    groups = [group_json(Group([Model("m", d)]), Blobs()) for d in (found, upward, runs[0].diagnosis)]
    assert [group["row_0"] for group in groups] == ["top", "bottom", "bottom"]  # a scene of bumps says so


def test_a_foreign_model_of_numbers_is_shown():
    space = rc.FactorSpace(a=5)
    found = rc.diagnose(lambda v: np.sin(1) * v, space, parts=["outputs", "geometry", "probes"], progress=False)
    group = data_of(build(Collected(models=[Model("sine", found)])).html)["groups"][0]
    assert group["models"][0]["output"]["shape"] == [5, 1]
    assert group["truth"] is None
    assert group["title"] == "a 5, no hold-out"
