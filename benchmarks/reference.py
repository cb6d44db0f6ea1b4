"""What the library is measured against: the experiment as a plain research script would have it.

One Python loop renders the data sample by sample, a DataLoader with two workers hands them out, the networks are
transposed convolutions (or linear layers) in the default memory layout, and every step asks for its loss.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

SIDE = 28
HOLE = range(6, 23)  # x and y both in here: never trained on


class BumpData(Dataset):
    """ID samples drawn with replacement, each rendered on its own: (bump code, bump image)."""

    def __init__(self, samples: int, seed: int = 0) -> None:
        draws = random.Random(seed)
        self.samples = []
        while len(self.samples) < samples:
            x, y = draws.randrange(SIDE), draws.randrange(SIDE)
            if not (x in HOLE and y in HOLE):
                self.samples.append((bump_code(x, y), bump_image(x, y)))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.samples[index]


def bump_code(x: float, y: float) -> Tensor:
    units = torch.arange(SIDE, dtype=torch.float32)
    return torch.cat([torch.exp(-((units - x) ** 2) / 2), torch.exp(-((units - y) ** 2) / 2)])


def bump_image(x: float, y: float) -> Tensor:
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    return torch.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 2)


def cnn(depth: int = 4, width: int = 64) -> nn.Module:
    layers: list[nn.Module] = [nn.Unflatten(1, (2 * SIDE, 1, 1)), nn.ConvTranspose2d(2 * SIDE, width, 7), nn.ReLU()]
    side = 7
    for _ in range(depth):
        if side < SIDE:
            layers += [nn.ConvTranspose2d(width, width, 4, stride=2, padding=1), nn.ReLU()]
            side *= 2
        else:
            layers += [nn.ConvTranspose2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 1, 3, padding=1), nn.Flatten(1, 2))


def mlp(depth: int = 3, width: int = 256) -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 2 * SIDE
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, SIDE * SIDE), nn.Unflatten(1, (SIDE, SIDE)))


@dataclass
class Trained:
    """Losses of all steps, and seconds spent in steps and in handing out data, not in `check`."""

    losses: list[float]
    seconds: float


def train(
    model: nn.Module,
    data: Dataset,
    steps: int,
    batch: int = 32,
    check: Callable[[], bool] | None = None,
    check_every: int = 10,
    penalty: Callable[[], Tensor] | None = None,
    weight_decay: float = 0.01,
    workers: int = 2,
) -> Trained:
    """Train for some steps, or until `check`, called every so many steps, says that it is enough."""
    loader = DataLoader(data, batch_size=batch, shuffle=True, num_workers=workers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=weight_decay)
    losses, checking = [], 0.0
    started = time.perf_counter()
    for _ in range(math.ceil(steps / len(loader))):
        for code, image in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(code), image)
            if penalty is not None:
                loss = loss + penalty()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            paused = time.perf_counter()
            enough = check is not None and len(losses) % check_every == 0 and check()
            checking += time.perf_counter() - paused
            if enough or len(losses) == steps:
                return Trained(losses, time.perf_counter() - started - checking)
    raise AssertionError("the epochs are enough for the steps")
