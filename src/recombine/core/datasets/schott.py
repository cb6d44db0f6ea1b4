"""The split files of Schott et al. 2022: dSprites, Shapes3D and MPI3D with a training and a test part.

`{name}_{split}_{train|test}_{images|labels}.npz`, each with one array, `arr_0`; pictures are channel first. The files
alone define the split.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np

from recombine.core.datasets import dsprites, mpi3d, shapes3d
from recombine.core.datasets.files import DataFiles
from recombine.core.datasets.labels import inferred
from recombine.core.datasets.npy import NpzFile
from recombine.core.datasets.rows import JoinedRows, Rows
from recombine.core.datasets.source import DATASETS, Chosen, DataPath, Source
from recombine.core.errors import InputError
from recombine.core.factors import Factor, categorical

NAME = re.compile(r"(?P<name>(?P<set>[a-z0-9]+)_\w+)_(train|test)_(images|labels)\.npz")
ARRAY = "arr_0"
FACTORS = {"dsprites": dsprites.FACTORS, "shapes3d": shapes3d.FACTORS, "mpi3d": mpi3d.FACTORS}
LABELS: dict[str, dict[str, tuple[str, ...]]] = {
    "dsprites": {"shape": dsprites.SHAPES},
    "shapes3d": {"shape": shapes3d.SHAPES},
    "mpi3d": {**mpi3d.SIMPLE, **mpi3d.LABELS},
}


def is_schott(path: Path, names: tuple[str, ...]) -> bool:
    """Whether an .npz file with arrays of these names has this layout."""
    return NAME.fullmatch(path.name) is not None and set(names) == {ARRAY}


@DATASETS.register("schott")
def schott(files: DataFiles, file: DataPath) -> Source:
    """A split of Schott et al. from its four files.

    Args:
        files: Opens the files.
        file: The path of any one of them; the others are in the same folder.
    """
    match = NAME.fullmatch(Path(file).name)
    if match is None:
        raise InputError(
            f"{file} is not named like the files of Schott et al., for example dsprites_composition_train_images.npz."
        )
    pictures: list[NpzFile] = []
    labels: list[np.ndarray] = []
    for part in ("train", "test"):
        paths = [
            files.open(f"{part}_{what}", Path(file).with_name(f"{match['name']}_{part}_{what}.npz"))
            for what in ("images", "labels")
        ]
        pictures.append(_archive(paths[0]))
        labels.append(_archive(paths[1]).read(ARRAY))
    headers = [archive.header(ARRAY) for archive in pictures]
    for path, header, found in zip((p.path for p in pictures), headers, labels):
        if found.ndim != 2 or len(found) != header.shape[0]:
            raise InputError(
                f"{path.name} has {header.shape[0]} pictures, but its labels have shape {found.shape}. The files do "
                "not belong together."
            )
    columns, factors = _labelled(match["set"], np.concatenate(labels), file)
    counts = [header.shape[0] for header in headers]

    def rows(chosen: Chosen | None) -> Rows:
        if chosen is None:
            return JoinedRows([archive.rows(ARRAY) for archive in pictures])
        order = np.argsort(chosen >= counts[0], kind="stable")
        if not bool((np.diff(order) > 0).all()):
            raise AssertionError("pictures are chosen in increasing order")
        first, second = chosen[chosen < counts[0]], chosen[chosen >= counts[0]] - counts[0]
        return JoinedRows([archive.rows(ARRAY, some) for archive, some in zip(pictures, (first, second)) if len(some)])

    return Source(
        columns,
        rows,
        (sum(counts), *headers[0].shape[1:]),
        headers[0].dtype,
        factors,
        channels="first",
        is_test=np.repeat([False, True], counts),
        stream=lambda: itertools.chain(*(archive.blocks(ARRAY) for archive in pictures)),
    )


def _archive(path: Path) -> NpzFile:
    archive = NpzFile(path)
    if ARRAY not in archive.names:
        raise InputError(f"{path} has no array {ARRAY!r}. It has {', '.join(archive.names)}.")
    return archive


def _labelled(name: str, labels: np.ndarray, file: str) -> tuple[dict[str, np.ndarray], dict[str, Factor]]:
    """Positions and factors; the values are those that occur in either part."""
    known = FACTORS.get(name, tuple(f"factor_{i}" for i in range(labels.shape[1])))
    if labels.shape[1] not in (len(known), len(known) - 1):
        raise InputError(f"{file}: {name} has {len(known)} factors. Got labels with {labels.shape[1]} columns.")
    names = known[len(known) - labels.shape[1] :]  # some files leave out dSprites' colour, which is always white
    columns: dict[str, np.ndarray] = {}
    factors: dict[str, Factor] = {}
    for i, factor in enumerate(names):
        factors[factor], columns[factor] = inferred(labels[:, i], factor)
        texts = LABELS.get(name, {}).get(factor, ())
        values = factors[factor].grid().tolist()
        if texts and all(value == int(value) and 0 <= value < len(texts) for value in values):
            factors[factor] = categorical([texts[int(value)] for value in values])
    return columns, factors
