"""Small files of exactly the layouts that are published, written for tests."""

import csv
import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SIDE = 5


@dataclass(frozen=True)
class Written:
    """A data set in files, and what is in it.

    Attributes:
        data: Its configuration.
        sizes: Factor → number of values, those with one value included.
        pictures: All pictures, channels first if they have any, between 0 and 1.
        positions: (picture, factor).
        is_test: Of each picture, if the files say so.
    """

    data: dict[str, Any]
    sizes: dict[str, int]
    pictures: np.ndarray
    positions: np.ndarray
    is_test: np.ndarray | None = None


def grid(sizes: dict[str, int]) -> np.ndarray:
    """Positions of all cells, last factor fastest."""
    return np.array(list(itertools.product(*(range(size) for size in sizes.values()))))


def noise(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def dsprites(folder: Path, *, compressed: bool = True) -> Written:
    sizes = {"colour": 1, "shape": 3, "scale": 2, "orientation": 5, "x": 3, "y": 2}
    classes = grid(sizes)
    images = (noise((len(classes), SIDE, SIDE)) > 127).astype(np.uint8)
    axes = [
        [1],
        [1, 2, 3],
        np.linspace(0.5, 1, 2),
        np.linspace(0, 2 * math.pi, 5),  # the last one is the first again, as in the published file
        np.linspace(0, 1, 3),
        [0, 1],
    ]
    values = np.stack([np.asarray(axis, dtype=float)[classes[:, i]] for i, axis in enumerate(axes)], axis=1)
    path = folder / "dsprites.npz"
    save = np.savez_compressed if compressed else np.savez
    metadata = np.array({"date": "a pickle, as the published file has one"}, dtype=object)
    save(path, imgs=images, latents_classes=classes, latents_values=values, metadata=metadata)
    return Written({"kind": "dsprites", "file": str(path)}, sizes, images.astype(float), classes)


def shapes3d(folder: Path, *, compressed: bool = True) -> Written:
    import h5py

    sizes = {"floor_hue": 2, "wall_hue": 2, "object_hue": 3, "scale": 2, "shape": 4, "orientation": 2}
    classes = grid(sizes)
    images = noise((len(classes), SIDE, SIDE, 3))
    axes = [np.arange(2) / 10, np.arange(2) / 10, np.arange(3) / 10, [0.75, 1.25], np.arange(4.0), [-30.0, 30.0]]
    labels = np.stack([np.asarray(axis)[classes[:, i]] for i, axis in enumerate(axes)], axis=1)
    path = folder / "3dshapes.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, compression="gzip" if compressed else None)
        file.create_dataset("labels", data=labels)
    pictures = np.moveaxis(images, -1, 1) / 255
    return Written({"kind": "shapes3d", "file": str(path)}, sizes, pictures, classes)


def mpi3d(folder: Path, *, compressed: bool = False) -> Written:
    names = ("object_color", "object_shape", "object_size", "camera_height", "background_color", "horizontal_axis",
             "vertical_axis")  # fmt: skip
    sizes = dict(zip(names, (2, 3, 2, 1, 2, 3, 2)))
    images = noise((*sizes.values(), SIDE, SIDE, 3))
    path = folder / "mpi3d_toy.npz"
    (np.savez_compressed if compressed else np.savez)(path, images=images)
    pictures = np.moveaxis(images.reshape(-1, SIDE, SIDE, 3), -1, 1) / 255
    return Written({"kind": "mpi3d", "file": str(path)}, sizes, pictures, grid(sizes))


def schott(folder: Path) -> Written:
    sizes = {"shape": 3, "scale": 2, "orientation": 2, "x": 3, "y": 2}
    classes = grid(sizes)
    held = (classes[:, 0] == 0) & (classes[:, 3] == 2)
    images = noise((len(classes), 1, SIDE, SIDE))
    name = "dsprites_composition"
    for part, chosen in (("train", ~held), ("test", held)):
        np.savez_compressed(folder / f"{name}_{part}_images.npz", images[chosen])
        np.savez_compressed(folder / f"{name}_{part}_labels.npz", classes[chosen])
    order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
    data = {"kind": "schott", "file": str(folder / f"{name}_train_images.npz")}
    return Written(data, sizes, images[order, 0] / 255, classes[order], held[order])


def arrays(folder: Path) -> Written:
    sizes = {"colour": 3, "size": 2, "x": 4}
    classes = grid(sizes)
    images = noise((len(classes), SIDE, SIDE, 3))
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", classes)
    data = {"kind": "arrays", "images": str(folder / "images.npy"), "labels": str(folder / "labels.npy"),
            "names": list(sizes)}  # fmt: skip
    return Written(data, sizes, np.moveaxis(images, -1, 1) / 255, classes)


def pictures(folder: Path) -> Written:
    """PNG files and one JPEG file that is a plain colour, which JPEG keeps to within a step or two."""
    from PIL import Image

    sizes = {"colour": 2, "x": 3}
    classes = grid(sizes)
    images = noise((len(classes), SIDE, SIDE, 3))
    images[-1] = 90
    names = [f"picture-{i}.{'jpg' if i == len(images) - 1 else 'png'}" for i in range(len(images))]
    for name, image in zip(names, images):
        Image.fromarray(image).save(folder / name)
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "colour", "x", "split"])
        for name, (colour, x) in zip(names, classes):
            writer.writerow([name, ("blue", "red")[colour], 10 * x, "test" if colour and x == 2 else "train"])
    is_test = (classes[:, 0] == 1) & (classes[:, 1] == 2)
    data = {"kind": "folder", "folder": str(folder)}
    return Written(data, sizes, np.moveaxis(images, -1, 1) / 255, classes, is_test)


LAYOUTS = {
    "arrays": arrays,
    "dsprites": dsprites,
    "dsprites, not compressed": lambda folder: dsprites(folder, compressed=False),
    "folder": pictures,
    "mpi3d": mpi3d,
    "mpi3d, compressed": lambda folder: mpi3d(folder, compressed=True),
    "schott": schott,
    "shapes3d": shapes3d,
    "shapes3d, not compressed": lambda folder: shapes3d(folder, compressed=False),
}
