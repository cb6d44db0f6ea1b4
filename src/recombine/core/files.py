"""Reads and writes files. A kill at any moment leaves either the old file or the new one, never a part of one."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from recombine.core.errors import DamagedError, InputError, StoreError
from recombine.core.limits import YAML_BYTES, check_yaml_nodes

METADATA = "recombine"
MOST_TEXT = 2**27  # bytes of a JSON file that is read
MOST_DEPTH = 100  # levels of its lists and mappings
PLAIN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def inside(root: Path, *names: str) -> Path:
    """The path root/names…, to be used immediately. Raises DamagedError if anything below the root is a symbolic link.

    The author of a store could point a link at any file of its reader. Only the root may be one: the reader chose it.
    """
    path = root
    for name in names:
        path = path / name
        if path.is_symlink():
            raise DamagedError(f"{path} is a symbolic link. Runs contain no links, so it is not followed. Remove it.")
    return path


def open_plain(path: Path | str, *, dir_fd: int | None = None, follow_link: bool = False) -> int:
    """A descriptor of a regular file, opened for reading. Pipes and devices do not block.

    Args:
        path: The file.
        dir_fd: Descriptor of the folder that a relative path starts from.
        follow_link: Whether the path may be a symbolic link, as that of a file that the user names.

    Raises:
        FileNotFoundError: If there is none.
        DamagedError: If it is something else or cannot be opened.
    """
    try:
        flags = PLAIN & ~getattr(os, "O_NOFOLLOW", 0) if follow_link else PLAIN
        handle = os.open(path, flags, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DamagedError(f"{path} is not a regular file.")
    return handle


def read_plain(
    path: Path | str, *, most: int = MOST_TEXT, dir_fd: int | None = None, follow_link: bool = False
) -> bytes:
    """The content of a regular file of limited size; see `open_plain`."""
    handle = open_plain(path, dir_fd=dir_fd, follow_link=follow_link)
    try:
        size = os.fstat(handle).st_size
        if size > most:
            raise DamagedError(f"{path} has {size} bytes; at most {most} are read.")
        content = os.read(handle, size + 1)
        while len(content) < size and (more := os.read(handle, size + 1 - len(content))):
            content += more
        return content
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}.") from error
    finally:
        os.close(handle)


def open_log(path: Path) -> int:
    """A descriptor of an append-only file, which is created if necessary. Raises OSError for a link or pipe."""
    flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | (PLAIN & ~os.O_RDONLY)
    return os.open(path, flags, 0o644)


def parse_json(content: bytes, what: Path | str) -> Any:
    """JSON of a file named `what`. Deep nesting, which would exhaust the stack of its users, is an error."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"{what} cannot be read as JSON: {error}. It may be truncated or from another program."
        ) from error
    if content.count(b"[") + content.count(b"{") > MOST_DEPTH and _is_deep(found):
        raise DamagedError(f"{what} has more than {MOST_DEPTH} levels, so recombine did not write it.")
    return found


def _is_deep(content: Any) -> bool:
    level = [content]
    for _ in range(MOST_DEPTH + 1):
        level = [
            part
            for outer in level
            if isinstance(outer, dict | list)
            for part in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def read_plain_json(path: Path) -> Any:
    """Like `read_json`, for a file that is not a link."""
    try:
        return parse_json(read_plain(path), path)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing.") from None


def set_aside(path: Path) -> Path:
    """Rename something damaged or obstructing to "damaged-…", replacing an earlier one. Links are not followed.

    Raises:
        StoreError: If it cannot be renamed.
    """
    aside = path.with_name(f"damaged-{path.name.lstrip('.')}")
    if aside.is_dir() or aside.is_symlink() or path.is_dir():  # only a file can replace a file
        aside = aside.with_name(f"{aside.name}-{secrets.token_hex(4)}")
    try:
        os.replace(path, aside)
    except OSError as error:
        raise StoreError(f"{path} is damaged and cannot be renamed: {error.strerror}. Delete it.") from error
    return aside


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: a temporary file beside it is flushed to disk and then renamed."""
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
    """The content of a JSON file that the user named. It may be a link to a regular file."""
    return parse_json(read_named(path, MOST_TEXT), path)


def read_named(path: Path, most: int) -> bytes:
    """The content of a regular file that the user named, which may be a link and must not exceed a size."""
    try:
        return read_plain(path, most=most, follow_link=True)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing.") from None


def read_config(path: Path) -> Any:
    """The content of a JSON file, or of a YAML file (.yaml, .yml)."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return read_json(path)
    import yaml

    try:
        text = read_named(path, YAML_BYTES).decode()
        root = yaml.compose(text, yaml.SafeLoader)
        if root is not None:
            check_yaml_nodes(root, str(path))
        return yaml.safe_load(text)
    except InputError:
        raise
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise StoreError(f"{path} cannot be read as YAML: {error}.") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors, with a digest of their content that `read_tensors` verifies.

    All metadata are in one JSON entry, because safetensors writes several in random order, and equal content should
    give equal files.
    """
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    facts = {**(metadata or {}), "sha256": digest(plain, metadata or {})}
    write_bytes(path, safetensors.torch.save(plain, {METADATA: json.dumps(facts, sort_keys=True)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file that `write_tensors` wrote. Raises if anything is missing or changed."""
    with _opened(path) as file:
        metadata = _facts(path, file)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if metadata.pop("sha256", None) != digest(tensors, metadata):
        raise StoreError(f"{path} was changed, or recombine did not write it: its digest does not match.")
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
        raise StoreError(f"{path} cannot be read: {error}. It is truncated or not a safetensors file.") from error


def digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256 over names, types, shapes, bytes and metadata."""
    total = hashlib.sha256(json.dumps(dict(sorted(metadata.items()))).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """sha256 of a regular file's content."""
    with os.fdopen(open_plain(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
