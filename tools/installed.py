"""Run the quick tests against the built package in an environment of its own.

python -m tools.installed FOLDER                                  # the versions of constraints.txt
python -m tools.installed FOLDER --resolution lowest-direct       # the oldest ones (`make test-oldest`)
python -m tools.installed FOLDER --python python3.13              # another Python

The wheel is built from a source distribution, installed with its test dependencies into FOLDER/env, and tested from
FOLDER/tests, where the source tree cannot be reached.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BESIDE = ("tests", "tools", "benchmarks", "docs", "pyproject.toml", "README.md", "mkdocs.yml", "CHANGELOG.md",
          "CONTRIBUTING.md", "CITATION.cff", "Makefile", "constraints.txt")  # fmt: skip


def build(folder: Path) -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from what it contains; returns both."""
    folder.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], cwd=ROOT)
    [sdist] = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    [source] = (folder / "unpacked").iterdir()
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=source)
    [wheel] = folder.glob("*.whl")
    return sdist, wheel


def install(wheel: Path, environment: Path, *, python: str, resolution: str) -> Path:
    """Install the wheel with its test dependencies into a new environment; returns its Python."""
    uv = [sys.executable, "-m", "uv"]
    _run([*uv, "venv", "--quiet", "--python", python, environment])
    inside = environment / "bin" / "python"
    links = ["--find-links", os.environ["PIP_FIND_LINKS"]] if "PIP_FIND_LINKS" in os.environ else []
    pinned = ["--constraints", ROOT / "constraints.txt"] if resolution == "highest" else []
    wanted = ["--resolution", resolution, *pinned, *links, f"recombine[dev] @ {wheel.as_uri()}"]
    _run([*uv, "pip", "install", "--quiet", "--python", inside, *wanted])
    return inside


def test(python: Path, folder: Path, words: list[str]) -> None:
    """Run the quick tests from a copy of everything but the source. Old packages may warn about newer ones."""
    place = folder / "tests"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in BESIDE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / name)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quick = [
        "-m",
        "quick",
        "-p",
        "no:cacheprovider",
        "--ignore",
        "tests/test_architecture.py",
    ]  # which reads the source
    _run([python, "-m", "pytest", *quick, *words], cwd=place, env=environment)


def _run(words: list[object], **options: object) -> None:
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--resolution", default="highest", choices=("highest", "lowest-direct"))
    given = parser.parse_args()
    folder = given.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    _, wheel = build(folder / "dist")
    inside = install(wheel, folder / "env", python=given.python, resolution=given.resolution)
    test(inside, folder, [] if given.resolution == "highest" else ["-o", "filterwarnings=default"])


if __name__ == "__main__":
    main()
