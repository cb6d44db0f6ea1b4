"""The names of a run's files. docs/run-files.md says what is in them."""

from __future__ import annotations

import re

RUN_ID = re.compile(r"[0-9a-f]{16}")
RUN = "run.json"  # written last: a folder without it is unfinished
CONFIG = "config.json"
WEIGHTS = "model/model.safetensors"
CHECKPOINT = "checkpoint.safetensors"
LOCK = ".lock"
OUTPUTS = "outputs.safetensors"  # of runs that were saved under a name
RESULTS = (CONFIG, "model/config.json", WEIGHTS, "scores.csv", "history.jsonl", "losses.safetensors")
NEW = ".new"  # where results are put together before they replace what was there
FOLDERS = ("model", "diagnosis", NEW)
DIAGNOSIS = re.compile(r"diagnosis/[^/]+\.(json|csv|safetensors)")
# files of a run at work, or of one that was killed
PASSING = re.compile(r"(next-|damaged-)?checkpoint\.safetensors|\.lock.*|(.*/)?\..*\.part")


def is_result(name: str) -> bool:
    """Whether a finished run, or its diagnosis, has a file of this name."""
    return name.removeprefix(f"{NEW}/") in (*RESULTS, OUTPUTS, RUN) or DIAGNOSIS.fullmatch(name) is not None
