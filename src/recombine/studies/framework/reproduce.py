"""Reproduces the paper study by study: trains and diagnoses what is missing, reads rows, draws figures, gives verdicts.

    report = reproduce(["R5", "C7"], profile("quick"), Path("out"))
    report.claims, report.failed, report.figures

Finished results are kept, so the same call resumes after an interruption. If all runs are stored, it only draws and
judges. A failing run or study is reported and the rest continues; its claims become inconclusive.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import recombine
from recombine.core.errors import RecombineError, StoreError, TrainingInterrupted
from recombine.diagnostics.findings import Absence, PartResult
from recombine.runs.damage import MOST_NAMED
from recombine.studies.framework import edition_1, edition_2
from recombine.studies.framework.output import EDITION, Output
from recombine.studies.framework.preparing import Preparation, Say, SweepOptions, all_configs
from recombine.studies.framework.profiles import Profile
from recombine.studies.framework.study import Runs, Study, discover, select, undiagnosed
from recombine.studies.framework.training_code import training_code
from recombine.studies.framework.verdicts import Evidence, decide, decide_by_intervals


@dataclass
class Report:
    """The result of a reproduction.

    Attributes:
        out: The output folder.
        claims: The content of claims.json; `judged` lists those of this call.
        figures: The written files.
        seconds: Time per study, including training.
        total_seconds: Time of the whole call.
        failed: Maps failed runs and studies to the reason.
        lacking: Maps studies to the part of the whole profile that is missing from the folder.
    """

    out: Path
    claims: list[dict[str, Any]] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    total_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "claims": [row for row in self.claims if row["claim"] in self.judged],
            "figures": [str(path) for path in self.figures],
            "seconds": self.seconds,
            "total_seconds": self.total_seconds,
            "failed": self.failed,
            "lacking": self.lacking,
        }


def reproduce(
    words: Iterable[str],
    profile: Profile,
    out: Path,
    *,
    seeds: int | None = None,
    sweep: SweepOptions | None = None,
    command: str = "",
    say: Say = lambda text: None,
) -> Report:
    """Reproduce results and give verdicts.

    Args:
        words: Results ("R5"), claims ("C7"), study names, or "all".
        profile: The size of the reproduction.
        out: The output folder.
        seeds: Number of seeds; by default the profile's.
        sweep: Where runs are trained and diagnosed. Failures are reported and the rest continues.
        command: The user's command line, for the record.
        say: Called with progress messages.
    """
    chosen = select(words, discover())
    output = Output(out, profile.name)
    numbers = {study.key: study.seeds_in(profile, seeds) for study in chosen}
    report = Report(out)
    preparation = Preparation(output.store, sweep or SweepOptions(), say)
    call: dict[str, Any] = {"command": command, "seeds": numbers, "started": _now(), "ended": None, "seconds": None,
                            "trained": 0, "training_code": training_code(), "studies": report.seconds,
                            **_where()}  # fmt: skip
    calls = [*output.about().get("calls", []), call]
    check_training_code(calls)
    output.write_about({"calls": calls})
    begun = time.perf_counter()
    try:
        for study in chosen:
            start = time.perf_counter()
            say(f"{study.key} ({', '.join(study.results)}): {study.title}")
            _study(study, output, profile, numbers[study.key], report, preparation)
            call["trained"] = preparation.trained
            report.seconds[study.key] = round(time.perf_counter() - start, 1)
            say(f"{study.key}: {report.seconds[study.key]:.1f} s")
            output.write_about({"calls": calls})
    finally:
        preparation.close()
        report.total_seconds = round(time.perf_counter() - begun, 1)
        call.update(ended=_now(), seconds=report.total_seconds, trained=preparation.trained)
        report.lacking = lacking(output, profile)
        output.write_about({"calls": calls, "lacking": report.lacking})
    report.claims = output.claims()
    return report


def lacking(output: Output, profile: Profile) -> dict[str, str]:
    """Map incomplete studies to the number of seeds they have. Empty if the folder holds the whole profile."""
    there = {key: len(output.seeds_of(key)) for key in output.studies()}
    found = {}
    for key, study in discover().items():
        wanted = len(study.seeds_in(profile))
        if there.get(key, 0) < wanted:
            found[key] = f"{there[key]} of {wanted} seeds" if key in there else "no rows"
    return found


def check_training_code(calls: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to add runs to a folder whose runs were trained by code with different numerical results.

    Args:
        calls: All calls on the folder. The last one is about to start.

    Raises:
        StoreError: If an earlier call trained runs with a `training_code` that differs from that of the last call.
    """
    now = calls[-1]["training_code"]
    others = [call for call in calls[:-1] if call["trained"] and call.get("training_code", now) != now]
    if others:
        raise StoreError(
            "This version trains differently from the version that trained the runs in this folder (training code "
            f"{others[0]['training_code']} then, {now} now), so new runs would not be comparable with them. Choose "
            "another --out, or continue with the earlier version."
        )


def _study(
    study: Study, output: Output, profile: Profile, seeds: Sequence[int], report: Report, preparation: Preparation
) -> None:
    """Process one study from runs to verdicts. Problems are recorded in the report."""
    reason, failures, part, say = "", {}, None, preparation.say
    try:
        part, failed = _rows(study, output, profile, seeds, preparation)
        lost = reasons(undiagnosed(part))
        report.failed |= failed | lost
        failures = {f"run {name} failed": why for name, why in failed.items()} | lost
        for name, why in {**lost, **reasons(part.missing)}.items():
            say(f"  {name}: {why}")
        reason = listed(reasons(part.missing))
        if any(part.tables.values()):
            report.figures += output.draw(study, part)
    except TrainingInterrupted:
        raise
    except RecombineError as error:
        report.failed[study.key] = str(error)
        failures[f"study {study.key} failed"] = str(error)
        say(f"{study.key} failed: {error}")
    verdicts = judged(study, part, seeds, reason, listed(failures))
    about = {"study": study.key, "results": list(study.results), "profile": profile.name}
    rows = [{**verdict, **about} for verdict in verdicts]
    output.write_claims(rows)
    report.judged += [row["claim"] for row in rows]


def _rows(
    study: Study, output: Output, profile: Profile, seeds: Sequence[int], preparation: Preparation
) -> tuple[PartResult, dict[str, str]]:
    """A study's rows, and the reasons why runs failed. Saved rows of the same runs are reused."""
    store = output.store
    for line in _missing(output, study):
        preparation.say(f"  {line}")
    preparation.reopen_damaged(study.configs(profile, seeds))
    runs = Runs(store)
    configs = all_configs(study, profile, seeds, runs)
    if all(map(store.is_finished, configs)):
        part = output.saved(study, output.weights_of(configs), seeds)
        if part is not None:
            return part, {}
    runs = preparation.runs_of(study, profile, seeds)
    kept = [c for c in all_configs(study, profile, seeds, runs) if c.hash not in runs.failed and store.is_finished(c)]
    output.save(study, study.rows(runs, profile, seeds), output.weights_of(kept), seeds)
    return output.load(study.key), runs.failed


def _missing(output: Output, study: Study) -> list[str]:
    """Lines that name the runs behind saved rows that are no longer in the store."""
    gone = [run for run in output.runs_of(study.key) if not (output.store.root / run).is_dir()]
    if not gone:
        return []
    more = f" and {len(gone) - MOST_NAMED} more" if len(gone) > MOST_NAMED else ""
    return [f"Training again, because they are missing: runs {', '.join(gone[:MOST_NAMED])}{more}."]


def reasons(missing: Mapping[str, Absence]) -> dict[str, str]:
    """Map missing items to human-readable reasons."""
    return {what: why.reason for what, why in missing.items()}


def listed(reasons: Mapping[str, str]) -> str:
    """Format a mapping of names to reasons as one line."""
    return "; ".join(f"{name}: {why}" for name, why in reasons.items())


def judged(
    study: Study, part: PartResult | None, seeds: Sequence[int], reason: str = "", failure: str = ""
) -> list[dict[str, Any]]:
    """The verdicts of a study from its rows, as in claims.json: second edition, with the first beside it."""
    effects = {} if part is None else study.effects(part)
    first = {} if part is None else {name: Evidence(values) for name, values in study.first_effects(part).items()}
    rows = []
    for claim in study.claims:
        second = decide(edition_2.CLAIMS[claim], effects, seeds, reason, failure).to_json()
        before = edition_1.CLAIMS.get(claim)  # the first edition lacks claims that were added later
        found = None if before is None else decide_by_intervals(before, first, seeds, reason, failure).to_json()
        rows.append({**second, "edition": EDITION, "first_edition": found})
    return rows


def _where() -> dict[str, Any]:
    """Versions and hardware class, without anything that identifies the machine."""
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
