"""Cases: a command line, and the files it finds. Generated ones from a seed, and those that found a defect."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

SMALL = [
    "scene.factors={x: 4, y: 4}",
    "decoder.kind=mlp",
    "decoder.width=4",
    "decoder.depth=1",
    "training.steps=2",
    "holdout.kind=centre",
    "holdout.lo=1",
    "holdout.hi=2",
]
NUMBERS = ["0", "-1", "1", "2", "3", "1e30", "-1e30", "1e-30", "nan", "inf", "10000000000", "0x10", "1_000", "²", "1.5"]
WORDS = [
    "",
    " ",
    "null",
    "true",
    "[]",
    "{}",
    "[1, 2",
    "{x: }",
    "cnn",
    "mlp",
    "bump",
    "*",
    "../..",
    "\x1b[31m",
    "𝒳",
    "a\nb",
    "{x: 100000, y: 100000}",
    "{x: 3}",
    "{x: [red, green], y: 3}",
    "0..3",
    "0..1000000",
    "a,b,,c",
    "--json",
]
KEYS = [
    "scene.factors",
    "scene.kind",
    "scene.width",
    "decoder.kind",
    "decoder.depth",
    "decoder.width",
    "encoding.kind",
    "encoding.frequencies",
    "holdout.kind",
    "holdout.c",
    "holdout.lo",
    "holdout.fraction",
    "training.batch",
    "training.steps",
    "training.epochs",
    "training.kind",
    "training.optimizer",
    "training.loss",
    "seed",
    "nothing.at.all",
    "",
    "decoder",
    "training.examples",
    "holdout.parts",
    "scene.factors.x",
]


VALID = [
    "seed=0..2",
    "seed=7",
    "decoder.width=3",
    "decoder.depth=2",
    "training.batch=1",
    "encoding.kind=onehot",
    "training.loss={kind: l1}",
    "decoder.kind=cnn",
    "scene.inverted=true",
    "training.learning_rate=0.1",
    "encoding.kind=ramp",
    "scene.factors={x: 5, y: 4}",
    "holdout.kind=random",
    "training.optimizer={kind: sgd}",
    "training.schedule=cosine",
]


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: What it is about; of a generated one, its kind and seed.
        words: The command line after `recombine`.
        files: Path → content, made beforehand in an empty folder, which is the working directory.
        bad: True if the input is certainly invalid, so that the exit code must be 2.
    """

    name: str
    words: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    bad: bool = False


def _value(draw: random.Random) -> str:
    return draw.choice(draw.choice([NUMBERS, WORDS]))


def _setting(draw: random.Random) -> str:
    """A valid setting as often as not, so that what is odd in the others is met further in."""
    if draw.random() < 0.6:
        return draw.choice(VALID)
    return draw.choice([f"{draw.choice(KEYS)}={_value(draw)}"] * 9 + [_value(draw)])


def command_line(draw: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A plan of a training or sweep with odd settings; options in odd places."""
    command = draw.choice([["train", "--dry-run"], ["sweep", "run", "--dry-run"], ["train"]])
    settings = [*SMALL, *(_setting(draw) for _ in range(draw.randint(1, 3)))]
    options = draw.choice(
        [
            [],
            ["--json"],
            ["--seed", _value(draw)],
            ["--out", draw.choice(["runs", "/dev/null", "a/b"])],
            ["--device", _value(draw)],
            [_value(draw)],
        ]
    )
    if command[0] == "sweep":
        options += draw.choice(
            [
                [],
                ["--cpus", _value(draw)],
                ["--gpus", _value(draw)],
                ["--memory", _value(draw)],
                ["--max-parallel", _value(draw)],
                ["--diagnose", _value(draw)],
            ]
        )
    return [*command, *settings, *options], {}


def _tree(draw: random.Random, depth: int = 0) -> str:
    kind = draw.random()
    if depth > 3 or kind < 0.4:
        return _value(draw).replace("\n", " ")
    if kind < 0.6:
        return "[" + ", ".join(_tree(draw, depth + 1) for _ in range(draw.randint(0, 3))) + "]"
    return (
        "{"
        + ", ".join(f"{draw.choice(KEYS) or 'a'}: {_tree(draw, depth + 1)}" for _ in range(draw.randint(0, 3)))
        + "}"
    )


def yaml_file(draw: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A sweep or configuration file of nested values, aliases, tags and bytes."""
    lines = [
        f"{draw.choice(['base', 'grid', 'zip', 'list', 'when', 'exclude', 'plugins', 'x'])}: {_tree(draw)}"
        for _ in range(3)
    ]
    if draw.random() < 0.3:
        width, height = draw.randint(2, 9), draw.randint(2, 30)
        lines = ["a0: &a0 [1, 2]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, height))]
    if draw.random() < 0.1:
        lines.append(draw.choice(["x: !!python/object/apply:os.system [id]", "a: &a [*a]", "\t", "<<: *b", "? [a]: b"]))
    if draw.random() < 0.4:
        base = "{" + ", ".join(word.replace("=", ": ", 1) for word in SMALL) + "}"
        lines = [f"base: {base}", f"grid: {{decoder.width: [2, 3], seed: {draw.choice(['0..2', '1', _value(draw)])}}}"]
    text = "\n".join(lines).encode()
    if draw.random() < 0.2:
        text = _mutated(text, draw)
    words = draw.choice([["sweep", "run", "--dry-run", "s.yaml"], ["train", "--dry-run", "--config", "s.yaml"]])
    return [*words, *draw.choice([[], ["--json"]])], {"s.yaml": text}


def _mutated(content: bytes, draw: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        if found:
            found[draw.randrange(len(found))] = draw.randrange(256)
    return bytes(found[: draw.choice([len(found)] * 3 + [draw.randint(0, len(found))])])


JSON = [None, True, -1, 0, 1e308, [], {}, "", "x" * 100, [[]], {"a": {"b": None}}, "\x1b[2J", 10**30, "../../etc"]


def _damaged_json(content: bytes, draw: random.Random) -> bytes:
    """The same document with a few values, anywhere in it, replaced, taken out or added."""
    document = json.loads(content)
    for _ in range(draw.randint(1, 3)):
        at = document
        while isinstance(at, dict | list) and at:
            keys = list(at) if isinstance(at, dict) else range(len(at))
            key = draw.choice(list(keys))
            if not isinstance(at[key], dict | list) or not at[key] or draw.random() < 0.4:
                at[key] = draw.choice(JSON)
                break
            at = at[key]
    return json.dumps(document).encode()


def folder(stored: dict[str, bytes], draw: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A store whose run or diagnosis has damaged, missing, foreign or additional files."""
    files = dict(stored)
    for _ in range(draw.randint(1, 2)):
        path = draw.choice(sorted(files))
        how = draw.random()
        if how < 0.5 and path.endswith(".json"):
            try:
                files[path] = _damaged_json(files[path], draw)
            except ValueError:
                files[path] = _mutated(files[path], draw)
        elif how < 0.6:
            del files[path]
        elif how < 0.7 and path.endswith(".safetensors"):
            size = draw.choice([2**20, 2**62, 8])
            header = json.dumps({"w": {"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]}}).encode()
            files[path] = struct.pack("<Q", draw.choice([len(header), 2**60])) + header
        else:
            files[path] = _mutated(files[path], draw)
    run = next(iter(stored)).split("/")[1]
    words = draw.choice(
        [
            ["runs", "list"],
            ["runs", "show", run],
            ["sweep", "status"],
            ["sweep", "table"],
            ["report"],
            ["diagnose", run, "--parts", "errors"],
            ["runs", "verify"],
        ]
    )
    return [*words, *draw.choice([[], ["--json"]])], files


MODEL = """
import torch, recombine as rc
space = rc.FactorSpace(x=3, y=3)
def made():
    return dict(model={model}, space=space, target={target}, holdout=rc.holdouts.centre(space, 1, 1))
"""
MODELS = [
    "torch.nn.Linear(2, 3)",
    "lambda v: v * 1e30",
    "lambda v: v * 1e-30",
    "lambda v: v[:1]",
    "lambda v: None",
    "lambda v: 1 / 0",
    "lambda v: v * float('nan')",
    "torch.nn.Linear(3, 3)",
    "7",
    "lambda v: v.new_zeros(len(v), 0)",
    "lambda v: v.long()",
    "lambda v: (v, v)",
    "lambda v: torch.complex(v, v)",
    "lambda v: v.sum(1) * 1e38",
    "torch.nn.Identity()",
]
TARGETS = [
    "None",
    "lambda v: v",
    "torch.ones(9, 3)",
    "torch.ones(8, 3)",
    "'truth'",
    "lambda v: v * 1e30",
    "lambda v: 1 / 0",
    "torch.full((9, 2), float('inf'))",
    "lambda v: v * 1e-30",
    "torch.zeros(3, 3, 2)",
]


def model(draw: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A file with a model and a target that may fit together or not."""
    text = MODEL.replace("{model}", draw.choice(MODELS)).replace("{target}", draw.choice(TARGETS))
    parts = draw.choice(["errors", "outputs,probes", "geometry", "superposition", "kernels,embeddings", "nothing"])
    return ["diagnose", "m.py:made", "--parts", parts, "--budget", draw.choice(["0.01", "0", "nan"]), "--json"], {
        "m.py": text.encode()
    }


GENERATORS: dict[str, Callable[[random.Random], tuple[list[str], dict[str, bytes]]]] = {
    "command": command_line,
    "yaml": yaml_file,
    "model": model,
}


def generated(kind: str, seed: int, stored: dict[str, bytes] | None = None) -> Case:
    """The case of a kind and seed; always the same."""
    draw = random.Random(f"{kind} {seed}")
    words, files = folder(stored or {}, draw) if kind == "folder" else GENERATORS[kind](draw)
    return Case(f"{kind} {seed}", tuple(word.replace("\0", "") for word in words), files)


def _bomb(levels: int) -> bytes:
    lines = ["a0: &a0 [1, 2]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, levels))]
    return "\n".join(lines).encode()


def _merge_bomb(levels: int) -> bytes:
    lines = ["a0: &a0 {k: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, levels))]
    return "\n".join(lines).encode()


PLAN, SWEEP = ("train", "--dry-run", *SMALL), ("sweep", "run", "--dry-run")
FOUND = [  # every defect that was ever found stays here
    Case("a width beyond the machine", (*PLAN, "decoder.width=900000", "decoder.depth=9"), bad=True),
    Case("a width beyond all machines", (*PLAN, "decoder.width=100000000000000000000"), bad=True),
    Case("a depth without end", (*PLAN, "decoder.depth=100000000"), bad=True),
    Case("a grid beyond the machine", (*PLAN, "scene.factors={x: 1000000, y: 1000000}"), bad=True),
    Case("frequencies without end", (*PLAN, "encoding.kind=positional", "encoding.frequencies=10000000000"), bad=True),
    Case("aliases of aliases", (*SWEEP, "s.yaml"), {"s.yaml": _bomb(40)}, bad=True),
    Case(
        "aliases of aliases in a configuration",
        ("train", "--dry-run", "--config", "s.yaml"),
        {"s.yaml": _bomb(40)},
        bad=True,
    ),
    Case("merge keys of merge keys", (*SWEEP, "s.yaml"), {"s.yaml": _merge_bomb(40)}, bad=True),
    Case("a value that contains itself", (*SWEEP, "s.yaml"), {"s.yaml": b"base: &a {x: *a}"}, bad=True),
    Case("a file of 2 MB", (*SWEEP, "s.yaml"), {"s.yaml": b"base: {}\n" + b"# x\n" * 500_000}, bad=True),
    Case("more runs than a sweep holds", (*SWEEP, "seed=0..99999999"), bad=True),
    Case(
        "a budget of no number",
        ("diagnose", "m.py:made", "--budget", "nan"),
        {"m.py": MODEL.replace("{model}", MODELS[0]).replace("{target}", "None").encode()},
        bad=True,
    ),
]
