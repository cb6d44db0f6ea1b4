"""Settings that all tests share, and the sizes of tests.

`quick` tests (about a minute in all) need no browser, no other process and no training of more than a few steps. They
are the tests of the packages in `QUICK` that are not marked `long`; tests elsewhere join by `pytest.mark.quick`.
`long` tests need more time than `make test` has; `make test-long` runs them.
"""

from pathlib import Path

import pytest
from hypothesis import settings

# The same examples every time, and no files left behind.
settings.register_profile("recombine", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("recombine")

TESTS = Path(__file__).parent
QUICK = ("core", "plotting", "scoring")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in QUICK and item.get_closest_marker("long") is None:
            item.add_marker("quick")
