"""The report as values: what `report.json.gz` holds, and what page and summary are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Literal

import msgspec
from msgspec import Struct

from conformance.compare import Comparison, CrossStatus, CrossVerdict
from conformance.model.case import Case
from conformance.model.verdict import KnownNote, Status, Verdict
from conformance.report.growth import Chart, charts
from conformance.results import SMOKE, Result, Results, codec
from conformance.words import counted

FORMAT = 5
#: A verdict's status, or `known` for a deviation that was known beforehand; the worst first. What
#: is only recorded judges nothing, so that a pass beside it is what a cell shows.
Mark = Literal[
    "broken", "crashed", "timeout", "fail", "known", "warn", "pass", "report", "unsupported"
]
MARKS: Mapping[Mark, str] = {
    "broken": "the suite or the adapter is at fault, never the framework",
    "crashed": "the process died",
    "timeout": "no answer within the time limit",
    "fail": "observed wrong, and not known before",
    "known": "a deviation that was known beforehand; its reason is given",
    "warn": "a SHOULD that does not hold",
    "pass": "observed right",
    "report": "left to the implementation, or less than the observer can tell; the value is recorded",
    "unsupported": "the variant does not offer a capability that the case needs",
}
#: Marks that make a run's outcome unexpected.
UNEXPECTED: frozenset[Mark] = frozenset({"broken", "crashed", "timeout", "fail"})


class _View(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value of `report.json.gz`; it is written with all its fields, default or not."""


class VerdictView(
    Verdict, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False
):
    """A verdict with its mark."""

    mark: Mark


class CellView(_View, frozen=True):
    """One case on one variant; `mark` is the worst of its verdicts."""

    mark: Mark
    verdicts: list[VerdictView]
    #: Path of the emitted program, relative to the reports' folder.
    program: str


class CaseView(_View, frozen=True):
    """A case, with a cell for each variant (full id) that it ran on."""

    id: str
    family: str
    title: str
    source: str
    why: str
    where: str
    cells: dict[str, CellView]


class VariantView(_View, frozen=True):
    """A variant; `marks` counts its cases by the worst of their verdicts."""

    id: str
    name: str
    discipline: str
    marks: dict[Mark, int]


class AdapterView(_View, frozen=True):
    """An adapter's run."""

    name: str
    suite: str
    variants: list[VariantView]
    versions: dict[str, str]
    platform: str
    started: str
    selection: str
    implementation: str
    results: int
    #: Verdicts of each status.
    statuses: dict[Status, int]
    seconds: dict[str, float]
    #: What ended the run before it had all results; empty where it has them.
    interrupted: str = ""

    @property
    def framework(self) -> str:
        """The version that a reader looks for first: that of the framework, else of NumPy."""
        packages = [v for k, v in self.versions.items() if k not in ("python", "numpy")]
        numpy = self.versions.get("numpy")
        return packages[0] if packages else f"NumPy {numpy}" if numpy else ""


class DeviationView(_View, frozen=True):
    """A verdict that deviates, or a fault of the suite, with its case and variant."""

    case: str
    variant: str
    verdict: VerdictView


class DeviationGroup(_View, frozen=True):
    """Variants with the same deviating verdict on a case."""

    case: str
    variants: list[str]
    verdict: VerdictView


class UnsupportedView(_View, frozen=True):
    """Cases that a variant does not support, all for one reason."""

    variant: str
    message: str
    capabilities: str
    cases: list[str]


class ComparisonView(_View, frozen=True):
    """The comparison across variants and frameworks.

    In a verdict's `absent`, variants are left out whose own verdict on the case gives the same reason.
    """

    ok: bool
    counts: dict[CrossStatus, int]
    verdicts: tuple[CrossVerdict, ...]


class Report(_View, frozen=True):
    """The whole report. `ok` is false where a deviation or a disagreement is unexpected."""

    format: int
    ok: bool
    cases_hash: str
    adapters: list[AdapterView]
    cases: list[CaseView]
    deviations: list[DeviationView]
    unsupported: list[UnsupportedView]
    #: What grows with depth, and the law beside it.
    growth: list[Chart]
    comparison: ComparisonView

    @property
    def variants(self) -> tuple[VariantView, ...]:
        """All variants, adapter by adapter."""
        return tuple(variant for adapter in self.adapters for variant in adapter.variants)

    @property
    def headline(self) -> str:
        """How much is unexpected, in a line."""
        if self.ok:
            return "Nothing unexpected"
        new = self.comparison.counts[CrossStatus.DISAGREE]
        return (
            f"{counted(len(self.unexpected), 'unexpected verdict')}, "
            f"{counted(new, 'new disagreement')}"
        )

    @property
    def partial(self) -> str:
        """Which adapters ran only some of the cases, or were interrupted, in a line; empty where all
        ran all cases."""
        cut_off = [f"{a.name} ({a.interrupted})" for a in self.adapters if a.interrupted]
        sentences = [f"Not finished: {', '.join(cut_off)}."] if cut_off else []
        selected = self._selected()
        return " ".join([*sentences, selected] if selected else sentences)

    def _selected(self) -> str:
        parts = [adapter for adapter in self.adapters if adapter.selection]
        if not parts:
            return ""
        smoke = all(adapter.selection.startswith(SMOKE) for adapter in parts)
        run_kind = "The smoke cases" if smoke else "A part"
        selections: dict[str, list[str]] = {}
        for adapter in parts:
            selections.setdefault(adapter.selection, []).append(adapter.name)
        selections_text = "; ".join(
            f"{', '.join(names)} ({which})" for which, names in selections.items()
        )
        return f"{run_kind}, not the whole suite: {selections_text}."

    @property
    def unexpected(self) -> tuple[DeviationView, ...]:
        """Deviations that are not known, and faults of the suite."""
        return tuple(d for d in self.deviations if d.verdict.mark in UNEXPECTED)


def grouped(deviations: Iterable[DeviationView]) -> list[DeviationGroup]:
    """Deviations that differ only in the variant, put together, in the order of the first of each."""
    groups: dict[tuple[str, ...], DeviationGroup] = {}
    for deviation in deviations:
        verdict = deviation.verdict
        known = verdict.known or KnownNote("", "")
        words = (verdict.check, verdict.mark, verdict.message, known.reason, known.url)
        key = (deviation.case, *words)
        if key in groups:
            groups[key].variants.append(deviation.variant)
        else:
            groups[key] = DeviationGroup(
                case=deviation.case, variants=[deviation.variant], verdict=verdict
            )
    return list(groups.values())


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `report.json.gz`, unpacked."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(Report),
    }


def build(results: Sequence[Results], cases: Sequence[Case], comparison: Comparison) -> Report:
    """The report on results; cases without a result are left out."""
    by_id = {case.id: case for case in cases}
    by_case: dict[str, dict[str, Result]] = {}
    for file in results:
        for result in file.results:
            by_case.setdefault(result.case, {})[result.variant] = result
    order = [*(i for i in by_id if i in by_case), *(i for i in by_case if i not in by_id)]
    case_views = [case_view(id_, by_id.get(id_), by_case[id_]) for id_ in order]
    deviations = [
        DeviationView(case=case.id, variant=variant, verdict=verdict)
        for case in case_views
        for variant, cell in case.cells.items()
        for verdict in cell.verdicts
        if verdict.status.deviates or verdict.status is Status.BROKEN
    ]
    deviations.sort(key=lambda deviation: tuple(MARKS).index(deviation.verdict.mark))
    unexpected = any(deviation.verdict.mark in UNEXPECTED for deviation in deviations)
    return Report(
        format=FORMAT,
        ok=not unexpected and comparison.ok,
        cases_hash=results[0].header.cases if results else "",
        adapters=[adapter_view(file, case_views) for file in results],
        cases=case_views,
        deviations=deviations,
        unsupported=_unsupported(case_views),
        growth=charts(cases, by_case),
        comparison=comparison_view(comparison, case_views),
    )


def mark_of(verdict: Verdict) -> Mark:
    """A verdict's status, or `known` for a deviation with a note."""
    if verdict.status.deviates and verdict.known is not None:
        return "known"
    return verdict.status.value


def worst(marks: Iterable[Mark]) -> Mark:
    """The mark that a cell shows: `pass` where no verdict was given."""
    return min(marks, key=tuple(MARKS).index, default="pass")


def case_view(id_: str, case: Case | None, results: Mapping[str, Result]) -> CaseView:
    """A case with its cells."""
    where = ""
    if case is not None:
        file = PurePath(case.where.file)
        where = f"{'/'.join(file.parts[-2:])}:{case.where.line}"
    return CaseView(
        id=id_,
        family=id_.split("/", 1)[0],
        title=case.title if case else "",
        source=case.source if case else "",
        why=case.why if case else "",
        where=where,
        cells={variant: _cell(result) for variant, result in results.items()},
    )


def _cell(result: Result) -> CellView:
    verdicts = [_verdict(verdict) for verdict in result.verdicts]
    mark: Mark = worst(verdict.mark for verdict in verdicts) if verdicts else "broken"
    return CellView(mark=mark, verdicts=verdicts, program=result.program)


def _verdict(verdict: Verdict) -> VerdictView:
    mark = mark_of(verdict)
    known = verdict.known if mark == "known" else None
    return VerdictView(**msgspec.structs.asdict(verdict) | {"mark": mark, "known": known})


def adapter_view(file: Results, cases: Sequence[CaseView]) -> AdapterView:
    """An adapter's run, with the marks of each variant counted over the cases."""
    header = file.header
    variants = []
    for id_ in header.variants:
        marks = Counter(case.cells[id_].mark for case in cases if id_ in case.cells)
        variants.append(
            VariantView(
                id=id_,
                name=id_.partition("/")[2] or id_,
                discipline=header.disciplines.get(id_, ""),
                marks={mark: marks[mark] for mark in MARKS if marks[mark]},
            )
        )
    return AdapterView(
        name=header.adapter,
        suite=header.suite,
        variants=variants,
        versions={k: v for k, v in header.versions.items() if k != "platform"},
        platform=header.versions.get("platform", ""),
        started=header.started,
        selection=header.selection,
        interrupted=header.interrupted,
        implementation=header.implementation,
        results=file.footer.results,
        statuses=dict(file.footer.statuses),
        seconds=dict(file.footer.seconds),
    )


def _unsupported(cases: Sequence[CaseView]) -> list[UnsupportedView]:
    cases_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        for variant, cell in case.cells.items():
            for verdict in cell.verdicts:
                if verdict.status is Status.UNSUPPORTED:
                    key = (variant, verdict.message, verdict.expected)
                    cases_by_reason.setdefault(key, []).append(case.id)
    return [
        UnsupportedView(variant=variant, message=message, capabilities=capabilities, cases=ids)
        for (variant, message, capabilities), ids in sorted(cases_by_reason.items())
    ]


def comparison_view(comparison: Comparison, cases: Sequence[CaseView]) -> ComparisonView:
    """A comparison for the report, without the reasons that a case's own verdicts give already."""
    verdict_texts = {
        (case.id, variant, f"{verdict.status}: {verdict.message}")
        for case in cases
        for variant, cell in case.cells.items()
        for verdict in cell.verdicts
    }
    verdicts = tuple(
        replace(
            verdict,
            absent={
                v: why
                for v, why in verdict.absent.items()
                if (verdict.case, v, why) not in verdict_texts
            },
        )
        for verdict in comparison.verdicts
    )
    return ComparisonView(ok=comparison.ok, counts=dict(comparison.counts), verdicts=verdicts)


def to_json(report: Report) -> str:
    """The text of `report.json.gz`, unpacked."""
    return codec.to_json(report).decode() + "\n"
