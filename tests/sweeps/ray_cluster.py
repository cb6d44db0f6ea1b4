"""A real Ray cluster of two nodes on loopback: the same table as in-process, also when a node is killed midway.

python -m tests.sweeps.ray_cluster FOLDER prints what happened as JSON. It is a program of its own, because Ray leaves
threads and sockets behind that a test suite would trip over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

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


def main() -> None:
    from ray.cluster_utils import Cluster

    from recombine import sweeps

    folder = Path(sys.argv[1])
    told: dict[str, object] = {}

    def sweep(name: str, words: list[str], **options) -> str:
        result = sweeps.run(sweeps.parse(words).configs, folder / name, device="cpu", quiet=True, **options)
        assert not result.failed, result.failed
        return sweeps.table(folder / name).to_csv()

    began = time.monotonic()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    )
    second = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    cluster.wait_for_nodes()
    told["cluster_seconds"] = round(time.monotonic() - began, 1)
    ray = {"engine": "ray", "address": cluster.address}

    told["same"] = sweep("ray", QUICK, **ray) == sweep("in-process", QUICK, engine="in-process")
    told["at_once"] = max(_together(folder / "ray"))
    told["shared_same"] = sweep("shared", QUICK, shared=True, **ray) == sweep("ray", QUICK, **ray)

    told["json"] = json_of_printing_workers(folder, cluster.address)
    told["plugin"] = plugin_of_the_guide(folder, ray)

    def kill() -> None:
        started(folder / "killed", 3)
        cluster.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    disturbed = sweep("killed", LONGER, **ray)
    killer.join()
    told["same_after_kill"] = disturbed == sweep("undisturbed", LONGER, engine="in-process")
    from recombine.sweeps.journal import events

    log = list(events(folder / "killed"))
    told["lost"] = sum(e["event"] == "lost" for e in log)
    told["finished"] = sum(len(e["runs"]) for e in log if e["event"] == "finished")
    told["runs"] = len({run for e in log for run in e["runs"]})
    cluster.shutdown()

    from recombine.sweeps.engines.ray_engine import RayCluster

    local = RayCluster(workers=1)
    told["listening_beyond"], told["listening_on_loopback"] = listening()
    local.close()
    told["seconds"] = round(time.monotonic() - began, 1)
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
