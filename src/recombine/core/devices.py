"""Selection of the device."""

from __future__ import annotations

import torch

from recombine.core.errors import InputError


def available() -> list[str]:
    """Names of the devices of this machine."""
    names = ["cpu"]
    if torch.cuda.is_available():
        names += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


def resolve(device: str | torch.device) -> torch.device:
    """ "auto" (cuda, then mps, then cpu) or a device, which must exist."""
    names, name = available(), "cpu" if str(device) == "cpu:0" else str(device)
    if name == "auto":
        return torch.device(next((n for n in ("cuda", "mps") if n in names), "cpu"))
    if name not in names:
        raise InputError(f"There is no device {name!r} on this machine. Devices: auto, {', '.join(names)}.")
    return torch.device(name)
