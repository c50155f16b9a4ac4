"""Options of the suite's own tests."""

from __future__ import annotations

import gc

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option that writes what tests compare with."""
    parser.addoption(
        "--update-caught",
        action="store_true",
        help="write which cases catch each fault that runs (tests/faulty) to adapters/*/caught.yaml",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """As a worker does before each program: observing collects often, and looks at all that is alive.
    What was there before the test is not looked through each time."""
    gc.collect()
    gc.freeze()
