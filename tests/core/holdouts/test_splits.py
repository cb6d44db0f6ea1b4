"""Splits by cells, by labels and by their published names: exact counts, and what training covers of them."""

import itertools

import numpy as np
import pytest
import torch

from recombine.core import holdouts, scenes
from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, continuous, cyclic, discrete
from recombine.core.holdouts import Holdout

PLANE = FactorSpace(x=28, y=28)
TOYS = FactorSpace(colour=["red", "green"], shape=["square", "circle", "star"], size=[0.5, 0.7, 1.0])
DSPRITES = FactorSpace(
    colour=["white"],
    shape=["square", "ellipse", "heart"],
    scale=np.linspace(0.5, 1, 6),
    orientation=np.linspace(0, 2 * np.pi, 40),
    x=np.linspace(0, 1, 32),
    y=np.linspace(0, 1, 32),
)
HUES = discrete(10, step=0.1)
SHAPES3D = FactorSpace(
    floor_hue=HUES, wall_hue=HUES, object_hue=HUES, scale=np.linspace(0.75, 1.25, 8),
    shape=["cube", "cylinder", "sphere", "pill"], orientation=np.linspace(-30, 30, 15),
)  # fmt: skip
MPI3D = FactorSpace(
    object_color=6, object_shape=["cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"], object_size=2,
    camera_height=3, background_color=3, horizontal_axis=40, vertical_axis=40,
)  # fmt: skip


def labels_of(held: Holdout) -> set[str]:
    return {held.space.label(int(cell)) for cell in held.ood_cells}


# --- cells and labels -------------------------------------------------------------------------------------------


def test_cells_by_labels_values_lists_and_ranges():
    assert labels_of(holdouts.cells(TOYS, [{"colour": "red", "shape": "square", "size": 0.7}])) == {
        "colour=red, shape=square, size=0.7"
    }
    partial = holdouts.cells(TOYS, [{"colour": "red", "shape": "square"}])
    assert labels_of(partial) == {f"colour=red, shape=square, size={size}" for size in ("0.5", "0.7", "1")}
    listed = holdouts.cells(TOYS, [{"shape": ["circle", "star"], "size": {"min": 0.7}, "colour": "green"}])
    assert listed.n_ood == 4
    both = holdouts.cells(TOYS, [{"colour": "red", "shape": "square"}, {"size": "1", "colour": 1}])
    assert both.n_ood == 3 + 3
    assert holdouts.cells(PLANE, [{"x": {"min": 6, "max": 22}, "y": {"min": 6, "max": 22}}]).hash == (
        holdouts.centre(PLANE).hash
    )


def test_a_range_of_a_cyclic_factor_wraps():
    ring = FactorSpace(angle=cyclic(360.0, 12), x=2)
    held = holdouts.cells(ring, [{"angle": {"min": 330, "max": 30}}])
    assert held.coverage().unseen["angle"] == [0.0, 30.0, 330.0]


def test_off_grid_values_belong_to_their_nearest_cell():
    space = FactorSpace(x=continuous(0.0, 8.0, 8), size=[0.5, 0.7, 1.0])
    held = holdouts.cells(space, [{"x": 3, "size": 0.7}])
    values = torch.tensor([[3.4, 0.72], [3.6, 0.7], [2.6, 0.66], [3.0, 0.9]])
    assert held.contains(values).tolist() == [True, False, True, False]


def test_equal_ways_of_writing_cells_are_one_configuration():
    numbers = holdouts.cells(TOYS, [{"size": 1, "colour": "red"}])
    assert numbers.config == holdouts.cells(TOYS, cells=[{"size": np.float64(1), "colour": "red"}]).config


def test_unseen_cells_are_those_that_training_labels_lack():
    trained = {"colour": ["red", "red", "green"], "shape": ["square", "circle", "square"], "size": [0.5, 0.7, 0.5]}
    held = Holdout.unseen(TOYS, trained)
    assert held.n_id == 3
    assert {TOYS.label(int(cell)) for cell in held.id_cells} == {
        "colour=red, shape=square, size=0.5", "colour=red, shape=circle, size=0.7",
        "colour=green, shape=square, size=0.5",
    }  # fmt: skip
    numbers = np.array([[0, 0, 0.5], [0, 1, 0.7], [1, 0, 0.5], [1, 0, 0.5]])
    assert holdouts.unseen(TOYS, numbers).hash == held.hash
    test = {"colour": ["green"], "shape": ["circle"], "size": [0.7]}
    split = holdouts.unseen(TOYS, trained, test=test)
    assert (split.n_id, split.n_ood, split.n_unavailable) == (3, 1, 14)
    assert labels_of(split) == labels_of(holdouts.from_labels(TOYS, test)) == {"colour=green, shape=circle, size=0.7"}


# --- comb, diagonal, orthotopic ---------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [2, 5, 7])
def test_comb(every):
    i, j = np.indices((28, 28))
    held = holdouts.comb(PLANE, every)
    assert np.array_equal(held.mask, (i + j) % every == 0)
    assert sum(holdouts.comb(PLANE, every, offset=offset).n_ood for offset in range(every)) == 784
    assert held.coverage().complete
    third = FactorSpace(x=5, y=4, z=3)
    assert np.array_equal(holdouts.comb(third, 3, 1, ["x", "z"]).mask, np.indices((5, 4, 3))[[0, 2]].sum(0) % 3 == 1)


@pytest.mark.parametrize(("delta", "count"), [(0.0, 28), (1.0, 82), (1.35, 82), (2.0, 134)])
def test_diagonal(delta, count):
    i, j = np.indices((28, 28))
    held = holdouts.diagonal(PLANE, delta)
    assert held.n_ood == count
    assert np.array_equal(held.mask, abs(i - j) <= delta)
    assert np.array_equal(holdouts.diagonal(PLANE, delta, held="rest").mask, ~held.mask)


@pytest.mark.parametrize(("fraction", "first"), [(0.5, 5), (0.29, 2), (0.7, 7)])
def test_orthotopic_thresholds_as_fractions(fraction, first):
    space = FactorSpace(a=10, b=discrete(10, low=2.0, step=0.5), c=list("abcdefghij"))
    held = holdouts.orthotopic(space, c=1, fractions=fraction)
    assert np.array_equal(held.mask, (np.indices((10, 10, 10)) >= first).sum(0) > 1)


# --- published splits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "space", "split", "count", "order"),
    [
        ("dsprites", DSPRITES, "extrapolation", 368_640, 0),
        ("dsprites", DSPRITES, "recombination_to_range", 122_880, 1),
        ("dsprites", DSPRITES, "recombination_to_element", 5_808, 4),
        ("shapes3d", SHAPES3D, "extrapolation", 240_000, 0),
        ("shapes3d", SHAPES3D, "recombination_to_range", 60_000, 1),
        ("shapes3d", SHAPES3D, "recombination_to_element", 72, 5),
        ("mpi3d", MPI3D, "extrapolation", 492_480, 0),
        ("mpi3d", MPI3D, "recombination_to_range", 86_400, 1),
    ],
)
def test_splits_of_montero(data, space, split, count, order):
    """122 880, 60 000, 72 and 86 400 are the published counts; the others follow from the published conditions."""
    held = holdouts.montero(space, data, split)
    assert held.n_ood == count
    assert held.covered_order() == order


@pytest.mark.parametrize(
    ("published", "general"),
    [
        (("dsprites", "extrapolation"), holdouts.extrapolation(DSPRITES, "x")),
        (
            ("dsprites", "recombination_to_range"),
            holdouts.recombination_to_range(DSPRITES, {"shape": "square"}, "x"),
        ),
        (
            ("dsprites", "recombination_to_element"),
            holdouts.recombination_to_element(
                DSPRITES,
                {"shape": "ellipse", "scale": {"min": 0.65}, "orientation": {"min": 2.2, "max": 4.1},
                 "x": {"min": 0.66}, "y": {"min": 0.66}},
            ),
        ),
    ],
    ids=lambda given: given[1] if isinstance(given, tuple) else "",
)  # fmt: skip
def test_published_splits_in_general_terms(published, general):
    assert np.array_equal(holdouts.montero(DSPRITES, *published).mask, general.mask)


def test_ranges_from_below():
    low = holdouts.recombination_to_range(MPI3D, {"object_shape": "cylinder"}, "horizontal_axis", lower=True)
    assert np.array_equal(low.mask, holdouts.montero(MPI3D, "mpi3d", "recombination_to_range").mask)
    assert holdouts.extrapolation(PLANE, "x", 0.25, lower=True).coverage().unseen == {"x": list(range(7)), "y": []}


def test_levels_of_three_binary_factors():
    """Farid et al. 2025: of 8 combinations 4 are trained on, 3 are of level 1 and 1 is of level 2."""
    space = FactorSpace(a=["0", "1"], b=["0", "1"], c=["0", "1"])
    held = holdouts.levels(space)
    assert np.bincount(held.levels().ravel()).tolist() == [4, 3, 1]
    assert held.levels()[1, 1, 1] == 2
    moved = holdouts.levels(space, reference={"a": "1", "b": "1", "c": "1"})
    assert moved.levels()[0, 0, 0] == 2
    assert holdouts.levels(FactorSpace(a=4, b=3, c=5), changes=2).n_ood == 3 * 2 * 4


def test_levels_by_brute_force():
    space = FactorSpace(a=4, b=3, c=3)
    held = holdouts.random(space, 0.85).within(np.arange(36) % 7 != 0)
    where = space.coordinates(torch.arange(36))
    apart = (where[:, None] != where[held.id_cells][None]).sum(-1).amin(1)
    assert held.levels().ravel().tolist() == apart.tolist()


@pytest.mark.parametrize("space", [PLANE, FactorSpace(a=6, b=5, c=4), FactorSpace(a=3, b=40)])
@pytest.mark.parametrize("seed", range(3))
def test_connected_supports(space, seed):
    held = holdouts.connected(space, 0.6, seed=seed)
    assert held.n_ood == round(0.6 * len(space))
    assert held.coverage().complete
    assert held.components() == 1
    assert held.hash != holdouts.connected(space, 0.6, seed=seed + 1).hash
    needed = int(len(space) * 0.5)
    with pytest.raises(InputError, match="are needed to connect all values") as caught:
        holdouts.connected(space, 1 - 1 / needed)
    assert caught.value.key == "holdout.fraction"


@pytest.mark.parametrize("groups", [2, 3])
def test_disconnected_supports(groups):
    space = FactorSpace(a=6, b=7, c=6)
    held = holdouts.disconnected(space, groups)
    assert held.coverage().complete
    assert held.components() == groups
    assert holdouts.disconnected(PLANE).n_ood == 392


# --- what training covers ---------------------------------------------------------------------------------------


def test_components_by_hand():
    held = holdouts.mask(FactorSpace(a=3, b=3), [0, 1, 1, 1, 0, 1, 1, 1, 1])  # trained on (0, 0) and (1, 1)
    assert held.components() == 4  # and a=2, b=2 alone
    assert held.within(np.arange(9).reshape(3, 3)[:, :] // 3 < 2).components() == 3  # a=2 does not exist
    assert holdouts.centre(PLANE).components() == 1


def test_covered_order_by_brute_force():
    space = FactorSpace(a=3, b=3, c=2, d=2)
    for seed, share in itertools.product(range(4), (0.1, 0.3, 0.6, 0.9)):
        held = holdouts.random(space, share, seed=seed).within(np.arange(36) % 11 != seed)
        trained, unseen = (space.coordinates(cells).tolist() for cells in (held.id_cells, held.ood_cells))

        def covers(order: int, trained: list = trained, unseen: list = unseen) -> bool:
            return all(
                {tuple(cell[a] for a in axes) for cell in unseen} <= {tuple(cell[a] for a in axes) for cell in trained}
                for axes in itertools.combinations(range(4), order)
            )

        assert held.covered_order() == max(order for order in range(4) if all(covers(k) for k in range(1, order + 1)))


def test_covered_order_of_known_splits():
    assert holdouts.centre(PLANE).covered_order() == 1
    assert holdouts.gap(PLANE, "x", 3, 5).covered_order() == 0
    assert holdouts.centre(FactorSpace(a=9, b=9, c=9), 3, 5).covered_order() == 2
    assert holdouts.centre(FactorSpace(a=9, b=9, c=9), 3, 5, ["a", "b"]).covered_order() == 1


@pytest.mark.parametrize(
    ("held", "sigma", "never_lit"),
    [
        (holdouts.centre(PLANE, 6, 22), 1.0, 0.58),
        (holdouts.centre(PLANE, 10, 18), 1.0, 0.31),
        (holdouts.corner(FactorSpace(x=32, y=32), 12), 1.5, 0.72),
        (holdouts.comb(PLANE, 5), 1.0, 0.0),
    ],
    ids=["centre", "small centre", "corner", "comb"],
)
@pytest.mark.parametrize("inverted", [False, True])
def test_pixel_coverage_of_bumps(held, sigma, never_lit, inverted):
    """Share of the unseen bumps' energy in pixels that no trained bump lights, to the last digit given.

    By hand, with a bump g(u − x) g(v − y): a pixel is never lit if g g < 0.05 for all trained (x, y).
    """
    scene = scenes.Bump(held.space, sigma=sigma, inverted=inverted)
    assert 1 - held.pixel_coverage(scene) == pytest.approx(never_lit, abs=0.005)
    n = held.space.shape[0]
    g = np.exp(-(np.subtract.outer(np.arange(n), np.arange(n)) ** 2) / (2 * sigma**2))
    images = np.einsum("xu,yv->xyvu", g, g)
    lit = (images[held.id_mask] >= 0.05).any(0)
    energy = (images[held.ood_mask] ** 2).sum(0)
    background = 1.0 if inverted else 0.0
    assert held.pixel_coverage(scene, background) == pytest.approx(energy[lit].sum() / energy.sum(), rel=1e-5)


@pytest.mark.parametrize(("brightest", "covered"), [(0.049, 0.0), (0.051, 1.0)])
def test_a_pixel_is_lit_from_a_twentieth_on(brightest, covered):
    held = holdouts.cells(FactorSpace(x=20), [{"x": 19}])
    scene = lambda values: torch.where(values == 18, brightest, torch.where(values == 19, 1.0, 0.0))  # noqa: E731
    assert held.pixel_coverage(scene) == covered


def test_pixel_coverage_counts_what_is_available_only():
    held = holdouts.centre(PLANE, 6, 22)
    scene = scenes.Bump(PLANE)
    i, j = np.indices((28, 28))
    without_middle = held.within((abs(i - 14) > 6) | (abs(j - 14) > 6))  # what is left lies near trained cells
    assert without_middle.pixel_coverage(scene) > 0.85
    assert np.isnan(held.pixel_coverage(lambda values: torch.zeros(len(values), 4)))


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "key", "message"),
    [
        (lambda: holdouts.cells(TOYS, [{"colour": "rd"}]), "holdout.cells.0.colour", "(did you mean 'red'?)"),
        (lambda: holdouts.cells(TOYS, [{"colour": "red"}, {"z": 1}]), "holdout.cells.1.z", "no factor 'z'"),
        (lambda: holdouts.cells(TOYS, [{"size": {"min": 2}}]), "holdout.cells.0.size", "the range of factor 'size'"),
        (lambda: holdouts.cells(TOYS, [{"colour": {"min": 0}}]), "holdout.cells.0.colour", "which have no order"),
        (lambda: holdouts.cells(TOYS, [{"size": {"min": 0.55, "max": 0.6}}]), "holdout.cells.0.size", "no value lies"),
        (lambda: holdouts.cells(TOYS, []), "cells", "at least 1 entry"),
        (lambda: holdouts.cells(TOYS, [{}]), "cells.0", "at least 1 entry"),
        (lambda: holdouts.cells(TOYS, [{"size": {"from": 1}}]), "cells.0", "'min' or 'max'"),
        (lambda: holdouts.cells(TOYS, [{"size": True}]), "cells.0", "valid number"),
        (lambda: holdouts.unseen(TOYS, {"colour": ["red"]}), "", "no labels for shape, size"),
        (lambda: holdouts.unseen(TOYS, [[0, 0, 0.6]]), "size", "none of its values"),
        (lambda: holdouts.comb(PLANE, 5, offset=5), "", "must be less than every=5. Got 5."),
        (lambda: holdouts.diagonal(FactorSpace(x=4)), "", "at least two factors. Got x."),
        (lambda: holdouts.orthotopic(PLANE, fractions=[0.5]), "holdout.fractions", "one for each of 2 factors"),
        (lambda: holdouts.montero(PLANE, "dsprites", "extrapolation"), "holdout.data", "x (32 values)"),
        (lambda: holdouts.montero(MPI3D, "mpi3d", "recombination_to_element"), "holdout.split", "no published split"),
        (lambda: holdouts.recombination_to_range(TOYS, {"size": 1}, "size"), "holdout.factor", "'size' for both"),
        (lambda: holdouts.recombination_to_element(TOYS, {"size": 1}), "holdout.element", "Got 1 such factors"),
        (lambda: holdouts.levels(PLANE, 2), "holdout.changes", "leaves nothing to hold out"),
        (lambda: holdouts.levels(TOYS, reference={"colour": "blue"}), "colour", "no value 'blue'"),
        (lambda: holdouts.disconnected(PLANE, 29), "holdout.groups", "from 2 to 28 groups"),
        (lambda: holdouts.extrapolation(TOYS, "colour", 0.3), "", "is less than one value. Use at least 0.5."),
    ],
)  # fmt: skip
def test_bad_input_is_explained(make, key, message):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.key == key
    assert message in str(caught.value)
