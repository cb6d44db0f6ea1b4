"""The factor-rendered network written plainly, and how much faster the library trains it.

    python -m benchmarks.reference_rendering

The plain version follows the formulas sample by sample: each sample looks up the modes of its own factor values and
builds its own two maps from them; the seeds are trained one after the other, by the plain loop of `reference.py`. It
shares nothing with the library.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

import recombine as rc
from benchmarks import reference
from benchmarks.measure import Row, interleaved, medians

SIDE, CORNER, SIGMA, BATCH = 32, 12, 1.5, 32
TARGET, MOST_GB = 6.0, 1.0


class Scale(Protocol):
    """What the case reads of `benchmarks.cases.Scale`."""

    @property
    def repeats(self) -> int: ...

    @property
    def seeds_together(self) -> int: ...

    @property
    def samples(self) -> int: ...


class PlainRendered(nn.Module):
    """W(γ) = Σ λ v uᵀ for each sample's x and y, then (PReLU, transposed 3×3) × 2, PReLU, 3×3."""

    def __init__(self, side: int = SIDE) -> None:
        super().__init__()
        self.strengths = nn.Parameter(torch.randn(2, side, side) / side**0.5)
        self.rows = nn.Parameter(F.normalize(torch.randn(2, side, side, side), dim=-1))
        self.columns = nn.Parameter(F.normalize(torch.randn(2, side, side, side), dim=-1))
        self.head = nn.Sequential(
            nn.PReLU(),
            nn.ConvTranspose2d(2, 2, 3, padding=1),
            nn.PReLU(),
            nn.ConvTranspose2d(2, 2, 3, padding=1),
            nn.PReLU(),
            nn.Conv2d(2, 1, 3, padding=1),
        )

    def forward(self, values: Tensor) -> Tensor:
        channels = []
        for factor in range(2):
            index = values[:, factor]
            v = F.normalize(self.rows[factor][index], dim=-1)
            u = F.normalize(self.columns[factor][index], dim=-1)
            channels.append(torch.einsum("bn,bni,bnj->bij", self.strengths[factor][index], v, u))
        return self.head(torch.stack(channels, dim=1)).squeeze(1)

    def penalties(self, entropy: float = 0.1, variance: float = 0.01) -> Tensor:
        squares = self.strengths**2
        shares = squares / squares.sum(-1, keepdim=True)
        disorder = -(shares * torch.log(shares + 1e-12)).sum()
        return entropy * disorder + variance * (self.rows.var(-1).sum() + self.columns.var(-1).sum())


class CellData(Dataset):
    """All ID cells, as in the paper's study of this network, each rendered on its own: ((x, y), bump image)."""

    def __init__(self) -> None:
        cells = [(x, y) for x in range(SIDE) for y in range(SIDE) if not (x >= CORNER and y >= CORNER)]
        self.samples = [(torch.tensor(cell), image(*cell)) for cell in cells]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.samples[index]


def image(x: float, y: float) -> Tensor:
    """A bump on a grid with pixel centres at half-integers."""
    pixels = torch.arange(SIDE) + 0.5
    return torch.exp(-((pixels[None, :] - x) ** 2 + (pixels[:, None] - y) ** 2) / (2 * SIGMA**2))


def train_plainly(seed: int, data: CellData, steps: int, workers: int) -> float:
    """Seconds of training one seed with both penalties."""
    torch.manual_seed(seed)
    model = PlainRendered()
    return reference.train(
        model, data, steps, BATCH, penalty=model.penalties, weight_decay=1e-4, workers=workers
    ).seconds


def task() -> rc.Task:
    space = rc.FactorSpace(x=SIDE, y=SIDE)
    scene = rc.scenes.Bump(space, sigma=SIGMA, pixel_centres="half")
    return rc.Task(scene, rc.encodings.OneHot(space), rc.holdouts.corner(space, CORNER))


def train_ours(seeds: int, steps: int) -> float:
    """Seconds of training so many seeds together."""
    problem = task()
    training = rc.recipe("low_rank", steps=steps, evaluate_every=steps, evaluate_cells=1)
    return rc.train_seeds(rc.decoders.FactorRendered(problem), problem, range(seeds), training=training)[0].seconds


def peak_of_ours(seeds: int, steps: int) -> float:
    """The most memory, in GB, of a process that does nothing else."""
    code = f"""
from benchmarks import measure, reference_rendering
reference_rendering.train_ours({seeds}, {steps})
print(measure.peak_gb())
"""
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def rendering(scale: Scale) -> Iterator[Row]:
    """Several seeds of the factor-rendered decoder with both penalties, against the plain version seed by seed."""
    seeds, steps = scale.seeds_together, max(1, scale.samples // BATCH)
    data = CellData()

    def ours() -> float:
        return seeds * steps * BATCH / train_ours(seeds, steps)

    def plain(workers: int) -> float:
        each = [train_plainly(seed, data, steps, workers) for seed in range(min(seeds, 2))]  # the others repeat these
        return len(each) * steps * BATCH / sum(each)

    measured = interleaved(scale.repeats, ours=ours, reference=lambda: plain(2), alone=lambda: plain(0))
    middle = medians(measured)
    raw = {"ours_per_second": middle["ours"], "reference_per_second": middle["reference"], "measured": measured}
    name = f"factor-rendered N={SIDE} batch {BATCH}, {seeds} seeds: samples/s, ours / plain"
    yield Row(name, middle["ours"] / middle["reference"], TARGET, raw)
    alone = {"reference_per_second": middle["alone"]}
    yield Row("… whose samples its own process hands out", middle["ours"] / middle["alone"], None, alone)
    peak = peak_of_ours(seeds, steps)
    yield Row(f"… {MOST_GB:g} GB / peak memory", MOST_GB / peak, 1.0, {"peak_gb": peak})


def main() -> None:
    from benchmarks.cases import Scale as Full

    for row in rendering(Full(repeats=3)):
        print(row)


if __name__ == "__main__":
    main()
