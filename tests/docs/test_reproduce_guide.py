"""What docs/reproduce.md says is what the code does."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.runs.estimate import Cost
from recombine.studies.framework.profiles import PROFILES
from recombine.studies.framework.study import discover
from recombine.studies.paper import r08_few_shot as few_shot
from recombine.studies.paper import r09_scaling as scaling_study
from recombine.studies.paper.r07_rendering import SETTINGS as RENDERING
from recombine.studies.paper.r08_few_shot import SETTINGS as STRIPES
from recombine.studies.paper.r09_scaling import SETTINGS as SCALING

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("column", "name"), [(2, "quick"), (3, "standard"), (4, "paper")])
def test_the_table_of_profiles_is_true(column, name):
    table = GUIDE.partition("## Profiles")[2].partition("## Verdicts")[0]
    rows = {cells[1].strip(): cells[column].strip() for line in table.splitlines() if len(cells := line.split("|")) > 4}
    profile = PROFILES[name]
    counts = {len(study.seeds_in(profile)) for study in discover().values()}
    assert rows["seeds"].startswith(str(min(counts)))
    assert str(max(counts)) in rows["seeds"]
    assert rows["CNN (R1–R3, R11)"] == f"width {profile.width}, depth {profile.standard_depth}"
    inner = rows["CNN analysed layer by layer (R4–R6, R13, R14)"]
    assert inner.startswith(f"width {profile.inner_width}, depths {listed(profile.depths)}")
    assert ("two seeds also at width 64" in inner) == (profile.check_seeds == 2)
    assert rows["MLP"] == f"depths {listed(profile.mlp_depths)}"
    assert rows["factor-rendered decoder (R7)"] == f"{RENDERING[name].epochs} epochs"
    stripes, scaling = STRIPES[name], SCALING[name]
    [kind] = {study.configs(profile, [0])[0].training["kind"] for study in (few_shot.STUDY, scaling_study.STUDY)}
    lengths = ", ".join(map(str, stripes.lengths))
    assert rows["stripes (R8, R10, R15)"].startswith(f"width {stripes.width}, `{kind}`, {lengths} steps")
    assert ("also at width 64" in rows["stripes (R8, R10, R15)"]) == (stripes.check_width == 64)
    assert rows["data efficiency (R9)"].startswith(f"CNN({scaling.depth}, {scaling.width}), N = {scaling.sides[0]}")
    assert rows["data efficiency (R9)"].endswith(f"{scaling.sides[-1]}, `{kind}`, {scaling.steps} steps")


def listed(numbers: tuple[int, ...]) -> str:
    """ "2–6", or all of them if there are gaps."""
    whole = numbers == tuple(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}–{numbers[-1]}" if whole else ", ".join(map(str, numbers))


@pytest.mark.long
def test_the_commands_are_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    commands = [line.split() for block in blocks for line in block.splitlines()]
    assert len(commands) == 5
    for _, *words in commands:
        monkeypatch.setattr("recombine.runs.estimate.measured", lambda *_: Cost(0.0, 0.01))
        done = CliRunner().invoke(app, [*words, *([] if "--dry-run" in words else ["--dry-run"])])
        assert done.exit_code == 0, done.output
    assert not any(tmp_path.iterdir())
