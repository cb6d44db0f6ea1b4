"""The pages on statistics show the claims, thresholds and power that the code has."""

import re
from pathlib import Path

import pytest
from tools.pilot_power import markdown, needs

from recombine.studies.framework import edition_1, edition_2

ROOT = Path(__file__).parents[2]
SECOND, FIRST, POWER = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("statistics", "statistics-first-edition", "statistics-power")
)

pytestmark = pytest.mark.quick


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(r"\| (above|below|within) [-\d. …]+ \|", line)]


def first_column(claim, index: int) -> str:
    return f"**{claim.id}** {claim.text}" if index == 0 else ""


def test_the_table_of_the_second_edition_is_the_declaration():
    declared = []
    for claim in edition_2.CLAIMS.values():
        for index, part in enumerate(claim.parts):
            role = "decides" if part.decides else "reported"
            statistic = part.statistic.replace("|", "\\|")
            cells = [first_column(claim, index), part.name, role, statistic, part.test, str(part), part.why]
            declared.append(f"| {' | '.join(cells)} |")
    assert rows(SECOND) == declared


def test_the_table_of_the_first_edition_is_the_declaration():
    declared = []
    for claim in edition_1.CLAIMS.values():
        for index, part in enumerate(claim.parts):
            statistic = part.statistic.replace("|", "\\|")
            declared.append(f"| {first_column(claim, index)} | {part.name} | {statistic} | {part} |")
    assert rows(FIRST) == declared


def test_the_table_of_power_follows_from_the_pilots_rows():
    assert markdown() in POWER
    assert {need.chosen for need in needs().values()} <= {5, 8, 10, 12, 16}


def test_the_references_of_the_agreement_with_k_bin_are_those_of_the_scene():
    import torch
    from tools.pilot_power import PERFECT, RIGHT

    import recombine as rc
    from recombine.diagnostics.numerics.kernels import agreement, gram_matrices

    space = rc.FactorSpace(x=28, y=28)
    holdout = rc.holdouts.centre(space, 6, 22)
    cells = torch.arange(len(space))
    images, where = rc.scenes.Bump(space)(space.values(cells)), space.coordinates(cells)
    sums = images.clone()
    trained = torch.from_numpy(holdout.id_mask.ravel())
    for cell in holdout.ood_cells:
        sums[cell] = images[trained & (where == where[cell]).any(1)].mean(0)
    for outputs, expected in ((images, RIGHT), (sums, PERFECT)):
        grams = gram_matrices(outputs, space, holdout, overlap_dtype=torch.float32)
        assert agreement(grams, "overlap", seed=0).correlation == pytest.approx(expected, abs=6e-4)
