"""Five models over 32 × 32 cells make a page of at most 20 MB within 10 s."""

import time
from dataclasses import replace

import numpy as np
import pytest

import recombine as rc
from recombine.report.collect import Collected, Model
from recombine.report.page import write_report

SIDE, UNITS = 32, 128


@pytest.fixture(scope="module")
def five(runs):
    """Diagnoses with invented arrays of full size: bumps that failed in five ways, and what follows from them."""
    tiny = runs[0].diagnosis
    space = rc.FactorSpace(x=SIDE, y=SIDE)
    held = rc.holdouts.centre(space, 8, 24)
    at = np.arange(SIDE)
    profile = np.exp(-0.5 * np.square(at[:, None] - at))
    truth = np.einsum("xc,yr->xyrc", profile, profile).reshape(-1, SIDE, SIDE).astype(np.float32)
    return [_diagnosis(tiny, space, held, truth, seed) for seed in range(5)]


def _diagnosis(tiny, space, held, truth, seed):
    random = np.random.default_rng(seed)
    cells = len(space)

    def noise(*shape):
        return random.normal(size=shape).astype(np.float32)

    output = truth * random.uniform(0.3, 1, (cells, 1, 1)).astype(np.float32) + 0.01 * noise(*truth.shape)
    flat = output.reshape(cells, -1)
    dot = flat @ flat.T
    size = np.sqrt(np.diag(dot))
    order = np.argsort(held.mask.ravel(), kind="stable")
    grams = {"cosine": dot / np.outer(size, size), "overlap": np.maximum(dot, 0),
             "l2": np.sqrt(np.maximum(size[:, None] ** 2 + size**2 - 2 * dot, 0))}  # fmt: skip
    arrays = {
        "outputs": {"truth": truth, "output": output},
        "errors": {"mse": np.square(output - truth).mean((1, 2))},
        "superposition": {f"mean codes/{name}": output[:SIDE] for name in space.names},
        "kernels": {"cells": order, **{f"gram/{name}": gram[np.ix_(order, order)] for name, gram in grams.items()}},
        "geometry": {f"log_volume/{layer}": noise(cells) for layer in tiny.layers}
        | {f"metric/{layer}": np.abs(noise(cells, 2, 2)) + 4 * np.eye(2) for layer in tiny.layers},
        "probes": {"cells": np.arange(cells), **{f"error/{layer}": np.abs(noise(2, cells)) for layer in tiny.layers}},
        "tuning": {f"sampled maps/{layer}": noise(UNITS, SIDE, SIDE) for layer in tiny.layers},
    }
    parts = {name: replace(part, arrays=arrays.get(name, part.arrays)) for name, part in tiny.parts.items()}
    sampled = [{"layer": layer, "unit": i, "stripe": 0.5, "bump": 0.5, "variance": float(i), "of_units": UNITS}
               for layer in tiny.layers for i in range(UNITS)]  # fmt: skip
    parts["tuning"] = replace(parts["tuning"], tables=parts["tuning"].tables | {"sampled": sampled})
    parts["kernels"] = replace(parts["kernels"], facts={"n_id": int((~held.mask).sum())})
    return replace(tiny, space=space, holdout=held, parts=parts)


def test_five_models_of_32_by_32(five, tmp_path):
    start = time.process_time()  # of this process: the machine may be busy with others
    page = write_report(Collected(models=[Model(f"model {i}", d) for i, d in enumerate(five)]), tmp_path / "page.html")
    assert time.process_time() - start <= 10
    assert 5 < page.megabytes <= 20  # all arrays are there, see the sizes of blocks
    assert sum(block.kind in ("kernels", "tuning", "outputs") for block in page.sizes) == 15
