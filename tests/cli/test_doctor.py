"""`recombine doctor` tells what is installed, what is missing, and how a store is."""

import json

import pytest
from typer.testing import CliRunner

from recombine.cli import doctor
from recombine.cli.app import app

pytestmark = pytest.mark.quick


def test_it_tells_versions_devices_and_an_empty_store(tmp_path):
    result = CliRunner().invoke(app, ["doctor", "--json", "--out", str(tmp_path)])
    found = json.loads(result.stdout)
    assert found["devices"][0] == "cpu"
    assert found["threads"] >= 1
    assert found["versions"]["torch"]
    assert found["store"] == {"path": str(tmp_path), "runs": {}}


def test_a_damaged_run_is_counted(tmp_path):
    run = tmp_path / "0123456789abcdef"
    run.mkdir()
    (run / "run.json").write_text("{")
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json", "--out", str(tmp_path)]).stdout)
    assert found["store"]["runs"] == {"damaged": 1}


def test_missing_packages_are_listed_by_extra(monkeypatch):
    class Installed:
        requires = ("numpy>=2", "nosuchpackage>=1 ; extra == 'imaginary'", "numpy ; extra == 'real'")

    monkeypatch.setattr(doctor, "distribution", lambda name: Installed)
    assert doctor.missing_by_extra() == {"imaginary": ["nosuchpackage"], "real": []}
