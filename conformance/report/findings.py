"""Findings: deviations grouped by cause, the gravest first; and tallies of outcomes by variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from conformance.judge.outcomes import Outcome, of_result, of_verdict
from conformance.model.verdict import Status, Verdict
from conformance.report.questions import QUESTIONS
from conformance.results import Result, Results

#: Outcomes that are no finding.
_NO_FINDING = frozenset({Outcome.RIGHT, Outcome.UNSEEN, Outcome.NOT_OFFERED, Outcome.NOT_RUN})
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
_EFFECTS = {
    Outcome.BROKEN: "the suite failed",
    Outcome.RAISES: "an error, where plain runs",
    Outcome.INERT: "nothing is recomputed",
    Outcome.COSTS: "more memory or work than needed",
}
_DID_NOT_RUN = frozenset({Outcome.NOT_OFFERED, Outcome.NOT_RUN})


@dataclass(frozen=True)
class Finding:
    """All deviations of one adapter that share a cause.

    `words` is the reason of the known deviation, or the verdict's message where it is not known.
    `pairs` are all cases and variants (full ids) that show it, `example` is the pair that shows it best,
    and `checks` are those that fail there. `first` is whether the adapter's first variant shows it.
    """

    adapter: str
    outcome: Outcome
    words: str
    url: str
    known: bool
    pairs: tuple[tuple[str, str], ...]
    example: tuple[str, str]
    checks: tuple[str, ...]
    first: bool = False

    @property
    def grave(self) -> bool:
        """Whether results are silently wrong, or unknown because the suite failed."""
        return self.outcome in (Outcome.BROKEN, Outcome.WRONG)

    @property
    def effect(self) -> str:
        """What it means for a user, in words."""
        if self.outcome in (Outcome.WRONG, Outcome.WARNS):
            words = " and ".join(
                _WRONG_BY_CHECK.get(check, f"wrong {check}") for check in self.checks
            )
            return f"{words}, and no error"
        return _EFFECTS.get(self.outcome, self.outcome.value)

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that show it, in order."""
        return tuple(dict.fromkeys(variant for _, variant in self.pairs))

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that show it, in order."""
        return tuple(dict.fromkeys(case for case, _ in self.pairs))


def findings(results: Sequence[Results]) -> tuple[Finding, ...]:
    """All findings of all runs, ranked (see `ranked`)."""
    return ranked(finding for run in results for finding in _of_run(run))


def ranked(unranked: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings in order: the gravest first; among equals, those that an adapter's first variant shows,
    then those with the most variants, then those with the most cases."""

    def rank(finding: Finding) -> tuple[int, bool, int, int]:
        extent = -len(finding.variants), -len(finding.cases)
        return finding.outcome.rank, not finding.first, *extent

    return tuple(sorted(unranked, key=rank))


def _of_run(run: Results) -> Iterable[Finding]:
    causes: dict[tuple[str, str, bool], list[tuple[Outcome, Result, str]]] = {}
    order = {variant: number for number, variant in enumerate(run.header.variants)}
    for result in run.results:
        for verdict in result.verdicts:
            outcome = of_verdict(verdict, result)
            if outcome not in _NO_FINDING and verdict.status is not Status.UNSUPPORTED:
                causes.setdefault(_cause(verdict, result), []).append(
                    (outcome, result, verdict.check)
                )
    for (words, url, known), occurrences in causes.items():
        outcome, worst, _ = min(
            occurrences, key=lambda item: _example_rank(item[0], item[1], order)
        )
        pairs = dict.fromkeys((result.case, result.variant) for _, result, _ in occurrences)
        checks = dict.fromkeys(check for o, r, check in occurrences if (o, r) == (outcome, worst))
        example = worst.case, worst.variant
        first = run.header.variants[:1] and any(v == run.header.variants[0] for _, v in pairs)
        yield Finding(
            *(run.header.adapter, outcome, words, url, known, tuple(pairs), example),
            *(tuple(checks), bool(first)),
        )


def _example_rank(outcome: Outcome, result: Result, variants: Mapping[str, int]) -> tuple[int, ...]:
    """A sort key that puts the best example of a deviation first.

    By the outcome's gravity, then the variant's position, then the case's position in `QUESTIONS`.
    """
    case = result.case.partition("[")[0]
    question = _QUESTION_CASES.get(result.case, _QUESTION_CASES.get(case, len(_QUESTION_CASES)))
    return outcome.rank, variants.get(result.variant, len(variants)), question


def _cause(verdict: Verdict, result: Result) -> tuple[str, str, bool]:
    """What groups deviations: the known reason and its URL, or else the message; whether it is known."""
    if verdict.known is not None and verdict.status.deviates:
        return verdict.known.reason, verdict.known.url, True
    if verdict.status is Status.WARN:
        return f"{verdict.check}: {verdict.message}", "", True  # a SHOULD needs no entry
    return f"{result.case}, {verdict.check}: {verdict.message}", "", False


@dataclass(frozen=True)
class Tally:
    """How many cases of some variants have each outcome; `unexpected` have a deviation not known."""

    outcomes: Counter[Outcome]
    unexpected: int

    @property
    def ran(self) -> int:
        """Cases that ran."""
        return sum(n for outcome, n in self.outcomes.items() if outcome not in _DID_NOT_RUN)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.outcomes + other.outcomes, self.unexpected + other.unexpected)


def tallies(run: Results) -> dict[str, Tally]:
    """The tally of each variant (full id) of a run, in its order."""
    by_variant = {variant: Tally(Counter(), 0) for variant in run.header.variants}
    for result in run.results:
        unexpected = any(map(_is_unexpected, result.verdicts))
        tally = Tally(Counter([of_result(result)]), int(unexpected))
        by_variant[result.variant] = by_variant.get(result.variant, Tally(Counter(), 0)) + tally
    return by_variant


def _is_unexpected(verdict: Verdict) -> bool:
    if verdict.status is Status.BROKEN:
        return True
    deviates = verdict.status.deviates and verdict.status is not Status.WARN
    return deviates and verdict.known is None
