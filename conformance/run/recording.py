"""The results of a run on disk: partial results while it goes on, a results file of each adapter at its
end, and what an earlier run that was cut off has left, to go on from.

The process that the user started makes the folder of partial results, and merges it at the end; the
processes of pytest-xdist put their results into the same folder.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from conformance import __version__
from conformance.drivers.adapter import Variant
from conformance.results import (
    SMOKE,
    Header,
    Result,
    WrittenResults,
    make_footer,
    read,
    remove,
    write,
    write_merged,
)
from conformance.results.partial import PartialResults
from conformance.results.triage import noted
from conformance.run.earlier import Earlier, find
from conformance.run.runner import is_final
from conformance.run.selection import Chosen, Selection, unused
from conformance.run.shards import PATTERN, Pair
from conformance.run.summary import AdapterRun, Tally
from conformance.writing import writing


@dataclass
class Plan:
    """What a run is going to judge: pairs of case and variant.

    `numbers` are the places of their results in a results file. `planned` are, by adapter, those that
    run here; `selected` those that there were before a shard was taken of them, empty without shards.
    """

    numbers: dict[Pair, int] = field(default_factory=dict)
    planned: dict[str, set[Pair]] = field(default_factory=dict)
    selected: dict[str, set[Pair]] = field(default_factory=dict)

    def add(self, pairs: Iterable[Pair]) -> None:
        """Plan to judge these pairs, in their order, after those that are planned already."""
        for pair in pairs:
            self.numbers.setdefault(pair, len(self.numbers))
            self.planned.setdefault(pair[1].partition("/")[0], set()).add(pair)


class Recording:
    """The files of a run's results.

    `options` are pytest's, of the command line. `partial` is `None` until `start` or `join`, and stays
    so in a session that only collects.
    """

    def __init__(self, selection: Selection, options: Any) -> None:
        self.selection, self.options = selection, options
        self.shard, self.reports = selection.shard, selection.paths.reports
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.plan = Plan()
        self.partial: PartialResults | None = None
        #: The partial results of runs that were cut off, and by adapter what is taken over from them.
        self._left: list[PartialResults] = []
        self._earlier: dict[str, Earlier] = {}
        self._versions: dict[str, Mapping[str, str]] = {}
        self._resumed_results = cache(self._read_resumed)

    # -- start -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the folder of partial results, and find those of earlier runs. Raises `WriteError`."""
        self.partial = PartialResults.make(self.reports)
        names = [chosen.adapter.name for chosen in self.selection.chosen]
        self._left = list(PartialResults.left(self.reports, names))

    def join(self, folder: Path) -> None:
        """In a process of pytest-xdist: write into the folder that `start` has made."""
        self.partial = PartialResults(folder)

    def begin(self, chosen: Chosen, versions: Mapping[str, str]) -> str:
        """Record that an adapter's run begins, and take over what an earlier one has left, if this run
        is to resume it. Returns what the user should be told of an earlier run, or an empty string.

        Raises `WriteError`, and `ComparisonError` where the earlier run was of other cases or versions.
        """
        assert self.partial is not None
        name = chosen.adapter.name
        self._versions[name] = {**versions, "platform": platform.platform()}
        header = self._header(chosen)
        self.partial.begin(name, header)
        if not self.options.resume:
            if any(partial.begun(name) is not None for partial in self._left):
                return f"{name}: an earlier run was cut off; --resume goes on from there"
            return ""
        earlier = self._earlier[name] = find(self._left, self.file(name), header)
        results = [r for r in earlier.results.values() if r.variant in header.variants]
        write(self._resumed_file(name), header, results, make_footer(results, {}))
        return f"{name}: going on after {len(results)} results of a run that was cut off"

    def clear_logs(self, name: str) -> None:
        """Delete an adapter's logs of an earlier run: those of this run are appended to. Raises
        `WriteError`."""
        logs, stem = self.reports / "logs", self.stem(name)
        with writing(logs):
            for log in (logs / f"{stem}.log", *logs.glob(f"{stem}.gw*.log")):
                log.unlink(missing_ok=True)

    # -- while it runs -----------------------------------------------------------------------------

    def put(self, variant: Variant, result: Result, tally: Tally) -> None:
        """Keep a result among the partial ones. Raises `WriteError`."""
        assert self.partial is not None
        number = self.plan.numbers[result.case, result.variant]
        self.partial.put(variant.adapter, number, result, msgspec.json.encode(tally))

    def earlier_result(self, pair: Pair, checks: frozenset[str], chosen: Chosen) -> Result | None:
        """The result of a pair from the run that is resumed, if it has a verdict of each of these checks
        (or one that says why nothing was judged); `None` where the pair has to run."""
        if not self.options.resume:
            return None
        result = self._resumed_results(chosen.adapter.name).get(pair)
        if result is None:
            return None
        complete = checks <= {v.check for v in result.verdicts}
        if not complete and not all(is_final(result, v) for v in result.verdicts):
            return None
        return noted(chosen.known, result)

    def _read_resumed(self, name: str) -> Mapping[Pair, Result]:
        file = self._resumed_file(name)
        results = read(file).results if file.is_file() else ()
        return {(r.case, r.variant): r for r in results}

    # -- end ---------------------------------------------------------------------------------------

    def finish(self, chosen: Chosen, cause: str, seconds: Mapping[str, float]) -> AdapterRun:
        """Merge the partial results of an adapter into its results file, and say what became of its run.

        `cause` is what ended the run, if that was not its end: it makes a run that lacks results an
        interrupted one. `seconds` are those of each stage. Raises `WriteError`.
        """
        assert self.partial is not None
        name = chosen.adapter.name
        run = self.empty_run(chosen)
        results = self._tally(run)
        interrupted = self._interrupted(run, cause)
        if interrupted and name in self._earlier:
            # With the results of the earlier run that were not judged again, it lacks fewer.
            self._put_unjudged(chosen)
            run = self.empty_run(chosen)
            results = self._tally(run)
            interrupted = self._interrupted(run, cause)
        selected = self.plan.selected.get(name, set())
        if not run.results and (interrupted or not selected):
            return run
        planned = self.plan.planned.get(name, set()) if interrupted else set()
        number = len(selected) or len(planned) or run.results
        every_pair = number == len(self.selection.cases) * len(chosen.variants)
        case_ids = {case for case, _ in selected or planned} or run.cases
        header = replace(
            self._header(chosen),
            selection=self._selection_in_words(len(case_ids), every_pair),
            selected=len(selected),
            interrupted=interrupted,
        )
        footer = replace(run.footer, seconds=seconds)
        write_merged(run.file, header, results, footer, self.partial.folder)
        if not interrupted:
            self._delete_replaced(name, every_pair)
        # Of a shard, whether an entry explains nothing is for the merge to say.
        if self._is_full(every_pair, chosen) and not self.shard and not interrupted:
            run.stale = unused(
                chosen.known, run.covered, self.selection.cases, self.selection.paths
            )
        return replace(run, interrupted=interrupted)

    def empty_run(self, chosen: Chosen) -> AdapterRun:
        """An adapter's run without results."""
        name = chosen.adapter.name
        return AdapterRun(name, tuple(v.id for v in chosen.variants), self.file(name))

    def close(self, *, keep: bool) -> None:
        """Let go of all partial results; delete those of this run unless they are to be kept."""
        if self.partial is not None:
            self.partial.close() if keep else self.partial.remove()
        for partial in self._left:
            partial.close()

    def _tally(self, run: AdapterRun) -> WrittenResults:
        """The partial results of this run for an adapter, each counted in `run`."""
        assert self.partial is not None
        results = self.partial.results(run.name)
        for note in results.notes:
            run.add(msgspec.json.decode(note, type=Tally))
        return results

    def _put_unjudged(self, chosen: Chosen) -> None:
        """Keep the results of the earlier run that this one planned and did not come to."""
        assert self.partial is not None
        name = chosen.adapter.name
        tallies = [
            msgspec.json.decode(note, type=Tally) for note in self.partial.results(name).notes
        ]
        judged = {(tally.case, tally.variant) for tally in tallies}
        for pair, result in self._earlier[name].results.items():
            if pair in self.plan.planned.get(name, ()) and pair not in judged:
                tally = Tally.of(result, chosen.known)
                number = self.plan.numbers[pair]
                self.partial.put(name, number, result, msgspec.json.encode(tally))

    def _interrupted(self, run: AdapterRun, cause: str) -> str:
        """What interrupted the run, as its header says it; empty where no result is missing, or nothing
        but an option (`-x`) ended it early."""
        planned = len(self.plan.planned.get(run.name, ()))
        if planned <= run.results or not cause:
            return ""
        return f"{cause} after {run.results:,} of {planned:,} results"

    def _delete_replaced(self, name: str, every_pair: bool) -> None:
        """After an adapter's new results are written, delete what they replace: the shards of an earlier
        run, and the partial results of one that was cut off.

        A shard leaves other shards and their earlier merged results in place.
        """
        if not self.shard:
            for file in self.reports.glob(f"{name}{PATTERN}.jsonl"):
                remove(file)
            for log in (self.reports / "logs").glob(f"{name}{PATTERN}.log"):
                log.unlink(missing_ok=True)
        earlier = self._earlier.get(name)
        if earlier is not None and set(earlier.results) <= self.plan.planned[name]:
            earlier.drop(name)
        elif every_pair:
            for partial in self._left:
                begun = partial.begun(name)
                if begun is not None and begun.shard == str(self.shard or ""):
                    partial.drop(name)

    # -- names and headers -------------------------------------------------------------------------

    def stem(self, name: str) -> str:
        """What the files of this run of an adapter are named, up to the dot before `jsonl` or `log`."""
        return self.shard.stem(name) if self.shard else name

    def file(self, name: str) -> Path:
        """The results file of an adapter."""
        return self.reports / f"{self.stem(name)}.jsonl"

    def _resumed_file(self, name: str) -> Path:
        """A copy, for the processes of this run, of the results that it goes on from."""
        assert self.partial is not None
        return self.partial.folder / "resumed" / f"{name}.jsonl"

    def _header(self, chosen: Chosen) -> Header:
        """The header of an adapter's results, as far as it is known before anything runs."""
        name = chosen.adapter.name
        implementation = chosen.adapter.implementation
        return Header(
            suite=__version__,
            adapter=name,
            variants=tuple(v.id for v in chosen.variants),
            disciplines={v.id: v.model.discipline for v in chosen.variants},
            accuracy={v.id: v.model.accuracy for v in chosen.variants if v.model.accuracy},
            versions=self._versions[name],
            cases=self.selection.hash,
            shard=str(self.shard or ""),
            started=self.started,
            implementation=implementation.function if implementation else "",
            limits=self.selection.limits.named,
        )

    def _selection_in_words(self, cases: int, every_pair: bool) -> str:
        """Which part of the cases ran, by options and, unless `every_pair` did, by their number."""
        options = self.options
        words = [SMOKE] if options.smoke else []
        words += [f"--case {pattern}" for pattern in options.case]
        words += [f"-k {options.keyword}"] if options.keyword else []
        words += ["-m " + options.markexpr] if options.markexpr else []
        words += ["--last-failed"] if getattr(options, "lf", False) else []
        if not every_pair:
            words.append(f"{cases} of {len(self.selection.cases)} cases")
        return ", ".join(words)

    def _is_full(self, every_pair: bool, chosen: Chosen) -> bool:
        """Whether every check of every case and variant was run."""
        return every_pair and chosen.whole and not self._selection_in_words(0, every_pair)
