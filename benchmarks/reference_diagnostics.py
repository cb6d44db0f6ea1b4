"""The diagnostics done the plain way, to compare with: what a script of a paper would do, one thing after the other.

    python -m benchmarks.reference_diagnostics [--depth 4 --width 64 --side 28 --rows 40 --repeats 1]

Every activation is computed anew for every part, derivatives are `numpy.gradient` over the stored grid, probes are
scikit-learn's LinearRegression on flattened activations (in double precision, as the library's, and in the network's
own, which is what counts for the sum of all parts), kernels are Python loops over pairs of images, kernel
regression tries 16 pairs of length scales. The loop over pairs is timed on `rows` rows of the matrix and the
permutations of the agreement on as many draws, for one of three similarities; the rest is extrapolated (all rows and
all draws cost the same). Everything else is run in full.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import nn

import recombine as rc
from benchmarks.measure import Row, interleaved, medians, seconds
from recombine.diagnostics.numerics.geometry import metric_tensor_exact, metric_tensor_finite_difference
from recombine.diagnostics.numerics.kernels import DRAWS, gram_matrices
from recombine.diagnostics.numerics.probes import linear_probes

LENGTHS = (0.5, 1.0, 2.0, 4.0)
KERNEL_ROWS = 40
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Plain:
    """A model of two factors with an (N, N) grid, studied plainly."""

    model: nn.Module
    task: rc.Task
    layers: tuple[str, ...]

    @property
    def side(self) -> int:
        return self.task.space.shape[0]

    def activations(self) -> Arrays:
        """Every layer over the whole grid, (cell, unit), by hooks, in batches of 32."""
        seen: dict[str, list[np.ndarray]] = {name: [] for name in ("in", *self.layers, "out")}
        modules = dict(self.model.named_modules())

        def hook(name: str) -> Callable[..., None]:
            return lambda _module, _inputs, output: seen[name].append(output.detach().flatten(1).numpy())

        handles = [modules[name].register_forward_hook(hook(name)) for name in self.layers]
        values = self.task.space.values(torch.arange(len(self.task.space)))
        with torch.no_grad():
            for batch in values.split(32):
                code = self.task.inputs(batch)
                seen["in"].append(code.numpy())
                seen["out"].append(self.model(code).flatten(1).numpy())
        for handle in handles:
            handle.remove()
        return {name: np.concatenate(rows) for name, rows in seen.items()}

    def geometry(self) -> dict[str, float]:
        """numpy.gradient over the grid, layer by layer; g, log₁₀ √det g and the factorization score at every cell."""
        scores = {}
        for name, rows in self.activations().items():
            gradient: Any = np.gradient(rows.reshape(self.side, self.side, -1).astype(np.float64), axis=(0, 1))
            dx, dy = gradient
            xx, yy, xy = (dx * dx).sum(-1), (dy * dy).sum(-1), (dx * dy).sum(-1)
            np.log10(np.sqrt(np.maximum(xx * yy - xy**2, 1e-30)))
            scores[name] = float((1 - np.abs(xy) / (xx + yy)).mean())
        return scores

    def probes(self, dtype: type[np.floating] = np.float32) -> dict[str, float]:
        """LinearRegression per layer, on all cells and fitted on ID and scored on OOD; no cross-validation at all."""
        from sklearn.linear_model import LinearRegression

        held = self.task.holdout.mask.ravel()
        targets = self.task.space.values(torch.arange(len(self.task.space))).numpy()
        scores = {}
        for name, found in self.activations().items():
            rows = found.astype(dtype)
            scores[name] = float(LinearRegression().fit(rows, targets).score(rows, targets))
            LinearRegression().fit(rows[~held], targets[~held]).score(rows[held], targets[held])
        return scores

    def outputs(self) -> np.ndarray:
        values = self.task.space.values(torch.arange(len(self.task.space)))
        with torch.no_grad():
            return torch.cat([self.model(self.task.inputs(batch)) for batch in values.split(32)]).flatten(1).numpy()

    def kernel_matrices(self, outputs: np.ndarray, rows: int | None = None) -> Arrays:
        """Cosine, L2 and overlap of all pairs of images, or of the first `rows` images with all others."""
        n = len(outputs) if rows is None else rows
        grams = {name: np.zeros((n, len(outputs))) for name in ("cosine", "l2", "overlap")}
        for i in range(n):
            for j in range(len(outputs)):
                a, b = outputs[i], outputs[j]
                grams["cosine"][i, j] = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
                grams["l2"][i, j] = np.linalg.norm(a - b)
                p, q = np.maximum(a, 0), np.maximum(b, 0)
                grams["overlap"][i, j] = np.minimum(p, q).sum() / (np.maximum(p, q).sum() + 1e-12)
        return grams

    def agreement(self, outputs: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
        """OOD × ID similarity against "shares x or y", under renamed values and with resampled OOD cells."""
        held = self.task.holdout.mask.ravel()
        where = self.task.space.coordinates(torch.arange(len(outputs))).numpy()
        unit = outputs / np.linalg.norm(outputs, axis=1, keepdims=True)
        measured = unit[held] @ unit[~held].T
        random = np.random.default_rng(0)

        def shares(ood: np.ndarray) -> np.ndarray:
            return (ood[:, None, :] == where[~held][None]).any(-1).astype(float)

        renamed, resampled = [], []
        for _ in range(draws):
            names = [random.permutation(self.side) for _ in range(2)]
            ood = np.stack([names[axis][where[held][:, axis]] for axis in range(2)], 1)
            renamed.append(np.corrcoef(measured.ravel(), shares(ood).ravel())[0, 1])
            drawn = random.integers(0, int(held.sum()), int(held.sum()))
            resampled.append(np.corrcoef(measured[drawn].ravel(), shares(where[held][drawn]).ravel())[0, 1])
        return np.array(renamed), np.array(resampled)

    def kernel_regression(self, outputs: np.ndarray) -> float:
        """The ID cells' outputs from coordinates: 16 pairs of length scales and 4 single ones, five folds each."""
        held = self.task.holdout.mask.ravel()
        where = self.task.space.values(torch.arange(len(self.task.space))).numpy().astype(np.float64)
        trained = np.random.default_rng(0).permutation(np.flatnonzero(~held))
        best, chosen = np.inf, (1.0, 1.0)
        for scales in [*product(LENGTHS, repeat=2), *((s, s) for s in LENGTHS)]:
            error = 0.0
            for fold in np.array_split(trained, 5):
                rest = np.setdiff1d(trained, fold)
                found = self._fit(where, outputs, rest, fold, scales)
                error += float(((found - outputs[fold]) ** 2).mean())
            if error < best:
                best, chosen = error, scales
        found = self._fit(where, outputs, trained, np.flatnonzero(held), chosen)
        return float(((found - outputs[held]) ** 2).mean())

    def _fit(
        self, where: np.ndarray, outputs: np.ndarray, fit: np.ndarray, score: np.ndarray, scales: tuple[float, float]
    ) -> np.ndarray:
        def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return np.exp(-(((a[:, None] - b[None]) / np.array(scales)) ** 2).sum(-1) / 2)

        among = kernel(where[fit], where[fit]) + 1e-6 * np.eye(len(fit))
        return kernel(where[score], where[fit]) @ np.linalg.solve(among, outputs[fit])

    def spectrum(self, gram: np.ndarray) -> np.ndarray:
        n = self.side
        return np.linalg.svd(gram.reshape(n, n, n, n).transpose(0, 2, 1, 3).reshape(n * n, n * n), compute_uv=False)

    def superposition(self, outputs: np.ndarray, truth: np.ndarray) -> list[tuple[float, float]]:
        """For every OOD cell the mean of the ID outputs that share x or y, and the cosines."""
        held = self.task.holdout.mask.ravel()
        where = self.task.space.coordinates(torch.arange(len(outputs))).numpy()
        found = []
        for cell in np.flatnonzero(held):
            sharing = ((where == where[cell]).any(1)) & ~held
            summed, d = outputs[sharing].mean(0), outputs[cell]
            cosines = [d @ v / (np.linalg.norm(d) * np.linalg.norm(v)) for v in (summed, truth[cell])]
            found.append((float(cosines[0]), float(cosines[1])))
        return found

    def remembered(self, outputs: np.ndarray, truth: np.ndarray) -> list[list[float]]:
        """Non-negative fits of OOD outputs, and of the truth there, by the ID outputs that share x or y."""
        from scipy.optimize import nnls

        held = self.task.holdout.mask.ravel()
        where = self.task.space.coordinates(torch.arange(len(outputs))).numpy()
        found = []
        for cell in np.random.default_rng(0).permutation(np.flatnonzero(held))[:128]:
            alike = (where == where[cell]).sum(1)
            relatives, strangers = (outputs[(alike == kinship) & ~held] for kinship in (1, 0))
            strangers = strangers[: len(relatives)]
            fits = [(relatives, outputs[cell]), (relatives, truth[cell]), (strangers, outputs[cell])]
            fits.append((relatives[1:], relatives[0]))
            found.append([nnls(parts.T.astype(float), wanted)[1] / np.linalg.norm(wanted) for parts, wanted in fits])
        return found

    def tuning(self) -> dict[str, float]:
        """Unit by unit: marginals, main effects, stripe index, how many values the response occupies."""
        means = {}
        for name, rows in self.activations().items():
            stripes = []
            for unit in rows.T:
                grid = unit.reshape(self.side, self.side).astype(np.float64)
                total = grid.var()
                if total == 0:
                    continue
                main = [grid.mean(1 - axis).var() for axis in (0, 1)]
                response = (grid - np.median(grid)) ** 2
                for axis in (0, 1):
                    profile = response.sum(1 - axis)
                    _ = profile.sum() ** 2 / (profile**2).sum()
                stripes.append(max(main) / total)
            means[name] = float(np.mean(stripes))
        return means

    def complexity(self, outputs: np.ndarray) -> int:
        """The rank of every pixel as a function of x and y."""
        ranks = [np.linalg.matrix_rank(pixel.reshape(self.side, self.side), tol=1e-6) for pixel in outputs.T]
        return int(max(ranks))

    def embeddings(self) -> Arrays:
        """scikit-learn's PCA of every layer."""
        from sklearn.decomposition import PCA

        return {name: PCA(3).fit_transform(rows) for name, rows in self.activations().items()}


def subject(depth: int, width: int, side: int) -> Plain:
    """CNN(depth, width) on the bump task with the centre held out; untrained, as time does not depend on weights."""
    space = rc.FactorSpace(x=side, y=side)
    lo, hi = round(6 * side / 28), round(22 * side / 28)
    task = rc.Task(rc.scenes.Bump(space), rc.encodings.Bump(space), rc.holdouts.centre(space, lo, hi))
    model = rc.decoders.CNN(task, depth=depth, width=width).initialize(0).eval()
    layers = tuple(name for name, module in model.named_modules() if isinstance(module, nn.ReLU))
    return Plain(model, task, layers)


def compare(
    depth: int = 4, width: int = 64, side: int = 28, rows: int = KERNEL_ROWS, repeats: int = 1
) -> Iterator[Row]:
    """Times of the library against those of `Plain`, in one run; a row per number asked for."""
    plain = subject(depth, width, side)
    model, task = plain.model, plain.task
    truth = task.targets(task.space.values(torch.arange(len(task.space)))).flatten(1).numpy()
    outputs = truth + np.random.default_rng(0).normal(0, 0.01, truth.shape).astype(np.float32)  # as if trained
    tensor = torch.from_numpy(outputs)
    name = f"CNN({depth},{width}), {side}×{side}"
    share = len(outputs) / min(rows, len(outputs))
    gram_matrices(tensor, task.space, task.holdout, overlap_dtype=torch.float32)  # once to warm up
    metric_tensor_exact(model, task.space, task.inputs, layers=["in", "out"])
    rc.diagnose(model, task.space, task.inputs, task.holdout, target=task.targets, layers=["in"], progress=False)
    measured = interleaved(
        repeats,
        plain_geometry=lambda: seconds(plain.geometry),
        exact=lambda: seconds(lambda: metric_tensor_exact(model, task.space, task.inputs)),
        differences=lambda: seconds(lambda: metric_tensor_finite_difference(model, task.space, task.inputs)),
        plain_probes=lambda: seconds(plain.probes),
        double_probes=lambda: seconds(lambda: plain.probes(np.float64)),
        probes=lambda: seconds(lambda: linear_probes(model, task.space, task.inputs, task.holdout)),
        plain_kernels=lambda: share * seconds(lambda: plain.kernel_matrices(outputs, min(rows, len(outputs)))),
        kernels=lambda: min(
            seconds(lambda: gram_matrices(tensor, task.space, task.holdout, overlap_dtype=torch.float32))
            for _ in range(3)
        ),
        plain_agreement=lambda: 3 * DRAWS / rows * seconds(lambda: plain.agreement(outputs, rows)),
        plain_rest=lambda: seconds(lambda: _rest(plain, outputs, truth)),
        everything=lambda: seconds(
            lambda: rc.diagnose(model, task.space, task.inputs, task.holdout, target=task.targets, progress=False)
        ),
    )
    middle = medians(measured)
    whole = sum(spent for key, spent in middle.items() if key.startswith("plain_"))
    raw = {**middle, "plain_all": whole, "kernel_rows_timed": rows}
    yield Row(f"{name}, all parts: plain / ours", whole / middle["everything"], 8.0, raw)
    for what, reference, ours, target in (
        ("probes in double precision: plain / ours", "double_probes", "probes", 10.0),
        ("probes: plain in single precision / ours", "plain_probes", "probes", None),
        ("kernel matrices: plain / ours", "plain_kernels", "kernels", 200.0),
        ("finite differences: plain / ours", "plain_geometry", "differences", 5.0),
        ("exact geometry: plain differences / ours", "plain_geometry", "exact", 1 / 1.5),
    ):
        raw = {"plain_seconds": middle[reference], "ours_seconds": middle[ours]}
        yield Row(f"{name}, {what}", middle[reference] / middle[ours], target, raw)


def _rest(plain: Plain, outputs: np.ndarray, truth: np.ndarray) -> None:
    """All parts that have no line of their own."""
    plain.kernel_regression(outputs)
    plain.spectrum(outputs @ outputs.T)
    plain.superposition(outputs, truth)
    plain.remembered(outputs, truth)
    plain.tuning()
    plain.complexity(outputs)
    plain.embeddings()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reference_diagnostics")
    for option, default in (("depth", 4), ("width", 64), ("side", 28), ("rows", KERNEL_ROWS), ("repeats", 1)):
        parser.add_argument(f"--{option}", type=int, default=default)
    arguments = parser.parse_args()
    for row in compare(**vars(arguments)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
