"""Spaces that the tests of hold-outs share, and the message of an error."""

import pytest

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, continuous, cyclic, discrete

PLANE = FactorSpace(x=28, y=28)
ONE = FactorSpace(x=4, y=4)
SPACES = {
    "n=1": FactorSpace(x=28),
    "n=2": PLANE,
    "n=3": FactorSpace(x=16, angle=cyclic(24.0, 24), y=continuous(0.0, 32.0, 16)),
    "n=4": FactorSpace(x=11, y=12, size=discrete(11, low=1.0), brightness=discrete(11)),
    "labelled": FactorSpace(x=12, size=[0, 1, 2.5, 4, 7, 9, 10, 12.5], colour=["red", "green", "blue"]),
}


def message_of(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)
