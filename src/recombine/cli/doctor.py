"""The command `recombine doctor`: versions, devices, the state of a run store, and what each extra is missing."""

from __future__ import annotations

import platform
import re
from collections import Counter
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

import typer

from recombine.cli.command import command
from recombine.cli.options import Json, Out
from recombine.cli.output import say, show_json

PACKAGES = ("recombine", "torch", "numpy", "scipy", "pydantic", "matplotlib", "pandas", "tensorly")
REQUIREMENT = re.compile(r"""(?P<name>[A-Za-z0-9._-]+).*extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor")(doctor)


@command
def doctor(out: Out = Path("runs"), as_json: Json = False) -> None:
    """Print versions, devices and missing packages.

    Also prints the number of threads, the states of the runs in a store, and the packages missing from each extra.

    \b
    Example:
      recombine doctor --out runs
    """
    found = {**_machine(), "missing": missing_by_extra(), "store": _store(out)}
    if as_json:
        show_json(found)
        return
    say(f"Python {found['python']} on {found['platform']}")
    say(", ".join(f"{name} {number}" for name, number in found["versions"].items()))
    say(f"{found['threads']} threads on {found['cores']} cores; devices: {', '.join(found['devices'])}")
    for extra, names in found["missing"].items():
        say(f"extra {extra}: " + (f"missing {', '.join(names)} (pip install 'recombine[{extra}]')" if names else "ok"))
    runs = ", ".join(f"{count} {status}" for status, count in found["store"]["runs"].items())
    say(f"store {found['store']['path']}: {runs or 'no runs'}")


def _machine() -> dict[str, Any]:
    import os

    import torch

    from recombine.core.devices import available

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: number for name in PACKAGES if (number := _version(name)) is not None},
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "devices": available(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def missing_by_extra() -> dict[str, list[str]]:
    """Map each extra to the packages it requires that are not installed."""
    try:
        requirements = distribution("recombine").requires or []
    except PackageNotFoundError:  # used from a source tree that is not installed
        return {}
    missing: dict[str, list[str]] = {}
    for requirement in filter(None, map(REQUIREMENT.match, requirements)):
        names = missing.setdefault(requirement["extra"], [])
        if _version(requirement["name"]) is None:
            names.append(requirement["name"])
    return missing


def _store(out: Path) -> dict[str, Any]:
    """Count the runs of a store in each state."""
    from recombine.runs.store import Store

    rows = Store(out).list() if out.is_dir() else []
    return {"path": str(out), "runs": dict(Counter(row.status.state.value for row in rows))}
