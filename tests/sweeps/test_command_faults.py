"""A sample of what `make fault-test` does to `train` and `diagnose`; all commands in the long tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def killed(kills, *commands):
    words = ["--kills", str(kills), "--commands", *commands]
    call = [sys.executable, "-m", "tests.sweeps.command_faults", *words]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: facts["killed"] for name, facts in json.loads(done.stdout).items()}


def test_train_and_diagnose_can_be_killed_at_any_moment():
    assert killed(1, "train", "diagnose") == {"train": 1, "diagnose": 1}


@pytest.mark.long
def test_every_command_can_be_killed_at_any_moment():
    commands = ("train", "diagnose", "report", "reproduce")
    assert killed(5, *commands) == dict.fromkeys(commands, 5)
