"""The committed comparisons: their tables and pages follow from their rows."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tools.publish_comparison import page, typed_rows

from recombine.core.tables import from_csv
from recombine.studies.compare import running
from recombine.studies.compare.results import ranks
from recombine.studies.compare.suite import suite

PUBLISHED = [path.parent for path in sorted((Path(__file__).parents[2] / "docs" / "benchmark").glob("*/compare.json"))]


@pytest.mark.parametrize("folder", PUBLISHED)
def test_the_page_of_a_published_comparison_follows_from_its_files(folder):
    assert (folder / "README.md").read_text(encoding="utf-8") == page(folder)


@pytest.mark.parametrize("folder", PUBLISHED)
def test_the_tables_of_a_published_comparison_follow_from_its_rows(folder):
    rows, about = typed_rows(folder), json.loads((folder / "compare.json").read_text(encoding="utf-8"))
    compared = replace(suite(about["suite"]), scenes=about["scenes"])
    for name, text in running.derived(compared, rows, ranks(rows)).items():
        found = re.split(r"([\n,&])", (folder / name).read_text(encoding="utf-8"))
        for ours, theirs in zip(re.split(r"([\n,&])", text), found, strict=True):
            if ours != theirs:  # rounding depends on the processor
                assert float(ours) == pytest.approx(float(theirs), rel=1e-9, abs=1e-12), name


def test_how_many_tasks_of_scenes_that_nothing_was_designed_on_are_passed():
    """The criteria of docs/benchmark/fresh/report.md, and the counts that it reports."""
    [folder] = [folder for folder in PUBLISHED if folder.name == "fresh"]
    passed: dict[str, list[tuple[str, str]]] = {}
    for row in from_csv((folder / "summary.csv").read_text(encoding="utf-8")):
        covered = row["split"] != "range"
        if row["right"] >= (0.95 if covered else 0.9) and (not covered or row["ood_over_id"] <= 3):
            passed.setdefault(row["remedy"], []).append((row["scene"], row["split"]))
    assert {name: len(tasks) for name, tasks in passed.items()} == {
        "composed": 13, "masked_slots": 9, "occlusion_sum": 8, "coordconv": 5, "spatial_broadcast": 5, "cnn": 3,
    }  # fmt: skip
    assert sum(split != "range" for _, split in passed["composed"]) == 10
