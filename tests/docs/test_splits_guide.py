"""What docs/splits.md shows works as shown."""

import re
import shlex
from pathlib import Path

import pytest

import recombine as rc
from recombine.core.holdouts import HOLDOUTS

pytestmark = pytest.mark.quick
GUIDE = (Path(__file__).parents[2] / "docs" / "splits.md").read_text(encoding="utf-8")


def test_the_example_runs():
    [example] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict = {}
    exec(example, names)
    held_out = names["held_out"]
    assert f"# {held_out.n_id}, {held_out.n_ood}\n" in example
    assert held_out.covered_order() == 1


def test_the_command_describes_a_task():
    [command] = re.findall(r"```\n(recombine .*?)\n```", GUIDE, re.DOTALL)
    words = shlex.split(command)
    assert words[:3] == ["recombine", "train", "--dry-run"]
    assert rc.RunConfig.parse(words[3:]).task().holdout.n_ood == 8


def test_every_kind_is_in_the_table():
    named = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| (`.*?) \|", GUIDE, re.MULTILINE))))
    assert named == set(HOLDOUTS.components)


def test_pixel_coverage_is_as_stated():
    plane, larger = rc.FactorSpace(x=28, y=28), rc.FactorSpace(x=32, y=32)
    bump, wide = rc.scenes.Bump(plane), rc.scenes.Bump(larger, sigma=1.5)
    found = [
        rc.holdouts.centre(plane, 6, 22).pixel_coverage(bump),
        rc.holdouts.centre(plane, 10, 18).pixel_coverage(bump),
        rc.holdouts.corner(larger, 12).pixel_coverage(wide),
    ]
    text = " ".join(GUIDE.split())
    for number, words in zip(found, ("{:.2f} for `centre` [6, 22]", "{:.2f} for [10, 18]", "{:.2f} for `corner` 12")):
        assert words.format(number) in text
