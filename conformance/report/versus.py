"""What differs between two variants, case by case: outcomes first, then counts and bytes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import ResultsError
from conformance.judge.outcomes import Outcome, of_result, of_verdict, unoffered
from conformance.model.case import Case
from conformance.report.questions import QUESTIONS, Answer, answers
from conformance.results import Result, Results
from conformance.words import line


@dataclass(frozen=True)
class Side:
    """A variant's outcome on a case, and the message of the verdict that gives it."""

    outcome: Outcome
    message: str

    @property
    def text(self) -> str:
        """The outcome in words, and why."""
        if self.outcome in (Outcome.RIGHT, Outcome.UNSEEN) or not self.message:
            return self.outcome.value
        return f"{self.outcome.value}: {self.message}"


@dataclass(frozen=True)
class Difference:
    """Cases with the same outcome and message on the left, and the same other ones on the right."""

    title: str
    left: Side
    right: Side
    cases: tuple[str, ...]


@dataclass(frozen=True)
class Number:
    """A question with a measured answer that differs between the two variants."""

    title: str
    asks: str
    left: Answer
    right: Answer


@dataclass(frozen=True)
class Versus:
    """Two variants (full ids) compared; `same` counts cases with equal outcomes, `only` those of one."""

    left: str
    right: str
    differences: tuple[Difference, ...]
    numbers: tuple[Number, ...]
    same: int
    only: Mapping[str, int]


def versus(left: str, right: str, results: Sequence[Results], cases: Sequence[Case]) -> Versus:
    """What differs between two variants. Cases that one of them does not run are counted in `only`.

    Raises `ResultsError` where there are no results of one of them.
    """
    ours, theirs = (_of(variant, results) for variant in (left, right))
    titles = {case.id: case.title for case in cases}
    groups: dict[tuple[Side, Side], list[str]] = {}
    same, only = 0, {left: 0, right: 0}
    for case, result in ours.items():
        other = theirs.get(case)
        sides = side_of(result), side_of(other)
        ran = [side.outcome is not Outcome.NOT_RUN for side in sides]
        if other is None or not all(ran):
            if any(ran):
                only[left if ran[0] else right] += 1
        elif sides[0].outcome is sides[1].outcome:
            same += 1
        else:
            groups.setdefault(sides, []).append(case)
    differences = [
        Difference(titles.get(listed[0], listed[0]), a, b, tuple(listed))
        for (a, b), listed in groups.items()
    ]
    differences.sort(key=lambda d: (_gravity(d), -len(d.cases)))
    return Versus(left, right, tuple(differences), _numbers(left, right, results), same, only)


def _of(variant: str, results: Sequence[Results]) -> dict[str, Result]:
    by_case = {r.case: r for run in results for r in run.results if r.variant == variant}
    if by_case:
        return by_case
    known = [v for run in results for v in run.header.variants]
    near = difflib.get_close_matches(variant, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    raise ResultsError(f"no results of {variant!r} here", hint=hint)


def side_of(result: Result | None) -> Side:
    """The outcome and the message of a result; a missing result (`None`) is `NOT_RUN`."""
    if result is None:
        return Side(Outcome.NOT_RUN, "")
    outcome = of_result(result)
    apart = outcome in (Outcome.NOT_OFFERED, Outcome.NOT_RUN)
    verdicts = result.verdicts
    telling = [v for v in verdicts if apart or of_verdict(v, result) is outcome]
    if outcome is Outcome.RIGHT or not telling:
        return Side(outcome, "")
    reason = unoffered(
        telling[0]
    )  # without the variant's name, so that two say it in the same words
    return Side(outcome, reason.words if reason else telling[0].message)


def _gravity(difference: Difference) -> int:
    return min(side.outcome.rank for side in (difference.left, difference.right))


def _numbers(left: str, right: str, results: Sequence[Results]) -> tuple[Number, ...]:
    answered = answers(results)
    pairs = zip(QUESTIONS, answered[left], answered[right], strict=True)
    return tuple(
        Number(question.title, question.asks, a, b)
        for question, a, b in pairs
        if question.measure and a.word != b.word
    )


# -- as text ---------------------------------------------------------------------------------------


def lines(compared: Versus, *, longest: int = 200) -> Iterator[str]:
    """What differs, a paragraph for each difference, for a terminal."""
    for difference in compared.differences:
        more = len(difference.cases) - 1
        also = f" and {more} more" if more else ""
        yield f"{difference.title} ({difference.cases[0]}{also})"
        for variant, side in ((compared.left, difference.left), (compared.right, difference.right)):
            yield f"  {variant}: {line(side.text, longest)}"
        yield ""
    for number in compared.numbers:
        yield f"{number.title}: {compared.left} {number.left.word}, {compared.right} {number.right.word}"
    yield summary(compared)


def summary(compared: Versus) -> str:
    """How many cases differ, in a sentence."""
    differ = sum(len(difference.cases) for difference in compared.differences)
    counts_text = f"{differ} cases come out differently, {compared.same} alike"
    alone = [f"{n} run on {variant} alone" for variant, n in compared.only.items() if n]
    return f"{', '.join([counts_text, *alone])}."


def markdown(compared: Versus, programs: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """What differs, as Markdown: for a porting guide. `programs` has both texts by case id."""
    from conformance.report.markdown import escape

    yield f"# From `{compared.left}` to `{compared.right}`"
    yield ""
    yield escape(summary(compared))
    yield ""
    if compared.numbers:
        yield f"| | `{compared.left}` | `{compared.right}` |"
        yield "|---|---|---|"
        for number in compared.numbers:
            yield f"| {escape(number.asks)} | {number.left.text} | {number.right.text} |"
        yield ""
    for difference in compared.differences:
        yield f"## {escape(difference.title)}"
        yield ""
        yield f"- `{compared.left}`: {escape(line(difference.left.text, 600))}"
        yield f"- `{compared.right}`: {escape(line(difference.right.text, 600))}"
        yield f"- seen in {', '.join(f'`{case}`' for case in difference.cases)}"
        yield ""
        pair = programs.get(difference.cases[0])
        if pair is not None:
            yield "```diff"
            yield from program_diff(*pair)
            yield "```"
            yield ""


def program_diff(left: str, right: str) -> Iterator[str]:
    """The lines of two programs, from their first function on: `-` is the left's, `+` the right's."""
    ours, theirs = (text[text.find("\ndef ") + 1 :].splitlines() for text in (left, right))
    for changed in difflib.unified_diff(ours, theirs, lineterm="", n=2):
        if not changed.startswith(("---", "+++")):
            yield changed.replace("```", "` ` `")


def read_programs(
    compared: Versus, results: Sequence[Results], folder: Path
) -> dict[str, tuple[str, str]]:
    """Both programs of the first case of each difference, as far as they lie in the reports' folder."""
    paths = {(r.case, r.variant): r.program for run in results for r in run.results if r.program}
    texts: dict[str, tuple[str, str]] = {}
    for difference in compared.differences:
        case = difference.cases[0]
        pair = [paths.get((case, variant)) for variant in (compared.left, compared.right)]
        files = [_inside(folder, path) for path in pair if path]
        if len(files) == 2 and all(file is not None and file.is_file() for file in files):
            one, two = (file.read_text("utf-8", "replace") for file in files if file is not None)
            texts[case] = one, two
    return texts


def _inside(folder: Path, path: str) -> Path | None:
    """The file, unless its path leads out of the folder: results may come from an untrusted source."""
    try:
        file = (folder / path).resolve()
    except (OSError, ValueError):
        return None
    return file if file.is_relative_to(folder.resolve()) else None
