"""A page for each framework, in Markdown: its modes, what each promises and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from conformance.drivers.adapter import DISCIPLINES
from conformance.judge.outcomes import SIGN
from conformance.report.costs import PROGRAM, PROGRAM_WORDS
from conformance.report.findings import Finding
from conformance.report.markdown import link
from conformance.report.overview import Framework, Mode, frameworks
from conformance.report.page import sentence
from conformance.results import Results
from conformance.words import escape

_HEAD = (
    *("mode", "what it is", "what runs again", "retained", "peak", "how often", "seconds"),
    *("how its cases come out", "worst deviation"),
)


def render(
    results: Sequence[Results],
    titles: Mapping[str, str],
    seconds: Mapping[str, tuple[str, float]] = MappingProxyType({}),
    cases: str = "../../cases",
) -> dict[str, str]:
    """The pages by adapter. `titles` are those of variants (full ids), `cases` is where the cases lie
    from the page."""
    return {
        framework.name: "\n".join(_lines(framework, cases)) + "\n"
        for framework in frameworks(results, titles, seconds)
    }


def _lines(framework: Framework, cases: str) -> Iterator[str]:
    yield f"# {escape(f'{framework.name} {framework.version}'.rstrip())}"
    yield ""
    yield f"{escape(framework.advice)}"
    yield ""
    yield "Made by `conformance frameworks` from runs of that version, never by hand. Memory is a share"
    yield "of that without recompute, between forward and backward (retained) and at the peak; how often"
    yield "an operation of a region runs again is an average; seconds are those of the processor for a"
    yield "step, in multiples of the step without recompute (`benchmarks/seconds.py`)."
    yield f"All of {PROGRAM_WORDS} ({_case(PROGRAM, cases)});"
    yield "a dash is what is not run on it, or not observed there."
    yield ""
    yield f"| {' | '.join(_HEAD)} |"
    yield "|---|---|---|---:|---:|---:|---:|---|---|"
    for mode in framework.modes:
        yield f"| {' | '.join(_cells(mode, cases))} |"
    yield ""
    yield "Question by question: [behaviours](../behaviours.md). How every documented way to recompute"
    yield "is covered: [variants](../variants.md)."


def _cells(mode: Mode, cases: str) -> Iterator[str]:
    yield f"`{escape(mode.name)}`"
    yield escape(mode.title)
    yield escape(DISCIPLINES.get(mode.discipline, mode.discipline))
    for share in (mode.cost.retained, mode.cost.peak):
        yield "–" if share is None else f"{share:.0%}"
    for times in (mode.cost.reruns, mode.cost.seconds):
        yield "–" if times is None else f"{times:.2f}×"
    yield escape(mode.outcome_words)
    yield "none" if mode.worst is None else _finding(mode.worst, cases)


def _finding(finding: Finding, cases: str) -> str:
    said = f"{SIGN[finding.outcome]} {escape(sentence(finding.words))}"
    return f"{said} {_case(finding.example[0], cases)}{link(finding.url)}"


def _case(case: str, cases: str) -> str:
    family = case.partition("/")[0]
    return f"[`{escape(case)}`]({cases}/{family}.yaml)"
