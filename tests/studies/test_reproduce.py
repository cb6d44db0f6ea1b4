"""`recombine reproduce` with tiny models: every study from runs to figures and verdicts, and what can go wrong."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.core.errors import InputError, Missing, NotComputable, StoreError, TrainingDiverged
from recombine.runs.store import Store
from recombine.studies.framework.edition_2 import CLAIMS
from recombine.studies.framework.output import Output
from recombine.studies.framework.preparing import Preparation, SweepOptions
from recombine.studies.framework.profiles import PROFILES
from recombine.studies.framework.reproduce import check_training_code, judged, listed, reasons
from recombine.studies.framework.study import STUDIES as ADDED
from recombine.studies.framework.study import Runs, discover, select, undiagnosed

STUDIES = discover()
SEEDS = [100, 101]
SAMPLE = ("landscapes", "superpositions", "inverse")  # a study with claims, one that reads its runs, a side result
SOME_ARE_LONG = [pytest.param(key, marks=() if key in SAMPLE else pytest.mark.long) for key in STUDIES]


def call(*words: str, out: Path):
    return CliRunner().invoke(
        app, ["reproduce", *words, "--profile", "smoke", "--engine", "in-process", "--out", str(out)]
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """One folder for all studies, so that they share their runs; a reproduction's whichever test is the first."""
    folder = tmp_path_factory.mktemp("reproduce") / "out"
    Output(folder, "smoke").write_about({})
    return folder


@pytest.mark.parametrize("key", SOME_ARE_LONG)
def test_a_study_runs_and_draws_and_judges_from_saved_rows(key, out, tmp_path):
    study = STUDIES[key]
    done = call(key, "--json", out=out)
    report = json.loads(done.stdout)
    assert done.exit_code == bool(report["failed"]), done.output
    drawn = {Path(path).name for path in report["figures"]}
    for result in study.results:
        for ending in ("png", "pdf"):
            assert any(re.match(rf"{result[0]}{int(result[1:]):02d}_.*\.{ending}$", name) for name in drawn), result
    assert all((out / "figures" / name).stat().st_size > 1000 for name in drawn)
    assert [row["claim"] for row in report["claims"]] == list(study.claims)
    moved = tmp_path / "rows only"  # no store in it
    shutil.copytree(out, moved, ignore=shutil.ignore_patterns("runs", "figures"))
    part = Output(moved, "smoke").load(key)
    assert report["failed"] == reasons(undiagnosed(part))  # few steps leave some images black
    assert {f"{name}.png" for name in study.plot(part)} == {name for name in drawn if name.endswith("png")}
    declared = {f"{claim}.{asked.name}" for claim in study.claims for asked in CLAIMS[claim].parts}
    assert set(study.effects(part)) <= declared
    saved = {row["claim"]: row for row in json.loads((out / "claims.json").read_text())}
    for verdict in judged(study, part, SEEDS, listed(reasons(part.missing)), listed(reasons(undiagnosed(part)))):
        assert saved[verdict["claim"]] == {**verdict, "study": key, "results": list(study.results), "profile": "smoke"}


@pytest.mark.parametrize("key", SOME_ARE_LONG)
def test_a_study_goes_on_without_the_runs_that_failed(key, out):
    study, profile = STUDIES[key], PROFILES["smoke"]
    Preparation(Store(out / "runs"), SweepOptions("in-process")).runs_of(study, profile, SEEDS)
    configs = study.configs(profile, SEEDS)
    failed = {config.hash: "it diverged" for i, config in enumerate(configs) if i % 2}
    part = study.rows(Runs(Store(out / "runs"), failed), profile, SEEDS)
    if any(part.tables.values()):
        assert study.plot(part)
    for verdict in judged(study, part, SEEDS):
        assert verdict["verdict"] in ("inconclusive", "not reproduced")
    nothing = study.rows(Runs(Store(out / "runs"), {config.hash: "no" for config in configs}), profile, SEEDS)
    assert all(verdict["verdict"] == "inconclusive" for verdict in judged(study, nothing, SEEDS))


def test_a_study_of_a_plug_in_cannot_replace_a_built_in_one():
    with pytest.raises(InputError, match="built in"):
        ADDED.add("inverse", STUDIES["inverse"])
    assert "inverse" not in ADDED


def test_a_second_call_trains_computes_and_draws_nothing(out):
    call("R1", out=out)
    files = [path for path in out.rglob("*") if path.suffix in (".csv", ".png", ".pdf", ".safetensors")]
    before = {path: path.stat().st_mtime_ns for path in files}
    again = call("C1", out=out)
    assert again.exit_code == 0
    assert "to train" not in again.output
    assert {path: path.stat().st_mtime_ns for path in files} == before
    about = json.loads((out / "reproduce.json").read_text())
    assert about["profile"] == "smoke"
    assert {"versions", "hardware", "command", "seeds"} <= set(about["calls"][-1])


def test_every_call_is_on_record_and_what_is_not_the_whole_profile_is_called_partial(tmp_path):
    done = json.loads(call("S3", "--json", "--seeds", "1", out=tmp_path).stdout)
    assert done["lacking"]["code_widths"] == "1 of 2 seeds"
    assert done["lacking"]["landscapes"] == "no rows"
    assert json.loads((tmp_path / "reproduce.json").read_text())["lacking"] == done["lacking"]
    again = call("S3", "--seeds", "1", out=tmp_path)
    [first, second] = json.loads((tmp_path / "reproduce.json").read_text())["calls"]
    assert first["trained"] == len(list((tmp_path / "runs").glob("*/run.json"))) > 0
    assert second["trained"] == 0
    assert first["started"] <= first["ended"] <= second["started"]
    assert first["seconds"] == done["total_seconds"] >= first["studies"]["code_widths"] > 0
    assert re.search(r"Took \d+\.\d minutes", again.output)
    assert "Partial" in again.output


def test_rows_that_were_changed_are_computed_again(out):
    call("S3", out=out)
    table = out / "tables" / "code_widths-scores.csv"
    kept = table.read_bytes()
    table.write_bytes(kept.replace(b"1", b"2", 1))
    assert call("S3", out=out).exit_code == 0
    assert table.read_bytes() == kept


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are the business of other tests."""
    monkeypatch.setattr(Output, "draw", lambda *given: [])


@pytest.mark.parametrize("key", ["superpositions", pytest.param("scaling", marks=pytest.mark.long)])
def test_damaged_runs_are_trained_again(key, out, tmp_path, undrawn):
    call(key, out=out)
    mine = tmp_path / "out"
    shutil.copytree(out, mine, ignore=shutil.ignore_patterns("figures"))
    names = ("model/model.safetensors", "run.json", "config.json")
    chosen = dict(zip(names, sorted(json.loads((mine / "tables" / f"{key}.json").read_text())["runs"])))
    weights = mine / "runs" / chosen[names[0]] / names[0]
    whole = weights.read_bytes()
    for name, run in chosen.items():
        damaged(mine / "runs" / run / name)
    shutil.rmtree(mine / "tables")
    assert call(key, "--dry-run", out=mine).exit_code == 0
    done = call(key, "--json", out=mine)
    assert done.exit_code == 0, done.output
    assert all(f"{run} is damaged" in done.stderr for run in chosen.values()), done.stderr
    assert json.loads(done.stdout)["failed"] == {}
    assert weights.read_bytes() == whole
    assert "is damaged" not in call(key, out=mine).output


def test_a_missing_run_is_named_and_trained_again(out, tmp_path, undrawn):
    key = "code_widths"
    call(key, out=out)
    mine = tmp_path / "out"
    shutil.copytree(out, mine, ignore=shutil.ignore_patterns("figures"))
    rows = (mine / "tables" / f"{key}-scores.csv").read_bytes()
    gone = sorted(json.loads((mine / "tables" / f"{key}.json").read_text())["runs"])[0]
    shutil.rmtree(mine / "runs" / gone)
    done = call(key, "--json", out=mine)
    assert done.exit_code == 0, done.output
    assert f"missing: runs {gone}." in done.stderr
    assert (mine / "runs" / gone / "run.json").is_file()
    assert (mine / "tables" / f"{key}-scores.csv").read_bytes() == rows
    assert "Training again" not in call(key, out=mine).output


@pytest.mark.parametrize(
    ("key", "name"),
    [("S3", "tables/code_widths.json"), ("S3", "figures/code_widths.json"), ("R1", "claims.json")],
)
def test_a_damaged_file_of_the_output_is_made_again(key, name, out):
    call(key, out=out)
    whole = json.loads((out / name).read_text())
    damaged(out / name)
    done = call(key, out=out)
    assert done.exit_code == 0, done.output
    found = json.loads((out / name).read_text())
    assert found == whole or (name == "claims.json" and [row["claim"] for row in found] == ["C1"])


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("reproduce.json", '{"format": "recombine-reproduce-2", "profile": "smoke", "calls": null}', 2),
        ("reproduce.json", '{"format": "recombine-reproduce-2", "profile": "smoke", "calls": [3]}', 2),
        ("tables/code_widths.json", "[]", 0),
        ("tables/other.json", '{"seeds": [null, Infinity]}', 0),
        ("figures/code_widths.json", '{"files": 3}', 0),
        ("claims.json", '[{"claim": []}, {"claim": "C' + 5000 * "1" + '"}, 3]', 0),
    ],
)
def test_hostile_files_of_the_output_are_refused_or_made_again(name, content, code, out, tmp_path):
    call("S3", out=out)
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    (mine / name).write_text(content)
    done = call("S3", out=mine)
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("name", ["tables", "arrays", "figures", "tables/code_widths.json", "reproduce.json"])
def test_nothing_is_written_or_read_through_links_in_the_output(name, out, tmp_path, monkeypatch):
    call("S3", out=out)
    mine, outside = tmp_path / "out", tmp_path / "outside"
    shutil.copytree(out, mine)
    outside.mkdir()
    (mine / "arrays").mkdir(exist_ok=True)
    shutil.move(mine / name, outside / Path(name).name)
    (mine / name).symlink_to(outside / Path(name).name)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    monkeypatch.setattr(Preparation, "runs_of", None)  # it is refused before anything is trained
    assert call("S3", out=mine).exit_code == (1 if name.endswith("widths.json") else 2)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_a_run_that_cannot_be_diagnosed_is_a_failure(out, tmp_path, monkeypatch, undrawn):
    from recombine.diagnostics.parts.free_weights import FreeWeights

    call("R2", out=out)
    shutil.copytree(out, tmp_path / "out", ignore=shutil.ignore_patterns("figures", "tables", "diagnosis"))
    original = FreeWeights.compute
    study, profile = STUDIES["superpositions"], PROFILES["smoke"]
    first, second = (Store(out / "runs").load(config.hash) for config in study.configs(profile, SEEDS)[1:3])

    def compute(self, inputs):
        weights = list(inputs.model.parameters())
        if all(map(torch.equal, weights, first.model.parameters())):
            raise NotComputable(Missing.DEGENERATE, "All units are silent.")
        if all(map(torch.equal, weights, second.model.parameters())):
            raise InputError("The output is constant.")
        return original(self, inputs)

    monkeypatch.setattr(FreeWeights, "compute", compute)
    for _ in range(2):  # the saved rows remember it
        done = call("R2", "--json", out=tmp_path / "out")
        assert done.exit_code == 1
        report = json.loads(done.stdout)
        lost = undiagnosed(Output(tmp_path / "out", "smoke").load(study.key))
        assert [why.state for why in lost.values()] == [Missing.DEGENERATE, Missing.FAILED]
        assert report["failed"] == reasons(lost)
        assert all(run.id in name for run, name in zip((first, second), lost))
        assert report["claims"][0]["verdict"] == "inconclusive"
        assert "All units are silent" in report["claims"][0]["reason"]


def test_diagnoses_are_kept_with_the_runs_and_computed_once(out, tmp_path, monkeypatch, undrawn):
    from recombine.runs.store import StoredRun

    call("R2", out=out)
    mine = tmp_path / "out"
    shutil.copytree(out, mine, ignore=shutil.ignore_patterns("figures", "tables"))
    asked = []
    original = StoredRun.diagnose
    monkeypatch.setattr(StoredRun, "diagnose", lambda self, *a, **k: asked.append(self.id) or original(self, *a, **k))
    table = Path("tables") / "superpositions-free_weights.csv"
    rows = (out / table).read_bytes()
    assert call("R2", out=mine).exit_code == 0
    assert asked == []
    assert (mine / table).read_bytes() == rows
    run = STUDIES["superpositions"].configs(PROFILES["smoke"], SEEDS)[0].hash
    damaged(mine / "runs" / run / "diagnosis" / "free_weights-summary.csv")
    shutil.rmtree(mine / "tables")
    assert call("R2", out=mine).exit_code == 0
    assert set(asked) == {run}
    assert (mine / table).read_bytes() == rows


def test_runs_of_other_training_code_are_not_mixed(tmp_path, monkeypatch):
    from recombine.studies.framework import reproduce as module

    before = {"trained": 3, "training_code": "aa"}
    check_training_code([before, {"trained": 0, "training_code": "aa"}])
    check_training_code([{**before, "trained": 0}, {"trained": 0, "training_code": "bb"}])
    with pytest.raises(StoreError, match="aa then, bb now"):
        check_training_code([before, {"trained": 0, "training_code": "bb"}])
    Output(tmp_path, "smoke").write_about({"calls": [before]})
    monkeypatch.setattr(module, "training_code", lambda: "bb")
    done = call("R1", out=tmp_path)
    assert done.exit_code == 2
    assert "would not be comparable" in done.output


def test_rows_of_another_edition_or_training_code_are_computed_again(out):
    call("S3", out=out)
    main = out / "tables" / "code_widths.json"
    whole = json.loads(main.read_text())
    output, study = Output(out, "smoke"), STUDIES["code_widths"]
    assert output.saved(study, whole["runs"], whole["seeds"]) is not None
    for key, other in (("edition", 1), ("training_code", "aa")):
        main.write_text(json.dumps({**whole, key: other}))
        assert output.saved(study, whole["runs"], whole["seeds"]) is None
        assert call("S3", out=out).exit_code == 0
        assert json.loads(main.read_text()) == whole


def test_published_rows_give_the_verdicts_again(out, tmp_path):
    from tools.publish_results import page, publish

    from tests.studies.test_results import check_published

    for key in ("R2", "S3"):
        call(key, out=out)
    target = tmp_path / "smoke"
    publish(out, target)
    assert "C2" in check_published(target)
    assert not (target / "arrays").exists()
    whole = {path.name: path.read_bytes() for path in (target / "tables").iterdir()}
    mine, half = tmp_path / "mine", tmp_path / "half"
    shutil.copytree(out, mine, ignore=shutil.ignore_patterns("runs"))
    (mine / "tables" / "superpositions-medians.csv").unlink()  # as if it were being written
    publish(mine, half)
    assert "C2" not in check_published(half)
    assert "`superpositions` (no rows)" in page(half)
    assert (half / "tables" / "code_widths-scores.csv").is_file()
    publish(mine, target)  # what was published before and is not complete here stays
    assert "C2" in check_published(target)
    assert {path.name: path.read_bytes() for path in (target / "tables").iterdir()} == whole
    calls = [json.loads((folder / "reproduce.json").read_text())["calls"] for folder in (target, out)]
    assert [call["started"] for call in calls[0]] == [call["started"] for call in calls[1]]  # each of them once
    sidecar = target / "tables" / "superpositions.json"
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "training_code": "other"}))
    with pytest.raises(StoreError, match="other"):
        publish(mine, target)


def test_a_dry_run_lists_runs_and_writes_nothing(tmp_path):
    done = call("R1", "R2", "--dry-run", "--json", out=tmp_path / "new")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert [(p["study"], p["runs"], p["finished"]) for p in plan["studies"]] == [
        ("landscapes", 16, 0),
        ("superpositions", 0, 0),  # its runs are among those of the first
    ]
    assert plan["studies"][0]["seconds"] > 0
    assert not (tmp_path / "new").exists()
    text = call("R9", "--dry-run", out=tmp_path / "new").output
    assert "+ about" in text
    assert f"on {plan['workers']} workers" in text
    assert 0 < plan["minutes_on_workers"] <= plan["minutes"]


def test_a_run_that_fails_is_told_and_the_rest_goes_on(tmp_path, monkeypatch):
    original = Store.train

    def train(self, configs, **options):
        if configs[0].encoding["kind"] == "ramp":
            raise TrainingDiverged({0: "The loss became NaN at step 3."})
        return original(self, configs, **options)

    monkeypatch.setattr(Store, "train", train)
    done = call("R2", "--json", "--seeds", "1", out=tmp_path)
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert len(report["failed"]) == 1
    assert set(report["failed"].values()) == {"The loss became NaN at step 3."}
    [claim] = report["claims"]
    assert claim["verdict"] == "inconclusive"
    assert "failed: The loss became NaN" in claim["reason"]
    ramp = next(part for part in claim["parts"] if part["part"] == "ramp_free")
    assert ramp["verdict"] == "inconclusive"
    assert "failed: The loss became NaN" in ramp["reason"]
    assert (tmp_path / "figures" / "R02_bump_output_side.png").exists()
    monkeypatch.setattr(Store, "train", original)
    monkeypatch.setattr(Output, "draw", lambda *given: [])
    assert call("R2", "--seeds", "1", out=tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["R99"], r"no result or claim 'R99'.*Results: R1, R2, .*Claims: C1, C2, .*C14"),
        (["R1", "--profile", "fast"], "no profile 'fast'.*Profiles: smoke, quick, standard, paper"),
        (["R1", "--seeds", "0"], "between 1 and 200"),
        (["R1", "--seeds", "100000000"], "between 1 and 200"),
        (["R1", "--engine", "proceses"], "no engine 'proceses'.*did you mean 'processes'"),
        (["R1", "--engine", "processes", "--address", "auto"], "An address .* cluster"),
    ],
)
def test_bad_requests_are_named(words, message, tmp_path):
    done = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path / "o"), *words])
    assert done.exit_code == 2
    assert re.search(message, done.output, re.DOTALL), done.output
    assert not (tmp_path / "o").exists()


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("hard work")
    done = call("R1", out=tmp_path)
    assert done.exit_code == 2
    assert "does not contain a reproduction" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    file = tmp_path / "thesis.tex"
    assert call("R1", out=file).exit_code == 2


def test_a_folder_of_another_profile_is_refused(tmp_path):
    Output(tmp_path, "quick").write_about({})
    done = call("R1", out=tmp_path)
    assert done.exit_code == 2
    assert "results of the profile 'quick'" in done.output


def test_selection():
    assert [study.key for study in select(["R5", "c3"], STUDIES)] == ["similarities", "layers"]
    assert [study.key for study in select(["R5,C3"], STUDIES)] == ["similarities", "layers"]
    assert select([], STUDIES) == select(["all"], STUDIES) == list(STUDIES.values())


def test_every_claim_and_result_has_one_study():
    claims = [claim for study in STUDIES.values() for claim in study.claims]
    results = [result for study in STUDIES.values() for result in study.results]
    assert len(set(claims)) == len(claims)
    assert len(set(results)) == len(results)
    assert set(claims) <= set(CLAIMS)
    assert {f"R{n}" for n in range(1, 16)} <= set(results)
    assert {f"C{n}" for n in range(1, 15)} <= set(claims)


@pytest.mark.parametrize("key", ["few_shot", "scaling", "after_stripes", "layers", "landscapes"])
def test_the_paper_profile_has_the_papers_recipe(key):
    for config in STUDIES[key].configs(PROFILES["paper"], [0]):
        training = config.recipe()
        assert (config.training["kind"], training.batch, training.learning_rate) == ("paper", 32, 1e-3)
        assert training.schedule == "constant"


@pytest.mark.parametrize("name", PROFILES)
def test_all_runs_of_a_profile_are_valid(name):
    for study in STUDIES.values():
        configs = study.configs(PROFILES[name], [0])
        assert configs
        for config in {config.seedless_hash: config for config in configs}.values():
            config.task()
            config.recipe()
