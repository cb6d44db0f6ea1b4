"""The definition of a study. Built-in studies are the modules of `paper` and `side` that have a `STUDY`.

    STUDY = Study(
        key="superpositions", title="OOD outputs against sums of training outputs", results=("R2",), claims=("C2",),
        version=1, wanted=…, request=…, rows=…, plot=…, effects=…,
    )

Runs are declared as configurations, so that the store trains each of them once even if several studies use it. A study
also declares the diagnosis that each run needs; the engine of a sweep computes it and stores it with the run. Rows are
computed from finished runs and stored diagnoses and then saved. Figures and verdicts use only the saved rows.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from recombine.core.catalogue import Catalogue
from recombine.core.errors import InputError, Missing, MissingPart, NotComputable, StoreError
from recombine.core.registry import nearest
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import Absence, PartResult
from recombine.diagnostics.request import DiagnosisRequest
from recombine.runs.config import RunConfig
from recombine.runs.store import Store, StoredRun
from recombine.studies.framework.profiles import FIRST_SEED, Profile, consecutive_seeds
from recombine.studies.framework.verdicts import Effects

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNDIAGNOSED = "undiagnosed"
FirstEffects = Mapping[str, Mapping[int, float]]  # part of a claim ("C7.variance") → seed → number


class Runs:
    """The finished runs of a study. `get` returns None for runs that failed.

    Args:
        store: Store of the runs.
        failed: Maps ids of runs that could not be trained to the reason.
        undiagnosed: Maps ids of finished runs whose diagnosis failed to the reason that the sweep reported.
    """

    def __init__(
        self, store: Store, failed: Mapping[str, str] | None = None, undiagnosed: Mapping[str, str] | None = None
    ) -> None:
        self.store, self.failed, self.undiagnosed = store, dict(failed or {}), dict(undiagnosed or {})

    def get(self, config: RunConfig) -> StoredRun | None:
        """The run of a configuration, or None. Every call reads the run from disk, so runs do not accumulate in memory.

        A run that cannot be read counts as missing, so a search requests it and it is trained again.
        """
        if config.hash in self.failed or not self.store.is_finished(config):
            return None
        try:
            return self.store.load(config.hash)
        except StoreError:
            return None

    def labelled(self, wanted: Mapping[Any, RunConfig]) -> Iterator[tuple[Any, StoredRun]]:
        """Iterate over (label, run) of all finished runs."""
        for label, config in wanted.items():
            run = self.get(config)
            if run is not None:
                yield label, run

    def diagnosis(self, run: StoredRun) -> Diagnosis:
        """The stored diagnosis of a run.

        Raises:
            NotComputable: If its diagnosis failed.
        """
        if run.id in self.undiagnosed:
            raise NotComputable(Missing.FAILED, self.undiagnosed[run.id])
        return run.diagnosis


@contextlib.contextmanager
def record_undiagnosed(part: PartResult, what: str) -> Iterator[None]:
    """Skip a run that cannot be diagnosed (such as a network whose units all died), and record it with the reason.

    Such a run counts as a failure. Entries of `part.missing` do not: a search that ends without a number is a result.
    """
    try:
        yield
    except (NotComputable, MissingPart) as error:
        part.facts.setdefault(UNDIAGNOSED, {})[what] = Absence.of(error)


def undiagnosed(part: PartResult) -> dict[str, Absence]:
    """Map the runs that `record_undiagnosed` skipped to the reasons."""
    return {what: Absence(Missing(state), why) for what, (state, why) in part.facts.get(UNDIAGNOSED, {}).items()}


def nothing_more(profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    """Default of `Study.more`: the study declares all of its runs in `wanted`."""
    return []


@dataclass(frozen=True, kw_only=True)
class Study:
    """One result, or several results that use the same runs.

    Attributes:
        key: Name in files; lower case.
        title: One-line description.
        results: The results of the paper that it reproduces, such as "R4".
        claims: The claims that it decides, such as "C4". Each claim is decided by one study. Side results decide none.
        version: Incremented when the meaning of the rows changes, so that saved rows are computed again.
        wanted: (profile, seeds) → the runs it needs, as a list or by label.
        request: The diagnosis it reads for each run, or (profile, run) → that diagnosis; None if it reads only scores.
        seeds: Maps profiles to the study's number of seeds, if its claims need a number other than the profile's
            default (docs/statistics-power.md).
        first_seed: Maps profiles to the study's first seed, if it differs from that of the others, because earlier
            seeds left a claim undecided (docs/statistics-power.md).
        rows: (runs, profile, seeds) → a part named like the study: tables, arrays and facts. Failed runs are absent;
            runs that cannot be diagnosed are skipped with `record_undiagnosed`.
        plot: Saved rows → figures by name, such as "R05_factorization". It must not need runs, and must work if some
            runs failed. It is not called if all failed.
        effects: Saved rows → evidence for the parts of its claims, second edition.
        first_effects: The same for the first edition: part of a claim → seed → number.
        more: (profile, seeds, runs) → all further runs that are required given the finished ones. Searches use it: it
            is called again until it returns no new runs.
        more_expected: (profile, seeds) → about as many runs as `more` will request, and similar to them. Used to
            estimate the training time.
    """

    key: str
    title: str
    results: tuple[str, ...]
    claims: tuple[str, ...] = ()
    version: int
    wanted: Callable[[Profile, Sequence[int]], Mapping[Any, RunConfig] | Sequence[RunConfig]]
    rows: Callable[[Runs, Profile, Sequence[int]], PartResult]
    request: DiagnosisRequest | Callable[[Profile, RunConfig], DiagnosisRequest | None] | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    first_seed: Mapping[str, int] = field(default_factory=dict)
    plot: Callable[[PartResult], dict[str, Figure]]
    effects: Callable[[PartResult], Effects] = field(default=lambda part: {})
    first_effects: Callable[[PartResult], FirstEffects] = field(default=lambda part: {})
    more: Callable[[Profile, Sequence[int], Runs], list[RunConfig]] = field(default=nothing_more)
    more_expected: Callable[[Profile, Sequence[int]], list[RunConfig]] = field(default=lambda profile, seeds: [])

    def __post_init__(self) -> None:
        assert re.fullmatch(r"[a-z][a-z_]*", self.key), self.key

    def configs(self, profile: Profile, seeds: Sequence[int]) -> list[RunConfig]:
        """The configurations of the runs that the study declares in `wanted`."""
        found = self.wanted(profile, seeds)
        return list(found.values() if isinstance(found, Mapping) else found)

    def request_for(self, profile: Profile, config: RunConfig) -> DiagnosisRequest | None:
        """The diagnosis that the study reads for a run; None if it reads only scores."""
        return self.request(profile, config) if callable(self.request) else self.request

    def seeds_in(self, profile: Profile, number: int | None = None) -> list[int]:
        """The study's seeds in a profile. `number` overrides how many there are.

        Raises:
            InputError: If the number is less than 1.
        """
        count = self.seeds.get(profile.name, profile.seeds) if number is None else number
        return consecutive_seeds(count, self.first_seed.get(profile.name, FIRST_SEED))


class StudyCatalogue(Catalogue[Study]):
    """The studies of plug-ins. They cannot use the name of a built-in study."""

    def has(self, kind: str) -> bool:
        return kind in built_in() or super().has(kind)


STUDIES = StudyCatalogue("study")


@cache
def built_in() -> Mapping[str, Study]:
    """The studies of this package by key, ordered by their first result."""
    from recombine.studies import paper, side

    found: dict[str, Study] = {}
    for module in [
        *pkgutil.iter_modules(paper.__path__, f"{paper.__name__}."),
        *pkgutil.iter_modules(side.__path__, f"{side.__name__}."),
    ]:
        study = getattr(importlib.import_module(module.name), "STUDY", None)
        if isinstance(study, Study):
            assert study.key not in found, study.key
            found[study.key] = study
    return dict(sorted(found.items(), key=lambda item: natural(item[1].results[0])))


def discover() -> dict[str, Study]:
    """All studies by key. Those of plug-ins come last."""
    return {**built_in(), **STUDIES}


def natural(name: str) -> tuple[str, int]:
    """Sort key that orders "R2" before "R10"."""
    number = re.sub(r"\D", "", name)
    return re.sub(r"\d", "", name), int(number or 0)


def select(words: Iterable[str], studies: Mapping[str, Study]) -> list[Study]:
    """Select studies by results, claims or names. "all" or no words select all of them.

    Raises:
        InputError: For an unknown word; the message lists the valid ones.
    """
    words = [word.strip() for text in words for word in text.split(",") if word.strip()]
    known: dict[str, list[str]] = {}
    for study in studies.values():
        for name in (*study.results, *study.claims, study.key):
            known.setdefault(name.lower(), []).append(study.key)
    unknown = [word for word in words if word.lower() not in known and word.lower() != "all"]
    if unknown:
        results = sorted({name for study in studies.values() for name in study.results}, key=natural)
        claims = sorted({name for study in studies.values() for name in study.claims}, key=natural)
        raise InputError(
            f"There is no result or claim {', '.join(map(repr, unknown))}{nearest(unknown[0], [*results, *claims])}. "
            f"Results: {', '.join(results)}. Claims: {', '.join(claims)}. Studies: {', '.join(studies)}. Or: all."
        )
    if not words or any(word.lower() == "all" for word in words):
        return list(studies.values())
    chosen = {key for word in words for key in known[word.lower()]}
    return [study for key, study in studies.items() if key in chosen]
