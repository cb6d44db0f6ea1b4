"""A data set of 5 GB is trained on and diagnosed within 3 GB of memory (docs/your-data.md)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def measured(tmp_path, *words: str) -> dict:
    command = [sys.executable, "-m", "benchmarks.large_data", "--folder", str(tmp_path), *words]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    return json.loads(done.stdout)


@pytest.mark.long
def test_five_gigabytes_within_three(tmp_path):
    found = measured(tmp_path, "--gigabytes", "5", "--steps", "50")
    assert found["data_gb"] == pytest.approx(5, rel=0.01)
    assert found["disk_gb"] < 0.1
    assert found["peak_gb"] <= 3
    assert {"errors", "superposition", "geometry", "kernels", "probes"} <= set(found["computed"])
