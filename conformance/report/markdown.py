"""`report.md`: the views of the report that a forge can show below a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.judge.outcomes import SIGN, of_result
from conformance.report.findings import Finding
from conformance.report.overview import BAR, Report, worst
from conformance.report.questions import QUESTIONS
from conformance.report.text import link
from conformance.words import counted, escape, line

#: Characters of a finding at the top, and of a reason.
_LONGEST, _REASON = 300, 600


def render(report: Report) -> str:
    """The report as GitHub-flavoured Markdown; every text from outside is escaped."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    cases, variants = counted(len(report.by_case), "case"), counted(len(report.modes), "variant")
    yield "# Recompute conformance"
    yield ""
    yield f"**{report.headline}** in {cases} on {variants}."
    yield ""
    if report.partial:
        yield escape(report.partial)
        yield ""
    yield from _frameworks(report)
    yield from _wrong(report)
    yield from _behaviours(report)
    yield from _cases(report)


def _frameworks(report: Report) -> Iterator[str]:
    """Each framework in a sentence, the outcomes of its variants, and versions."""
    yield "## Frameworks"
    yield ""
    yield "| framework | how its cases come out | versions |"
    yield "|---|---|---|"
    for framework in report.frameworks:
        name = f"{framework.name} {framework.version}".rstrip()
        versions = ", ".join(f"{k} {v}" for k, v in framework.header.versions.items())
        words = (name, framework.sentence, versions)
        yield f"| {' | '.join(map(escape, words))} |"
    yield ""
    shown = [o for o in BAR if any(mode.tally.outcomes[o] for mode in report.modes)]
    yield f"| variant | discipline | {' | '.join(f'{SIGN[o]} {o.value}' for o in shown)} |"
    yield f"|---|---|{'---:|' * len(shown)}"
    for mode in report.modes:
        counts = " | ".join(str(mode.tally.outcomes[o] or "") for o in shown)
        yield f"| {escape(mode.id)} | {escape(mode.discipline)} | {counts} |"
    yield ""


def _wrong(report: Report) -> Iterator[str]:
    """What is unexpected, the worst findings, and all that are known."""
    if not report.ok:
        yield "## Unexpected"
        yield ""
        yield from _findings(report.unexpected)
        for verdict, disagreement in report.comparison.disagreements:
            if disagreement.new:
                yield f"- {escape(verdict.case)}: {escape(disagreement.message)}"
        yield ""
    yield "## What goes wrong"
    yield ""
    for finding in worst(report.frameworks):
        where = f"{finding.example[0]} on {finding.example[1]}"
        who = f"{SIGN[finding.outcome]} **{escape(finding.adapter)}**"
        yield f"- {who}: {escape(line(finding.words, _LONGEST))} ({escape(where)})"
    yield ""
    yield f"{report.comparison.summary}."
    yield ""
    yield from _findings([finding for finding in report.findings if finding.known])


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        return
    yield "| outcome | framework | variants | cases | what is wrong |"
    yield "|---|---|---|---|---|"
    for finding in findings:
        variants = ", ".join(name.partition("/")[2] or name for name in finding.variants)
        more = len(finding.cases) - 1
        cases = f"{finding.example[0]}{f' and {more} more' if more else ''}"
        outcome = f"{SIGN[finding.outcome]} {finding.outcome.value}"
        words = (finding.adapter, variants, cases, line(finding.words, _REASON))
        yield f"| {outcome} | {' | '.join(map(escape, words))}{link(finding.url)} |"
    yield ""


def _behaviours(report: Report) -> Iterator[str]:
    """How the first variant of each framework answers."""
    firsts = [(f.name, f.modes[0]) for f in report.frameworks if f.modes]
    yield "## Behaviours"
    yield ""
    yield f"| | {' | '.join(f'{escape(name)}<br>{escape(mode.name)}' for name, mode in firsts)} |"
    yield f"|---|{'---|' * len(firsts)}"
    for number, question in enumerate(QUESTIONS):
        yield f"| {question.title} | {' | '.join(mode.answers[number].text for _, mode in firsts)} |"
    yield ""


def _cases(report: Report) -> Iterator[str]:
    """A row for each case, a column for each variant."""
    signs = (f"{sign} {outcome.value}" for outcome, sign in SIGN.items())
    yield "<details><summary>Cases</summary>"
    yield ""
    yield f"{', '.join(signs)}. Empty: no result."
    yield ""
    yield f"| case | {' | '.join(escape(m.id).replace('/', '/<br>', 1) for m in report.modes)} |"
    yield f"|---|{'---|' * len(report.modes)}"
    for case, results in report.by_case.items():
        found = (results.get(mode.id) for mode in report.modes)
        signs_of = (SIGN[of_result(result)] if result else "" for result in found)
        yield f"| {escape(case)} | {' | '.join(signs_of)} |"
    yield ""
    yield "</details>"
