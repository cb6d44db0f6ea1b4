"""Cases: a command line, and the files it finds; those that found a defect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.fuzz.models import FILE
from tests.fuzz.stored import settings


class Special(NamedTuple):
    """What is no file with content: a "link" to a target, a "pipe", or a "folder"."""

    kind: str
    target: str = ""


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: What it is about; of a generated one, its kind and seed.
        words: The command line after `recombine`.
        files: Path → content, made beforehand in an empty folder, which is the working directory.
        codes: The exit codes that it may have.
    """

    name: str
    words: tuple[str, ...]
    files: dict[str, bytes | Special] = field(default_factory=dict)
    codes: tuple[int, ...] = (0, 1, 2)


BAD = (2,)
SMALL = tuple(settings("diagnosed"))
PLAN, SWEEP = ("train", "--dry-run", *SMALL), ("sweep", "run", "--dry-run")
DIAGNOSE = ("diagnose", "m.py:made", "--json", "--parts")
POSITIONAL = "{kind: positional, frequencies: 10000000000}"


def _bomb(levels: int) -> bytes:
    lines = ["a0: &a0 [1, 2]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, levels))]
    return "\n".join(lines).encode()


def _merge_bomb(levels: int) -> bytes:
    lines = ["a0: &a0 {k: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, levels))]
    return "\n".join(lines).encode()


def model_source(**given: str) -> bytes:
    """The source of a model file in which everything is valid but what is given."""
    usual = {"space": "x=3, y=3", "act": "ReLU", "before": "pass", "after": "pass", "model": "Net(n)",
             "target": "truth",
             "holdout": "rc.holdouts.random(space, 0.3)"}  # fmt: skip
    text = FILE
    for name, value in {**usual, **given}.items():
        text = text.replace(f"{{{name}}}", value)
    return text.encode()


PRINTS = b"""
import atexit, os, sys, torch, recombine as rc
print("import"); os.write(1, b"raw"); os.system("echo child")
atexit.register(lambda: print("at the end")); atexit.register(lambda: os.write(1, b"raw at the end"))
def made():
    return dict(model=torch.nn.Linear(2, 3), space=rc.FactorSpace(x=3, y=3))
"""

FOUND = [  # every defect that was ever found stays here
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
    Case("a budget of no number", ("diagnose", "m.py:made", "--budget", "nan"), {"m.py": model_source()}, BAD),
]
