"""After the tests of the faults: which check caught which of them, as a table."""

from __future__ import annotations

import pytest
from _pytest.terminal import TerminalReporter

from tests.faulty.table import Found, print_table

FOUND = pytest.StashKey[dict[str, Found]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for what is found."""
    config.stash[FOUND] = {}


@pytest.fixture(scope="session")
def found(pytestconfig: pytest.Config) -> dict[str, Found]:
    """What was found of each implementation, by id; filled by the tests."""
    return pytestconfig.stash[FOUND]


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print the table of what ran."""
    if config.stash[FOUND]:
        print_table(config.stash[FOUND], terminalreporter)
