"""What each implementation does, question by question: a page in Markdown, and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich import box
from rich.table import Table

from conformance.errors import ResultsError
from conformance.judge.outcomes import MEANING, SIGN, Outcome
from conformance.report.overview import Framework, Mode, described, frameworks
from conformance.report.questions import QUESTIONS, Answer, Question
from conformance.results import Results
from conformance.words import escape

T = TypeVar("T")
#: Variants in one table of the page; more columns do not fit.
_COLUMNS = 8
#: Widths in a terminal, in characters: of the column of questions, and of a variant's column.
_QUESTION_WIDTH, _VARIANT_WIDTH = 28, 19
_STYLES = {
    Outcome.RIGHT: "green",
    Outcome.WARNS: "green",
    Outcome.COSTS: "yellow",
    Outcome.INERT: "magenta",
    Outcome.RAISES: "yellow",
    Outcome.WRONG: "bold red",
    Outcome.BROKEN: "reverse",
}


def _batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def render(results: Sequence[Results]) -> str:
    """The page `docs/behaviours.md`, in Markdown, from the results of one or several adapters."""
    return "\n".join(_lines(frameworks(results))) + "\n"


BEGIN, END = "<!-- behaviours -->", "<!-- end -->"


def first_variants(results: Sequence[Results]) -> str:
    """README's table, in Markdown: the first variant of each framework, the `brief` questions alone."""
    shown = [f for f in frameworks(results) if f.modes]
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


def _firsts(
    frameworks: Sequence[Framework], questions: Sequence[Question] = QUESTIONS
) -> Iterator[str]:
    """A table of the first variant of each framework.

    The reference is no framework, and is left out unless it is alone.
    """
    shown = [framework for framework in frameworks if not framework.is_reference] or frameworks
    pairs = [(framework.name, framework.modes[0]) for framework in shown]
    yield from _table([(f"{name}<br>{mode.name}", mode) for name, mode in pairs], questions)


def _lines(frameworks: Sequence[Framework]) -> Iterator[str]:
    yield "# Behaviours"
    yield ""
    yield "What each implementation does, question by question, as it was seen in runs of the versions"
    yield "named below. Made by `conformance behaviours`, never by hand. An answer is the gravest among"
    yield "the cases of its question, whether or not the deviation was known."
    yield ""
    for outcome in (o for o in MEANING if o is not Outcome.BROKEN):
        yield f"- {SIGN[outcome]} {outcome.value}: {MEANING[outcome]}"
    yield ""
    with_results = [framework for framework in frameworks if framework.modes]
    if len(with_results) > 1:
        yield "## The first variant of each framework"
        yield ""
        yield from _firsts(with_results)
    for framework in with_results:
        yield f"## {framework.name} {framework.version}".rstrip()
        yield ""
        yield from _variants(framework)
        yield from _table([(mode.name, mode) for mode in framework.modes])
    yield "## What is asked"
    yield ""
    for question in QUESTIONS:
        cases = ", ".join(f"`{case}`" for case in question.cases)
        yield f"- **{question.title}**: {question.asks} {cases}"


def _variants(framework: Framework) -> Iterator[str]:
    """A table with a row for each variant: the tally of its cases, and its gravest finding."""
    yield "| variant | how its cases come out | gravest finding |"
    yield "|---|---|---|"
    for mode in framework.modes:
        worst = "none"
        if mode.worst:
            text = escape(" ".join(mode.worst.words.split()))
            worst = f"{SIGN[mode.worst.outcome]} {text}"
            if mode.worst.url.startswith("https://"):
                worst += f" <{mode.worst.url}>"
        yield f"| `{mode.name}` | {described(mode.tally)} | {worst} |"
    yield ""


def _table(
    columns: Sequence[tuple[str, Mode]], questions: Sequence[Question] = QUESTIONS
) -> Iterator[str]:
    """Tables of answers, a row for each question, with at most `_COLUMNS` variants in each."""
    for part in _batched(columns, _COLUMNS):
        yield f"| | {' | '.join(heading for heading, _ in part)} |"
        yield f"|---|{'---|' * len(part)}"
        for number, question in enumerate(QUESTIONS):
            if question not in questions:
                continue
            cells = " | ".join(mode.answers[number].text for _, mode in part)
            yield f"| {question.title} | {cells} |"
        yield ""


def tables(results: Sequence[Results], width: int) -> Iterator[Table]:
    """The answers of all variants as tables for a terminal of `width` characters."""
    columns = max(1, (width - _QUESTION_WIDTH) // _VARIANT_WIDTH)
    for framework in frameworks(results):
        for part in _batched(framework.modes, columns):
            title = f"{framework.name} {framework.version}".rstrip()
            table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
            table.add_column("", no_wrap=True)
            for mode in part:
                table.add_column(mode.name, overflow="fold")
            for number, question in enumerate(QUESTIONS):
                answers = [mode.answers[number] for mode in part]
                table.add_row(question.title, *map(_styled, answers))
            yield table


def _styled(answer: Answer) -> str:
    style = _STYLES.get(answer.outcome, "dim")
    return f"[{style}]{answer.text}[/]"
