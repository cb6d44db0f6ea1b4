"""The verdicts of configurations that were diagnosed for several seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recombine.core.errors import InputError
from recombine.diagnostics.verdict import Verdict, verdict_over
from recombine.report.collect import Model


def verdicts_over_seeds(models: Sequence[Model]) -> Iterator[tuple[str, Verdict]]:
    """Yield the name of the first run of a configuration and the verdict over its runs, if there are several runs."""
    groups: dict[str, list[Model]] = {}
    for model in models:
        if model.run is not None:
            groups.setdefault(model.run.config.seedless_hash, []).append(model)
    for same in groups.values():
        if len(same) > 1:
            try:
                yield same[0].name, verdict_over([model.diagnosis for model in same])
            except InputError:
                continue  # the runs used different thresholds, so there is no common verdict
