"""A run as a pytest session: an item for every case on every variant that can express it.

Each pair is stored when it is judged (`conformance.store`), by whatever process judged it. A pair that a
variant has no way to express has no item; its result is stored, and it is counted in the summary.
"""

import itertools
import json
import platform
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance import __version__
from conformance.drivers.adapter import CPU, Variant
from conformance.errors import BrokenAdapterError, ClusterError, ConformanceError, WriteError
from conformance.exits import Exit
from conformance.judge.known import Entry
from conformance.judge.triage import Triaged, covered, noted, triaged
from conformance.model.case import Case
from conformance.model.result import SMOKE, Header, Pair, Result, Results
from conformance.run.cluster import Cluster
from conformance.run.interrupts import Interrupts, die_with_parent
from conformance.run.items import CaseFile, PairItem, Subject
from conformance.run.programs import OwnProgram, judged
from conformance.run.runner import Runner, lacking
from conformance.run.selection import Chosen, Selection, unused
from conformance.run.summary import AdapterRun, discipline_hint, print_summary
from conformance.store import Store, file_of
from conformance.writing import write_bytes, writing

#: How many programs are written together, first and at most.
_FIRST_BATCH, _LARGEST_BATCH = 4, 64


class Suite:
    """The hooks of a run, in the process that the user started and in xdist's workers alike."""

    def __init__(
        self, config: pytest.Config, selection: Selection, cluster: Cluster | None = None
    ) -> None:
        self.config, self.selection, self.cluster = config, selection, cluster
        #: What comes back from the cluster.
        self._arriving: Iterator[tuple[Results, Mapping[str, bytes]]] = iter(())
        #: What xdist has given this process; `None` in the process that the user started.
        self.worker_input: dict[str, Any] | None = getattr(config, "workerinput", None)
        self.interrupts = Interrupts()
        self.session: pytest.Session | None = None
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._chosen = {chosen.adapter.name: chosen for chosen in selection.chosen}
        #: The adapters that do not start, and why.
        self.broken: dict[str, BrokenAdapterError] = {}
        self.runners = {name: self._runner(chosen) for name, chosen in self._chosen.items()}
        self._versions: dict[str, Mapping[str, str]] = {}
        self._stores: dict[str, Store] = {}
        #: By adapter, the pairs that this run found stored already, and those that it planned.
        self._stored: dict[str, set[Pair]] = {}
        self._planned: dict[str, list[Pair]] = {}
        #: What became of each adapter; empty before the end.
        self.runs: list[AdapterRun] = []
        #: How the run ended, where that is not what pytest says.
        self.ended: Exit | None = None
        #: Why results could not be written, in a message; empty as long as they could.
        self.unwritten = ""
        #: Whether a process of xdist's has died, and with it a result; why the cluster ended the run.
        self.lost = False
        self.failed = ""
        self._by_file: dict[Path, list[Case]] = {}
        wanted = (case for case in selection.cases if case.id in selection.wanted)
        for file, cases in itertools.groupby(wanted, lambda case: case.where.file):
            self._by_file.setdefault(Path(file).resolve(), []).extend(cases)
        #: By file, the programs that are wanted, with their adapters.
        self._programs = {
            program.file.resolve(): (program, chosen)
            for chosen in selection.chosen
            for program in chosen.programs
            if program.id in selection.wanted
        }
        #: The pairs that have no item: as items before pytest has deselected, as pairs afterwards.
        self._without_item: list[PairItem] = []
        self._inexpressible: list[tuple[Case, Variant]] = []
        #: By adapter, what runs in this process, and for how many pairs programs are written next; and
        #: the position of each pair in its list.
        self._listed: dict[str, list[tuple[Case, Variant]]] = {}
        self._batches: dict[str, int] = {}
        self._positions: dict[Pair, int] = {}
        #: Where workers of xdist write what they have planned; made when the first one starts.
        self._plans: tempfile.TemporaryDirectory[str] | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Start every adapter once, before anything is judged."""
        self.session = session
        if self.worker_input is not None:
            die_with_parent()
            self.interrupts.install()
            return
        if self.config.option.collectonly:
            return
        self.interrupts.install()
        try:
            with writing(self._logs):
                self._logs.mkdir(parents=True, exist_ok=True)
            for chosen in self.selection.chosen:
                self._start(chosen)
        except ConformanceError as error:
            self.unwritten = str(error) if isinstance(error, WriteError) else ""
            raise pytest.UsageError(str(error)) from error

    def _start(self, chosen: Chosen) -> None:
        """Start an adapter. One that cannot start is `broken`."""
        name = chosen.adapter.name
        with writing(self._logs):
            stem = self._file(name).stem
            for log in (self._logs / f"{stem}.log", *self._logs.glob(f"{stem}.gw*.log")):
                log.unlink(missing_ok=True)
        try:
            # A shard may need few of the variants; each is warmed up before its first program.
            needed = chosen.variants[:1] if self.selection.shard else chosen.variants
            if self.cluster is not None:
                self._versions[name] = self.cluster.start(chosen.adapter)
            else:
                self._versions[name] = self.runners[name].start(needed)
        except BrokenAdapterError as error:
            self.broken[name] = error
            self.runners[name].close()
            return
        if self.config.pluginmanager.hasplugin("dsession"):
            self.runners[name].close()

    @property
    def _logs(self) -> Path:
        return self.selection.paths.reports / "logs"

    def _file(self, name: str) -> Path:
        return file_of(self.selection.paths.reports, name, str(self.selection.shard or ""))

    def _runner(self, chosen: Chosen) -> Runner:
        worker = "" if self.worker_input is None else f".{self.worker_input['workerid']}"
        log = self._logs / f"{self._file(chosen.adapter.name).stem}{worker}.log"
        return Runner(chosen.adapter, self.selection.paths, log, chosen.known)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker which adapters do not start, and where to write what it plans."""
        self._plans = self._plans or tempfile.TemporaryDirectory(prefix="conformance-plan-")
        plan = Path(self._plans.name) / f"{node.gateway.id}.json"
        node.workerinput |= {"conformance_broken": list(self.broken), "conformance_plan": str(plan)}

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        items = self.items
        if file_path.resolve() in self._programs:
            items = self.program_items
        elif file_path.suffix != ".yaml" or self.selection.paths.cases not in file_path.parents:
            return None
        file: CaseFile = CaseFile.from_parent(parent, path=file_path, items=items)
        return file

    def items(self, file: CaseFile) -> Iterator[PairItem]:
        """The items of a file, by case, then variant."""
        for case in self._by_file.get(file.path.resolve(), ()):
            for variant in (v for chosen in self._running for v in chosen.variants):
                item = self._item(file, case, variant)
                if lacking(case, variant) is None:
                    yield item
                else:
                    self._without_item.append(item)

    def program_items(self, file: CaseFile) -> Iterator[PairItem]:
        """The item of a program, if its adapter runs."""
        program, chosen = self._programs[file.path.resolve()]
        if chosen in self._running:
            yield self._item(file, program, chosen.adapter.variant(program.variant))

    @property
    def _running(self) -> list[Chosen]:
        """The adapters that start."""
        given = self.worker_input
        broken = self.broken if given is None else given["conformance_broken"]
        return [chosen for chosen in self.selection.chosen if chosen.adapter.name not in broken]

    def _item(self, file: CaseFile, subject: Subject, variant: Variant) -> PairItem:
        name = f"{subject.id}[{variant.id}]"
        item: PairItem = PairItem.from_parent(
            file,
            name=name,
            nodeid=f"{file.nodeid}::{name}",  # as `--lf` reads it from its cache
            judge=self.judge,
            case=subject,
            variant=variant,
        )
        return item

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Have pytest select among the pairs without an item, too, as `-k` and `-m` ask. Then leave this
        machine its shard."""
        without_item = set(map(id, self._without_item))
        if not any("::" in argument for argument in self.config.args):
            items += self._without_item
        yield
        self._inexpressible = [
            (item.case, item.variant)
            for item in items
            if isinstance(item, PairItem) and id(item) in without_item
            if isinstance(item.case, Case)
        ]
        items[:] = [item for item in items if id(item) not in without_item]
        self._without_item = []
        selected = [item.pair for item in items if isinstance(item, PairItem)]
        self._plan_pairs([*selected, *((c.id, v.id) for c, v in self._inexpressible)])
        shard = self.selection.shard
        if shard is not None:
            others = [i for i in items if isinstance(i, PairItem) and i.pair not in shard]
            self.config.hook.pytest_deselected(items=others)
            left_out = set(map(id, others))
            items[:] = [item for item in items if id(item) not in left_out]

    def _plan_pairs(self, pairs: Sequence[Pair]) -> None:
        """Note what the run is to judge, all of its shards, in the order of cases and variants."""
        ids = [case.id for case in self.selection.cases]
        ids += [program.id for chosen in self.selection.chosen for program in chosen.programs]
        cases = {id_: n for n, id_ in enumerate(ids)}
        variants = [v.id for chosen in self.selection.chosen for v in chosen.variants]
        numbers = {name: n for n, name in enumerate(variants)}
        for pair in sorted(pairs, key=lambda pair: (cases[pair[0]], numbers[pair[1]])):
            self._planned.setdefault(pair[1].partition("/")[0], []).append(pair)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """List what runs in this process; begin the run, unless this is a process of xdist's."""
        for item in session.items:
            if isinstance(item, PairItem) and isinstance(item.case, Case):
                listed = self._listed.setdefault(item.variant.adapter, [])
                self._positions[item.pair] = len(listed)
                listed.append((item.case, item.variant))
        if self.worker_input is not None:
            inexpressible = [(case.id, variant.id) for case, variant in self._inexpressible]
            plan = json.dumps({"planned": self._planned, "inexpressible": inexpressible})
            Path(self.worker_input["conformance_plan"]).write_text(plan, "utf-8")
        elif not self.config.option.collectonly and self._planned:
            self._begin()
        if self.cluster is not None and self._stores:
            items = [item for item in session.items if isinstance(item, PairItem)]
            left = [i for i in items if i.pair not in self._stored[i.variant.adapter]]
            self._arriving = self.cluster.judged([(i.case, i.variant) for i in left])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any) -> None:
        """Begin the run when a worker of xdist has collected; all collect the same."""
        if self._planned:
            return
        plan = json.loads(Path(node.workerinput["conformance_plan"]).read_text("utf-8"))
        self._planned = {
            name: [(case, variant) for case, variant in pairs]
            for name, pairs in plan["planned"].items()
        }
        cases = {case.id: case for case in self.selection.cases}
        variants = {v.id: v for chosen in self.selection.chosen for v in chosen.variants}
        self._inexpressible = [(cases[c], variants[v]) for c, v in plan["inexpressible"]]
        if self._planned:
            self._begin()

    def _begin(self) -> None:
        """Plan all pairs in the results files, and store what variants cannot express."""
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        try:
            for name, planned in self._planned.items():
                store = Store(self._file(name))
                header = self._header(self._chosen[name])
                try:
                    begun = store.begin(header, planned, fresh=self.config.option.fresh)
                except ConformanceError:
                    store.close()
                    raise
                self._stores[name], self._stored[name] = store, set(begun.stored)
                if begun.message and reporter is not None:
                    reporter.write_line(f"{name}: {begun.message}", flush=True)
            shard = self.selection.shard
            for case, variant in self._inexpressible:
                if shard is None or (case.id, variant.id) in shard:
                    self._result(case, variant)
        except WriteError as error:
            self._stop_unwritten(error)
        except ConformanceError as error:
            raise pytest.UsageError(str(error)) from error

    def _header(self, chosen: Chosen) -> Header:
        name, implementation = chosen.adapter.name, chosen.adapter.implementation
        device = {} if chosen.adapter.device == CPU else {"device": chosen.adapter.device}
        return Header(
            suite=__version__,
            adapter=name,
            variants=tuple(v.id for v in chosen.variants),
            disciplines={v.id: v.model.discipline for v in chosen.variants},
            accuracy={v.id: v.model.accuracy for v in chosen.variants if v.model.accuracy},
            versions={"platform": platform.platform(), **device, **self._versions[name]},
            cases=self.selection.hash,
            selection=self._selection_in_words(),
            shard=str(self.selection.shard or ""),
            started=self._started,
            implementation=implementation.function if implementation else "",
            limits=self.selection.limits,
        )

    def _selection_in_words(self) -> str:
        """The options that chose among the pairs; empty if none did."""
        options = self.config.option
        words = [SMOKE] if options.smoke else []
        words += [f"--case {pattern}" for pattern in options.case]
        words += [f"--family {name}" for name in options.family]
        words += [f"-k {options.keyword}"] if options.keyword else []
        words += [f"-m {options.markexpr}"] if options.markexpr else []
        words += ["--last-failed"] if getattr(options, "lf", False) else []
        words += [argument for argument in self.config.args if "::" in argument]
        return ", ".join(words)

    def judge(
        self, case: Subject, variant: Variant
    ) -> tuple[Result, tuple[Triaged, ...], Path | None]:
        """The result on a variant, its verdicts triaged, and the path of the program. Skips the item if
        nothing more can be written."""
        self.interrupts.check()
        try:
            if self.cluster is not None:
                self._arrive((case.id, variant.id), variant.adapter)
            result = self._result(case, variant)
        except WriteError as error:
            self._stop_unwritten(error)
            pytest.skip(error.message)
        except ClusterError as error:
            self.failed = str(error)
            self._stop("the cluster failed")
            pytest.skip(error.message)
        program = self.selection.paths.reports / result.program if result.program else None
        return result, triaged(self._chosen[variant.adapter].known, result), program

    def _arrive(self, pair: Pair, name: str) -> None:
        """Store what the cluster has judged, until this pair is there."""
        reports = self.selection.paths.reports
        while pair not in self._stored[name]:
            results, programs = next(self._arriving)
            with self.interrupts.held_off():
                for path, text in programs.items():
                    write_bytes(reports / path, text)
                for result in results.results:
                    self._stores[name].put(noted(self._chosen[name].known, result))
                    self._stored[name].add(result.pair)
                for stage, seconds in results.header.seconds.items():
                    self.runners[name].seconds[stage] += seconds

    def _result(self, case: Subject, variant: Variant) -> Result:
        """The result on a variant, stored already, or judged now and then stored. One that is stored is
        written again only if other deviations are known by now. Raises `WriteError`."""
        name, pair = variant.adapter, (case.id, variant.id)
        if name not in self._stores:  # a process of xdist joins the run that was begun
            self._stores[name] = Store(self._file(name))
            self._stored[name] = set(self._stores[name].join())
        store = self._stores[name]
        stored = store.result(pair) if pair in self._stored[name] else None
        known = self._chosen[name].known
        result = self._run(case, variant) if stored is None else noted(known, stored)
        if stored is None or result.verdicts != stored.verdicts:
            store.put(result)
        return result

    def _run(self, case: Subject, variant: Variant) -> Result:
        """Check a user's program, or run a case, after its program and those of the next pairs are
        written together: a few at first, so that the first verdict does not wait for all programs."""
        name = variant.adapter
        if isinstance(case, OwnProgram):
            chosen = self._chosen[name]
            result = judged(case, chosen.adapter, variant, self.selection.paths.reports)
            return noted(chosen.known, result)
        runner = self.runners[name]
        if runner.unwritten(case, variant):
            position, size = (
                self._positions[case.id, variant.id],
                self._batches.get(name, _FIRST_BATCH),
            )
            self._batches[name] = min(2 * size, _LARGEST_BATCH)
            batch = self._listed[name][position : position + size]
            runner.emit([pair for pair in batch if runner.unwritten(*pair)])
        return runner.run(case, variant)

    def _stop_unwritten(self, error: WriteError) -> None:
        """Stop the run, since further results could not be written."""
        self.unwritten = self.unwritten or str(error)
        self._stop("nothing more can be stored")

    def _stop(self, reason: str) -> None:
        assert self.session is not None
        self.session.shouldstop = reason

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what an xdist worker has to say in the end."""
        self.lost = self.lost or bool(error)
        output = getattr(node, "workeroutput", None) or {}
        self.unwritten = self.unwritten or output.get("conformance_unwritten", "")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the workers, and end the run in the results files."""
        with self.interrupts.held_off():
            for name, runner in self.runners.items():
                runner.close()
                if name in self._stores:
                    self._guarded(partial(self._stores[name].add_seconds, runner.seconds))
            if self.worker_input is not None:
                output = self.config.workeroutput  # type: ignore[attr-defined]
                output["conformance_unwritten"] = self.unwritten
                return
            if self.config.option.collectonly:
                return
            for chosen in self.selection.chosen:
                self.runs.append(self._finished(chosen, session))
        self.ended = self._exit(session)
        if self.ended is not None:
            session.exitstatus = self.ended

    def _guarded(self, write: Callable[[], None]) -> None:
        """Write something at the end; where that cannot be done, say so."""
        try:
            write()
        except WriteError as error:
            self.unwritten = self.unwritten or str(error)

    def _finished(self, chosen: Chosen, session: pytest.Session) -> AdapterRun:
        """End an adapter's run: what became of it."""
        name = chosen.adapter.name
        run = AdapterRun(name, self._file(name), known=chosen.known)
        if name in self.broken:
            return replace(run, broken=str(self.broken[name]))
        if name not in self._stores:
            return run
        store, shard = self._stores[name], self.selection.shard
        results = store.results()
        lacks = [pair for pair in results.missing if shard is None or pair in shard]
        cause = self._cause(session) if lacks else ""
        judged = len(results.results)
        interrupted = f"{cause} after {judged:,} of {judged + len(lacks):,} pairs" if cause else ""
        self._guarded(partial(store.finish, interrupted))
        whole = not (interrupted or lacks or shard or results.header.selection)
        if not shard and not interrupted:
            for part in self.selection.paths.reports.glob(f"{name}.*-of-*.db"):
                part.unlink(missing_ok=True)
        stale: tuple[Entry, ...] = ()
        if whole and chosen.variants == chosen.adapter.variants:
            met = {n for result in results.results for n in covered(chosen.known, result)}
            stale = unused(chosen.known, met, self.selection.cases, self.selection.paths)
        return replace(
            run,
            results=results,
            stale=stale,
            interrupted=interrupted,
            hint=discipline_hint(results, self.selection.cases, chosen.variants),
        )

    def _cause(self, session: pytest.Session) -> str:
        """What ended the run before it had all results; empty where an option did (`-x`)."""
        if self.unwritten:
            return "results could not be written"
        if self.interrupts.received is not None:
            return self.interrupts.received.name
        if self.failed:
            return "a failure of the cluster"
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
        if self.broken or self.failed:
            return Exit.BROKEN_ADAPTER
        if status == pytest.ExitCode.INTERRUPTED and any(run.results for run in self.runs):
            # xdist ends `-x`, and pytest `--stepwise`, as if somebody had interrupted the run.
            return Exit.UNEXPECTED if session.testsfailed else Exit.INTERRUPTED
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and self._planned:
            return Exit.OK  # an empty shard, or cases that no variant can express
        if status == pytest.ExitCode.OK and any(run.stale for run in self.runs):
            return Exit.UNEXPECTED
        return None

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind, also where the session did not get as far as its end."""
        with self.interrupts.held_off():
            for runner in self.runners.values():
                runner.close()
            for store in self._stores.values():
                store.close()
            if self.cluster is not None:
                self.cluster.close()
            if self._plans is not None:
                self._plans.cleanup()
        self.interrupts.restore()
        if self.ended is None and self.unwritten:
            self.ended = Exit.NOT_WRITTEN
        elif self.ended is None and self.interrupts.received is not None:
            self.ended = Exit(128 + self.interrupts.received)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A table of outcomes, then what was unexpected."""
        if any(run.results or run.broken for run in self.runs) or self.unwritten:
            terminalreporter.section("conformance")
            print_summary(self.runs, terminalreporter)
            for error in filter(None, (self.unwritten, self.failed)):
                terminalreporter.write_line(f"error: {error}", red=True)
