"""The objects of a scene, for remedies and splits that depend on them."""

from __future__ import annotations

from recombine.core.scenes import Composition, Scene


def slots_of(scene: Scene) -> list[list[int]] | None:
    """The factors of each object, if the scene declares that its blocks are objects."""
    structure = scene.structure
    if structure is None or structure.composition not in (Composition.ADDITIVE, Composition.OCCLUDING):
        return None
    return [[scene.space.axis(name) for name in block] for block in structure.blocks]


def two_factors(scene: Scene) -> tuple[str, str]:
    """The factors whose combinations a split holds out: of two different objects if there are two, else the first."""
    slots, names = slots_of(scene), scene.space.names
    if slots is not None and len(slots) > 1:
        return names[slots[0][0]], names[slots[1][0]]
    return names[0], names[1]
