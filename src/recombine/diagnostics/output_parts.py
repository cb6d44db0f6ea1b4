"""The parts of a diagnosis that look at the model's outputs: errors, superposition, kernels, functions, pictures."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from recombine.core.errors import InputError
from recombine.core.statistics import median, ratio
from recombine.diagnostics.findings import PartResult, Rows
from recombine.diagnostics.inputs import DiagnosisInputs
from recombine.diagnostics.numerics.complexity import distribution_complexity, function_complexity
from recombine.diagnostics.numerics.grids import cells_per_block, draw_cells, rows_of
from recombine.diagnostics.numerics.kernel_regression import KernelKind, kernel_regression
from recombine.diagnostics.numerics.kernel_spectra import kernel_spectrum
from recombine.diagnostics.numerics.kernels import SIMILARITIES, GramMatrices, agreement, gram_matrices
from recombine.diagnostics.numerics.nonnegative_superposition import NonnegativeSuperposition, nonnegative_superposition
from recombine.diagnostics.numerics.superposition import (
    Superposition,
    outputs_of_mean_codes,
    superposition,
    superposition_of_inputs,
)

MOST_KERNEL_CELLS = 2048  # time grows with the cube of their number, and memory with the square
CP_LARGEST, CP_INITS = 8, 2
CP = {"epsilon": 0.05, "largest": CP_LARGEST, "inits": CP_INITS}  # search for product terms, three factors and more
MIXTURE_STEPS = 300
CP_OUTPUTS = 4
MOST_OUTPUTS = 2**25  # numbers kept, 128 MB
NO_TARGET = "no target was given"
KINDS: tuple[KernelKind, ...] = ("factorized", "radial")


def outputs_part(inputs: DiagnosisInputs) -> PartResult:
    """What the model makes of every cell, beside the truth: what a reader wants to see."""
    outputs, truth = inputs.outputs, inputs.truth
    if outputs.numel() > MOST_OUTPUTS:
        raise InputError(f"{len(outputs)} outputs of {outputs[0].numel()} numbers are too many to keep.")
    rows = [
        {"cells": name, "n_cells": int(mask.sum()), "least": float(here.min()), "mean": float(here.double().mean()),
         "most": float(here.max())}
        for name, mask in inputs.masks.items() if mask.any()
        for here in [outputs[torch.from_numpy(mask)]]
    ]  # fmt: skip
    arrays = {"output": outputs.float().numpy()}
    if truth is not None:
        arrays["truth"] = truth.whole().float().numpy()
    return PartResult("outputs", {"range": rows}, arrays, missing={} if truth is not None else {"truth": NO_TARGET})


def errors_part(inputs: DiagnosisInputs) -> PartResult:
    """Mean squared error per cell, and by split relative to the truth's own spread."""
    if inputs.truth is None:
        raise InputError("It needs the truth, and no target was given.")
    outputs, truth = inputs.outputs.flatten(1), inputs.truth
    trained = torch.from_numpy(inputs.masks.get("id", inputs.masks["all"]))
    mean = truth.mean(trained.nonzero()[:, 0])
    mse = torch.empty(len(outputs), dtype=torch.float64)
    spread = torch.empty_like(mse)
    for cells in inputs.space.chunks(cells_per_block(truth.size)):
        right = truth.rows(cells).double()
        mse[cells] = (outputs[cells] - right).square().mean(1)
        spread[cells] = (right - mean).square().mean(1)
    rows = [
        {"cells": name, "n_cells": int(mask.sum()), "mse": float(mse[mask].mean()),
         "truth_variance": float(spread[mask].mean()), "relative": ratio(mse[mask].mean(), spread[mask].mean())}
        for name, mask in ((name, torch.from_numpy(mask)) for name, mask in inputs.masks.items())
        if mask.any()
    ]  # fmt: skip
    return PartResult("errors", {"errors": rows}, {"mse": mse.numpy()})


def superposition_part(inputs: DiagnosisInputs) -> PartResult:
    """Both sides of the test, plain and centred, on every OOD cell; sums with free weights; pictures of a few."""
    space, holdout, truth = inputs.space, inputs.split, inputs.truth
    outputs = inputs.outputs
    shown = [(False, inputs.pictures), (True, 0)]
    tests = [superposition(outputs, space, holdout, truth=truth, centred=c, pictures=p) for c, p in shown]
    remembered = nonnegative_superposition(outputs, space, holdout, truth=truth, seed=inputs.seed)
    missing: dict[str, str] = {}
    alone: list[Tensor] = []
    try:
        _check_population(inputs)
        assert inputs.encode is not None
        given = (inputs.model, inputs.subject.code, space, holdout)
        alone = outputs_of_mean_codes(*given, outputs[0].numel(), inputs.subject.values)
        for centred in (False, True):
            tests.append(superposition_of_inputs(outputs, *given, truth=truth, centred=centred, pictures=0, made=alone))
    except InputError as error:
        missing["input side"] = str(error)
    if truth is None:
        missing["truth"] = NO_TARGET
    tables = {
        "cells": [row for test in tests for row in _cell_rows(test, inputs)],
        "summary": [_summary(test) for test in tests],
        "remembered": [_remembered_row(remembered)],
    }
    pictures = tests[0].pictures
    arrays = {"pictures/cells": pictures.cells, "pictures/output": pictures.output,
              "pictures/superposition": pictures.superposition, "pictures/parts": pictures.parts}  # fmt: skip
    if pictures.truth is not None:
        arrays["pictures/truth"] = pictures.truth
    arrays |= {"remembered/cells": remembered.cells, "remembered/share": remembered.share}
    arrays |= {f"mean codes/{name}": made.reshape(-1, *outputs.shape[1:]).numpy()
               for name, made in zip(space.names, alone)}  # fmt: skip
    arrays = {name: a if name.endswith("cells") else a.astype(np.float32) for name, a in arrays.items()}
    return PartResult("superposition", tables, arrays, missing=missing)


def _check_population(inputs: DiagnosisInputs) -> None:
    """Raise unless averaging codes makes a new code, and not that of another cell (as for a ramp)."""
    if inputs.encode is None:
        raise InputError("The code is the factor values themselves; their mean is just another combination.")
    if not inputs.subject.code_dtype.is_floating_point:
        raise InputError("The codes are integers, which cannot be averaged.")
    with torch.no_grad():
        codes = torch.cat([
            rows_of(inputs.subject.code(inputs.subject.values(cells))).double().cpu()
            for cells in inputs.space.chunks()
        ])  # fmt: skip
    away = torch.linalg.vector_norm(codes - codes[inputs.split.id_cells].mean(0), dim=1)
    if float(away.min()) < 0.25 * float(away.median()):
        raise InputError(
            "The mean code is close to the code of a single cell, so this is no population code and the input side "
            "would say nothing."
        )


def _cell_rows(test: Superposition, inputs: DiagnosisInputs) -> Rows:
    values = inputs.space.values(torch.from_numpy(test.cells)).tolist()
    nothing = np.full(len(test.cells), math.nan)
    columns = {
        "cosine": test.cosine,
        "cosine_truth": nothing if test.cosine_truth is None else test.cosine_truth,
        "truth_superposition": nothing if test.truth_superposition is None else test.truth_superposition,
        "scale": test.scale,
        "energy": test.energy,
        "factor_energy": test.factor_energy,
    }
    scales = [f"scale_{name}" for name in inputs.space.names]
    taken = {"side", "centred", "cell", "shared", *columns, *scales}
    names = [f"value_{name}" if name in taken else name for name in inputs.space.names]
    return [
        {
            "side": test.side,
            "centred": test.centred,
            "cell": int(cell),
            **dict(zip(names, values[i])),
            **{name: float(column[i]) for name, column in columns.items()},
            **{name: float(test.factor_scales[i, a]) for a, name in enumerate(scales)},
            "shared": int(test.shared[i]),
        }
        for i, cell in enumerate(test.cells)
    ]


def _remembered_row(found: NonnegativeSuperposition) -> dict[str, Any]:
    """Medians over cells, and the share of blank outputs."""
    shares = {"share": found.share, "unrelated": found.unrelated, "trained": found.trained}
    truth = math.nan if found.truth is None else median(found.truth)
    medians = {name: median(values) for name, values in shares.items()}
    return {"n_cells": len(found.cells), **medians, "truth": truth, "blank": float(found.blank.mean())}


def _summary(test: Superposition) -> dict[str, Any]:
    """Medians over cells. `truth_energy` is what right outputs would score as `energy`."""
    truth, right = test.cosine_truth, test.truth_superposition
    return {
        "side": test.side,
        "centred": test.centred,
        "n_cells": len(test.cells),
        "cosine": median(test.cosine),
        "cosine_truth": math.nan if truth is None else median(truth),
        "energy": median(test.energy),
        "factor_energy": median(test.factor_energy),
        "truth_energy": math.nan if right is None else median(right.clip(min=0) ** 2),
    }


def kernels_part(inputs: DiagnosisInputs) -> PartResult:
    """Gram matrices and what they agree with, kernel regression, the spectrum of the cosine kernel."""
    space, holdout, seed = inputs.space, inputs.split, inputs.seed
    outputs = inputs.outputs
    cells = draw_cells(holdout, MOST_KERNEL_CELLS, seed=seed)
    single = torch.float32 if outputs.dtype == torch.float32 else torch.float64
    grams = gram_matrices(outputs, space, holdout, cells=cells, overlap_dtype=single)
    missing: dict[str, str] = {}
    rows: Rows = []
    for similarity in SIMILARITIES:
        try:
            rows.append(asdict(agreement(grams, similarity, seed=seed)))
        except InputError as error:
            missing[f"agreement, {similarity}"] = str(error)
    tables = {"agreement": rows}
    try:
        fits = [kernel_regression(outputs, space, holdout, kind, cells=cells) for kind in KINDS]
        names = ("kind", "id_error", "ood_error", "id_relative", "ood_relative")
        tables["regression"] = [
            {**{name: getattr(fit, name) for name in names}, **{f"length_{n}": v for n, v in fit.lengths.items()}}
            for fit in fits
        ]
    except InputError as error:
        missing["regression"] = str(error)
    arrays = {f"gram/{name}": matrix.astype(np.float32) for name, matrix in grams.matrices.items()}
    arrays["cells"] = grams.cells
    try:
        spectrum, arrays["spectrum"] = _spectrum(grams, seed)
        tables["spectrum"] = [spectrum]
    except InputError as error:
        missing["spectrum"] = str(error)
    facts = {"n_id": grams.n_id, "cells": len(cells), "grid_cells": len(space), "drawn": len(cells) < len(space)}
    return PartResult("kernels", tables, arrays, facts, missing)


def _spectrum(grams: GramMatrices, seed: int) -> tuple[dict[str, Any], Float[np.ndarray, " term"]]:
    if len(grams.cells) < len(grams.space):
        raise InputError(f"A spectrum needs all cells, and {len(grams.space)} are more than {MOST_KERNEL_CELLS}.")
    settings: dict[str, Any] = {} if grams.space.n_factors == 2 else CP
    found = kernel_spectrum(grams.in_cell_order("cosine"), grams.space, seed=seed, **settings)
    row = {name: getattr(found, name) for name in ("method", "participation_ratio", "entropy_rank", "rank")}
    return {**row, "error": found.error, "epsilon": found.epsilon}, found.weights


def function_rows(inputs: DiagnosisInputs) -> tuple[Rows, dict[str, str]]:
    """R* and R_ε of the outputs and of the truth."""
    rows: Rows = []
    missing: dict[str, str] = {}
    given = {"output": inputs.outputs, "truth": None if inputs.truth is None else inputs.truth.whole()}
    chosen, settings = slice(None), {}
    if inputs.space.n_factors > 2:
        energy = inputs.outputs.flatten(1).double().var(0)
        chosen = energy.argsort(descending=True)[:CP_OUTPUTS].sort().values
        settings = {"largest": CP_LARGEST, "inits": CP_INITS}
    for name, values in given.items():
        if values is None:
            missing[f"complexity of the {name}"] = NO_TARGET
            continue
        numbers = values.flatten(1)[:, chosen]
        try:
            found = function_complexity(numbers, inputs.space, seed=inputs.seed, **settings)
        except InputError as error:
            missing[f"complexity of the {name}"] = str(error)
            continue
        rows.append({"function": name, "exact": found.exact, "approximate": found.approximate,
                     "epsilon": found.epsilon, "proven": found.proven, "outputs": numbers.shape[1],
                     "of_outputs": values.flatten(1).shape[1]})  # fmt: skip
    return rows, missing


def distribution_rows(inputs: DiagnosisInputs) -> tuple[Rows, dict[str, str]]:
    """How many product distributions mix into the distribution of the trained combinations.

    One would mean that x and y are independent in training; a hold-out makes them dependent.
    """
    what = "complexity of the trained combinations"
    if inputs.holdout is None:
        return [], {what: "no hold-out was given"}
    trained = torch.from_numpy(inputs.holdout.id_mask.ravel()).double()
    try:
        found = distribution_complexity(
            trained, inputs.space, largest=CP_LARGEST, inits=CP_INITS, iterations=MIXTURE_STEPS, seed=inputs.seed
        )
    except InputError as error:
        return [], {what: str(error)}
    row = {"distribution": "trained combinations", "rank": found.rank, "lower_bound": found.lower_bound,
           "measure": found.measure, "epsilon": found.epsilon, "tried": found.tried[-1],
           "kl_of_one": float(found.kl[0]), "tv_of_one": float(found.tv[0])}  # fmt: skip
    return [row], {}
