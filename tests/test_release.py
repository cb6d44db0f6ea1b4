"""The release: what wheel and source distribution hold, and that the quick tests pass where only they are installed."""

import re
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml
from tools import installed

import recombine as rc

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return installed.build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_holds_the_package_and_nothing_else(built):
    _, wheel = built
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name for name in names if ".dist-info/" not in name}
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert inside == {name for name in files if "__pycache__" not in name}
    assert "recombine/py.typed" in inside


def test_the_metadata_say_what_the_code_says(built):
    _, wheel = built
    archive = zipfile.ZipFile(wheel)
    [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    found = message_from_string(archive.read(metadata).decode())
    assert found["Version"] == rc.__version__
    assert {"report", "ray", "h5", "umap", "parquet", "docs", "dev"} == set(found.get_all("Provides-Extra"))
    assert (
        "recombine = recombine.cli.app:main" in archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    )
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == rc.__version__
    assert re.search(rf"^## {re.escape(rc.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_source_distribution_can_be_tested(built):
    sdist, _ = built
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt", "tests/conftest.py"} <= names


def test_the_quick_tests_pass_in_a_clean_environment(built, tmp_path):
    _, wheel = built
    python = installed.install(wheel, tmp_path / "env", python=sys.executable, resolution="highest")
    installed.test(python, tmp_path, [])
