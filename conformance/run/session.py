"""A run as a pytest session: an item for every case, variant and check.

All checks of a case on a variant are judged from one observation, made when the first of its items
runs. Each finished result is encoded and put among the partial results; at the end the process
that the user started writes them as `<reports>/<adapter>.jsonl`, the same with and without pytest-xdist.
"""

from __future__ import annotations

import gc
import itertools
import platform
import warnings
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from conformance import __version__
from conformance.drivers.adapter import Discipline, Variant
from conformance.errors import BrokenAdapterError, ConformanceError, WriteError
from conformance.exits import Exit
from conformance.judge.known import Entry
from conformance.judge.triage import Triage, Triaged, triage
from conformance.model.case import Case
from conformance.model.verdict import Status, Verdict
from conformance.results import (
    SMOKE,
    STAGES,
    Header,
    Result,
    WrittenResults,
    make_footer,
    read,
    recorded,
    remove,
    write,
    write_merged,
)
from conformance.results.partial import PartialResults
from conformance.results.triage import noted
from conformance.run.earlier import Earlier, find
from conformance.run.interrupts import Interrupts, die_with_parent
from conformance.run.light import LightItem, forget
from conformance.run.runner import ERROR, Runner, checks_of, executions_under
from conformance.run.selection import Chosen, Selection, unused
from conformance.run.shards import PATTERN, Pair, jobs, pair_of, split
from conformance.run.summary import AdapterRun, Tally, print_summary
from conformance.writing import writing

#: How many programs are written together, first and at most.
_FIRST_BATCH, _LARGEST_BATCH = 4, 64


class ConformanceWarning(UserWarning):
    """A SHOULD that does not hold."""


class UnexpectedError(Exception):
    """Carries verdicts from an item's run to its report."""

    def __init__(self, found: Sequence[Triaged], program: Path | None) -> None:
        self.found, self.program = tuple(found), program
        super().__init__("; ".join(item.verdict.message for item in found))


class Suite:
    """The hooks of a run, in the process that the user started and in xdist's workers alike."""

    def __init__(self, config: pytest.Config, selection: Selection) -> None:
        self.config, self.selection = config, selection
        self.given: dict[str, Any] | None = getattr(config, "workerinput", None)
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.broken: dict[str, BrokenAdapterError] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self.seconds = {c.adapter.name: dict.fromkeys(STAGES, 0.0) for c in selection.chosen}
        self.runs: list[AdapterRun] = []
        self.partial: PartialResults | None = None
        #: How the run ended, where that is not what pytest says.
        self.ended: Exit | None = None
        #: Why results could not be written, in a message; empty as long as they could.
        self.unwritten = ""
        self.interrupts = Interrupts()
        self.session: pytest.Session | None = None
        #: pytest's plugin that writes JUnit's XML; none unless that is asked for.
        self.junit: Any = None
        #: The partial results of runs that were cut off, and by adapter what is taken over from them.
        self.left: list[PartialResults] = []
        self.earlier: dict[str, Earlier] = {}
        self._taken_over: dict[str, dict[Pair, Result]] = {}
        #: Whether a process of xdist's has died, and with it a result.
        self.lost = False
        #: Of each adapter, what is going to run.
        self.planned: dict[str, set[Pair]] = {}
        self.shard = selection.shard
        #: Of each adapter, what was selected before this shard of it was taken.
        self.selected: dict[str, set[Pair]] = {}
        self.runners = {c.adapter.name: self._runner(c) for c in selection.chosen}
        self._by_file: dict[Path, list[Case]] = {}
        for file, cases in itertools.groupby(selection.cases, lambda case: case.where.file):
            self._by_file.setdefault(Path(file).resolve(), []).extend(cases)
        self._checks: dict[tuple[str, str], frozenset[str]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._results: dict[tuple[str, str], Result] = {}
        self._left: dict[tuple[str, str], set[str]] = {}
        self._pairs: dict[str, list[tuple[Case, Variant]]] = {}
        #: Where a pair stands in the list of its adapter.
        self._places: dict[tuple[str, str], int] = {}
        #: By adapter: for how many pairs programs are written next.
        self._batches: dict[str, int] = {}

    # -- start ---------------------------------------------------------------------------------

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Start every adapter once, before anything is judged."""
        self.session = session
        plugins = self.config.pluginmanager.get_plugins()
        self.junit = next((plugin for plugin in plugins if hasattr(plugin, "node_reporter")), None)
        if self.given is not None:
            die_with_parent()
            self.interrupts.install()
            self.partial = PartialResults(Path(self.given["conformance_partial"]))
            return
        if self.config.option.collectonly:
            return
        self.interrupts.install()
        reports = self.selection.paths.reports
        try:
            self.partial = PartialResults.make(reports)
            names = [chosen.adapter.name for chosen in self.selection.chosen]
            self.left = list(PartialResults.left(reports, names))
            for chosen in self.selection.chosen:
                self._begin(chosen)
        except WriteError as error:
            self.unwritten = str(error)
            raise pytest.UsageError(self.unwritten) from error
        except ConformanceError as error:
            raise pytest.UsageError(str(error)) from error

    def _begin(self, chosen: Chosen) -> None:
        """Start an adapter, and look at what an earlier run of it has left."""
        assert self.partial is not None
        name = chosen.adapter.name
        self._clear_logs(name)
        try:
            # A shard may need few of the variants; each is warmed up before its first program.
            first = chosen.variants[:1] if self.shard else chosen.variants
            found = self.runners[name].start(first)
            self.versions[name] = {**found, "platform": platform.platform()}
        except BrokenAdapterError as error:
            self.broken[name] = error
            self.runners[name].close()
            return
        if self.config.pluginmanager.hasplugin("dsession"):
            self.runners[name].close()
        header = self._header(chosen)
        self.partial.begin(name, header)
        if not self.config.option.resume:
            left = [partial for partial in self.left if partial.begun(name) is not None]
            if left:
                self._say(f"{name}: an earlier run was cut off; --resume goes on from there")
            return
        earlier = self.earlier[name] = find(self.left, self._file(name), header)
        results = [r for r in earlier.results.values() if r.variant in header.variants]
        self._say(f"{name}: going on after {len(results)} results of a run that was cut off")
        write(self._resumed(name), header, results, make_footer(results, {}))

    def _say(self, words: str) -> None:
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(words)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker where partial results go, and which adapters do not start."""
        assert self.partial is not None
        node.workerinput["conformance_partial"] = str(self.partial.folder)
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
        broken = self.broken if self.given is None else self.given["conformance_broken"]
        for case in self._by_file.get(file.path.resolve(), ()):
            for chosen in self.selection.chosen:
                if chosen.adapter.name in broken:
                    continue
                for variant in chosen.variants:
                    pair = (case.id, variant.id)
                    smoke = pair in chosen.smoke
                    if self.config.option.smoke and not smoke:
                        continue
                    for check in checks_of(case):
                        name = f"{case.id}[{variant.id}] {check}"
                        # Given whole: pytest would not recognise an id in which words follow the
                        # bracket, once it has been written to a file (`--lf`) and read again.
                        nodeid = f"{file.nodeid}::{name}"
                        item = CheckItem.from_parent(
                            file,
                            name=name,
                            nodeid=nodeid,
                            suite=self,
                            case=case,
                            variant=variant,
                            pair=pair,
                            check=check,
                        )
                        if smoke:
                            item.add_marker("smoke")
                        yield item

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave the cases that are named, and this machine its shard of what all else has left."""
        wanted = self.selection.wanted
        if wanted:
            others = [i for i in items if isinstance(i, CheckItem) and i.case.id not in wanted]
            config.hook.pytest_deselected(items=others)
            left = set(map(id, others))
            items[:] = [item for item in items if id(item) not in left]
        if self.shard is None:
            return
        found = {item.pair: item for item in items if isinstance(item, CheckItem)}
        mine: set[Pair] = set()
        for chosen in self.selection.chosen:
            adapter = chosen.adapter
            own = {p: item for p, item in found.items() if item.variant.adapter == adapter.name}
            listed = jobs(
                adapter,
                recorded.read(adapter.folder),
                [(item.case, item.variant) for item in own.values()],
            )
            self.selected[adapter.name] = set(own)
            mine |= split(listed, self.shard.of)[self.shard.number - 1]
        config.hook.pytest_deselected(items=[i for i in items if not _among(i, mine)])
        items[:] = [item for item in items if _among(item, mine)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """With xdist, what is left to run: each worker collects the same."""
        self._plan(map(pair_of, ids))

    def _plan(self, pairs: Iterable[Pair]) -> None:
        """Note what will run; the number of a pair is its result's place."""
        for pair in pairs:
            self._numbers.setdefault(pair, len(self._numbers))
            self.planned.setdefault(pair[1].partition("/")[0], set()).add(pair)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is left to run after all deselection."""
        self._plan(item.pair for item in session.items if isinstance(item, CheckItem))
        sets: dict[frozenset[str], frozenset[str]] = {}  # most pairs have the same checks
        for item in session.items:
            if isinstance(item, CheckItem):
                item.lighten()
                pair = item.pair
                checks = self._checks.get(pair, frozenset()) | {item.check}
                self._checks[pair] = sets.setdefault(checks, checks)
                if pair not in self._places:
                    listed = self._pairs.setdefault(item.variant.adapter, [])
                    self._places[pair] = len(listed)
                    listed.append((item.case, item.variant))
        # Items stay to the end: collecting garbage need not look through all of them each time.
        gc.collect()
        gc.freeze()

    # -- running -------------------------------------------------------------------------------

    def result(self, case: Case, variant: Variant) -> Result:
        """The result of a case on a variant, with the verdicts that were asked for. It is skipped
        where its program cannot be written."""
        self.interrupts.check()
        pair = (case.id, variant.id)
        if pair not in self._results:
            asked = self._checks[pair]
            found = self._from_earlier(pair, asked, variant)
            if found is None:
                try:
                    found = self._run(case, variant)
                except WriteError as error:
                    self._give_up(error)
                    pytest.skip(error.message)
            verdicts = tuple(v for v in found.verdicts if v.check in asked or _stops(found, v))
            found = replace(found, verdicts=verdicts)
            self._put(case, variant, found)
            # Arrays are on disk now; what items need are the verdicts.
            self._results[pair] = replace(found, observation=None, expected=None)
        return self._results[pair]

    def _run(self, case: Case, variant: Variant) -> Result:
        runner = self.runners[variant.adapter]
        if runner.unwritten(case, variant):
            batch = self._batch(variant.adapter, (case.id, variant.id))
            runner.emit([one for one in batch if runner.unwritten(*one)])
        return runner.run(case, variant)

    def _put(self, case: Case, variant: Variant, found: Result) -> None:
        assert self.partial is not None
        number = self._numbers[found.case, found.variant]
        tally = Tally.of(found, self.known(variant), self._fits(case, variant, found))
        try:
            self.partial.put(variant.adapter, number, found, msgspec.json.encode(tally))
        except WriteError as error:
            self._give_up(error)

    def _fits(self, case: Case, variant: Variant, found: Result) -> tuple[Discipline, ...]:
        """For a user's implementation: the other disciplines under which its wrong executions would
        be right. The declared discipline may then be the only mistake.
        """
        failed = any(v.check == "executions" and v.status is Status.FAIL for v in found.verdicts)
        if variant.implementation is None or found.observation is None or not failed:
            return ()
        others = [name for name in get_args(Discipline) if name != variant.model.discipline]
        return tuple(
            name
            for name in others
            if (verdict := executions_under(case, variant, found.observation, name)) is not None
            and verdict.status is Status.PASS
        )

    def _give_up(self, error: WriteError) -> None:
        """Stop the run, since further results could not be written."""
        self.unwritten = self.unwritten or str(error)
        assert self.session is not None
        self.session.shouldstop = "results cannot be written"

    def _from_earlier(self, pair: Pair, asked: frozenset[str], variant: Variant) -> Result | None:
        """The result of a pair from an earlier run, if it has every requested check; `None` if it
        must run.
        """
        name = variant.adapter
        if name not in self._taken_over:
            file = self._resumed(name)
            results = read(file).results if self.config.option.resume and file.is_file() else ()
            self._taken_over[name] = {(r.case, r.variant): r for r in results}
        found = self._taken_over[name].get(pair)
        if found is None:
            return None
        complete = asked <= {v.check for v in found.verdicts}
        if not complete and not all(_stops(found, v) for v in found.verdicts):
            return None
        return noted(self.known(variant), found)

    def judged(self, case: Case, variant: Variant, check: str) -> None:
        """Forget the result of a case on a variant when its last item has run."""
        pair = (case.id, variant.id)
        left = self._left.setdefault(pair, set(self._checks[pair]))
        left.discard(check)
        if not left:
            self._results.pop(pair, None)
            del self._left[pair]

    def _batch(self, adapter: str, pair: tuple[str, str]) -> Sequence[tuple[Case, Variant]]:
        """A pair and those that come after it, whose programs are formatted together: a few at first,
        so that the first verdict does not wait for all programs."""
        listed, place = self._pairs[adapter], self._places[pair]
        size = self._batches.get(adapter, _FIRST_BATCH)
        self._batches[adapter] = min(2 * size, _LARGEST_BATCH)
        return listed[place : place + size]

    def asked(self, case: Case, variant: Variant, check: str) -> bool:
        """Whether a check of a case on a variant has an item in this run."""
        return check in self._checks[case.id, variant.id]

    def known(self, variant: Variant) -> tuple[Entry, ...]:
        """The known deviations of a variant's adapter."""
        return next(c.known for c in self.selection.chosen if c.adapter.name == variant.adapter)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Have an item that has run take no more memory than before."""
        found = yield
        if isinstance(item, CheckItem):
            item.lighten()
        return found

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
        """Add an xdist worker's seconds to the run's."""
        self.lost = self.lost or bool(error)
        output = getattr(node, "workeroutput", None) or {}
        self.unwritten = self.unwritten or output.get("conformance_unwritten", "")
        for name, seconds in output.get("conformance_seconds", {}).items():
            self._add(name, seconds)
        for name, pairs in output.get("conformance_selected", {}).items():
            self.selected[name] = {(case, variant) for case, variant in pairs}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the workers; merge the partial results into one results file per adapter."""
        with self.interrupts.held_off():
            for name, runner in self.runners.items():
                runner.close()
                self._add(name, runner.watch.seconds)
            if self.given is not None:
                output = self.config.workeroutput  # type: ignore[attr-defined]
                output["conformance_seconds"] = self.seconds
                output["conformance_selected"] = {n: sorted(p) for n, p in self.selected.items()}
                output["conformance_unwritten"] = self.unwritten
                return
            if self.partial is None:
                return
            self.runs += [self._merged(chosen, session) for chosen in self.selection.chosen]
            if not any(run.unwritten for run in self.runs):
                self.partial.remove()
        self.ended = self._ended(session)
        if self.ended is not None:
            session.exitstatus = self.ended

    def _ended(self, session: pytest.Session) -> Exit | None:
        """How the run ended, where that is not what pytest says."""
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
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and any(self.selected.values()):
            return Exit.OK  # more shards than there is to do
        if status == pytest.ExitCode.OK and any(run.stale for run in self.runs):
            return Exit.UNEXPECTED
        return None

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind, also where the session did not get as far as its end."""
        with self.interrupts.held_off():
            for runner in self.runners.values():
                runner.close()
            if self.partial is not None and self.given is None:
                kept = any(run.unwritten for run in self.runs)
                self.partial.close() if kept else self.partial.remove()
            elif self.partial is not None:
                self.partial.close()
            for partial in self.left:
                partial.close()
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

    def _merged(self, chosen: Chosen, session: pytest.Session) -> AdapterRun:
        """An adapter's run, its results written; where they cannot be, they are kept where they are."""
        assert self.partial is not None
        try:
            return self._merge(chosen, session)
        except WriteError as error:
            kept = f"what was finished is kept in {self.partial.folder}: make room, then --resume"
            self.unwritten = f"{error.where}: {error.message}\n  hint: {kept}"
            return replace(self._empty(chosen), unwritten=True)

    def _empty(self, chosen: Chosen) -> AdapterRun:
        name = chosen.adapter.name
        return AdapterRun(name, tuple(v.id for v in chosen.variants), self._file(name))

    def _merge(self, chosen: Chosen, session: pytest.Session) -> AdapterRun:
        assert self.partial is not None
        name = chosen.adapter.name
        paths, cases = self.selection.paths, self.selection.cases
        selected = self.selected.get(name, set())
        run = self._empty(chosen)
        if name in self.broken:
            return replace(run, broken=str(self.broken[name]))
        results = self._kept_results(run)
        interrupted = self._interrupted(run, session)
        if interrupted and name in self.earlier:
            # What it would have come to in the end, had it not been interrupted again.
            self._put_the_rest(chosen)
            run = self._empty(chosen)
            results = self._kept_results(run)
            interrupted = self._interrupted(run, session)
        if not run.results and (interrupted or not selected):
            return run
        planned = self.planned.get(name, set()) if interrupted else set()
        number = len(selected) or len(planned) or run.results
        whole = number == len(cases) * len(chosen.variants)
        ran = {case for case, _ in selected or planned} or run.cases
        header = replace(
            self._header(chosen),
            selection=self._selection(len(ran), whole),
            selected=len(selected),
            interrupted=interrupted,
        )
        footer = replace(run.footer, seconds=self.seconds[name])
        write_merged(run.file, header, results, footer, self.partial.folder)
        if not interrupted:
            self._clear(name, whole)
        # Of a shard, whether an entry explains nothing is for the merge to say.
        if self._full(whole, chosen) and not self.shard and not interrupted:
            run.stale = unused(chosen.known, run.covered, cases, paths)
        return replace(run, interrupted=interrupted)

    def _kept_results(self, run: AdapterRun) -> WrittenResults:
        """The partial results of this run for an adapter, taken into its tallies."""
        assert self.partial is not None
        results = self.partial.results(run.name)
        for note in results.notes:
            run.add(msgspec.json.decode(note, type=Tally))
        return results

    def _put_the_rest(self, chosen: Chosen) -> None:
        assert self.partial is not None
        name = chosen.adapter.name
        there = {
            (tally.case, tally.variant)
            for note in self.partial.results(name).notes
            for tally in [msgspec.json.decode(note, type=Tally)]
        }
        for pair, result in self.earlier[name].results.items():
            if pair in self.planned.get(name, ()) and pair not in there:
                tally = Tally.of(result, chosen.known)
                note = msgspec.json.encode(tally)
                self.partial.put(name, self._numbers[pair], result, note)

    def _interrupted(self, run: AdapterRun, session: pytest.Session) -> str:
        """What ended the run before it had all results; empty where it has, or was told to (`-x`)."""
        planned = len(self.planned.get(run.name, ()))
        if planned <= run.results:
            return ""
        if self.unwritten:
            why = "results could not be written"
        elif self.interrupts.received is not None:
            why = self.interrupts.received.name
        elif self.lost:
            why = "a process of pytest-xdist died"
        elif session.exitstatus == pytest.ExitCode.INTERNAL_ERROR:
            why = "an internal error"
        elif session.exitstatus == pytest.ExitCode.INTERRUPTED and not session.testsfailed:
            why = "an interrupt"
        else:
            return ""
        return f"{why} after {run.results:,} of {planned:,} results"

    def _header(self, chosen: Chosen) -> Header:
        """The header of an adapter's results, as far as it is known before anything runs."""
        name = chosen.adapter.name
        return Header(
            suite=__version__,
            adapter=name,
            variants=tuple(v.id for v in chosen.variants),
            disciplines={v.id: v.model.discipline for v in chosen.variants},
            accuracy={v.id: v.model.accuracy for v in chosen.variants if v.model.accuracy},
            versions=self.versions[name],
            cases=self.selection.hash,
            shard=str(self.shard or ""),
            started=self.started,
            implementation=own.function if (own := chosen.adapter.implementation) else "",
            limits=self.selection.limits.named,
        )

    def _file(self, name: str) -> Path:
        return self.selection.paths.reports / f"{self._stem(name)}.jsonl"

    def _resumed(self, name: str) -> Path:
        """Where the results of an earlier run stand that this one goes on from."""
        assert self.partial is not None
        return self.partial.folder / "resumed" / f"{name}.jsonl"

    def _selection(self, ran: int, whole: bool) -> str:
        options = self.config.option
        words = [SMOKE] if options.smoke else []
        words += [f"--case {pattern}" for pattern in options.case]
        words += [f"-k {options.keyword}"] if options.keyword else []
        words += ["-m " + options.markexpr] if options.markexpr else []
        words += ["--last-failed"] if getattr(options, "lf", False) else []
        if not whole:
            words.append(f"{ran} of {len(self.selection.cases)} cases")
        return ", ".join(words)

    def _full(self, whole: bool, chosen: Chosen) -> bool:
        """Whether every check of every case and variant was run."""
        return whole and chosen.whole and not self._selection(0, whole)

    def _add(self, name: str, seconds: dict[str, float]) -> None:
        for stage, value in seconds.items():
            self.seconds[name][stage] += value

    def _runner(self, chosen: Chosen) -> Runner:
        worker = "" if self.given is None else f".{self.given['workerid']}"
        name = f"{self._stem(chosen.adapter.name)}{worker}.log"
        log = self.selection.paths.reports / "logs" / name
        return Runner(chosen.adapter, self.selection.paths, log, chosen.known)

    def _clear(self, name: str, whole: bool) -> None:
        """After an adapter's new results are written, remove what they replace: the shards of an
        earlier run, and the partial results of one that was cut off.

        A shard leaves other shards and their earlier merged results in place.
        """
        reports = self.selection.paths.reports
        if not self.shard:
            for file in reports.glob(f"{name}{PATTERN}.jsonl"):
                remove(file)
            for log in (reports / "logs").glob(f"{name}{PATTERN}.log"):
                log.unlink(missing_ok=True)
        if name in self.earlier and set(self.earlier[name].results) <= self.planned[name]:
            self.earlier[name].drop(name)
        elif whole:
            for partial in self.left:
                begun = partial.begun(name)
                if begun is not None and begun.shard == str(self.shard or ""):
                    partial.drop(name)

    def _clear_logs(self, name: str) -> None:
        """Take away an earlier run's logs: this one's are appended to."""
        logs, stem = self.selection.paths.reports / "logs", self._stem(name)
        with writing(logs):
            for log in (logs / f"{stem}.log", *logs.glob(f"{stem}.gw*.log")):
                log.unlink(missing_ok=True)

    def _stem(self, name: str) -> str:
        """What the files of this run of an adapter are named, without what follows a dot."""
        return self.shard.stem(name) if self.shard else name


class CaseFile(pytest.File):
    """A case file."""

    def __init__(self, *, suite: Suite, **rest: Any) -> None:
        super().__init__(**rest)
        self.suite = suite

    def collect(self) -> Iterable[CheckItem]:
        """The file's items."""
        return self.suite.items(self)


class CheckItem(LightItem):
    """One check of one case on one variant."""

    def __init__(
        self, *, suite: Suite, case: Case, variant: Variant, pair: Pair, check: str, **rest: Any
    ) -> None:
        super().__init__(**rest)
        self.suite, self.case, self.variant, self.check = suite, case, variant, check
        #: The case and the variant, by their ids.
        self.pair = pair

    def runtest(self) -> None:
        """Judge. A known deviation is an expected failure; a missing feature is a skip."""
        try:
            self._judge(self.suite.result(self.case, self.variant))
        finally:
            self.suite.judged(self.case, self.variant, self.check)

    def _judge(self, result: Result) -> None:
        verdicts = [v for v in result.verdicts if v.check == self.check]
        if not verdicts:
            stop = next(v for v in result.verdicts if _stops(result, v))
            if self.suite.asked(self.case, self.variant, ERROR):
                seen = f"{self.case.id}[{self.variant.id}] {ERROR}"
                pytest.skip(f"not judged ({stop.status}): see {seen}")
            verdicts = [stop]
        program = self.suite.selection.paths.reports / result.program if result.program else None
        found = triage(self.suite.known(self.variant), self.case.id, self.variant.id, verdicts)
        self._record(verdicts, program)
        unexpected = [item for item in found if item.triage is Triage.UNEXPECTED]
        if unexpected:
            raise UnexpectedError(unexpected, program)
        known = [item.reason for item in found if item.triage is Triage.KNOWN]
        if known:
            pytest.xfail("; ".join(dict.fromkeys(known)))
        for verdict in verdicts:
            if verdict.status is Status.WARN:
                line = self.case.where.line
                warnings.warn_explicit(
                    f"{self.name}: {verdict.message}", ConformanceWarning, str(self.path), line
                )
            elif verdict.status is Status.UNSUPPORTED:
                pytest.skip(verdict.message)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The verdicts in words; a traceback only for a fault of the plugin itself."""
        if isinstance(excinfo.value, UnexpectedError):
            line = self.case.where.line
            return VerdictText(excinfo.value, str(self.path), line)
        if isinstance(excinfo.value, pytest.xfail.Exception):
            return str(excinfo.value)  # pytest would print the lines that led here, read from files
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case stands."""
        return self.path, self.case.where.line - 1, self.name

    def _record(self, verdicts: Sequence[Verdict], program: Path | None) -> None:
        status = next((v.status for v in verdicts if v.status is not Status.PASS), Status.PASS)
        self.user_properties.append(("status", status.value))
        if program is not None:
            self.user_properties.append(("program", str(program)))


@dataclass(frozen=True)
class Crash:
    """What pytest's short summary and JUnit say of a failure: where the case stands, and the verdict."""

    path: str
    lineno: int
    message: str


@dataclass(frozen=True)
class VerdictText:
    """Unexpected verdicts as pytest prints a failure: it asks for `reprcrash` and `toterminal`."""

    error: UnexpectedError
    path: str
    line: int

    @property
    def reprcrash(self) -> Crash:
        """What the short summary says."""
        return Crash(self.path, self.line, headline(self.error.found[0]))

    def toterminal(self, tw: Any) -> None:
        """Write it with pytest's terminal writer, the headlines in red."""
        for line, is_headline in self._lines():
            tw.line(line, red=is_headline)

    def __str__(self) -> str:
        return "\n".join(line for line, _ in self._lines())

    def _lines(self) -> Iterator[tuple[str, bool]]:
        """Message, then expected and observed, then the program; whether a line is a headline."""
        for item in self.error.found:
            yield headline(item), True
            for label, words in (
                ("expected", item.verdict.expected),
                ("observed", item.verdict.observed),
                ("seen by", item.verdict.method),
            ):
                if words:
                    yield f"  {label}: " + words.replace("\n", "\n    "), False
        if self.error.program is not None:
            yield f"  program: {self.error.program}", False


def _among(item: pytest.Item, pairs: Container[Pair]) -> bool:
    return not isinstance(item, CheckItem) or item.pair in pairs


def headline(item: Triaged) -> str:
    """A verdict in one line, and why it is unexpected where that needs words."""
    reason = f" [{item.reason}]" if item.reason else ""
    return f"{item.verdict.status}: {item.verdict.message}{reason}"


def _stops(result: Result, verdict: Verdict) -> bool:
    """Whether a verdict says that the run did not finish, so that nothing else was judged."""
    return (
        verdict.check == ERROR
        and verdict.status is not Status.PASS
        and all(other.check == ERROR for other in result.verdicts)
    )
