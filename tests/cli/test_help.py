"""The help of every command has an example that its parser accepts, and every command is listed under a task."""

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from recombine.cli.app import app
from recombine.cli.groups import OTHER, TASKS

pytestmark = pytest.mark.quick
ROOT = typer.main.get_command(app)


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(ROOT))


def examples(command):
    return re.findall(r"^\s+(recombine .+)$", command.help.partition("Example")[2], re.MULTILINE)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_has_an_example_that_its_parser_accepts(path):
    found = examples(COMMANDS[path])
    assert found
    for line in found:
        _, *words = shlex.split(line)
        shown = CliRunner().invoke(app, [*words, "--help"])  # unknown options are refused before --help is looked at
        assert shown.exit_code == 0, shown.output
        assert f" {' '.join(path)} [OPTIONS]" in shown.output


def test_an_unknown_option_is_refused_before_help():
    assert CliRunner().invoke(app, ["doctor", "--no-such-option", "--help"]).exit_code == 2


def test_the_help_lists_every_command_under_a_task():
    text = CliRunner().invoke(app, ["--help"]).output
    assert OTHER not in text
    assert sorted(name for names in TASKS.values() for name in names) == sorted(ROOT.commands)
    positions = [text.index(f"{title}:") for title in TASKS]
    assert positions == sorted(positions)
    for names in TASKS.values():
        for name in names:
            assert re.search(rf"^  {name}  ", text, re.MULTILINE)


def test_the_shells_can_complete():
    text = CliRunner().invoke(app, ["--help"]).output
    assert "--install-completion" in text
