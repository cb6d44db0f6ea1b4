"""Settings that all tests share, and the sizes of tests.

`quick` tests (about a minute in all) need no browser, no other process and no training of more than a few steps. They
are the tests of the packages in `QUICK` that are not marked `long`; tests elsewhere join by `pytest.mark.quick`.
`long` tests need more time than `make test` has; `make test-long` runs them.
"""

from pathlib import Path

import pytest
from hypothesis import settings

# The same examples every time, and no files left behind. `make test-long` takes more of them.
settings.register_profile("recombine", max_examples=25, deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("recombine"), max_examples=100)
settings.load_profile("recombine")

TESTS = Path(__file__).parent
QUICK = ("core", "plotting", "scoring")
FIRST = ("sweeps", "studies", "fuzz", "cli", "docs", "report")  # they have the longest tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if package(item) in QUICK and item.get_closest_marker("long") is None:
            item.add_marker("quick")
    # Long tests come first, so that two processes that share the tests finish at about the same time.
    items.sort(key=lambda item: FIRST.index(package(item)) if package(item) in FIRST else len(FIRST))


def package(item: pytest.Item) -> str:
    """The folder below `tests` that contains a test, or its file."""
    return item.path.relative_to(TESTS).parts[0]
