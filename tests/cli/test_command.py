"""What all commands have in common: --plugin, --json and clean output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from recombine.cli import output
from recombine.cli.app import app
from recombine.cli.command import command
from recombine.cli.options import Json

SHOUT = """
import os
print("a library prints")
os.write(1, b"so does C\\n")
"""


def leaves(found, path=()):
    """All commands with their words."""
    if hasattr(found, "commands"):
        for name, inner in found.commands.items():
            yield from leaves(inner, (*path, name))
    else:
        yield " ".join(path), found


ALL = dict(leaves(get_command(app)))


@pytest.mark.quick
@pytest.mark.parametrize("name", ALL)
def test_every_command_takes_plug_ins_and_can_answer_in_json(name):
    options = {option for parameter in ALL[name].params for option in parameter.opts}
    assert {"--plugin", "--json"} <= options


@pytest.mark.quick
def test_a_command_with_its_file_is_no_cycle():
    """Only the application imports commands; commands share what lies beside them."""
    folder = Path(output.__file__).parent
    for path in folder.rglob("*.py"):
        if path.name != "app.py":
            assert "recombine.cli.app" not in path.read_text(encoding="utf-8"), path


def own_app(function):
    made = typer.Typer(rich_markup_mode=None)
    made.command()(command(function))
    return made


@pytest.mark.quick
def test_a_broken_plug_in_ends_with_code_2_and_its_place(tmp_path):
    def nothing(as_json: Json = False) -> None:
        raise AssertionError("not reached")

    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\ny = x / 0\n")
    result = CliRunner().invoke(own_app(nothing), ["--plugin", str(broken), "--json"])
    assert result.exit_code == 2
    assert f"{broken}, line 2: ZeroDivisionError" in json.loads(result.stdout)["error"]
    assert f"{broken}, line 2: ZeroDivisionError" in result.stderr


def test_standard_output_holds_the_json_and_nothing_else(tmp_path):
    plugin = tmp_path / "shout.py"
    plugin.write_text(SHOUT)
    words = ["plugins", "--plugin", str(plugin), "--json"]
    done = subprocess.run([sys.executable, "-m", "recombine", *words], capture_output=True, text=True, check=True)
    assert [row["name"] for row in json.loads(done.stdout)] == ["shout"]
    assert "a library prints" in done.stderr
    assert "so does C" in done.stderr


@pytest.mark.quick
def test_control_characters_reach_no_terminal(capsys):
    bad = "\x1b[2J\x07\u009b31m\u202eevil"
    output.say(f"stored: {bad}\nsecond line")
    output.show_table([{"a": bad + "\nb"}], ["a"])
    output.show_json({"a": bad})
    printed = capsys.readouterr().out
    assert not output.CONTROL.search(printed)
    assert "\\x1b[2J\\x07\\x9b31m\\u202eevil" in printed
    assert "\nsecond line" in printed
    assert json.loads(printed[printed.index("{") :]) == {"a": bad}


@pytest.mark.parametrize("target", ["/dev/full", "pipe"])
def test_output_that_cannot_be_written_ends_with_a_message_and_a_code(tmp_path, target):
    call = f"{sys.executable} -m recombine plugins"
    shell = f"{call} > {target}"
    if target == "pipe":  # the reader is gone before anything is written
        shell = f"mkfifo {tmp_path}/p; (exec 3<{tmp_path}/p; exec 3<&-) & {call} > {tmp_path}/p; exit $?"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    what = "Broken pipe" if target == "pipe" else "No space left on device"
    assert done.stderr == f"error: cannot write to standard output: {what}.\n"


@pytest.mark.parametrize(
    ("closed", "code", "command"), [("1", 1, "runs list --out nothing"), ("2", 0, "plugins"), ("0", 0, "plugins")]
)
def test_closed_standard_streams_are_told_and_never_become_files(closed, code, command):
    call = f"{sys.executable} -m recombine {command} {closed}>&-"
    done = subprocess.run(["bash", "-c", call], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if closed == "1":
        assert done.stderr == "error: cannot write to standard output: Bad file descriptor.\n"
