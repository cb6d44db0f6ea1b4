"""A small sample of `make fuzz`, and every defect that it ever found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from recombine.core.errors import InputError
from recombine.core.limits import check_memory, in_words
from tests.fuzz.found import FOUND
from tests.fuzz.generated import generated
from tests.fuzz.worker import run_process


def test_a_sample_of_the_fuzzer_finds_nothing() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--cases", "60", "--processes", "0", "--workers", "1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert "60 cases" in found.stdout


def test_cases_can_be_generated() -> None:
    """Case 4719 once ended the process that generated it, and with it a third of all later cases."""
    assert generated("other", 4719, {}).words


RAISING = """
import sys
from tests.fuzz import __main__ as fuzz
def raising(*given):
    raise TypeError("a defect of the fuzzer")
fuzz._case = raising
sys.exit(fuzz.main())
"""


def test_a_process_of_the_fuzzer_that_ends_is_a_finding() -> None:
    command = [sys.executable, "-c", RAISING, "--cases", "4", "--processes", "0", "--workers", "2"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "0 cases, 0 of them as processes; 4 findings" in found.stdout
    assert found.stderr.count("TypeError: a defect of the fuzzer") == 4


@pytest.mark.long
@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_what_was_found_stays_fixed_in_processes_too(case) -> None:
    assert run_process(case).wrong == []


def test_requests_beyond_the_machine_name_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recombine.core.limits.machine_memory", lambda: 24 * 10**9)
    check_memory(24 * 10**9, "This")
    with pytest.raises(InputError, match=r"48 GB.*24 GB") as caught:
        check_memory(48 * 10**9, "This", "decoder.width")
    assert caught.value.key == "decoder.width"
    assert [in_words(size) for size in (999, 10**6, 5 * 10**20)] == ["999 bytes", "1 MB", "500 EB"]
