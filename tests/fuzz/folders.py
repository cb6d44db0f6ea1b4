"""Stores: a valid one in which a file, a tensor or a name was changed; mostly with digests that fit the change."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from typing import Any

from tests.fuzz.cases import Special
from tests.fuzz.mutations import changed, changed_bytes
from tests.fuzz.stored import RUNS, run_ids, settings

Files = dict[str, Any]
OUTSIDE = "outside/secret.txt"
SECRET = b"SECRET-of-somebody-else"


def folder(stored: dict[str, bytes], draw: random.Random) -> tuple[list[str], Files]:
    """A store with one or two changes, and a command that reads it."""
    files: Files = dict(stored)
    ids = run_ids()
    name = draw.choice([*RUNS, "diagnosed"])
    for _ in range(draw.randint(1, 2)):
        draw.choice([_document, _document, _tensors, _bytes, _names])(files, ids[name], draw)
    if draw.random() < 0.7:
        for run in ids.values():
            seal(files, f"runs/{run}")
    files[OUTSIDE] = SECRET
    return _words(name, ids[name], draw), files


def _words(name: str, run: str, draw: random.Random) -> list[str]:
    save = draw.choice([[], ["--group"], ["--save", "t.csv"], ["--save", "t.csv", "--all"]])
    reading = [
        ["runs", "list"],
        ["runs", "show", run],
        ["sweep", "status", "runs"],
        ["sweep", "table", "runs", *save],
        ["report", "runs", "-o", "page.html"],
        ["report", f"runs/{run}", "-o", "page.html"],
        ["diagnose", run, "--parts", "errors", *draw.choice([[], ["--save", "kept"]])],
        ["runs", "rm", run, *draw.choice([[], ["--dry-run"]])],
    ]
    writing = [
        ["train", *settings(name), *draw.choice([[], ["--force"], ["--dry-run"]])],
        ["sweep", "run", *settings(name), "--engine", "in-process", *draw.choice([[], ["--diagnose", "errors"]])],
    ]
    return [*draw.choice([*reading, *writing]), *draw.choice([[], ["--json"]])]


def _pick(files: Files, run: str, draw: random.Random, ending: str) -> str | None:
    """A file of a run; now and then one of the whole store."""
    place = "runs/" if draw.random() < 0.1 else f"runs/{run}/"
    found = [path for path in sorted(files) if path.startswith(place) and path.endswith(ending)]
    if place == "runs/":
        found = [path for path in found if path.count("/") == 1] or found
    return draw.choice(found) if found else None


def _document(files: Files, run: str, draw: random.Random) -> None:
    """A value anywhere in a JSON file."""
    path = _pick(files, run, draw, ".json")
    if path is not None and isinstance(files[path], bytes):
        try:
            files[path] = json.dumps(changed(json.loads(files[path]), draw, draw.randint(1, 2))).encode()
        except (ValueError, RecursionError):
            files[path] = changed_bytes(files[path], draw)


def _tensors(files: Files, run: str, draw: random.Random) -> None:
    """A tensor of another shape, type or content, whose file has a digest that fits; or a header that promises much."""
    import safetensors.torch
    import torch

    from recombine.core.files import METADATA, digest

    path = _pick(files, run, draw, ".safetensors")
    if path is None or not isinstance(files[path], bytes):
        return
    if draw.random() < 0.25:
        size = draw.choice([2**20, 2**62, 8, 2**63])
        header = json.dumps({"w": {"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]}}).encode()
        files[path] = struct.pack("<Q", draw.choice([len(header), 2**60, 0])) + header
        return
    try:
        tensors = safetensors.torch.load(files[path])
        length = struct.unpack("<Q", files[path][:8])[0]
        facts = json.loads(json.loads(files[path][8 : 8 + length])["__metadata__"][METADATA])
    except (ValueError, KeyError, TypeError, struct.error, safetensors.SafetensorError):
        files[path] = changed_bytes(files[path], draw)
        return
    name = draw.choice(sorted(tensors) or ["w"])
    old = tensors.get(name, torch.zeros(2))
    tensors[name] = draw.choice([
        lambda: old.flatten()[:-1].contiguous(), lambda: old.double(), lambda: torch.full_like(old, 1).bool(),
        lambda: old * float("nan") if old.is_floating_point() else old, lambda: old.unsqueeze(0).contiguous(),
        lambda: torch.zeros(0), lambda: torch.cat([old.flatten(), old.flatten()]), lambda: old.to(torch.float16),
        lambda: old * 1e38 if old.is_floating_point() else -old.to(torch.int64) if old.dtype != torch.bool else old,
    ])()  # fmt: skip
    if draw.random() < 0.2:
        del tensors[name]
    if draw.random() < 0.3:
        facts = changed(facts, draw)
    if not isinstance(facts, dict):
        return
    facts.pop("sha256", None)
    tensors = {key: tensor.contiguous().clone() for key, tensor in tensors.items()}
    facts["sha256"] = digest(tensors, facts)
    files[path] = safetensors.torch.save(tensors, {METADATA: json.dumps(facts, sort_keys=True)})


def _bytes(files: Files, run: str, draw: random.Random) -> None:
    """Bytes of any file."""
    path = _pick(files, run, draw, draw.choice(["", ".csv", ".jsonl", ".json"]))
    if path is not None and isinstance(files[path], bytes):
        files[path] = changed_bytes(files[path], draw)


def _names(files: Files, run: str, draw: random.Random) -> None:
    """A file that is missing, another run's, a link, a pipe or a folder; or one that nobody expects."""
    path = _pick(files, run, draw, "")
    how = draw.randrange(6)
    if path is None:
        return
    if how == 0:
        del files[path]
    elif how == 1:
        others = [other for other in sorted(files) if other.rsplit("/")[-1] == path.rsplit("/")[-1]]
        files[path] = files[draw.choice(others)]
    elif how == 2:
        up = "../" * path.count("/")
        files[path] = Special("link", draw.choice([f"{up}{OUTSIDE}", "nowhere", path.rsplit("/")[-1], "/dev/zero", up]))
    elif how == 3:
        files[path] = Special(draw.choice(["pipe", "folder"]))
    elif how == 4:
        new = draw.choice([".lock", "next-checkpoint.safetensors", "checkpoint.safetensors", ".new", "diagnosis/x.csv"])
        what: Any = draw.choice([b"{}", b"", Special("link", f"../../{OUTSIDE}"), Special("folder"), b'{"pid": -1}'])
        files.setdefault(f"runs/{run}/{new}", what)
    else:
        new = draw.choice(["sweep.json", "sweep-events.jsonl", "0123456789abcdef", "damaged-runs.json", "x\x1b[2J"])
        files[f"runs/{new}"] = draw.choice([b"{}", b"[", Special("link", f"../{OUTSIDE}"), Special("folder")])


def seal(files: Files, run: str) -> None:
    """Give the records of a run, and of its diagnosis, digests that fit the files."""
    from recombine.runs.facts import run_digest

    for record in (f"{run}/diagnosis/diagnosis.json", f"{run}/run.json"):
        try:
            facts = json.loads(files[record])
            place = record.rsplit("/", 1)[0]
            for name in facts["files"]:
                if isinstance(files.get(f"{place}/{name}"), bytes):
                    facts["files"][name] = hashlib.sha256(files[f"{place}/{name}"]).hexdigest()
            if record.endswith("run.json"):
                facts.pop("digest", None)
                facts["digest"] = run_digest(facts)
                weights = facts["files"].get("model/model.safetensors")
                _point(files, f"{run}/diagnosis/diagnosis.json", weights)
            files[record] = json.dumps(facts).encode()
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            continue


def _point(files: Files, record: str, weights: Any) -> None:
    """Make a diagnosis one of these weights."""
    content = json.loads(files[record]) if isinstance(files.get(record), bytes) else None
    if isinstance(content, dict) and isinstance(content.get("source"), dict):
        content["source"]["model"] = weights
        files[record] = json.dumps(content).encode()
