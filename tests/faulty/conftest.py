"""The worker processes of faulty implementations, and the table of which check caught which of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.faulty.faults import Pools, adapter_of, frameworks
from tests.forked_workers import forked, start_server

#: What implementations of faults import. PyTorch's checkpoint imports its compiler when it is called.
IMPORTED = ("torch._dynamo", "torch.utils.checkpoint", "jax")
#: By fault: for each case that ran, the checks that caught something.
Found = dict[str, Mapping[str, tuple[str, ...]]]
FOUND = pytest.StashKey[Found]()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for what is found."""
    config.stash[FOUND] = {}


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
def found(pytestconfig: pytest.Config) -> Found:
    """What was found of each implementation, by id; filled by the tests."""
    return pytestconfig.stash[FOUND]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print which checks caught which fault, in which case."""
    if config.stash[FOUND]:
        terminalreporter.section("faults")
    for fault, cases in sorted(config.stash[FOUND].items()):
        for case, checks in cases.items():
            if checks:
                terminalreporter.write_line(f"{fault}: {', '.join(checks)} ({case})")
