"""docs/frameworks/*.md: the modes of each framework, what each promises and what it costs.

python tools/frameworks.py [reports]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.drivers.adapter import DISCIPLINES
from conformance.judge.outcomes import SIGN
from conformance.model.result import Results
from conformance.report.costs import PROGRAM, PROGRAM_WORDS
from conformance.report.findings import Finding
from conformance.report.overview import Framework, Mode, frameworks
from conformance.report.text import link, sentence
from conformance.words import escape
from tools.shared import background, main

_HEAD = (
    *("mode", "what it is", "what runs again", "retained", "peak", "how often", "seconds"),
    *("how its cases come out", "worst deviation"),
)


def pages(results: Sequence[Results]) -> Mapping[str, str]:
    """A page for each adapter with results."""
    found = frameworks(results, background())
    return {f"docs/frameworks/{framework.name}.md": render(framework) for framework in found}


def render(framework: Framework) -> str:
    """The page of a framework, in Markdown."""
    return "\n".join(_lines(framework)) + "\n"


def _lines(framework: Framework) -> Iterator[str]:
    yield f"# {escape(f'{framework.name} {framework.version}'.rstrip())}"
    yield ""
    yield "Made by `tools/frameworks.py` from runs of that version, never by hand. Memory is a share"
    yield "of that without recompute, between forward and backward (retained) and at the peak; how often"
    yield "an operation of a region runs again is an average; seconds are those of the processor for a"
    yield "step, in multiples of the step without recompute (`benchmarks/seconds.py`)."
    yield f"All of {PROGRAM_WORDS} ({_case(PROGRAM)});"
    yield "a dash is what is not run on it, or not observed there."
    yield ""
    yield f"| {' | '.join(_HEAD)} |"
    yield "|---|---|---|---:|---:|---:|---:|---|---|"
    for mode in framework.modes:
        yield f"| {' | '.join(_cells(mode))} |"
    yield ""
    yield "Question by question: [behaviours](../behaviours.md). How every documented way to recompute"
    yield "is covered: [variants](../variants.md)."


def _cells(mode: Mode) -> Iterator[str]:
    yield f"`{escape(mode.name)}`"
    yield escape(mode.title)
    yield escape(DISCIPLINES.get(mode.discipline, mode.discipline))
    for share in (mode.cost.retained, mode.cost.peak):
        yield "–" if share is None else f"{share:.0%}"
    for times in (mode.cost.reruns, mode.cost.seconds):
        yield "–" if times is None else f"{times:.2f}×"
    yield escape(mode.tally.words)
    yield "none" if mode.worst is None else _finding(mode.worst)


def _finding(finding: Finding) -> str:
    said = f"{SIGN[finding.outcome]} {escape(sentence(finding.note.reason))}"
    return f"{said} {_case(finding.example[0])}{link(finding.note.url)}"


def _case(case: str) -> str:
    family = case.partition("/")[0]
    return f"[`{escape(case)}`](../../cases/{family}.yaml)"


if __name__ == "__main__":
    main(pages, __doc__)
