"""Sweeps on Ray: a real cluster of two nodes, and all that can be wrong with an address."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from recombine.core.errors import InputError
from recombine.sweeps.engines.ray_engine import connect

ROOT = Path(__file__).parents[2]


def two_nodes(folder: Path, *checks: str) -> dict[str, dict]:
    command = [sys.executable, "-m", "tests.sweeps.ray_cluster", str(folder), *checks]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_two_nodes_give_the_table_of_one_process_also_of_a_plugin(tmp_path):
    told = two_nodes(tmp_path, "sweep", "plugin")
    assert told["sweep"]["same"], "the table differs from the one made in one process"
    assert told["sweep"]["at_once"] == 2, "one node did everything"
    assert told["plugin"] == {"plugin-ray": 2, "plugin-here": 2, "same": True}, "a plug-in's run differs"


@pytest.mark.long
def test_a_killed_node_a_shared_folder_and_workers_that_print_change_nothing(tmp_path):
    told = two_nodes(tmp_path, "shared", "json", "kill", "sockets")
    assert told["shared"]["same"], "the table differs when workers write into a shared folder"
    assert told["kill"]["same"]
    assert told["kill"]["lost"] >= 1, "nothing ran on the killed node"
    assert told["kill"]["finished"] == told["kill"]["runs"] == 6
    assert len(json.loads(told["json"]["stdout"])["trained"]) == 2, "standard output of --json is more than JSON"
    assert told["json"]["processes"] >= 2, "no worker loaded the plug-in that prints"
    assert told["sockets"]["loopback"] > 0
    assert told["sockets"]["beyond"] == []


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "Nothing answers at '127.0.0.1:1'"),
        ("nonsense", "A Ray address must be auto, local or HOST:PORT"),
        ("host:99999", "A Ray address must be auto, local or HOST:PORT"),
    ],
)
def test_an_unreachable_address_says_how_to_start_a_cluster(address, message):
    with pytest.raises(InputError, match=message) as caught:
        connect(address)
    if "Nothing" in message:
        assert "ray start --head" in str(caught.value)


def test_something_else_behind_the_address_is_told_in_time(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        words = ["seed=0", "decoder.kind=mlp", "--engine", "ray", "--address", address, "--out", str(tmp_path / "o")]
        command = [sys.executable, "-m", "recombine", "sweep", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "There is no Ray cluster at" in done.stderr
    assert not (tmp_path / "o").exists()


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'recombine\[ray\]'"):
        connect(None)
