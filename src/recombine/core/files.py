"""Reading and writing files so that a kill at any moment leaves the old file or the new one, never half of one."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from recombine.core.errors import StoreError

METADATA = "recombine"


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: a temporary neighbour, flushed to disk, takes its name in one step."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        kept = " The previous version of it is untouched." if os.path.exists(path) else ""
        raise StoreError(
            f"Could not write {path}: {error.strerror or error}.{kept} Free some space or choose another folder, "
            "then run the same command again."
        ) from error


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} is missing.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read as JSON: {error}. It may be truncated or not ours.") from error


def read_config(path: Path) -> Any:
    """The content of a JSON file, or of a YAML file (.yaml, .yml)."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return read_json(path)
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} is missing.") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise StoreError(f"{path} cannot be read as YAML: {error}.") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors, with a digest of their content that `read_tensors` verifies.

    All metadata are one JSON entry: safetensors writes several in random order, and equal content should give
    equal files.
    """
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    facts = {**(metadata or {}), "sha256": digest(plain, metadata or {})}
    write_bytes(path, safetensors.torch.save(plain, {METADATA: json.dumps(facts, sort_keys=True)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file that `write_tensors` made; anything missing or changed is an error."""
    with _opened(path) as file:
        metadata = _facts(path, file)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if metadata.pop("sha256", None) != digest(tensors, metadata):
        raise StoreError(f"{path} was changed after it was written, or not by recombine: its digest does not match.")
    return tensors, metadata


def read_metadata(path: Path) -> dict[str, str]:
    """Only the metadata of a safetensors file."""
    with _opened(path) as file:
        return _facts(path, file)


def _facts(path: Path, file: Any) -> dict[str, str]:
    try:
        return dict(json.loads((file.metadata() or {})[METADATA]))
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{path} was not written by recombine: it lacks its metadata. Move it away.") from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise StoreError(f"{path} is missing.")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            yield file
    except (OSError, safetensors.SafetensorError) as error:
        raise StoreError(f"{path} cannot be read: {error}. It is truncated or no safetensors file.") from error


def digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256 over names, types, shapes, bytes and metadata."""
    total = hashlib.sha256(json.dumps(dict(sorted(metadata.items()))).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
