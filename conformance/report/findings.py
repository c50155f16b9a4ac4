"""Findings: deviations grouped by cause, the gravest first; and tallies of outcomes by variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conformance.judge.outcomes import Outcome, of_result, of_verdict
from conformance.model.result import Header, Result, Results
from conformance.model.verdict import Status, Verdict
from conformance.report.questions import QUESTIONS

_DID_NOT_RUN = frozenset({Outcome.NOT_OFFERED, Outcome.NOT_RUN})
#: Outcomes that are no finding.
NO_FINDING = frozenset({Outcome.RIGHT, Outcome.UNSEEN, *_DID_NOT_RUN})
#: The cases of `QUESTIONS`, each with its position among them.
_QUESTION_CASES = {
    case: number for number, case in enumerate(c for question in QUESTIONS for c in question.cases)
}
#: What is wrong for a user, by the name of the check that fails.
_WRONG_BY_CHECK = {
    "gradient": "wrong gradient",
    "value": "wrong values",
    "structure": "outputs of another structure",
    "state": "state changed twice",
    "randomness": "other random numbers in the rerun",
    "hooks": "hooks not called as without recompute",
    "error": "a promised error is missing",
}


class Cause(NamedTuple):
    """What groups deviations: the reason, URL and cause of the known deviation. Without one, `words` is
    the verdict's message."""

    words: str
    url: str
    name: str
    known: bool


@dataclass(frozen=True)
class Finding:
    """All deviations of one adapter that share a cause.

    `pairs` are all cases and variants (full ids) that show it, `example` is the pair that shows it best,
    and `checks` are those that fail there. `first` is whether the adapter's first variant shows it.
    """

    adapter: str
    outcome: Outcome
    cause: Cause
    pairs: tuple[tuple[str, str], ...]
    example: tuple[str, str]
    checks: tuple[str, ...]
    first: bool = False

    @property
    def words(self) -> str:
        """Why it deviates, or how."""
        return self.cause.words

    @property
    def url(self) -> str:
        """The upstream report; may be empty."""
        return self.cause.url

    @property
    def known(self) -> bool:
        """Whether it was known before."""
        return self.cause.known

    @property
    def effect(self) -> str:
        """What it means for a user, in words."""
        if self.outcome not in (Outcome.WRONG, Outcome.WARNS):
            return self.outcome.value
        words = [_WRONG_BY_CHECK.get(check, f"wrong {check}") for check in self.checks]
        return f"{' and '.join(words)}, and no error"

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that show it, in order."""
        return tuple(dict.fromkeys(variant for _, variant in self.pairs))

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that show it, in order, the example first."""
        return tuple(dict.fromkeys((self.example[0], *(case for case, _ in self.pairs))))


def findings(results: Sequence[Results]) -> tuple[Finding, ...]:
    """All findings of all runs, ranked (see `ranked`)."""
    return ranked(f for run in results for f in of_run(run.header, run.results))


def ranked(unranked: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings in order: the gravest first; among equals, those that an adapter's first variant shows,
    then those with the most variants, then those with the most cases."""

    def rank(finding: Finding) -> tuple[int, bool, int, int]:
        extent = -len(finding.variants), -len(finding.cases)
        return finding.outcome.rank, not finding.first, *extent

    return tuple(sorted(unranked, key=rank))


def of_run(header: Header, results: Iterable[Result]) -> Iterable[Finding]:
    """The findings of some results of a run, in no order."""
    causes: dict[Cause, list[tuple[Outcome, Result, str]]] = {}
    order = {variant: number for number, variant in enumerate(header.variants)}
    for result in results:
        for verdict in result.verdicts:
            outcome = of_verdict(verdict, result)
            if outcome not in NO_FINDING and verdict.status is not Status.UNSUPPORTED:
                shown = outcome, result, verdict.check
                causes.setdefault(_cause(verdict, result), []).append(shown)
    for cause, shown_by in causes.items():
        outcome, worst, _ = min(shown_by, key=lambda item: _example_rank(item[0], item[1], order))
        pairs = dict.fromkeys((result.case, result.variant) for _, result, _ in shown_by)
        checks = dict.fromkeys(check for o, r, check in shown_by if (o, r) == (outcome, worst))
        yield Finding(
            adapter=header.adapter,
            outcome=outcome,
            cause=cause,
            pairs=tuple(pairs),
            example=(worst.case, worst.variant),
            checks=tuple(checks),
            first=any(order.get(variant) == 0 for _, variant in pairs),
        )


def _example_rank(outcome: Outcome, result: Result, variants: Mapping[str, int]) -> tuple[int, ...]:
    """A sort key that puts the best example of a deviation first.

    By the outcome's gravity, then the variant's position, then the case's position in `QUESTIONS`.
    """
    case = result.case.partition("[")[0]
    question = _QUESTION_CASES.get(result.case, _QUESTION_CASES.get(case, len(_QUESTION_CASES)))
    return outcome.rank, variants.get(result.variant, len(variants)), question


def _cause(verdict: Verdict, result: Result) -> Cause:
    known = verdict.known
    if known is not None and verdict.status.deviates:
        return Cause(known.reason, known.url, known.cause, True)
    if verdict.status is Status.WARN:
        return Cause(f"{verdict.check}: {verdict.message}", "", "", True)  # a SHOULD needs no entry
    return Cause(f"{result.case}, {verdict.check}: {verdict.message}", "", "", False)


def is_unexpected(verdict: Verdict) -> bool:
    """Whether a run fails because of a verdict: it deviates and was not known, or the suite failed."""
    deviates = verdict.status.deviates and verdict.status is not Status.WARN
    return verdict.status is Status.BROKEN or (deviates and verdict.known is None)


@dataclass(frozen=True)
class Tally:
    """How many cases of some variants have each outcome, and how many of their verdicts are
    unexpected."""

    outcomes: Counter[Outcome]
    unexpected: int

    @property
    def ran(self) -> int:
        """Cases that ran."""
        return sum(n for outcome, n in self.outcomes.items() if outcome not in _DID_NOT_RUN)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.outcomes + other.outcomes, self.unexpected + other.unexpected)


def tally(results: Iterable[Result]) -> Tally:
    """The tally of some results."""
    listed = list(results)
    unexpected = sum(is_unexpected(verdict) for result in listed for verdict in result.verdicts)
    return Tally(Counter(map(of_result, listed)), unexpected)
