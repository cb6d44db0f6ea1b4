"""A real Ray cluster of two nodes on loopback: the same table as in-process, also when a node is killed midway.

python -m tests.sweeps.ray_cluster FOLDER sweep plugin shared json kill sockets prints what happened as JSON; leave out
what is not wanted. It is a program of its own, because Ray leaves threads and sockets behind that a test suite would
trip over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray's spelling); else workers wait for every other test
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray replaces loopback by the outer address

WORDS = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.width=8"]
QUICK = [*WORDS, "decoder.kind=mlp,cnn", "training.steps=10", "seed=0..1"]
LONGER = [*WORDS, "decoder.kind=cnn", "decoder.depth=2", "training.steps=150", "seed=0..5"]


def listening() -> tuple[list[str], int]:
    """Addresses beyond loopback on which this process and its children listen, as the kernel writes them, and how many
    there are on loopback."""
    inodes = set()
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    for pid in ours:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    beyond, within = [], 0
    for name, loopback in (("tcp", ("0100007F",)), ("tcp6", ("0" * 24 + "01000000", "0" * 16 + "FFFF00000100007F"))):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                within += fields[1].split(":")[0] in loopback
                beyond += [fields[1]] if fields[1].split(":")[0] not in loopback else []
    return beyond, within


def started(folder: Path, runs: int) -> None:
    """Wait until so many runs were started."""
    from recombine.sweeps.journal import events

    deadline = time.monotonic() + 120
    while sum(len(e["runs"]) for e in events(folder) if e["event"] == "started") < runs:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def scene_of_the_guide() -> str:
    """The source of the plug-in in docs/extending/scene.md."""
    page = (Path(__file__).parents[2] / "docs" / "extending" / "scene.md").read_text(encoding="utf-8")
    return page.split("```python\n")[1].split("```")[0]


def json_of_printing_workers(folder: Path, address: str) -> dict[str, object]:
    """`recombine sweep --json` with a plug-in that prints in every process that loads it, in three ways."""
    file, loaded = folder / "printing.py", folder / "loaded"
    prints = f"""
import os
print("printed", flush=True)
os.write(1, b"raw\\n")
os.system("echo child")
with open({str(loaded)!r}, "a") as file:
    file.write(f"{{os.getpid()}}\\n")
"""
    file.write_text(scene_of_the_guide() + prints)
    settings = [*WORDS, "scene.kind=ring", "decoder.kind=mlp", "training.steps=4", "seed=0..1"]
    options = ["--plugin", str(file), "--engine", "ray", "--address", address, "--out", str(folder / "json"), "--json"]
    command = [sys.executable, "-m", "recombine", "sweep", *settings, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {"stdout": done.stdout, "processes": len(set(loaded.read_text().split()))}


def plugin_of_the_guide(folder: Path, ray: dict[str, str]) -> dict[str, object]:
    """The scene of docs/extending/scene.md, trained and diagnosed on the cluster after its file was deleted."""
    from recombine import sweeps
    from recombine.core import plugins
    from recombine.diagnostics.request import DiagnosisRequest

    file = folder / "scene.py"
    file.write_text(scene_of_the_guide())
    plugins.use(file)
    file.unlink()
    found: dict[str, object] = {}
    tables = []
    configs = sweeps.parse([*WORDS, "scene.kind=ring", "decoder.kind=mlp", "training.steps=4", "seed=0..1"]).configs
    for name, options in (("plugin-ray", ray), ("plugin-here", {"engine": "in-process"})):
        request = DiagnosisRequest(parts=["errors"])
        result = sweeps.run(configs, folder / name, diagnose=request, device="cpu", quiet=True, **options)
        assert not result.failed, result.failed
        assert not result.undiagnosed, result.undiagnosed
        found[name] = len(result.diagnosed)
        tables.append(sweeps.table(folder / name).to_csv())
    return {**found, "same": tables[0] == tables[1]}


def table_of(folder: Path, words: list[str], **options: Any) -> str:
    """The table of a sweep."""
    from recombine import sweeps

    result = sweeps.run(sweeps.parse(words).configs, folder, device="cpu", quiet=True, **options)
    assert not result.failed, result.failed
    return sweeps.table(folder).to_csv()


def killed_node(folder: Path, ray: dict[str, str], kill: Callable[[], None]) -> dict[str, object]:
    """A sweep of which a node is killed after three runs were started."""
    from recombine.sweeps.journal import events

    def when_started() -> None:
        started(folder / "killed", 3)
        kill()

    killer = threading.Thread(target=when_started)
    killer.start()
    disturbed = table_of(folder / "killed", LONGER, **ray)
    killer.join()
    log = list(events(folder / "killed"))
    return {
        "same": disturbed == table_of(folder / "undisturbed", LONGER, engine="in-process"),
        "lost": sum(e["event"] == "lost" for e in log),
        "finished": sum(len(e["runs"]) for e in log if e["event"] == "finished"),
        "runs": len({run for e in log for run in e["runs"]}),
    }


def sockets_of_a_local_cluster() -> dict[str, object]:
    """Where the cluster that recombine starts on this machine listens."""
    from recombine.sweeps.engines.ray_engine import RayCluster

    local = RayCluster(workers=1)
    beyond, loopback = listening()
    local.close()
    return {"beyond": beyond, "loopback": loopback}


def main() -> None:
    from ray.cluster_utils import Cluster

    folder, wanted = Path(sys.argv[1]), sys.argv[2:]
    on_loopback = {"num_cpus": 1, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args={**on_loopback, "include_dashboard": False})
    second = cluster.add_node(**on_loopback)
    cluster.wait_for_nodes()
    ray = {"engine": "ray", "address": cluster.address}

    def sweep() -> dict[str, object]:
        same = table_of(folder / "ray", QUICK, **ray) == table_of(folder / "here", QUICK, engine="in-process")
        return {"same": same, "at_once": max(_together(folder / "ray"))}

    def shared() -> dict[str, object]:
        return {
            "same": table_of(folder / "shared", QUICK, shared=True, **ray) == table_of(folder / "ray", QUICK, **ray)
        }

    checks: dict[str, Callable[[], dict[str, object]]] = {
        "sweep": sweep,
        "shared": shared,
        "json": lambda: json_of_printing_workers(folder, cluster.address),
        "plugin": lambda: plugin_of_the_guide(folder, ray),
        "kill": lambda: killed_node(folder, ray, lambda: cluster.remove_node(second, allow_graceful=False)),
    }
    told = {name: check() for name, check in checks.items() if name in wanted}
    cluster.shutdown()
    if "sockets" in wanted:
        told["sockets"] = sockets_of_a_local_cluster()
    print(json.dumps(told))


def _together(folder: Path) -> list[int]:
    """How many jobs ran at once, over time."""
    from recombine.sweeps.journal import events

    running: set[str] = set()
    counts = []
    for event in events(folder):
        if event["event"] == "started":
            running.add(event["runs"][0])
        elif event["event"] == "finished":
            running.discard(event["runs"][0])
        counts.append(len(running))
    return counts


if __name__ == "__main__":
    main()
