"""Questions of users about recompute, and each variant's answers, from verdicts and measurements.

A question names the cases and the checks that answer it. The answer of a variant is its gravest outcome
among those cases, and names the case.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal as OneOf

import msgspec

from conformance.judge.outcomes import SIGN, Outcome, gravest, of_result, of_verdict, unoffered
from conformance.model.result import Result
from conformance.report.costs import MEASURES

#: The capability of regions inside regions.
_NESTING = "nested-regions"


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question: `title` is short, `asks` is the whole sentence.

    `cases` (ids, with or without axes) and `checks` answer it. With a `measure`, the answer is the worst
    number among the cases (the least if `least`, else the greatest), formatted with `shown`. `brief`
    questions are in README's table. The first screen of the report names what is right by `short` words.
    """

    title: str
    asks: str
    cases: tuple[str, ...]
    checks: frozenset[str] = frozenset({"gradient", "value"})
    measure: OneOf["freed", "peak", "reruns", "updates", ""] = ""
    least: bool = False
    shown: str = "{}"
    short: str = ""
    brief: bool = False


QUESTIONS = msgspec.yaml.decode(
    Path(__file__).with_suffix(".yaml").read_bytes(), type=tuple[Question, ...]
)


@dataclass(frozen=True)
class Answer:
    """How a variant answers: the outcome, its words or a number, and the case that is the worst.

    `message` is what the check said there.
    """

    outcome: Outcome
    word: str
    case: str = ""
    message: str = ""

    @property
    def text(self) -> str:
        """The word with its sign."""
        return f"{SIGN[self.outcome]} {self.word}"


def answers(results: Iterable[Result]) -> tuple[Answer, ...]:
    """The answers of a variant, from its results, in the order of `QUESTIONS`."""
    by_name: dict[str, list[Result]] = {}
    for result in results:
        # A question names cases with their axes, or all expansions of a case.
        for name in {result.case, result.case.partition("[")[0]}:
            by_name.setdefault(name, []).append(result)
    return tuple(
        answer(question, [r for case in question.cases for r in by_name.get(case, ())])
        for question in QUESTIONS
    )


def answer(question: Question, results: Sequence[Result]) -> Answer:
    """The answer of a variant, from its results of the question's cases."""
    if not results:
        return Answer(Outcome.NOT_RUN, Outcome.NOT_RUN.value)
    # That regions inside regions are refused is the answer to one question, and not to each of them.
    candidates = [r for r in results if not _refuses_nesting(r)] or results
    outcomes = [(of_result(r, question.checks), r) for r in candidates]
    outcome = gravest(found for found, _ in outcomes)
    worst = [r for found, r in outcomes if found is outcome]
    chosen, word = worst[0], outcome.value
    if question.measure:
        numbers = ((MEASURES[question.measure](r), r) for r in worst)
        measured = [(number, r) for number, r in numbers if number is not None]
        if measured:
            number, chosen = (min if question.least else max)(measured, key=itemgetter(0))
            word = question.shown.format(number)
    return Answer(outcome, word, chosen.case, _message(chosen, outcome, question))


def _message(result: Result, outcome: Outcome, question: Question) -> str:
    """The message of the first verdict with the outcome of the answer."""
    asked = [v for v in result.verdicts if v.check in question.checks or v.check == "error"]
    asked.sort(key=lambda v: v.check not in question.checks)
    telling = [v for v in asked if of_verdict(v, result) is outcome]
    return next((v.message for v in telling or asked or result.verdicts), "")


def _refuses_nesting(result: Result) -> bool:
    """Whether the variant refuses the case for its regions inside regions."""
    reasons = filter(None, map(unoffered, result.verdicts))
    return any(why.how == "refuses" and why.capabilities == (_NESTING,) for why in reasons)
