"""A run as a pytest session: an item for every case, variant and check.

All checks of a case on a variant are judged from one observation, made when the first of its items
runs. Each finished result is encoded and put among the partial results; at the end the process
that the user started writes them as `<reports>/<adapter>.jsonl`, the same with and without pytest-xdist.

Items are in `conformance.run.items`, files of results in `conformance.run.recording`.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from conformance.drivers.adapter import Discipline, Variant
from conformance.errors import BrokenAdapterError, ConformanceError, WriteError
from conformance.exits import Exit
from conformance.judge.known import Entry
from conformance.model.case import Case
from conformance.model.verdict import Status
from conformance.results import STAGES, Result
from conformance.run.interrupts import Interrupts, die_with_parent
from conformance.run.items import CaseFile, CheckItem
from conformance.run.light import forget
from conformance.run.recording import Recording
from conformance.run.runner import Runner, checks_of, executions_under, is_final
from conformance.run.selection import Chosen, Selection
from conformance.run.shards import Pair, pair_of
from conformance.run.summary import AdapterRun, Tally, print_summary

#: How many programs are written together, first and at most.
_FIRST_BATCH, _LARGEST_BATCH = 4, 64


class Suite:
    """The hooks of a run, in the process that the user started and in xdist's workers alike."""

    def __init__(self, config: pytest.Config, selection: Selection) -> None:
        self.config, self.selection = config, selection
        #: What xdist has given this process; `None` in the process that the user started.
        self.worker_input: dict[str, Any] | None = getattr(config, "workerinput", None)
        self.recording = Recording(selection, config.option)
        self.plan = self.recording.plan
        self.interrupts = Interrupts()
        self.session: pytest.Session | None = None
        #: pytest's plugin that writes JUnit's XML; none unless that is asked for.
        self.junit: Any = None
        self._chosen = {chosen.adapter.name: chosen for chosen in selection.chosen}
        #: The adapters that do not start, and why.
        self.broken: dict[str, BrokenAdapterError] = {}
        self.runners = {name: self._runner(chosen) for name, chosen in self._chosen.items()}
        #: Seconds of each stage, by adapter.
        self.seconds = {name: dict.fromkeys(STAGES, 0.0) for name in self._chosen}
        #: What became of each adapter; empty before the end.
        self.runs: list[AdapterRun] = []
        #: How the run ended, where that is not what pytest says.
        self.ended: Exit | None = None
        #: Why results could not be written, in a message; empty as long as they could.
        self.unwritten = ""
        #: Whether a process of xdist's has died, and with it a result.
        self.lost = False
        self._by_file: dict[Path, list[Case]] = {}
        for file, cases in itertools.groupby(selection.cases, lambda case: case.where.file):
            self._by_file.setdefault(Path(file).resolve(), []).extend(cases)
        #: The checks that have an item, by pair, and of pairs that are running those that have not run.
        self._checks: dict[Pair, frozenset[str]] = {}
        self._checks_left: dict[Pair, set[str]] = {}
        #: The results of pairs that are running, without arrays.
        self._results: dict[Pair, Result] = {}
        #: By adapter, what runs in this process; and the position of each pair in its list.
        self._listed: dict[str, list[tuple[Case, Variant]]] = {}
        self._positions: dict[Pair, int] = {}
        #: By adapter: for how many pairs programs are written next.
        self._batches: dict[str, int] = {}

    # -- start ---------------------------------------------------------------------------------

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Start every adapter once, before anything is judged."""
        self.session = session
        plugins = self.config.pluginmanager.get_plugins()
        self.junit = next((plugin for plugin in plugins if hasattr(plugin, "node_reporter")), None)
        if self.worker_input is not None:
            die_with_parent()
            self.interrupts.install()
            self.recording.join(Path(self.worker_input["conformance_partial"]))
            return
        if self.config.option.collectonly:
            return
        self.interrupts.install()
        try:
            self.recording.start()
            for chosen in self.selection.chosen:
                self._start(chosen)
        except WriteError as error:
            self.unwritten = str(error)
            raise pytest.UsageError(self.unwritten) from error
        except ConformanceError as error:
            raise pytest.UsageError(str(error)) from error

    def _start(self, chosen: Chosen) -> None:
        """Start an adapter, and record that its run begins. One that cannot start is `broken`."""
        name = chosen.adapter.name
        self.recording.clear_logs(name)
        try:
            # A shard may need few of the variants; each is warmed up before its first program.
            needed = chosen.variants[:1] if self.selection.shard else chosen.variants
            versions = self.runners[name].start(needed)
        except BrokenAdapterError as error:
            self.broken[name] = error
            self.runners[name].close()
            return
        if self.config.pluginmanager.hasplugin("dsession"):
            self.runners[name].close()
        message = self.recording.begin(chosen, versions)
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if message and reporter is not None:
            reporter.write_line(message)

    def _runner(self, chosen: Chosen) -> Runner:
        worker = "" if self.worker_input is None else f".{self.worker_input['workerid']}"
        stem = self.recording.stem(chosen.adapter.name)
        log = self.selection.paths.reports / "logs" / f"{stem}{worker}.log"
        return Runner(chosen.adapter, self.selection.paths, log, chosen.known)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker where partial results go, and which adapters do not start."""
        assert self.recording.partial is not None
        node.workerinput["conformance_partial"] = str(self.recording.partial.folder)
        node.workerinput["conformance_broken"] = list(self.broken)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep all checks of one case and variant on one worker: they share an observation."""
        from xdist.scheduler.loadscope import LoadScopeScheduling

        class Grouped(LoadScopeScheduling):  # type: ignore[misc]
            def _split_scope(self, nodeid: str) -> str:
                return nodeid.rpartition("] ")[0] or nodeid

        return None if config.getoption("dist") == "each" else Grouped(config, log)

    # -- collection ----------------------------------------------------------------------------

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        """Case files, and no others."""
        if file_path.suffix != ".yaml" or self.selection.paths.cases not in file_path.parents:
            return None
        file: CaseFile = CaseFile.from_parent(parent, path=file_path, suite=self)
        return file

    def items(self, file: CaseFile) -> Iterator[CheckItem]:
        """The items of a file: by case, then variant, then check."""
        broken = (
            self.broken if self.worker_input is None else self.worker_input["conformance_broken"]
        )
        started = [c for c in self.selection.chosen if c.adapter.name not in broken]
        for case in self._by_file.get(file.path.resolve(), ()):
            if case.smoke or not self.config.option.smoke:
                for chosen in started:
                    for variant in chosen.variants:
                        yield from self._items(file, case, variant)

    def _items(self, file: CaseFile, case: Case, variant: Variant) -> Iterator[CheckItem]:
        """The items of a case on a variant."""
        pair = (case.id, variant.id)
        for check in checks_of(case):
            name = f"{case.id}[{variant.id}] {check}"
            yield CheckItem.from_parent(
                file,
                name=name,
                # Given whole: pytest would not recognise an id in which words follow the bracket, once
                # it has been written to a file (`--lf`) and read again.
                nodeid=f"{file.nodeid}::{name}",
                suite=self,
                case=case,
                variant=variant,
                pair=pair,
                check=check,
            )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave the cases that are named, and this machine its shard of what all else has left."""
        wanted = self.selection.wanted
        if wanted:
            _deselect(config, items, lambda item: item.case.id not in wanted)
        if self.selection.shard is not None:
            shard = self._shard([item for item in items if isinstance(item, CheckItem)])
            _deselect(config, items, lambda item: item.pair not in shard)

    def _shard(self, items: Sequence[CheckItem]) -> Container[Pair]:
        """The pairs of these items that are in this machine's shard. Notes all of them as selected."""
        assert self.selection.shard is not None
        pairs = {item.pair: item.variant.adapter for item in items}
        for name in self._chosen:
            self.plan.selected[name] = {pair for pair, owner in pairs.items() if owner == name}
        return {pair for pair in pairs if self.selection.shard.has(pair)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """With xdist, plan what is left to run: each worker collects the same."""
        self.plan.add(map(pair_of, ids))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Plan what is left to run after all deselection."""
        items = [item for item in session.items if isinstance(item, CheckItem)]
        self.plan.add(item.pair for item in items)
        sets: dict[frozenset[str], frozenset[str]] = {}  # most pairs have the same checks
        for item in items:
            item.lighten()
            pair = item.pair
            checks = self._checks.get(pair, frozenset()) | {item.check}
            self._checks[pair] = sets.setdefault(checks, checks)
            if pair not in self._positions:
                listed = self._listed.setdefault(item.variant.adapter, [])
                self._positions[pair] = len(listed)
                listed.append((item.case, item.variant))
        # Items stay to the end: collecting garbage need not look through all of them each time.
        gc.collect()
        gc.freeze()

    # -- running -------------------------------------------------------------------------------

    def result(self, case: Case, variant: Variant) -> Result:
        """The result of a case on a variant, with the verdicts of the checks that have an item. Skips
        the item where its program cannot be written."""
        self.interrupts.check()
        pair = (case.id, variant.id)
        if pair not in self._results:
            checks = self._checks[pair]
            chosen = self._chosen[variant.adapter]
            result = self.recording.earlier_result(pair, checks, chosen)
            if result is None:
                try:
                    result = self._run(case, variant)
                except WriteError as error:
                    self._stop_unwritten(error)
                    pytest.skip(error.message)
            verdicts = tuple(v for v in result.verdicts if v.check in checks or is_final(result, v))
            result = replace(result, verdicts=verdicts)
            self._put(case, variant, result)
            # Arrays are on disk now; what items need are the verdicts.
            self._results[pair] = replace(result, observation=None, expected=None)
        return self._results[pair]

    def _run(self, case: Case, variant: Variant) -> Result:
        """Run a case on a variant, after its program and those of the next pairs are written."""
        runner = self.runners[variant.adapter]
        if runner.unwritten(case, variant):
            batch = self._next_batch(case, variant)
            runner.emit([pair for pair in batch if runner.unwritten(*pair)])
        return runner.run(case, variant)

    def _next_batch(self, case: Case, variant: Variant) -> Sequence[tuple[Case, Variant]]:
        """A pair and those that come after it, whose programs are formatted together: a few at first,
        so that the first verdict does not wait for all programs."""
        name = variant.adapter
        position = self._positions[case.id, variant.id]
        size = self._batches.get(name, _FIRST_BATCH)
        self._batches[name] = min(2 * size, _LARGEST_BATCH)
        return self._listed[name][position : position + size]

    def _put(self, case: Case, variant: Variant, result: Result) -> None:
        """Keep a result among the partial ones; stop the run where that cannot be done."""
        tally = Tally.of(result, self.known(variant), _fitting_disciplines(case, variant, result))
        try:
            self.recording.put(variant, result, tally)
        except WriteError as error:
            self._stop_unwritten(error)

    def _stop_unwritten(self, error: WriteError) -> None:
        """Stop the run, since further results could not be written."""
        self.unwritten = self.unwritten or str(error)
        assert self.session is not None
        self.session.shouldstop = "results cannot be written"

    def judged(self, case: Case, variant: Variant, check: str) -> None:
        """Forget the result of a case on a variant when its last item has run."""
        pair = (case.id, variant.id)
        left = self._checks_left.setdefault(pair, set(self._checks[pair]))
        left.discard(check)
        if not left:
            self._results.pop(pair, None)
            del self._checks_left[pair]

    def has_item(self, case: Case, variant: Variant, check: str) -> bool:
        """Whether a check of a case on a variant has an item in this run."""
        return check in self._checks[case.id, variant.id]

    def known(self, variant: Variant) -> tuple[Entry, ...]:
        """The known deviations of a variant's adapter."""
        return self._chosen[variant.adapter].known

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Have an item that has run take no more memory than before."""
        outcome = yield
        if isinstance(item, CheckItem):
            item.lighten()
        return outcome

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Give JUnit the item's name as it is: pytest adds a bracket to one with words after it. Forget
        the report where nobody wants to see it."""
        if self.junit is not None and "::" in report.nodeid:
            self.junit.node_reporter(report).add_attribute("name", report.nodeid.partition("::")[2])
        yield
        forget(self.config, report)

    # -- end -----------------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what an xdist worker has to say in the end: its seconds are added to the run's."""
        self.lost = self.lost or bool(error)
        output = getattr(node, "workeroutput", None) or {}
        self.unwritten = self.unwritten or output.get("conformance_unwritten", "")
        for name, seconds in output.get("conformance_seconds", {}).items():
            self._add_seconds(name, seconds)
        for name, pairs in output.get("conformance_selected", {}).items():
            self.plan.selected[name] = {(case, variant) for case, variant in pairs}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the workers; merge the partial results into one results file per adapter."""
        with self.interrupts.held_off():
            for name, runner in self.runners.items():
                runner.close()
                self._add_seconds(name, runner.watch.seconds)
            if self.worker_input is not None:
                selected = {name: sorted(pairs) for name, pairs in self.plan.selected.items()}
                output = self.config.workeroutput  # type: ignore[attr-defined]
                output["conformance_seconds"] = self.seconds
                output["conformance_selected"] = selected
                output["conformance_unwritten"] = self.unwritten
                return
            if self.recording.partial is None:
                return
            self.runs += [self._finished(chosen, session) for chosen in self.selection.chosen]
            if not any(run.unwritten for run in self.runs):
                self.recording.partial.remove()
        self.ended = self._exit(session)
        if self.ended is not None:
            session.exitstatus = self.ended

    def _finished(self, chosen: Chosen, session: pytest.Session) -> AdapterRun:
        """An adapter's run, its results written. Where they cannot be, the partial ones are kept."""
        assert self.recording.partial is not None
        name = chosen.adapter.name
        empty = self.recording.empty_run(chosen)
        if name in self.broken:
            return replace(empty, broken=str(self.broken[name]))
        try:
            return self.recording.finish(chosen, self._cause(session), self.seconds[name])
        except WriteError as error:
            folder = self.recording.partial.folder
            hint = f"what was finished is kept in {folder}: make room, then --resume"
            self.unwritten = f"{error.where}: {error.message}\n  hint: {hint}"
            return replace(empty, unwritten=True)

    def _cause(self, session: pytest.Session) -> str:
        """What ended the run before it had all results, if it lacks any; empty where an option told it
        to end (`-x`)."""
        if self.unwritten:
            return "results could not be written"
        if self.interrupts.received is not None:
            return self.interrupts.received.name
        if self.lost:
            return "a process of pytest-xdist died"
        if session.exitstatus == pytest.ExitCode.INTERNAL_ERROR:
            return "an internal error"
        if session.exitstatus == pytest.ExitCode.INTERRUPTED and not session.testsfailed:
            return "an interrupt"
        return ""

    def _exit(self, session: pytest.Session) -> Exit | None:
        """The exit code of the run, where that is not what pytest says."""
        status = session.exitstatus
        if self.unwritten:
            return Exit.NOT_WRITTEN
        if self.interrupts.received is not None:
            return Exit(128 + self.interrupts.received)
        if self.broken:
            return Exit.BROKEN_ADAPTER
        if status == pytest.ExitCode.INTERRUPTED and any(run.results for run in self.runs):
            # xdist ends `-x`, and pytest `--stepwise`, as if somebody had interrupted the run.
            return Exit.UNEXPECTED if session.testsfailed else Exit.INTERRUPTED
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and any(self.plan.selected.values()):
            return Exit.OK  # more shards than there is to do
        if status == pytest.ExitCode.OK and any(run.stale for run in self.runs):
            return Exit.UNEXPECTED
        return None

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind, also where the session did not get as far as its end."""
        with self.interrupts.held_off():
            for runner in self.runners.values():
                runner.close()
            is_worker = self.worker_input is not None
            self.recording.close(keep=is_worker or any(run.unwritten for run in self.runs))
        gc.unfreeze()
        self.interrupts.restore()
        if self.ended is None and self.unwritten:
            self.ended = Exit.NOT_WRITTEN
        elif self.ended is None and self.interrupts.received is not None:
            self.ended = Exit(128 + self.interrupts.received)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A table of statuses, then what was unexpected."""
        if any(run.results or run.broken or run.unwritten for run in self.runs) or self.unwritten:
            terminalreporter.section("conformance")
            print_summary(self.runs, terminalreporter)
            if self.unwritten:
                terminalreporter.write_line(f"error: {self.unwritten}", red=True)

    def _add_seconds(self, name: str, seconds: dict[str, float]) -> None:
        for stage, value in seconds.items():
            self.seconds[name][stage] += value


def _deselect(
    config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[CheckItem], bool]
) -> None:
    """Take the items of ours that are unwanted out of the list, and tell pytest so."""
    deselected = [item for item in items if isinstance(item, CheckItem) and unwanted(item)]
    config.hook.pytest_deselected(items=deselected)
    identities = set(map(id, deselected))
    items[:] = [item for item in items if id(item) not in identities]


def _fitting_disciplines(case: Case, variant: Variant, result: Result) -> tuple[Discipline, ...]:
    """Of a user's implementation whose executions are wrong: the other disciplines under which they
    would be right. The declared discipline may then be the only mistake."""
    failed = any(v.check == "executions" and v.status is Status.FAIL for v in result.verdicts)
    if variant.implementation is None or result.observation is None or not failed:
        return ()
    others = [name for name in get_args(Discipline) if name != variant.model.discipline]
    return tuple(
        name
        for name in others
        if (verdict := executions_under(case, variant, result.observation, name)) is not None
        and verdict.status is Status.PASS
    )
