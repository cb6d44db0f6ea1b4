"""The cause of a failure survives the way from a worker to the driver."""

import json

import pytest
import torch

from recombine.core.errors import DamagedError, InputError, Missing, NotComputable, TrainingDiverged
from recombine.sweeps.failures import Cause, reason_of

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("error", "cause", "key"),
    [
        (TrainingDiverged({0: "The loss of seed 0 is NaN."}), Cause.DIVERGED, ""),
        (DamagedError("a file"), Cause.STORE, ""),
        (InputError("too wide", "decoder.width"), Cause.INVALID, "decoder.width"),
        (NotComputable(Missing.DEGENERATE, "nothing varies"), Cause.NOT_COMPUTABLE, ""),
        (MemoryError(), Cause.OUT_OF_MEMORY, ""),
        (torch.OutOfMemoryError("1 TB"), Cause.OUT_OF_MEMORY, ""),
        (RuntimeError("a defect"), Cause.UNEXPECTED, ""),
    ],
)
def test_an_error_has_a_cause(error, cause, key):
    try:
        raise error
    except type(error) as caught:
        why = reason_of(caught)
    assert (why["cause"], why["key"]) == (cause, key)
    assert bool(why["traceback"]) == (cause in (Cause.OUT_OF_MEMORY, Cause.UNEXPECTED))
    assert json.loads(json.dumps(why)) == why
