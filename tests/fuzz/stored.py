"""A small run with a diagnosis, as the files of a store: what the fuzzer damages."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.fuzz.cases import SMALL


def stored_run() -> dict[str, bytes]:
    """Path below the working directory → content."""
    from recombine.runs.config import RunConfig
    from recombine.runs.store import Store

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        run = store.train([RunConfig.parse(SMALL)])[0]
        run.diagnose(parts=["errors", "outputs"])
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and not path.name.endswith(".lock")
        }
