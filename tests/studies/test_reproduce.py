"""`recombine reproduce` with tiny models: every study from runs to figures and verdicts, and what can go wrong."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recombine.cli import app
from recombine.errors import TrainingDiverged
from recombine.store import Store
from recombine.studies.claims import CLAIMS
from recombine.studies.output import Output
from recombine.studies.profiles import PROFILES
from recombine.studies.reproduce import judged, trained
from recombine.studies.study import Runs, discover, select

STUDIES = discover()
SEEDS = [0, 1]


def call(*words: str, out: Path):
    return CliRunner().invoke(
        app, ["reproduce", *words, "--profile", "smoke", "--engine", "in-process", "--out", str(out)]
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """One folder for all studies, so that they share their runs."""
    return tmp_path_factory.mktemp("reproduce") / "out"


@pytest.mark.parametrize("key", STUDIES)
def test_a_study_runs_and_draws_and_judges_from_saved_rows(key, out, tmp_path):
    study = STUDIES[key]
    done = call(key, "--json", out=out)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert not report["failed"]
    drawn = {Path(path).name for path in report["figures"]}
    for result in study.results:
        for ending in ("png", "pdf"):
            assert any(re.match(rf"{result[0]}{int(result[1:]):02d}_.*\.{ending}$", name) for name in drawn), result
    assert all((out / "figures" / name).stat().st_size > 1000 for name in drawn)
    assert [row["claim"] for row in report["claims"]] == list(study.claims)
    moved = tmp_path / "rows only"  # no store in it
    shutil.copytree(out, moved, ignore=shutil.ignore_patterns("runs", "figures"))
    part = Output(moved, "smoke").load(key)
    assert {f"{name}.png" for name in study.plot(part)} == {name for name in drawn if name.endswith("png")}
    declared = {f"{claim}.{asked.name}" for claim in study.claims for asked in CLAIMS[claim].parts}
    assert set(study.effects(part)) <= declared
    saved = {row["claim"]: row for row in json.loads((out / "claims.json").read_text())}
    reason = "; ".join(f"{name}: {why}" for name, why in part.missing.items())
    for verdict in judged(study, part, SEEDS, reason):
        assert saved[verdict["claim"]] == {**verdict, "study": key, "profile": "smoke"}


@pytest.mark.parametrize("key", STUDIES)
def test_a_study_goes_on_without_the_runs_that_failed(key, out):
    study, profile = STUDIES[key], PROFILES["smoke"]
    trained(study, profile, SEEDS, Store(out / "runs"))
    configs = study.configs(profile, SEEDS)
    failed = {config.hash: "it diverged" for i, config in enumerate(configs) if i % 2}
    part = study.rows(Runs(Store(out / "runs"), failed), profile, SEEDS)
    if any(part.tables.values()):
        assert study.plot(part)
    for verdict in judged(study, part, SEEDS):
        assert verdict["verdict"] in ("inconclusive", "not reproduced")
    nothing = study.rows(Runs(Store(out / "runs"), {config.hash: "no" for config in configs}), profile, SEEDS)
    assert all(verdict["verdict"] == "inconclusive" for verdict in judged(study, nothing, SEEDS))


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
    assert about["studies"]["landscapes"]["seconds"] > 0
    assert {"versions", "hardware", "command"} <= set(about)


def test_rows_that_were_changed_are_computed_again(out):
    call("R1", out=out)
    table = out / "tables" / "landscapes-scores.csv"
    kept = table.read_bytes()
    table.write_bytes(kept.replace(b"centre", b"center", 1))
    assert call("R1", out=out).exit_code == 0
    assert table.read_bytes() == kept


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
    assert "minutes of training" in text


def test_a_run_that_fails_is_told_and_the_rest_goes_on(tmp_path, monkeypatch):
    original = Store.train

    def train(self, configs, **options):
        if configs[0].encoding["kind"] == "ramp":
            raise TrainingDiverged("The loss became NaN at step 3.")
        return original(self, configs, **options)

    monkeypatch.setattr(Store, "train", train)
    done = call("R2", "--json", out=tmp_path)
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert len(report["failed"]) == 2
    assert set(report["failed"].values()) == {"The loss became NaN at step 3."}
    [claim] = report["claims"]
    assert claim["verdict"] == "inconclusive" or claim["decided_by"].startswith("bump")
    ramp = next(part for part in claim["parts"] if part["part"] == "ramp")
    assert ramp["verdict"] == "inconclusive"
    assert "failed: The loss became NaN" in ramp["reason"]
    assert (tmp_path / "figures" / "R02_bump_output_side.png").exists()
    monkeypatch.setattr(Store, "train", original)
    assert call("R2", out=tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["R99"], r"no result or claim 'R99'.*Results: R1, R2, .*Claims: C1, C2, .*C14"),
        (["R1", "--profile", "fast"], "no profile 'fast'.*Profiles: smoke, quick, standard, paper"),
        (["R1", "--seeds", "0"], "At least one seed"),
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
    assert "holds something else" in done.output
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


@pytest.mark.parametrize("name", PROFILES)
def test_all_runs_of_a_profile_are_valid(name):
    for study in STUDIES.values():
        configs = study.configs(PROFILES[name], [0])
        assert configs
        for config in {config.seedless_hash: config for config in configs}.values():
            config.task()
            config.recipe()
