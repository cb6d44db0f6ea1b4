"""Importing the package stays light, and the test of that can fail."""

import subprocess
import sys

import pytest

HEAVY = ("ray", "plotly", "umap", "sklearn", "matplotlib", "h5py", "PIL")


def loaded_after(statement: str, watched: tuple[str, ...] = HEAVY) -> list[str]:
    """Which of the watched packages a fresh interpreter has loaded after a statement."""
    program = f"import sys\n{statement}\nprint(*(name for name in {watched!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_import_recombine_is_light():
    assert loaded_after("import recombine", (*HEAVY, "torch", "pandas", "numpy", "pydantic")) == []


def test_using_the_parts_loads_no_drawing_or_sweeping():
    assert loaded_after(
        "import recombine as rc; rc.FactorSpace, rc.Task, rc.score, rc.scenes, rc.encodings, rc.holdouts, rc.decoders, "
        "rc.diagnostics"
    ) == []  # fmt: skip


def test_the_check_can_fail():
    assert loaded_after("import recombine.plotting.images") == ["matplotlib", "PIL"]


def test_every_public_name_is_there_and_no_other():
    import recombine

    lazy = ("FactorSpace", "Task", "decoders", "diagnostics", "encodings", "factors", "figures", "holdouts", "scenes")
    for name in lazy:
        assert getattr(recombine, name) is not None
    assert dir(recombine) == sorted(recombine.__all__)
    with pytest.raises(AttributeError, match="module 'recombine' has no attribute 'nothing'"):
        recombine.nothing  # noqa: B018
