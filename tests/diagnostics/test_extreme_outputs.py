"""Outputs of 1e±30: every number is right or missing, none is infinite."""

from __future__ import annotations

import math

import pytest
import torch

from recombine import FactorSpace, diagnose
from recombine.core import holdouts

SPACE = FactorSpace(x=5, y=5)


def _diagnosed(scale: float):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    truth = torch.rand(25, 3, generator=torch.Generator().manual_seed(0)) * scale
    parts = ["errors", "geometry", "kernels"]
    holdout = holdouts.centre(SPACE, 2, 3)
    return diagnose(lambda values: model(values) * scale, SPACE, None, holdout, target=truth, parts=parts)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_the_scale_of_outputs_changes_no_relative_number(scale: float) -> None:
    plain, scaled = _diagnosed(1.0), _diagnosed(scale)
    for name, part in scaled.parts.items():
        values = [v for rows in part.tables.values() for row in rows for v in row.values() if isinstance(v, float)]
        assert not any(map(math.isinf, values)), name
    for row, other in zip(plain["errors"].rows, scaled["errors"].rows, strict=True):
        assert other["relative"] == pytest.approx(row["relative"], rel=1e-5)
        assert other["mse"] == pytest.approx(row["mse"] * scale**2, rel=1e-5)
    for row, other in zip(plain["geometry"].rows, scaled["geometry"].rows, strict=True):
        assert other["factorization_pointwise"] == pytest.approx(row["factorization_pointwise"], rel=1e-4, nan_ok=True)
