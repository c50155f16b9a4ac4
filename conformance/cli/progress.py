"""How far a run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:  # most commands run nothing
    from conformance.run.session import Suite

#: Seconds between two lines where there is no terminal. The first comes with the first verdict.
INTERVAL = 30.0


def _standard_error() -> TextIO:
    """The standard error of this process, also while pytest captures what an item prints: a run is
    nearly always inside an item, and the bar moves meanwhile."""
    try:
        number = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # it is no file, or closed
        return sys.stderr
    return os.fdopen(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace")


class Progress:
    """A pytest plugin that takes the place of pytest's dots."""

    def __init__(self) -> None:
        self.console = Console(file=_standard_error(), highlight=False)
        self.total = self.done = self.unexpected = 0
        self.printed_at = -INTERVAL
        self.bar: Bar | None = None
        #: The run, for whoever wants to know how it ended.
        self.suite: Suite | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Keep pytest from naming each file."""
        self.suite = config.pluginmanager.getplugin("conformance-suite")
        reporter: pytest.TerminalReporter | None = config.pluginmanager.getplugin(
            "terminalreporter"
        )
        if reporter is not None and reporter.verbosity <= 0:
            reporter.showfspath = False

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: Any, config: pytest.Config
    ) -> Generator[None, Any, Any]:
        """Keep the category that is counted, drop the letter that is printed."""
        status = yield
        if config.get_verbosity() > 0 or status is None:
            return status
        return status[0], "", ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist: what will run."""
        if session.items:
            self.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """With xdist: each worker collects the same."""
        self.total = len(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """The bar is there while items run."""
        if session.config.option.collectonly or not self.console.is_terminal:
            return (yield)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Bar(*columns, console=self.console, transient=True) as self.bar:
            self.bar.add_task("judging", total=self.total or None)
            ended = yield
        self.bar = None
        return ended

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count an item when it ends."""
        if report.failed:
            self.unexpected += 1
        if report.when != "teardown":
            return
        self.done += 1
        unexpected = f"{self.unexpected} unexpected" if self.unexpected else ""
        if self.bar is not None:
            self.bar.update(
                self.bar.task_ids[0],
                completed=self.done,
                total=self.total,
                description=unexpected or "judging",
            )
        elif not self.console.is_terminal and time.monotonic() - self.printed_at > INTERVAL:
            self.printed_at = time.monotonic()
            parts = (f"{self.done:,} of {self.total:,} checks", unexpected)
            self.console.print(", ".join(part for part in parts if part))
