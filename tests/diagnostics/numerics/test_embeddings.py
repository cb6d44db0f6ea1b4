"""PCA against scikit-learn; UMAP where it is and is not installed."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from recombine import FactorSpace
from recombine.core.errors import InputError, NotComputable
from recombine.diagnostics.numerics.embeddings import embed, embed_pca, embed_umap

SPACE = FactorSpace(x=8, y=6)


def activations(units: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(48, 5)) @ random.normal(size=(5, units)) + random.normal(size=(48, units)) + 2


@pytest.mark.parametrize("units", [10, 200])
def test_pca_equals_scikit_learn(units: int) -> None:
    rows = activations(units)
    found = embed_pca(rows, SPACE, dimensions=4, block=500)
    oracle = PCA(4, svd_solver="full")
    expected = oracle.fit_transform(rows)
    np.testing.assert_allclose(np.abs(found.points), np.abs(expected), rtol=1e-8, atol=1e-8)
    assert found.explained is not None
    np.testing.assert_allclose(found.explained, oracle.explained_variance_ratio_, rtol=1e-9)
    assert found.method == "pca"
    assert found.note == ""


def test_signs_are_fixed() -> None:
    rows = activations(10)
    found, mirrored = embed_pca(rows, SPACE), embed_pca(-rows, SPACE)
    farthest = np.abs(found.points).argmax(0)
    assert (found.points[farthest, [0, 1]] > 0).all()
    np.testing.assert_allclose(found.points, mirrored.points, atol=1e-9)


def test_pca_by_iteration_agrees_and_leaves_random_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = activations(60)
    exact = embed_pca(rows, SPACE)
    monkeypatch.setattr("recombine.diagnostics.numerics.embeddings.EXACT_SIDE", 20)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    found = embed_pca(rows, SPACE, seed=7)
    torch.testing.assert_close(torch.rand(1), expected)
    np.testing.assert_allclose(found.points, exact.points, atol=1e-4)
    np.testing.assert_array_equal(found.points, embed_pca(rows, SPACE, seed=7).points)


@pytest.mark.parametrize("units", [3, 100])
def test_directions_without_variance_are_zero_and_noted(units: int) -> None:
    line = np.arange(48.0)[:, None] * np.arange(1, units + 1)
    found = embed_pca(line, SPACE)
    np.testing.assert_array_equal(found.points[:, 1], 0)
    np.testing.assert_allclose(found.explained, [1, 0])
    assert "fewer dimensions" in found.note
    constant = embed_pca(np.full((48, units), 0.1), SPACE)
    np.testing.assert_array_equal(constant.points, 0)
    np.testing.assert_array_equal(constant.explained, 0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="1 to 3 dimensions"):
        embed_pca(np.ones((48, 3)), SPACE, dimensions=4)
    with pytest.raises(InputError, match="activations contain NaN"):
        embed_pca(np.full((48, 3), np.nan), SPACE)
    with pytest.raises(InputError, match="neighbours"):
        embed_umap(np.ones((6, 3)), FactorSpace(x=3, y=2))


def test_without_umap_there_is_pca_and_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)  # importing it fails, finding it too
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = embed(activations(10), SPACE)
    assert found.method == "pca"
    assert "umap-learn is not installed" in found.note
    with pytest.raises(NotComputable, match="pip install"):
        embed_umap(activations(10), SPACE)


def test_a_umap_that_cannot_be_imported_gives_pca_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", types.ModuleType("umap"))  # found, but there is nothing in it
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = embed(activations(10), SPACE)
    assert found.method == "pca"
    assert "cannot import name 'UMAP'" in found.note


def test_umap_is_given_the_papers_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    class UMAP:
        def __init__(self, **settings: object) -> None:
            seen.update(settings)

        def fit_transform(self, rows: np.ndarray) -> np.ndarray:
            return rows[:, :2].astype(np.float32)

    fake = types.ModuleType("umap")
    fake.UMAP = UMAP  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "umap", fake)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = embed(activations(10), SPACE, seed=3)
    assert seen == {"n_components": 2, "n_neighbors": 15, "min_dist": 0.1, "metric": "precomputed",
                    "random_state": 3, "n_jobs": 1}  # fmt: skip
    assert (found.method, found.explained, found.points.dtype) == ("umap", None, np.float64)
    few = embed(activations(10)[:12], FactorSpace(x=4, y=3))
    assert few.method == "pca"
    assert "too few" in few.note
