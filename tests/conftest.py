"""Options of the suite's own tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option that writes what tests compare with."""
    parser.addoption(
        "--update-caught",
        action="store_true",
        help="write which cases catch each fault that runs (tests/faulty) to adapters/*/caught.yaml",
    )
