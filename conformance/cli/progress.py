"""How far a run is and how long it still takes: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from conformance.results import recorded
from conformance.run.remaining import Remaining
from conformance.run.shards import Pair, pair_of, seconds

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
        self.remaining: Remaining | None = None
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
            self._plan([item.nodeid for item in session.items], session.config)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """With xdist: each worker collects the same."""
        if self.remaining is None:
            self._plan(ids, node.config)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """The bar is there while items run."""
        if session.config.option.collectonly or not self.console.is_terminal:
            return (yield)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Left(self),
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
        if self.remaining is not None:
            self.remaining.finish(pair_of(report.nodeid))
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
            parts = (f"{self.done:,} of {self.total:,} checks", unexpected, self.left())
            self.console.print(", ".join(part for part in parts if part))

    def left(self) -> str:
        """How long it still takes, in words; empty while that is not known."""
        return "" if self.remaining is None else self.remaining.words()

    def _plan(self, ids: Sequence[str], config: pytest.Config) -> None:
        """What will run: the ids of all items."""
        self.total = len(ids)
        suite = config.pluginmanager.getplugin("conformance-suite")
        if suite is None:
            return
        pairs = dict.fromkeys(map(pair_of, ids))
        cases = {case.id: case for case in suite.selection.cases}
        planned: dict[Pair, float] = {}
        known = True
        for chosen in suite.selection.chosen:
            times = recorded.read(chosen.adapter.folder)
            variants = {variant.id: variant for variant in chosen.variants}
            own = [(c, v) for c, v in pairs if c in cases and v in variants]
            known = known and (bool(times) or not own)
            planned |= {(c, v): seconds(times, cases[c], variants[v]) for c, v in own}
        self.remaining = Remaining(planned, recorded=known, at_once=_at_once(config))


class _Left(ProgressColumn):
    """The column that says how long it still takes."""

    max_refresh = 0.5

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def render(self, task: Task) -> Text:
        """The words as they are now."""
        return Text(self.progress.left(), style="progress.remaining")


def _at_once(config: pytest.Config) -> int:
    """How many processes of xdist share the work."""
    return len(getattr(config.option, "tx", None) or [""])
