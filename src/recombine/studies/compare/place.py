"""The output folder of a comparison: what identifies the comparison in it, and which calls may continue it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from recombine.core.errors import InputError, StoreError
from recombine.core.files import inside, read_plain_json, write_json
from recombine.studies.compare.suite import Suite

FORMAT = "recombine-compare-2"
LISTS = ("remedies", "splits")  # may grow from call to call


def identity(suite: Suite) -> dict[str, Any]:
    """What a comparison consists of, as in compare.json."""
    return {
        "format": FORMAT, "suite": suite.name, "remedies": list(suite.remedies),
        "scenes": {name: dict(scene) for name, scene in suite.scenes.items()}, "splits": list(suite.splits),
        "seeds": suite.seeds, "budget": asdict(suite.budget),
    }  # fmt: skip


def claim(out: Path, suite: Suite) -> None:
    """Claim a folder for a comparison, before anything is trained. Raises like `check`."""
    check(out, suite)
    if not (out / "rows.csv").is_file():
        write_json(out / "compare.json", identity(suite))


def check(out: Path, suite: Suite) -> None:
    """Check whether a folder is free for a comparison. Writes nothing.

    Raises:
        InputError: If the folder contains something else, or a comparison with rows that this one would remove.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file. Choose another --out.", "out")
    inside(out, "figures")  # raises if it is a link
    main = inside(out) / "compare.json"
    if not main.is_file():
        if out.exists() and any(path.name != "runs" for path in out.iterdir()):
            raise InputError(
                f"{out} does not contain a comparison (it has no compare.json). Choose another --out or an empty "
                "folder.",
                "out",
            )
        return
    try:
        found = read_plain_json(main)
    except StoreError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{main} is not the file of a comparison of this version. Choose another --out.", "out")
    try:
        lost = lost_by(identity(suite), found)
    except (TypeError, AttributeError) as error:
        raise InputError(f"{main} is damaged. Choose another --out.", "out") from error
    if lost and (out / "rows.csv").is_file():
        raise InputError(
            f"{out} contains another comparison, whose rows would be lost ({', '.join(lost)}). Choose another --out, "
            "or repeat what it contains and add to it.",
            "out",
        )


def lost_by(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """What a comparison in a folder has and a new one in the same folder would not have."""
    lost = [f"{name} {old.get(name)!r}" for name in ("suite", "budget") if old.get(name) != new[name]]
    for name in LISTS:
        lost += [f"{name} {item!r}" for item in old.get(name, []) if item not in new[name]]
    lost += [f"scene {name!r}" for name, scene in old.get("scenes", {}).items() if new["scenes"].get(name) != scene]
    if old.get("seeds", 0) > new["seeds"]:
        lost.append(f"{old['seeds']} seeds")
    return lost
