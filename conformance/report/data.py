"""The report as values: what `report.json` holds, and what page and summary are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from conformance.compare import Comparison, CrossStatus
from conformance.model.case import Case
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.report.growth import Chart, charts
from conformance.results import SMOKE, Result, Results
from conformance.words import counted

FORMAT = 2
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


class _View(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_serialization_defaults_required=True
    )


class KnownView(_View):
    """Why a deviation was expected."""

    reason: str
    url: str


class VerdictView(_View):
    """The judgement of one check."""

    check: str
    mark: Mark
    status: Status
    level: Level
    message: str
    expected: str
    observed: str
    method: str
    known: KnownView | None


class CellView(_View):
    """One case on one variant; `mark` is the worst of its verdicts."""

    mark: Mark
    verdicts: list[VerdictView]
    program: str = Field(
        description="Path of the emitted program, relative to the reports' folder."
    )


class CaseView(_View):
    """A case and how every variant that it ran on did."""

    id: str
    family: str
    title: str
    source: str
    why: str
    where: str
    cells: dict[str, CellView]


class VariantView(_View):
    """A variant; `marks` counts its cases by the worst of their verdicts."""

    id: str
    name: str
    discipline: str
    marks: dict[Mark, int]


class AdapterView(_View):
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
    statuses: dict[Status, int] = Field(description="Verdicts of each status.")
    seconds: dict[str, float]

    @property
    def framework(self) -> str:
        """The version that a reader looks for first: that of the framework, else of NumPy."""
        packages = [v for k, v in self.versions.items() if k not in ("python", "numpy")]
        numpy = self.versions.get("numpy")
        return packages[0] if packages else f"NumPy {numpy}" if numpy else ""


class DeviationView(_View):
    """A departure from conformance, or a fault of the suite."""

    case: str
    variant: str
    verdict: VerdictView


class DeviationGroup(_View):
    """Variants that deviate from one case in one way."""

    case: str
    variants: list[str]
    verdict: VerdictView


class UnsupportedView(_View):
    """Cases that a variant does not support, all for one reason."""

    variant: str
    message: str
    capabilities: str
    cases: list[str]


class GroupView(_View):
    """Variants that agree; `expectation` may stand among them."""

    members: list[str]
    value: str


class DisagreementView(_View):
    """Variants that disagree with others; `judged` says whose own checks failed already."""

    variants: list[str]
    against: list[str]
    message: str
    judged: dict[str, str]
    new: list[str]


class CrossView(_View):
    """One thing that variants were compared on."""

    case: str
    check: str
    subject: str
    status: CrossStatus
    message: str
    groups: list[GroupView]
    disagreements: list[DisagreementView]
    absent: dict[str, str]


class ComparisonView(_View):
    """The comparison across variants and frameworks."""

    ok: bool
    counts: dict[CrossStatus, int]
    verdicts: list[CrossView]


class Report(_View):
    """The whole report. `ok` says that nothing unexpected was found."""

    format: int = FORMAT
    ok: bool
    cases_hash: str
    adapters: list[AdapterView]
    cases: list[CaseView]
    deviations: list[DeviationView]
    unsupported: list[UnsupportedView]
    growth: list[Chart] = Field(description="What grows with depth, and the law beside it.")
    comparison: ComparisonView

    @property
    def variants(self) -> tuple[VariantView, ...]:
        """All variants, adapter by adapter."""
        return tuple(variant for adapter in self.adapters for variant in adapter.variants)

    @property
    def headline(self) -> str:
        """What is unexpected, in a line."""
        if self.ok:
            return "Nothing unexpected"
        new = self.comparison.counts[CrossStatus.DISAGREE]
        return (
            f"{counted(len(self.unexpected), 'unexpected verdict')}, "
            f"{counted(new, 'new disagreement')}"
        )

    @property
    def partial(self) -> str:
        """Which adapters ran a part of the cases only, in a line; empty where all ran everything."""
        parts = [adapter for adapter in self.adapters if adapter.selection]
        if not parts:
            return ""
        smoke = all(adapter.selection.startswith(SMOKE) for adapter in parts)
        what = "A smoke selection" if smoke else "A part"
        said = "; ".join(f"{adapter.name} ({adapter.selection})" for adapter in parts)
        return f"{what}, not the whole suite: {said}."

    @property
    def unexpected(self) -> tuple[DeviationView, ...]:
        """Deviations that nobody knew of, and faults of the suite."""
        return tuple(d for d in self.deviations if d.verdict.mark in UNEXPECTED)


def grouped(deviations: Iterable[DeviationView]) -> list[DeviationGroup]:
    """Deviations of which only the variant differs, put together; the worst first."""
    found: dict[tuple[str, str, str, str, str, str], DeviationGroup] = {}
    for deviation in deviations:
        verdict, known = deviation.verdict, deviation.verdict.known or KnownView(reason="", url="")
        key = (
            deviation.case,
            verdict.check,
            verdict.mark,
            verdict.message,
            known.reason,
            known.url,
        )
        if key in found:
            found[key].variants.append(deviation.variant)
        else:
            found[key] = DeviationGroup(
                case=deviation.case, variants=[deviation.variant], verdict=verdict
            )
    return list(found.values())


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `report.json`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Report.model_json_schema(mode="serialization"),
    }


def build(results: Sequence[Results], cases: Sequence[Case], comparison: Comparison) -> Report:
    """The report on these results; cases that ran on no variant are left out."""
    by_id = {case.id: case for case in cases}
    found: dict[str, dict[str, Result]] = {}
    for file in results:
        for result in file.results:
            found.setdefault(result.case, {})[result.variant] = result
    order = [*(i for i in by_id if i in found), *(i for i in found if i not in by_id)]
    listed = [case_view(id_, by_id.get(id_), found[id_]) for id_ in order]
    deviations = [
        DeviationView(case=case.id, variant=variant, verdict=verdict)
        for case in listed
        for variant, cell in case.cells.items()
        for verdict in cell.verdicts
        if verdict.status.deviates or verdict.status is Status.BROKEN
    ]
    deviations.sort(key=lambda deviation: tuple(MARKS).index(deviation.verdict.mark))
    unexpected = any(deviation.verdict.mark in UNEXPECTED for deviation in deviations)
    return Report(
        ok=not unexpected and comparison.ok,
        cases_hash=results[0].header.cases if results else "",
        adapters=[adapter_view(file, listed) for file in results],
        cases=listed,
        deviations=deviations,
        unsupported=_unsupported(listed),
        growth=charts(cases, found),
        comparison=comparison_view(comparison),
    )


def mark_of(verdict: Verdict, note: KnownNote | None) -> Mark:
    """A verdict's status, or `known` for a deviation with a note."""
    if verdict.status.deviates and note is not None:
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
    verdicts = [_verdict(verdict, result.note(verdict.check)) for verdict in result.verdicts]
    mark: Mark = worst(verdict.mark for verdict in verdicts) if verdicts else "broken"
    return CellView(mark=mark, verdicts=verdicts, program=result.program)


def _verdict(verdict: Verdict, note: KnownNote | None) -> VerdictView:
    mark = mark_of(verdict, note)
    return VerdictView(
        check=verdict.check,
        mark=mark,
        status=verdict.status,
        level=verdict.level,
        message=verdict.message,
        expected=verdict.expected,
        observed=verdict.observed,
        method=verdict.method,
        known=KnownView(reason=note.reason, url=note.url) if note and mark == "known" else None,
    )


def adapter_view(file: Results, cases: Sequence[CaseView]) -> AdapterView:
    """An adapter's run, with the marks of each variant counted over the cases."""
    header = file.header
    variants = []
    for id_ in header.variants:
        found = Counter(case.cells[id_].mark for case in cases if id_ in case.cells)
        variants.append(
            VariantView(
                id=id_,
                name=id_.partition("/")[2] or id_,
                discipline=header.disciplines.get(id_, ""),
                marks={mark: found[mark] for mark in MARKS if found[mark]},
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
        implementation=header.implementation,
        results=file.footer.results,
        statuses=dict(file.footer.statuses),
        seconds=dict(file.footer.seconds),
    )


def _unsupported(cases: Sequence[CaseView]) -> list[UnsupportedView]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        for variant, cell in case.cells.items():
            for verdict in cell.verdicts:
                if verdict.status is Status.UNSUPPORTED:
                    key = (variant, verdict.message, verdict.expected)
                    found.setdefault(key, []).append(case.id)
    return [
        UnsupportedView(variant=variant, message=message, capabilities=capabilities, cases=ids)
        for (variant, message, capabilities), ids in sorted(found.items())
    ]


def comparison_view(comparison: Comparison) -> ComparisonView:
    """A comparison as JSON values."""
    return ComparisonView(
        ok=comparison.ok,
        counts=dict(comparison.counts),
        verdicts=[
            CrossView(
                case=v.case,
                check=v.check,
                subject=v.subject,
                status=v.status,
                message=v.message,
                groups=[GroupView(members=list(g.members), value=g.value) for g in v.groups],
                disagreements=[
                    DisagreementView(
                        variants=list(d.variants),
                        against=list(d.against),
                        message=d.message,
                        judged=dict(d.judged),
                        new=list(d.new),
                    )
                    for d in v.disagreements
                ],
                absent=dict(v.absent),
            )
            for v in comparison.verdicts
        ],
    )
