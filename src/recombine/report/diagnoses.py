"""Writes a page about diagnoses that are in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recombine.diagnostics.diagnosis import Diagnosis
from recombine.report.collect import Collected, Model
from recombine.report.page import write_report


def report_diagnoses(diagnoses: Mapping[str, Diagnosis], path: str | Path = "report.html") -> Path:
    """Write one self-contained page about diagnosed models.

    Args:
        diagnoses: Maps names of models to their diagnoses.
        path: The file to write.
    """
    models = [Model(name, found) for name, found in diagnoses.items()]
    write_report(Collected(models=models), Path(path))
    return Path(path)
