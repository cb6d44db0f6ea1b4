"""The names of a run's files. docs/run-files.md describes their content."""

from __future__ import annotations

import re

RUN_ID = re.compile(r"[0-9a-f]{16}")
RUN = "run.json"  # written last, so a folder without it is unfinished
CONFIG = "config.json"
WEIGHTS = "model/model.safetensors"
CHECKPOINT = "checkpoint.safetensors"
LOCK = ".lock"
OUTPUTS = "outputs.safetensors"  # only for runs that were saved under a name
RESULTS = (CONFIG, "model/config.json", WEIGHTS, "scores.csv", "history.jsonl", "losses.safetensors")
NEW = ".new"  # results are written here before they replace the old files
FOLDERS = ("model", "diagnosis", NEW)
DIAGNOSIS = re.compile(r"diagnosis/[^/]+\.(json|csv|safetensors)")
# files of a run that is in training or was killed
PASSING = re.compile(r"(next-|damaged-)?checkpoint\.safetensors|\.lock.*|(.*/)?\..*\.part")


def is_result(name: str) -> bool:
    """Whether a finished run or its diagnosis has a file of this name."""
    return name.removeprefix(f"{NEW}/") in (*RESULTS, OUTPUTS, RUN) or DIAGNOSIS.fullmatch(name) is not None
