"""Budgets: searches that grow with factors and cells do less beyond them, say so, and stay the same for a seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recombine import DiagnosisRequest, FactorSpace, diagnose
from recombine.core import holdouts
from recombine.core.errors import InputError
from recombine.diagnostics.numerics import tensor_rank
from recombine.diagnostics.numerics.budget import Budget
from recombine.diagnostics.numerics.complexity import distribution_complexity, function_complexity
from recombine.diagnostics.numerics.kernel_regression import affordable_cells
from recombine.diagnostics.numerics.kernels import agreement, gram_matrices
from recombine.diagnostics.numerics.tensor_rank import rank_search


def test_shares_spend_of_the_whole_and_leave_the_rest_to_later_ones() -> None:
    whole = Budget(100.0)
    first = whole.share(2)
    first.spend(10)
    assert (first.left, whole.left) == (40, 90)
    assert whole.share(1).left == 90
    assert [whole.affords(30, most) for most in (2, 3, 4)] == [2, 3, 3]
    assert Budget().affords(1e300, 7) == 7


def test_a_search_counts_its_steps_and_ends_at_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.rand(4, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    steps = []
    normal_equations = tensor_rank._normal_equations
    monkeypatch.setattr(tensor_rank, "_normal_equations", lambda *given: (steps.append(1), normal_equations(*given))[1])
    full = rank_search(tensor, epsilon=1e-3, largest=5, inits=1)
    taken = len(steps)
    budget = Budget.seconds(0.02)
    found = rank_search(tensor, epsilon=1e-3, largest=5, inits=1, budget=budget)
    assert full.complete
    assert not found.complete
    assert len(steps) - taken < taken / 4
    assert budget.left < 0.01 * 3e10
    again = rank_search(tensor, epsilon=1e-3, largest=5, inits=1, budget=Budget.seconds(0.02))
    np.testing.assert_allclose(again.errors, found.errors, rtol=1e-9)  # LAPACK rounds by memory alignment


def test_an_ample_budget_changes_nothing() -> None:
    space = FactorSpace(x=3, y=3, z=3)
    values = torch.rand(len(space), 1, generator=torch.Generator().manual_seed(1))
    settings = {"largest": 2, "inits": 1}
    free, ample = (function_complexity(values, space, **settings, budget=b) for b in (None, Budget.seconds(1e6)))
    assert free.exact_ranks.tolist() == ample.exact_ranks.tolist()
    assert free.approximate_ranks.tolist() == ample.approximate_ranks.tolist()
    assert ample.complete
    joint = np.arange(27.0)
    free, ample = (
        distribution_complexity(joint, space, largest=2, iterations=50, budget=b) for b in (None, Budget.seconds(1e6))
    )
    assert free.kl.tolist() == ample.kl.tolist()
    little = distribution_complexity(joint, space, largest=3, epsilon=1e-9, budget=Budget(1.0))
    assert (little.tried, little.complete) == ((1,), False)


def test_splits_in_the_middle_bound_the_rank_of_many_factors() -> None:
    eye = torch.eye(9, dtype=torch.float64).reshape(3, 3, 3, 3)  # the first two factors equal the last two
    found = rank_search(eye, largest=4, hopeless=False)
    assert (found.rank, found.lower_bound, found.tried, found.complete) == (None, 9, (), True)


def test_many_factors_take_fewer_draws_and_cells() -> None:
    space = FactorSpace(**dict.fromkeys("abcde", 2))
    holdout = holdouts.random(space, 0.3, seed=0)
    outputs = torch.rand(len(space), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grams = gram_matrices(outputs, space, holdout, similarities=("cosine",))
    assert agreement(grams, "cosine", budget=Budget.seconds(1e3)).draws == 1000
    few = agreement(grams, "cosine", budget=Budget(1.0))
    assert few.draws == 99
    assert few.correlation == agreement(grams, "cosine", draws=20).correlation
    large = FactorSpace(x=12, y=12, z=12)
    assert affordable_cells(large, 0.8, 64, 1728, Budget()) == 1728
    assert affordable_cells(large, 0.8, 64, 1728, Budget(0.0)) == 256
    assert affordable_cells(FactorSpace(x=40, y=40), 0.8, 64, 1600, Budget(0.0)) == 1600  # 16 combinations of lengths


@pytest.fixture(scope="module")
def diagnoses():
    space = FactorSpace(a=3, b=2, c=2, d=2)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    parts = ["kernels", "complexity"]
    holdout = holdouts.random(space, 0.2, seed=0)
    return [diagnose(model, space, None, holdout, parts=parts, budget=0.01) for _ in range(2)]


def test_a_diagnosis_says_what_its_budget_left_out(diagnoses) -> None:
    found, again = diagnoses
    for name in ("kernels", "complexity"):
        part = found.parts[name]
        assert part.facts["budget"] == 0.01
        assert part.facts["cut_short"]
        for table, rows in part.tables.items():
            for row, other in zip(rows, again.parts[name].tables[table], strict=True):
                for column, value in row.items():
                    assert value == (
                        other[column] if isinstance(value, str) else pytest.approx(other[column], nan_ok=True)
                    )
    assert not all(row["complete"] for row in found.parts["complexity"].table("functions"))


def test_only_what_a_budget_cut_short_is_computed_again_for_another(diagnoses) -> None:
    from recombine.diagnostics.part import PARTS

    cut, _ = diagnoses
    facts = cut.parts["kernels"].facts
    assert PARTS["kernels"].answers(facts, DiagnosisRequest(budget=0.01))
    assert not PARTS["kernels"].answers(facts, DiagnosisRequest())
    assert PARTS["kernels"].answers({**facts, "cut_short": False}, DiagnosisRequest())


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), float("inf"), True])
def test_budgets_are_seconds_above_zero(budget) -> None:
    with pytest.raises(InputError) as caught:
        DiagnosisRequest(budget=budget)
    assert caught.value.key == "budget"
