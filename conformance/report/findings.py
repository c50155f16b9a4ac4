"""What is wrong, in whom, how badly: deviations that share a cause together, the gravest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from conformance.model.verdict import Status, Verdict
from conformance.report.outcomes import Outcome, of_result, of_verdict
from conformance.report.questions import QUESTIONS
from conformance.results import Result, Results

#: Outcomes that are no finding.
_FINE = frozenset({Outcome.RIGHT, Outcome.UNSEEN, Outcome.NOT_OFFERED, Outcome.NOT_RUN})
#: The cases that questions are about, by their place among them.
_ASKED = {
    case: number for number, case in enumerate(c for question in QUESTIONS for c in question.cases)
}
#: What is wrong, by the check that says so.
_WRONG = {
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
_APART = frozenset({Outcome.NOT_OFFERED, Outcome.NOT_RUN})


@dataclass(frozen=True)
class Finding:
    """A deviation and all that share its cause.

    `words` is the reason that a person has given, or what was observed where none is known; `pairs`
    are the cases and variants (full ids) that show it, `example` the first of the gravest, and `checks`
    are those that fail there. `first` is whether the first variant of the adapter shows it.
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
        """Whether something is silently wrong, or cannot be told."""
        return self.outcome in (Outcome.BROKEN, Outcome.WRONG)

    @property
    def effect(self) -> str:
        """What a user sees of it, in words."""
        if self.outcome in (Outcome.WRONG, Outcome.WARNS):
            words = " and ".join(_WRONG.get(check, f"wrong {check}") for check in self.checks)
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
    """All findings, ranked."""
    return ranked(finding for run in results for finding in _of_run(run))


def ranked(unranked: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings, the gravest first; of equal ones those that an adapter's first variant shows, then those
    that most variants show, then most cases."""

    def rank(finding: Finding) -> tuple[int, bool, int, int]:
        shown = -len(finding.variants), -len(finding.cases)
        return finding.outcome.rank, not finding.first, *shown

    return tuple(sorted(unranked, key=rank))


def _of_run(run: Results) -> Iterable[Finding]:
    causes: dict[tuple[str, str, bool], list[tuple[Outcome, Result, str]]] = {}
    order = {variant: number for number, variant in enumerate(run.header.variants)}
    for result in run.results:
        for verdict in result.verdicts:
            outcome = of_verdict(verdict, result)
            if outcome not in _FINE and verdict.status is not Status.UNSUPPORTED:
                causes.setdefault(_cause(verdict, result), []).append(
                    (outcome, result, verdict.check)
                )
    for (words, url, known), shown in causes.items():
        outcome, worst, _ = min(shown, key=lambda item: _telling(item[0], item[1], order))
        pairs = dict.fromkeys((result.case, result.variant) for _, result, _ in shown)
        checks = dict.fromkeys(check for o, r, check in shown if (o, r) == (outcome, worst))
        example = worst.case, worst.variant
        first = run.header.variants[:1] and any(v == run.header.variants[0] for _, v in pairs)
        yield Finding(
            *(run.header.adapter, outcome, words, url, known, tuple(pairs), example),
            *(tuple(checks), bool(first)),
        )


def _telling(outcome: Outcome, result: Result, variants: Mapping[str, int]) -> tuple[int, ...]:
    """How well a result shows a deviation, the least best: the gravest, in the variant that users meet
    first, in a case that a question is about."""
    case = result.case.partition("[")[0]
    asked = _ASKED.get(result.case, _ASKED.get(case, len(_ASKED)))
    return outcome.rank, variants.get(result.variant, len(variants)), asked


def _cause(verdict: Verdict, result: Result) -> tuple[str, str, bool]:
    """The reason of a known deviation and its address; of others what was observed."""
    if verdict.known is not None and verdict.status.deviates:
        return verdict.known.reason, verdict.known.url, True
    if verdict.status is Status.WARN:
        return f"{verdict.check}: {verdict.message}", "", True  # a SHOULD needs no entry
    return f"{result.case}, {verdict.check}: {verdict.message}", "", False


@dataclass(frozen=True)
class Tally:
    """How the cases of a variant, or of several, come out; `unexpected` deviate and were not known."""

    outcomes: Counter[Outcome]
    unexpected: int

    @property
    def ran(self) -> int:
        """Cases that ran."""
        return sum(n for outcome, n in self.outcomes.items() if outcome not in _APART)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.outcomes + other.outcomes, self.unexpected + other.unexpected)


def tallies(run: Results) -> dict[str, Tally]:
    """The tally of each variant (full id) of a run, in its order."""
    by_variant = {variant: Tally(Counter(), 0) for variant in run.header.variants}
    for result in run.results:
        new = any(map(_is_unexpected, result.verdicts))
        one = Tally(Counter([of_result(result)]), int(new))
        by_variant[result.variant] = by_variant.get(result.variant, Tally(Counter(), 0)) + one
    return by_variant


def _is_unexpected(verdict: Verdict) -> bool:
    if verdict.status is Status.BROKEN:
        return True
    deviates = verdict.status.deviates and verdict.status is not Status.WARN
    return deviates and verdict.known is None
