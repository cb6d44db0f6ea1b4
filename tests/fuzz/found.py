"""Every defect that was ever found, and every limit that is promised, as a case."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from tests.fuzz.cases import Case, Special
from tests.fuzz.folders import seal
from tests.fuzz.models import FILE
from tests.fuzz.stored import settings

BAD = (2,)
SMALL = tuple(settings("diagnosed"))
PLAN, SWEEP = ("train", "--dry-run", *SMALL), ("sweep", "run", "--dry-run")
DIAGNOSE = ("diagnose", "m.py:made", "--json", "--parts")
POSITIONAL = "{kind: positional, frequencies: 10000000000}"


_CLAIM = b'[{"claim": "C1", "results": ["%s"]}]'
DEEP = b"[" * 490 + b"]" * 490


def _many_keys(number: int) -> bytes:
    return b"grid: {" + b", ".join(b"k%d: 1" % i for i in range(number)) + b"}"


def _bomb(levels: int) -> bytes:
    lines = ["a0: &a0 [1, 2]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, levels))]
    return "\n".join(lines).encode()


def _merge_bomb(levels: int) -> bytes:
    lines = ["a0: &a0 {k: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, levels))]
    return "\n".join(lines).encode()


def _multiplied(entries: int) -> bytes:
    entry = "{if: {decoder.kind: mlp}, grid: {seed: 0..8}}"
    return f"base: {{decoder.kind: mlp}}\nwhen: [{', '.join([entry] * entries)}]".encode()


def model_source(**given: str) -> bytes:
    """The source of a model file in which everything is valid but what is given."""
    usual = {"space": "x=3, y=3", "act": "ReLU", "before": "pass", "after": "pass", "model": "Net(n)",
             "target": "truth",
             "holdout": "rc.holdouts.random(space, 0.3)"}  # fmt: skip
    text = FILE
    for name, value in {**usual, **given}.items():
        text = text.replace(f"{{{name}}}", value)
    return text.encode()


def _archive(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


PRINTS = b"""
import atexit, os, sys, torch, recombine as rc
print("import"); os.write(1, b"raw"); os.system("echo child")
atexit.register(lambda: print("at the end")); atexit.register(lambda: os.write(1, b"raw at the end"))
def made():
    return dict(model=torch.nn.Linear(2, 3), space=rc.FactorSpace(x=3, y=3))
"""

FOUND = [
    Case("a width beyond the machine", (*PLAN, "decoder.width=900000", "decoder.depth=9"), codes=BAD),
    Case("a width beyond all machines", (*PLAN, "decoder.width=100000000000000000000"), codes=BAD),
    Case("a depth without end", (*PLAN, "decoder.depth=100000000"), codes=BAD),
    Case("a grid beyond the machine", (*PLAN, "scene.factors={x: 1000000, y: 1000000}"), codes=BAD),
    Case("frequencies without end", (*PLAN, "encoding.kind=positional", "encoding.frequencies=10000000000"), codes=BAD),
    Case("aliases of aliases", (*SWEEP, "s.yaml"), {"s.yaml": _bomb(40)}, BAD),
    Case("aliases in a configuration", ("train", "--dry-run", "--config", "s.yaml"), {"s.yaml": _bomb(40)}, BAD),
    Case("merge keys of merge keys", (*SWEEP, "s.yaml"), {"s.yaml": _merge_bomb(40)}, BAD),
    Case("a value that contains itself", (*SWEEP, "s.yaml"), {"s.yaml": b"base: &a {x: *a}"}, BAD),
    Case("a file of 2 MB", (*SWEEP, "s.yaml"), {"s.yaml": b"base: {}\n" + b"# x\n" * 500_000}, BAD),
    Case("more runs than a sweep holds", (*SWEEP, "seed=0..99999999"), codes=BAD),
    Case("conditional entries that multiply runs", (*SWEEP, "s.yaml"), {"s.yaml": _multiplied(40)}, BAD),
    Case("a threshold beyond 64 bits", (*PLAN, "holdout.kind=orthotopic", f"holdout.c={10**29}"), codes=BAD),
    Case("a comb beyond 64 bits", (*PLAN, "holdout.kind=comb", f"holdout.every={10**29}"), codes=BAD),
    Case("a million maps", (*PLAN, "decoder.kind=cp", "decoder.rank=1000000"), codes=BAD),
    Case(
        "sizes that only multiply",
        (*PLAN, "decoder.kind=rendered", "decoder.depth=999", "decoder.width=1000"),
        codes=BAD,
    ),
    Case(
        "a nested size",
        (*PLAN, "encoding.kind=mixed", f"encoding.factors={{x: {POSITIONAL}, y: {POSITIONAL}}}"),
        codes=BAD,
    ),
    Case("millions of workers", (*SWEEP, "seed=0", "--cpus", "0.0000001"), codes=BAD),
    Case("cores that are not there", (*SWEEP, *SMALL, "--engine", "in-process", "--cpus", "5000"), codes=BAD),
    Case("memory of 400 digits", (*SWEEP, *SMALL, "--memory", f"{'9' * 400}GB"), codes=BAD),
    Case("outputs without numbers", (*DIAGNOSE, "maps"), {"m.py": model_source(after="made = made[:, :0]")}, BAD),
    Case("outputs of another device", (*DIAGNOSE, "maps"), {"m.py": model_source(after="made = made.to('meta')")}, BAD),
    Case("sparse outputs", (*DIAGNOSE, "maps"), {"m.py": model_source(after="made = made.to_sparse()")}, BAD),
    Case("a model that exits", (*DIAGNOSE, "maps"), {"m.py": model_source(before="import sys; sys.exit(3)")}, BAD),
    Case("a library that prints, also at the end", (*DIAGNOSE, "errors"), {"m.py": PRINTS}, (0,)),
    Case("a file that exits", (*DIAGNOSE, "maps"), {"m.py": b"raise SystemExit"}, BAD),
    Case(
        "labels of no columns",
        ("data", "show", "d.npz"),
        {"d.npz": _archive(images=np.ones((4, 2, 2)), labels=np.ones((4, 0)))},
        BAD,
    ),
    Case("a cell of 5000 digits", (*DIAGNOSE, "maps", "--cells", "1" * 5000), {"m.py": model_source()}, BAD),
    Case("more seeds than a reproduction has", ("reproduce", "R5", "--seeds", "100000000", "--dry-run"), codes=BAD),
    Case("more seeds than a comparison has", ("compare", "--seeds", "100000000", "--dry-run"), codes=BAD),
    Case("40 000 unknown settings", (*SWEEP, "s.yaml"), {"s.yaml": _many_keys(40_000)}, BAD),
    Case(
        "a number of 400 000 sixties", (*SWEEP, "s.yaml"), {"s.yaml": b"grid: {seed: " + b"1:" * 400_000 + b"1}"}, BAD
    ),
    Case("a number beyond printing", (*SWEEP, "s.yaml"), {"s.yaml": b"grid: {seed: 0x" + b"f" * 5000 + b"}"}, BAD),
    Case("a sweep file without end", (*SWEEP, "s.yaml"), {"s.yaml": Special("link", "/dev/zero")}, BAD),
    Case("a configuration without end", (*PLAN, "--config", "c.json"), {"c.json": Special("link", "/dev/zero")}, BAD),
    Case(
        "a configuration from a pipe that nobody fills", (*PLAN, "--config", "c.json"), {"c.json": Special("pipe")}, BAD
    ),
    Case(
        "a result of 5000 digits", ("report", "p", "-o", "page.html"), {"p/claims.json": _CLAIM % (b"R" + b"1" * 5000)}
    ),
    Case(
        "claims within claims",
        ("report", "p", "-o", "page.html"),
        {"p/claims.json": b'[{"claim": 1, "x": ' + DEEP + b"}]"},
    ),
    Case("a budget of no number", ("diagnose", "m.py:made", "--budget", "nan"), {"m.py": model_source()}, BAD),
]


def found_cases(stored: dict[str, bytes]) -> list[Case]:
    """All of them; some need a store."""
    return [*FOUND, _part_without_tables(stored), _diagnosis_without_request(stored)]


def _part_without_tables(stored: dict[str, bytes]) -> Case:
    """A diagnosis whose part has lost its tables, with digests that fit. `report` ended with a traceback."""
    path = next(path for path in stored if path.endswith("diagnosis.json"))
    content = json.loads(stored[path])
    for part in content["parts"].values():
        part["tables"] = {}
    files = {**stored, path: json.dumps(content).encode()}
    seal(files, path.split("/diagnosis")[0])
    return Case("a part without tables", ("report", path.split("/diagnosis")[0], "-o", "page.html"), files)


def _diagnosis_without_request(stored: dict[str, bytes]) -> Case:
    """A diagnosis that does not say how it was made. `diagnose` ended with a traceback when it added parts to it."""
    path = next(path for path in stored if path.endswith("diagnosis.json"))
    content = json.loads(stored[path])
    del content["facts"]["request"]
    files = {**stored, path: json.dumps(content).encode()}
    return Case("a diagnosis without a request", ("diagnose", path.split("/")[1], "--parts", "errors"), files, (0,))
