"""The small network and its diagnosis, made once."""

import pytest

import recombine as rc
from tests.diagnostics.small import CODE, HOLE, SCENE, SPACE, network


@pytest.fixture(scope="session")
def model():
    return network()


@pytest.fixture(scope="session")
def diagnosis(model):
    return rc.diagnose(model, SPACE, CODE, HOLE, target=SCENE, progress=False)
