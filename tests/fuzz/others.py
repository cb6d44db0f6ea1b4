"""Other commands: listings, tables, pages and data sets that are valid except for one option, word or file."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from typing import Any

from tests.fuzz.documents import valid_config
from tests.fuzz.mutations import changed, changed_bytes, near, odd
from tests.fuzz.stored import RUNS, run_ids

Files = dict[str, Any]


def other_line(stored: dict[str, bytes], draw: random.Random) -> tuple[list[str], Files]:
    """A command with at most two changes, in a folder with an intact store and a data set."""
    words, files = draw.choice([_store_command, _store_command, _data_command, _data_command, _configuration])(draw)
    if draw.random() < 0.15:
        _change_word(words, draw)
    needs_store = words[0] not in ("data", "plugins") and "--config" not in words
    return words, {**(stored if needs_store else {}), **files}


def _change_word(words: list[str], draw: random.Random) -> None:
    at, how = draw.randrange(1, len(words) + 1), draw.random()
    if how < 0.3 and at < len(words):
        words[at] = changed_bytes(words[at].encode(), draw).decode(errors="ignore")
    elif how < 0.5 and at < len(words):
        words[at] = str(odd(draw))
    elif how < 0.6 and at < len(words) and len(words) > 2:
        del words[at]
    else:
        words[at:at] = draw.choice([["--json"], ["--out", "runs"], ["--plugin", "nothing.py"], ["--nothing"], ["--"]])


def _store_command(draw: random.Random) -> tuple[list[str], Files]:
    """A command that reads a store, with options of its own."""
    run = run_ids()[draw.choice([*RUNS, "diagnosed", "plain"])]
    prefix = run[: draw.choice([1, 4, 8, 16, 16])]
    options = {
        "list": [[], ["--json"], ["--out", "runs"], ["--out", "runs/.."], ["--out", "none"]],
        "table": [
            [], ["--group"], ["--all"], ["--json"], ["--save", "t.csv"], ["--save", "t.parquet"], ["--save", "t.txt"],
            ["--x", "training.steps"], ["--y", "id_mse"], ["--by", "seed"], ["--plot", "p.svg"], ["--y", "nothing"],
        ],
        "report": [
            [], ["--max-mb", "0.5"], ["--max-mb", "0"], ["--models", "0"], ["--units", "1"], ["--no-kernel"],
            ["--no-figures"], ["--json"], ["-o", "missing/page.html"], ["--out", "runs"],
        ],
        "diagnose": [
            ["--layers", "*"], ["--layers", "layers.0"], ["--budget", "0.1"], ["--cells", "5"], ["--cells", "5,6"],
            ["--save", "kept"], ["--save", "runs"], ["--seed", "3"], ["--draws", "2"], ["--geometry", "exact"],
        ],
    }  # fmt: skip
    parts = draw.choice(["errors", "outputs", "probes", "maps", "errors,probes", "superposition"])
    words, usual = draw.choice([
        (["runs", "list"], "list"), (["runs", "show", prefix], "list"), (["runs", "rm", prefix, "--dry-run"], "list"),
        (["sweep", "table", "runs"], "table"), (["sweep", "status", "runs"], "list"), (["doctor"], "list"),
        (["report", draw.choice(["runs", prefix, f"runs/{run}", f"a={prefix}"]), "-o", "page.html"], "report"),
        (["diagnose", prefix, "--parts", parts], "diagnose"), (["plugins"], "list"),
    ])  # fmt: skip
    if draw.random() < 0.05:
        words, usual = draw.choice([["reproduce", "R99"], ["reproduce", "all", "--profile", "no"], ["compare",
                       "--suite", "none"]]), "list"  # fmt: skip
    chosen = [option for _ in range(draw.randint(0, 2)) for option in draw.choice(options[usual])]
    if words[0] in ("sweep", "plugins") and usual == "list":
        chosen = [word for word in chosen if word == "--json"]
    return [*words, *chosen], {}


def _configuration(draw: random.Random) -> tuple[list[str], Files]:
    """A configuration in JSON, which `train` reads, with something changed deep inside."""
    content = json.dumps(changed(valid_config(draw), draw, draw.choice([0, 1, 2]))).encode()
    if draw.random() < 0.15:
        content = changed_bytes(content, draw)
    words = ["train", "--dry-run", "--config", "c.json", *draw.choice([[], ["seed=3"], ["decoder.width=3"]])]
    return words, {"c.json": content}


def _data_command(draw: random.Random) -> tuple[list[str], Files]:
    """A small data set in one of the layouts, with something wrong in an array, a table, a picture or a header."""
    import numpy as np

    cells = np.stack(np.meshgrid(np.arange(4), np.arange(3), indexing="ij"), -1).reshape(-1, 2)
    images = (np.arange(12 * 6 * 5).reshape(12, 6, 5) % 251).astype(np.uint8)
    wrong = draw.choice(["nothing", "images", "labels", "images", "labels", "file"])
    images = _changed_array(images, draw) if wrong == "images" else images
    cells = _changed_array(cells, draw) if wrong == "labels" else cells
    layout = draw.choice(["npz", "npy", "folder"])
    if layout == "npz":
        buffer = io.BytesIO()
        draw.choice([np.savez, np.savez_compressed])(buffer, allow_pickle=True, images=images, labels=cells)
        files, words = {"d.npz": buffer.getvalue()}, ["d.npz", 'names=["x","y"]']
    elif layout == "npy":
        files = {"i.npy": _npy(images), "l.npy": _npy(cells)}
        words = ["i.npy", "labels=l.npy", 'names=["x","y"]']
    else:
        lines = map(np.atleast_1d, np.atleast_1d(cells))
        rows = [f"{number}.png,{','.join(map(str, cell))}" for number, cell in enumerate(lines)]
        files = {"p/labels.csv": "\n".join(["file,x,y", *rows]).encode()}
        files |= {
            f"p/{number}.png": _png(image) for number, image in enumerate(np.atleast_1d(images)) if np.ndim(image) == 2
        }
        words = ["p"]
    if wrong == "file":
        path = draw.choice(sorted(files))
        files[path] = _announcing(files[path], draw) if draw.random() < 0.3 else changed_bytes(files[path], draw)
    if draw.random() < 0.4:
        words.append(draw.choice([
            "keep.x=[0,2]", "keep.x=0:3:2", "keep.x=1:4", "keep.x=[]", "keep.x=0:0", "keep.z=[0]", "scale=2",
            f"scale={near(2.0, draw)}", "channels=first", "channels=last", "split=l.npy", "labels=d.npz",
        ]))  # fmt: skip
    command = ["data", "show", *words, "--figure", "sheet.png"]
    if draw.random() < 0.3 and layout == "npz":
        command = ["data", "unpack", words[0], "out.npy", *words[1:]]
    return [*command, *draw.choice([[], ["--json"]])], files


def _changed_array(values: Any, draw: random.Random) -> Any:
    import numpy as np

    return draw.choice([
        lambda: values[:-1], lambda: values[:0], lambda: values[..., :0], lambda: values.astype(float) * np.nan,
        lambda: values.astype(float) * 1e300, lambda: values.astype(complex), lambda: values.astype("U3"),
        lambda: values.astype("S2"), lambda: values.astype(object), lambda: values.astype(bool), lambda: values[0],
        lambda: values[:, None], lambda: np.concatenate([values, values]), lambda: np.asfortranarray(values),
        lambda: values.astype(">i2"), lambda: values.astype("M8[s]"), lambda: values.astype("f2"), lambda: -values,
        lambda: values * 0, lambda: np.zeros(len(values), [("a", "i4"), ("b", "f8")]), lambda: np.float64(3),
    ])()  # fmt: skip


def _npy(values: Any) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def _png(image: Any) -> bytes:
    """A grey picture."""
    from PIL import Image

    buffer = io.BytesIO()
    try:
        Image.fromarray(image.astype("uint8")).save(buffer, "png")
    except (TypeError, ValueError, SystemError):  # of no size
        return b""
    return buffer.getvalue()


def _announcing(content: bytes, draw: random.Random) -> bytes:
    """A header that announces far more than the file holds."""
    if content[:4] == b"\x89PNG":
        header = b"IHDR" + struct.pack(">II", draw.choice([2**31 - 1, 60_000, 0]), 60_000) + content[24:29]
        return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]
    return content.replace(b"(12, ", draw.choice([b"(10000000000, ", b"(-1, ", b"(0, "]), 1)
