"""docs/behaviours.md, and the table in README.md: what each implementation does, question by question.

python tools/behaviours.py [reports]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.errors import ResultsError
from conformance.judge.outcomes import MEANING, SIGN, Outcome
from conformance.model.result import Results
from conformance.report.overview import Framework, Mode, frameworks
from conformance.report.questions import QUESTIONS, Answer, Question
from tools.shared import ROOT, background, main

BEGIN, END = "<!-- behaviours -->", "<!-- end -->"


def pages(results: Sequence[Results]) -> Mapping[str, str]:
    """The page, and README with its table made anew."""
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = with_modes(results)
    return {
        "docs/behaviours.md": render(shown),
        "README.md": put_into(readme, first_variants(shown)),
    }


def with_modes(results: Sequence[Results]) -> list[Framework]:
    """The frameworks of some results that have a mode."""
    return [framework for framework in frameworks(results, background()) if framework.modes]


def render(shown: Sequence[Framework]) -> str:
    """The page, in Markdown, of one or several frameworks."""
    return "\n".join(_lines(shown)) + "\n"


def first_variants(shown: Sequence[Framework]) -> str:
    """README's table, in Markdown: the first variant of each framework, the `brief` questions alone."""
    return "\n".join(_firsts(shown, [q for q in QUESTIONS if q.brief])) + "\n"


def put_into(page: str, table: str) -> str:
    """The page with the text between the comments `BEGIN` and `END` replaced by the table.

    Raises `ResultsError` where the page lacks one of the comments.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ResultsError(f"the page has no {BEGIN} followed by {END}", hint="put them in")
    return f"{before}{begin}\n\n{table}\n{end}{after}"


def _lines(frameworks: Sequence[Framework]) -> Iterator[str]:
    yield "# Behaviours"
    yield ""
    yield "The answers of every mode to each question, from runs of the versions named below. An answer"
    yield "is the most severe outcome among the cases of its question, known deviations included. A mode"
    yield "that a cell does not name was not run. `tools/behaviours.py` makes this page."
    yield ""
    for outcome in (o for o in MEANING if o is not Outcome.BROKEN):
        yield f"- {SIGN[outcome]} {outcome.value}: {MEANING[outcome]}"
    yield ""
    if len(frameworks) > 1:
        yield "## The first mode of each framework"
        yield ""
        yield from _firsts(frameworks)
    yield "## All modes"
    yield ""
    yield ", ".join(f"{f.name} {f.version}".rstrip() for f in frameworks)
    yield ""
    yield "| question | answers |"
    yield "|---|---|"
    for number, question in enumerate(QUESTIONS):
        cases = ", ".join(f"`{case}`" for case in question.cases)
        lines = (f"**{f.name}** {_by_answer(f.modes, number)}" for f in frameworks)
        yield f"| **{question.title}** {question.asks} {cases} | {'<br>'.join(lines)} |"


def _by_answer(modes: Sequence[Mode], number: int) -> str:
    """The answers of a framework to a question, each with the modes that give it."""
    found: dict[str, list[str]] = {}
    for mode in modes:
        found.setdefault(mode.answers[number].text, []).append(f"`{mode.name}`")
    if len(found) > 1:
        found.pop(Answer(Outcome.NOT_RUN, Outcome.NOT_RUN.value).text, None)
    parts = (
        f"{answer}: {'all' if len(names) == len(modes) > 1 else ', '.join(names)}"
        for answer, names in found.items()
    )
    return "; ".join(parts)


def _firsts(
    frameworks: Sequence[Framework], questions: Sequence[Question] = QUESTIONS
) -> Iterator[str]:
    """A table of the first variant of each framework.

    The reference is no framework, and is left out unless it is alone.
    """
    shown = [framework for framework in frameworks if not framework.is_reference] or frameworks
    firsts = [(f"{f.name}<br>{f.modes[0].name}", f.modes[0]) for f in shown]
    yield from _table(firsts, questions)


def _table(
    columns: Sequence[tuple[str, Mode]], questions: Sequence[Question] = QUESTIONS
) -> Iterator[str]:
    """A table of answers, a row for each question."""
    yield f"| | {' | '.join(heading for heading, _ in columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for question in questions:
        number = QUESTIONS.index(question)
        cells = " | ".join(mode.answers[number].text for _, mode in columns)
        yield f"| {question.title} | {cells} |"
    yield ""


if __name__ == "__main__":
    main(pages, __doc__)
