"""Findings: deviations grouped by cause, the gravest first; and tallies of outcomes by variant."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from conformance.judge.outcomes import Outcome, of_result, of_verdict
from conformance.model.result import Header, Pair, Result
from conformance.model.verdict import KnownNote, Status, Verdict
from conformance.report.questions import QUESTIONS
from conformance.words import counted

_DID_NOT_RUN = frozenset({Outcome.NOT_OFFERED, Outcome.NOT_RUN})
#: Outcomes that are no finding.
NO_FINDING = frozenset({Outcome.RIGHT, Outcome.UNSEEN, *_DID_NOT_RUN})
#: The cases of `QUESTIONS`, each with its position among them.
_ASKED = {case: n for n, case in enumerate(c for question in QUESTIONS for c in question.cases)}


@dataclass(frozen=True)
class Finding:
    """All deviations of one adapter that share a cause.

    `note` is that of the known deviation; the reason of one that was not `known` before is the
    verdict's message. `pairs` are all cases and variants (full ids) that show it, `example` is the pair
    that shows it best, and `checks` are those that fail there. `first` is whether the adapter's first
    variant shows it.
    """

    adapter: str
    outcome: Outcome
    note: KnownNote
    known: bool
    pairs: tuple[Pair, ...]
    example: Pair
    checks: tuple[str, ...]
    first: bool

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(variant for _, variant in self.pairs))

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that show it, in order, the example first."""
        return tuple(dict.fromkeys((self.example[0], *(case for case, _ in self.pairs))))


def ranked(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings in order: the gravest first; among equals, those that an adapter's first variant shows,
    then those with the most variants, then those with the most cases."""

    def rank(finding: Finding) -> tuple[int, bool, int, int]:
        extent = -len(finding.variants), -len(finding.cases)
        return finding.outcome.rank, not finding.first, *extent

    return tuple(sorted(found, key=rank))


def findings(header: Header, results: Iterable[Result]) -> tuple[Finding, ...]:
    """The findings of some results of a run, ranked.

    The example is the gravest result; among equals that of the earliest variant, then that of the case
    that comes first in `QUESTIONS`.
    """
    causes: dict[tuple[KnownNote, bool], list[tuple[Outcome, Result, str]]] = {}
    for result in results:
        for verdict in result.verdicts:
            outcome = of_verdict(verdict, result)
            if outcome not in NO_FINDING and verdict.status is not Status.UNSUPPORTED:
                shown = outcome, result, verdict.check
                causes.setdefault(_cause(verdict, result), []).append(shown)
    variants = {variant: number for number, variant in enumerate(header.variants)}

    def rank(shown: tuple[Outcome, Result, str]) -> tuple[int, int, int]:
        outcome, result, _ = shown
        bare = _ASKED.get(result.case.partition("[")[0], len(_ASKED))
        variant = variants.get(result.variant, len(variants))
        return outcome.rank, variant, _ASKED.get(result.case, bare)

    found = []
    for cause, shown_by in causes.items():
        outcome, best, _ = min(shown_by, key=rank)
        pairs = tuple(dict.fromkeys(result.pair for _, result, _ in shown_by))
        checks = tuple(dict.fromkeys(c for o, r, c in shown_by if o is outcome and r is best))
        first = any(variants.get(variant) == 0 for _, variant in pairs)
        adapter = header.adapter
        found.append(Finding(adapter, outcome, *cause, pairs, best.pair, checks, first))
    return ranked(found)


def _cause(verdict: Verdict, result: Result) -> tuple[KnownNote, bool]:
    """What groups deviations: why they deviate, and whether that was known."""
    if verdict.known is not None and verdict.status.deviates:
        return verdict.known, True
    if verdict.status is Status.WARN:
        return KnownNote(f"{verdict.check}: {verdict.message}", ""), True  # a SHOULD needs no entry
    return KnownNote(f"{result.case}, {verdict.check}: {verdict.message}", ""), False


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

    @property
    def words(self) -> str:
        """As words: `right in 210 of 236 cases, silently wrong in 9, raises in 12`."""
        if not self.ran:
            return "nothing ran"
        shown = (o for o in (Outcome.WRONG, Outcome.RAISES, Outcome.INERT) if self.outcomes[o])
        parts = [f"right in {self.outcomes[Outcome.RIGHT]} of {counted(self.ran, 'case')}"]
        return ", ".join([*parts, *(f"{o.value} in {self.outcomes[o]}" for o in shown)])


def tally(results: Iterable[Result]) -> Tally:
    """The tally of some results."""
    listed = list(results)
    unexpected = sum(is_unexpected(verdict) for result in listed for verdict in result.verdicts)
    return Tally(Counter(map(of_result, listed)), unexpected)
