"""`report.md`: the matrix and the deviations, as a forge shows them below a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from conformance.judge.outcomes import SIGN
from conformance.report.data import (
    MARKS,
    DeviationView,
    Report,
    VariantView,
    grouped,
)
from conformance.report.overview import Framework, all_findings, worst
from conformance.report.page import SHORT, web_address
from conformance.words import counted, escape, line

#: Letters of a finding at the top, and of a reason.
_LONGEST, _REASON = 300, 600
#: What may stand in a URL without ending a link or a table's cell.
_IN_URL = ":/?#@!$&'()*+,;=%~-._"


def render(report: Report, frameworks: Sequence[Framework]) -> str:
    """The summary as GitHub-flavoured Markdown; every text from outside is escaped."""
    return "\n".join(_lines(report, frameworks)) + "\n"


def _lines(report: Report, frameworks: Sequence[Framework]) -> Iterator[str]:
    yield "# Recompute conformance"
    yield ""
    yield _headline(report)
    yield ""
    if report.partial:
        yield escape(report.partial)
        yield ""
    yield from _frameworks(frameworks)
    yield from _variants(report)
    yield from _deviations("Unexpected", report.unexpected)
    yield from _comparison(report)
    yield from _known(frameworks)
    yield from _matrix(report)
    yield from _runs(report)


def _headline(report: Report) -> str:
    cases, variants = counted(len(report.cases), "case"), counted(len(report.variants), "variant")
    return f"**{report.headline}** in {cases} on {variants}."


def _frameworks(frameworks: Sequence[Framework]) -> Iterator[str]:
    """Each framework in a sentence, and the worst findings."""
    yield "| framework | how its cases come out |"
    yield "|---|---|"
    for framework in frameworks:
        name = f"{framework.name} {framework.version}".rstrip()
        yield f"| {escape(name)} | {escape(framework.sentence)} |"
    yield ""
    for finding in worst(frameworks):
        where = f"{finding.example[0]} on {finding.example[1]}"
        who = f"{SIGN[finding.outcome]} **{escape(finding.adapter)}**"
        yield f"- {who}: {escape(line(finding.words, _LONGEST))} ({escape(where)})"
    yield ""


def _variants(report: Report) -> Iterator[str]:
    marks = [m for m in MARKS if any(m in variant.marks for variant in report.variants)]
    yield f"| variant | discipline | {' | '.join(marks)} |"
    yield f"|---|---|{'---:|' * len(marks)}"
    for variant in report.variants:
        counts = " | ".join(str(variant.marks.get(mark, "")) for mark in marks)
        yield f"| {escape(variant.id)} | {escape(variant.discipline)} | {counts} |"
    yield ""


def _deviations(title: str, deviations: tuple[DeviationView, ...]) -> Iterator[str]:
    if not deviations:
        return
    yield f"## {title}"
    yield ""
    yield "| case | variants | check | | what | reason |"
    yield "|---|---|---|---|---|---|"
    for deviation in grouped(deviations):
        verdict, known = deviation.verdict, deviation.verdict.known
        reason = escape(known.reason) + link(known.url) if known else ""
        names = ", ".join(deviation.variants)
        words = (deviation.case, names, verdict.check, verdict.mark, verdict.message)
        yield f"| {' | '.join(escape(word) for word in words)} | {reason} |"
    yield ""


def link(url: str) -> str:
    """An address as a link after a sentence; empty for what does not lead to the web."""
    address = web_address(url)
    return f" <{quote(address, safe=_IN_URL)}>" if address else ""


def _comparison(report: Report) -> Iterator[str]:
    counts = ", ".join(f"{n} {status}" for status, n in report.comparison.counts.items())
    yield "## Across variants and frameworks"
    yield ""
    yield f"{counts}."
    yield ""
    for verdict in report.comparison.verdicts:
        for disagreement in verdict.disagreements:
            if disagreement.new:  # what was judged already is counted, and is in the page
                yield f"- **new**: {escape(verdict.case)}: {escape(disagreement.message)}"
    yield ""


def _known(frameworks: Sequence[Framework]) -> Iterator[str]:
    """Known deviations and warnings, each reason once."""
    shown = [finding for finding in all_findings(frameworks) if finding.known]
    if not shown:
        return
    yield "## Known deviations and warnings"
    yield ""
    yield "| | framework | variants | cases | reason |"
    yield "|---|---|---|---|---|"
    for finding in shown:
        variants = ", ".join(name.partition("/")[2] or name for name in finding.variants)
        more = len(finding.cases) - 1
        cases = f"{finding.example[0]}{f' and {more} more' if more else ''}"
        reason = escape(line(finding.words, _REASON)) + link(finding.url)
        words = (finding.outcome.value, finding.adapter, variants, cases)
        yield f"| {' | '.join(escape(word) for word in words)} | {reason} |"
    yield ""


def _matrix(report: Report) -> Iterator[str]:
    yield "<details><summary>Matrix of cases and variants</summary>"
    yield ""
    yield f"| case | {' | '.join(_heading(variant) for variant in report.variants)} |"
    yield f"|---|{'---|' * len(report.variants)}"
    for case in report.cases:
        cells = (case.cells.get(variant.id) for variant in report.variants)
        words = " | ".join(SHORT[cell.mark] if cell else "" for cell in cells)
        yield f"| {escape(case.id)} | {words} |"
    yield ""
    yield "</details>"
    yield ""


def _heading(variant: VariantView) -> str:
    return escape(variant.id).replace("/", "/<br>", 1)


def _runs(report: Report) -> Iterator[str]:
    yield "| adapter | versions | seconds |"
    yield "|---|---|---|"
    for adapter in report.adapters:
        versions = ", ".join(f"{name} {version}" for name, version in adapter.versions.items())
        seconds = ", ".join(f"{stage} {spent:.1f}" for stage, spent in adapter.seconds.items())
        yield f"| {escape(adapter.name)} | {escape(versions)} | {escape(seconds)} |"
