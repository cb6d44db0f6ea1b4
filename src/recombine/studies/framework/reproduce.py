"""Reproduce the paper: train what is missing, compute rows, draw figures, give verdicts, study by study.

    report = reproduce(["R5", "C7"], profile("quick"), Path("out"))
    report.claims, report.failed, report.figures

Everything finished is kept, so the same call goes on after an interruption, and one whose runs are all stored only
draws and judges. A run or a study that fails is reported and the rest goes on; its claims are inconclusive.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import recombine
from recombine.core.errors import InputError, RecombineError, TrainingInterrupted
from recombine.core.progress import ProgressBar
from recombine.diagnostics.findings import PartResult
from recombine.runs.config import RunConfig
from recombine.runs.estimate import Estimator
from recombine.runs.store import Store
from recombine.studies.framework import edition_1, edition_2
from recombine.studies.framework.output import EDITION, Output
from recombine.studies.framework.profiles import FIRST_SEED, Profile
from recombine.studies.framework.study import Runs, Study, discover, select, undiagnosed
from recombine.studies.framework.verdicts import Evidence, judge, judge_by_intervals

Say = Callable[[str], None]
Train = Callable[[Sequence[RunConfig], Store], dict[str, str]]  # trains runs; returns id → why of those that failed


def train_here(
    configs: Sequence[RunConfig], store: Store, *, device: str = "auto", progress: bool | None = None
) -> dict[str, str]:
    """Train runs in this process, one configuration after the other."""
    groups: dict[str, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(config.seedless_hash, []).append(config)
    failed: dict[str, str] = {}
    for group in groups.values():
        try:
            store.train(group, device=device, progress=progress)
        except TrainingInterrupted:
            raise
        except RecombineError as error:
            failed |= {config.hash: str(error) for config in group if not store.is_finished(config)}
    return failed


@dataclass
class Report:
    """What a reproduction did.

    Attributes:
        out: The output folder.
        claims: All of claims.json; `judged` names those of this call.
        figures: Files written.
        seconds: Study → time it took, training included.
        total_seconds: Of the whole call.
        failed: What went wrong: run or study → why.
    """

    out: Path
    claims: list[dict[str, Any]] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    total_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "claims": [row for row in self.claims if row["claim"] in self.judged],
            "figures": [str(path) for path in self.figures],
            "seconds": self.seconds,
            "total_seconds": self.total_seconds,
            "failed": self.failed,
        }


def reproduce(
    words: Iterable[str],
    profile: Profile,
    out: Path,
    *,
    seeds: int | None = None,
    train: Train = train_here,
    command: str = "",
    say: Say = lambda text: None,
) -> Report:
    """Make results and verdicts.

    Args:
        words: Results ("R5"), claims ("C7"), names of studies, or "all".
        profile: How large.
        out: The output folder.
        seeds: How many seeds, if not the profile's.
        train: How runs are trained; whatever fails there is reported and the rest goes on.
        command: What the user typed, for the record.
        say: Told what is going on, line by line.
    """
    chosen = select(words, discover())
    output = Output(out, profile.name)
    numbers = {study.key: _seeds(profile, seeds, study) for study in chosen}
    report = Report(out)
    call: dict[str, Any] = {"command": command, "seeds": numbers, "started": _now(), "ended": None, "seconds": None,
                            "trained": 0, "studies": report.seconds, **_where()}  # fmt: skip
    calls = [*output.about().get("calls", []), call]
    output.write_about({"calls": calls})
    begun = time.perf_counter()
    try:
        for study in chosen:
            start = time.perf_counter()
            say(f"{study.key} ({', '.join(study.results)}): {study.title}")
            _study(study, output, profile, numbers[study.key], report, _counting(train, call), say)
            report.seconds[study.key] = round(time.perf_counter() - start, 1)
            say(f"{study.key}: {report.seconds[study.key]:.1f} s")
            output.write_about({"calls": calls})
    finally:
        report.total_seconds = round(time.perf_counter() - begun, 1)
        call.update(ended=_now(), seconds=report.total_seconds)
        output.write_about({"calls": calls})
    report.claims = output.claims()
    return report


def _counting(train: Train, call: dict[str, Any]) -> Train:
    """Train, and keep count of the runs that were finished, also if it is interrupted."""

    def counted(configs: Sequence[RunConfig], store: Store) -> dict[str, str]:
        try:
            return train(configs, store)
        finally:
            call["trained"] += sum(map(store.is_finished, configs))

    return counted


def _study(
    study: Study,
    output: Output,
    profile: Profile,
    seeds: Sequence[int],
    report: Report,
    train: Train,
    say: Say,
) -> None:
    """One study from runs to verdicts. What goes wrong on the way is put into the report."""
    reason, failures, part = "", {}, None
    try:
        runs = trained(study, profile, seeds, output.store, train, say)
        report.failed |= runs.failed
        failures = {f"run {name} failed": why for name, why in runs.failed.items()}
        part = _rows(study, output, profile, seeds, runs)
        report.failed |= undiagnosed(part)
        failures |= undiagnosed(part)
        for name, why in {**undiagnosed(part), **reasons(part)}.items():
            say(f"  {name}: {why}")
        reason = listed(reasons(part))
        if any(part.tables.values()):
            report.figures += output.draw(study, part)
    except TrainingInterrupted:
        raise
    except RecombineError as error:
        report.failed[study.key] = str(error)
        failures[f"study {study.key} failed"] = str(error)
        say(f"{study.key} failed: {error}")
    verdicts = judged(study, part, seeds, reason, listed(failures))
    rows = [{**verdict, "study": study.key, "profile": profile.name} for verdict in verdicts]
    output.write_claims(rows)
    report.judged += [row["claim"] for row in rows]


def reasons(part: PartResult) -> dict[str, str]:
    """What is missing of a study's result → why."""
    return {what: why.reason for what, why in part.missing.items()}


def listed(reasons: Mapping[str, str]) -> str:
    """What → why, as a line."""
    return "; ".join(f"{name}: {why}" for name, why in reasons.items())


def judged(
    study: Study, part: PartResult | None, seeds: Sequence[int], reason: str = "", failure: str = ""
) -> list[dict[str, Any]]:
    """The verdicts of a study from its rows alone, as in claims.json: second edition, with the first beside it."""
    effects = {} if part is None else study.effects(part)
    first = {} if part is None else {name: Evidence(values) for name, values in study.first_effects(part).items()}
    rows = []
    for claim in study.claims:
        second = judge(edition_2.CLAIMS[claim], effects, seeds, reason, failure).to_json()
        before = judge_by_intervals(edition_1.CLAIMS[claim], first, seeds, reason, failure).to_json()
        rows.append({**second, "edition": EDITION, "first_edition": before})
    return rows


def _rows(study: Study, output: Output, profile: Profile, seeds: Sequence[int], runs: Runs) -> PartResult:
    """A study's rows, computed only if those saved are of other runs."""
    used = {
        config.hash: output.store.load(config.hash).facts["files"]["model/model.safetensors"]
        for config in _all_configs(study, profile, seeds, runs)
        if output.store.is_finished(config) and config.hash not in runs.failed
    }
    part = output.saved(study, used, seeds)
    if part is None:
        output.save(study, study.rows(runs, profile, seeds), used, seeds)
        part = output.load(study.key)
    return part


def _all_configs(study: Study, profile: Profile, seeds: Sequence[int], runs: Runs) -> list[RunConfig]:
    return list(dict.fromkeys([*study.configs(profile, seeds), *study.more(profile, seeds, runs)]))


def trained(
    study: Study,
    profile: Profile,
    seeds: Sequence[int],
    store: Store,
    train: Train = train_here,
    say: Say = lambda text: None,
) -> Runs:
    """Train all runs of a study that are not in the store, those it asks for on the way included.

    Runs whose files are damaged are trained again.
    """
    failed: dict[str, str] = {}
    checked: set[RunConfig] = set()
    wanted = study.configs(profile, seeds)
    while True:
        for config in [c for c in dict.fromkeys(wanted) if c not in checked and store.is_finished(c)]:
            checked.add(config)
            damage = store.damage(config)
            if damage is not None:
                say(f"  run {config.hash} is damaged and is trained again: {damage}")
                store.reopen(config)
        missing = [c for c in dict.fromkeys(wanted) if not store.is_finished(c) and c.hash not in failed]
        if missing:
            say(f"  {len(missing)} of {len(set(wanted))} runs to train")
            failed |= train(missing, store)
        known = set(wanted)
        wanted = _all_configs(study, profile, seeds, Runs(store, failed))
        if known >= set(wanted):
            break
    for name, why in failed.items():
        say(f"  run {name} failed: {why}")
    return Runs(store, failed)


@dataclass(frozen=True)
class Plan:
    """What a study would train.

    Attributes:
        runs: Those declared beforehand, new ones that no earlier study of the plan has.
        finished: How many of them are.
        search: How many more a search would ask for, roughly.
        seconds: Estimate of what is left, in one process.
    """

    study: str
    results: tuple[str, ...]
    runs: int
    finished: int
    search: int
    seconds: float
    to_train: tuple[RunConfig, ...]


def plan(words: Iterable[str], profile: Profile, out: Path, seeds: int | None = None) -> list[Plan]:
    """What `reproduce` would train, and about how long it would take; writes nothing."""
    output = Output(out, profile.name)
    chosen = select(words, discover())
    estimator = Estimator(output.store)
    seen: set[RunConfig] = set()
    plans = []
    with ProgressBar("estimating", len(chosen)) as bar:
        for number, study in enumerate(chosen):
            bar.update(number, study.key)
            numbers = _seeds(profile, seeds, study)
            configs = [config for config in dict.fromkeys(study.configs(profile, numbers)) if config not in seen]
            seen |= set(configs)
            missing = [config for config in configs if not output.store.is_finished(config)]
            times = estimator.seconds(missing)
            more = study.more_expected(profile, numbers) if missing else 0
            each = sum(estimator.seconds(configs)) / len(configs) if more else 0.0
            finished, seconds = len(configs) - len(missing), sum(times) + more * each
            plans.append(Plan(study.key, study.results, len(configs), finished, more, seconds, tuple(missing)))
    return plans


def _seeds(profile: Profile, seeds: int | None, study: Study) -> list[int]:
    if seeds is not None and seeds < 1:
        raise InputError(f"At least one seed is needed. Got --seeds {seeds}.")
    return profile.seeds_of(study.key) if seeds is None else [FIRST_SEED + i for i in range(seeds)]


def _where() -> dict[str, Any]:
    """Versions and class of hardware, nothing that names the machine."""
    return {
        "versions": {
            "recombine": recombine.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": {
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpus": torch.cuda.device_count(),
        },
    }


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
