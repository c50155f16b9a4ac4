"""After the tests of the faults: which check caught which of them, as a table, and on record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faulty.faults import Pools, frameworks
from tests.faulty.record import Caught, adapter_of, write
from tests.faulty.table import Found, print_table
from tests.forked_workers import forked, start_server

#: What implementations of faults import. PyTorch's checkpoint imports its compiler when it is called.
IMPORTED = ("torch._dynamo", "torch.utils.checkpoint", "jax")
FOUND = pytest.StashKey[dict[str, Found]]()
RECORDED = pytest.StashKey[dict[str, Caught]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for what is found."""
    config.stash[FOUND] = {}
    config.stash[RECORDED] = {}


@pytest.fixture(scope="session")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pools]:
    """The worker processes that the implementations run in. Some faults leave a process in disorder,
    which then is replaced: a new one is there at once if the frameworks are imported already."""
    environment: dict[str, str] = {}
    for name in frameworks():
        environment |= adapter_of(name).model.environment
    start_server(IMPORTED, environment)
    made = Pools(tmp_path_factory.mktemp("workers") / "log.txt")
    with forked():
        yield made
        made.close()


@pytest.fixture(scope="session")
def found(pytestconfig: pytest.Config) -> dict[str, Found]:
    """What was found of each implementation, by id; filled by the tests."""
    return pytestconfig.stash[FOUND]


@pytest.fixture(scope="session")
def recorded(pytestconfig: pytest.Config) -> dict[str, Caught]:
    """What is to be put on record of each fault, by its id; filled by the tests."""
    return pytestconfig.stash[RECORDED]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table of what ran, and put it on record if asked to."""
    if config.stash[FOUND]:
        print_table(config.stash[FOUND], terminalreporter)
    for file in write(config.stash[RECORDED]):
        terminalreporter.write_line(f"written: {file}")
