"""The verdicts of configurations that were diagnosed for several seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recombine.core.errors import InputError
from recombine.diagnostics.verdict import Verdict, verdict_over
from recombine.report.collect import Model


def verdicts_over_seeds(models: Sequence[Model]) -> Iterator[tuple[str, Verdict]]:
    """The name of a configuration's first run and the verdict over all its runs, if there are several."""
    groups: dict[str, list[Model]] = {}
    for model in models:
        if model.run is not None:
            groups.setdefault(model.run.config.seedless_hash, []).append(model)
    for same in groups.values():
        if len(same) > 1:
            try:
                yield same[0].name, verdict_over([model.diagnosis for model in same])
            except InputError:
                continue  # different thresholds, so there is no common verdict
