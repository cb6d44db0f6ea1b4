"""Models and targets: a valid pair in which one thing is odd, diagnosed by one or two parts."""

from __future__ import annotations

import random
from typing import Any

FILE = """
import math, time, torch, recombine as rc
space = rc.FactorSpace({space})
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self, n, out=5):
        super().__init__()
        self.first, self.act, self.last = torch.nn.Linear(n, 6), torch.nn.{act}(), torch.nn.Linear(6, out)
        self.calls = 0
    def forward(self, v):
        {before}
        made = self.last(self.act(self.first(v)))
        {after}
        return made
n = len(space.names)
truth = lambda v: torch.stack([v.sum(1) / 3, v[:, 0], (v ** 2).sum(1) / 5, v[:, -1] * v[:, 0] / 4, v[:, 0] * 0 + 1], 1)
table = truth(space.values(torch.arange(len(space))))
def made():
    return dict(model={model}, space=space, target={target}, holdout={holdout})
"""
SPACES = ["x=3, y=3", "x=4, y=3", "x=2, y=2, z=2", "x=3, y=['a', 'b', 'c']", "x=3", "x=1, y=4", "a=2, b=2, c=2, d=2"]
HOLDOUTS = [
    "rc.holdouts.random(space, 0.3)", "rc.holdouts.comb(space, 3)", "None", "rc.holdouts.random(space, 0.9)",
    "rc.holdouts.random(space, 0.0)", "rc.holdouts.levels(space, 1)",
]  # fmt: skip
BEFORE = [
    "if len(v) > 2: raise RuntimeError('at most 2 rows')", "v += 1", "v = v.double()", "v = v.detach()",
    "print('hello')",
    "self.last.weight.data += 0.1", "self.train()", "v = v[:1]", "self.calls += 1; v = v + self.calls",
    "torch.manual_seed(1)", "v = v + torch.randn_like(v)", "raise KeyError('x')", "import sys; sys.exit(3)",
    "v = v.requires_grad_(False)", "del self.act",
]  # fmt: skip
AFTER = [
    "made = made * 1e30", "made = made * 1e-30", "made = made * 1e38", "made = made * 0", "made[0] = math.nan",
    "made[:, 0] = math.inf", "made = made.long()", "made = (made, made)", "made = made.unflatten(1, (5, 1))",
    "made = made[:-1]", "made = made.T.contiguous().T", "made = made.half()", "made = made > 0", "made = made[:, :0]",
    "made = torch.complex(made, made)", "made = {'out': made}", "made = made.detach().numpy()", "made = None",
    "made = made.to('meta')", "made = made.to_sparse()", "made = torch.cat([made, made])", "made = float(made.sum())",
]  # fmt: skip
ACTIVATIONS = ["ReLU", "Tanh", "Sigmoid", "PReLU", "Identity", "BatchNorm1d", "Dropout", "Softplus"]
MODELS = [
    "lambda v: v * 1e30", "lambda v: v[:1]", "lambda v: 1 / 0", "7", "None", "Net", "Net(n + 1)", "torch.nn.Identity()",
    "torch.nn.Sequential()", "[Net(n)]", "torch.jit.script(torch.nn.Linear(n, 5))", "lambda: 0", "truth",
]  # fmt: skip
TARGETS = [
    "None", "table", "table * 1e30", "table * 1e-30", "table[:-1]", "table.double()", "table.numpy()", "'truth'",
    "lambda v: 1 / 0", "table * math.inf", "table * math.nan", "torch.zeros_like(table)", "table.long()",
    "table[:, :4]",
    "table.tolist()", "lambda v: truth(v)[:1]", "table.unflatten(1, (5, 1))", "lambda v: None", "table * 1e38",
]  # fmt: skip
PARTS = [
    "errors", "outputs", "probes", "geometry", "superposition", "kernels", "embeddings", "tuning", "maps", "complexity",
    "conjunction", "free_weights", "kernel_references", "draws", "outputs,probes", "errors,superposition", "nothing",
]  # fmt: skip


def model_file(draw: random.Random) -> tuple[list[str], dict[str, Any]]:
    """A file with a model and a target, and the diagnosis of it."""
    given = {
        "space": draw.choice(SPACES[:2] * 3 + SPACES), "act": draw.choice(ACTIVATIONS[:2] * 4 + ACTIVATIONS),
        "before": "pass", "after": "pass", "model": "Net(n)", "target": draw.choice(["truth", "table"]),
        "holdout": draw.choice(HOLDOUTS[:2] * 4 + HOLDOUTS),
    }  # fmt: skip
    choices = {"before": BEFORE, "after": AFTER, "model": MODELS, "target": TARGETS}
    for what in draw.sample(sorted(choices), draw.choice([0, 1, 1, 1, 2])):
        given[what] = draw.choice(choices[what])
    if given["act"] == "BatchNorm1d":
        given["act"] = "BatchNorm1d(6) if True else torch.nn.Identity"
    text = FILE
    for name, value in given.items():
        text = text.replace(f"{{{name}}}", value)
    budget = draw.choice(["0.01"] * 30 + ["0", "nan", "-1", "1e-9"])
    words = ["diagnose", "m.py:made", "--parts", draw.choice(PARTS[:-1] * 3 + PARTS), "--budget", budget]
    if draw.random() < 0.15:
        words += draw.choice([
            ["--layers", "act"], ["--layers", "*.x"], ["--layers", ""], ["--draws", "2"], ["--draws", "0"],
            ["--seed", "-1"],
            ["--cells", "0,3"], ["--cells", ""], ["--cells", "999"], ["--geometry", "finite difference"], ["--save",
            "kept"],
            ["--save", "m.py"],
        ])  # fmt: skip
    return [*words, *draw.choice([["--json"], ["--json"], []])], {"m.py": text.encode()}
