"""How far a run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

#: Seconds between two lines where there is no terminal.
INTERVAL = 30.0


class Progress:
    """A pytest plugin that takes the place of pytest's dots."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.total = self.done = self.unexpected = 0
        self.said = time.monotonic()
        self.bar: Bar | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Keep pytest from naming each file."""
        reporter: TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and reporter.verbosity <= 0:
            reporter.showfspath = False

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: Any, config: pytest.Config
    ) -> Generator[None, Any, Any]:
        """Keep the category that is counted, drop the letter that is printed."""
        found = yield
        if config.get_verbosity() > 0 or found is None:
            return found
        return found[0], "", ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist: what will run."""
        self.total = max(self.total, len(session.items))

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
            found = yield
        self.bar = None
        return found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count an item when it ends."""
        if report.failed:
            self.unexpected += 1
        if report.when != "teardown":
            return
        self.done += 1
        words = f"{self.unexpected} unexpected" if self.unexpected else "judging"
        if self.bar is not None:
            self.bar.update(
                self.bar.task_ids[0], completed=self.done, total=self.total, description=words
            )
        elif not self.console.is_terminal and time.monotonic() - self.said > INTERVAL:
            self.said = time.monotonic()
            self.console.print(f"{self.done} of {self.total} checks, {self.unexpected} unexpected")
