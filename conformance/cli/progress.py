"""How far a run is: a bar on a terminal, a line now and then elsewhere."""

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

#: Seconds between two lines where there is no terminal. The first comes with the first pair.
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
        console = Console(file=_standard_error(), highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bar = Bar(*columns, TimeRemainingColumn(), console=console, transient=True)
        self.task = self.bar.add_task("judging", total=None)
        self.done = self.unexpected = self.total = 0
        self.printed_at = -INTERVAL
        #: The run, for whoever wants to know how it ended.
        self.suite: Suite | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Keep pytest from naming each file."""
        self.suite = config.pluginmanager.getplugin("conformance-suite")
        reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and reporter.verbosity <= 0:
            reporter.showfspath = False

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: Any, config: pytest.Config
    ) -> Generator[None, Any, Any]:
        """Keep the category that is counted, drop the letter that is printed."""
        status = yield
        return status if config.get_verbosity() > 0 or not status else (status[0], "", "")

    def pytest_unconfigure(self) -> None:
        """Close what was opened."""
        if self.bar.console.file is not sys.stderr:
            self.bar.console.file.close()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.total = self.total or len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """With xdist: each worker collects the same."""
        self.total = len(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """The bar is there while items run."""
        if session.config.option.collectonly or not self.bar.console.is_terminal:
            return (yield)
        with self.bar:
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.unexpected += report.failed
        if report.when != "teardown":
            return
        self.done += 1
        words = f"{self.unexpected} unexpected" if self.unexpected else ""
        if self.bar.console.is_terminal:
            total, words = self.total or None, words or "judging"
            self.bar.update(self.task, description=words, completed=self.done, total=total)
        elif time.monotonic() - self.printed_at > INTERVAL:
            self.printed_at = time.monotonic()
            pairs = f"{self.done:,} of {self.total:,} pairs"
            self.bar.console.print(f"{pairs}, {words}" if words else pairs)
