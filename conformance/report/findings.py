"""Findings: deviations grouped by cause and sorted by what users meet; and tallies of outcomes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from conformance.judge.outcomes import Outcome, of_result, of_verdict
from conformance.model.case import Use
from conformance.model.result import Header, Pair, Result
from conformance.model.verdict import KnownNote, Status, Verdict
from conformance.report.questions import QUESTIONS
from conformance.words import counted

_DID_NOT_RUN = frozenset({Outcome.NOT_OFFERED, Outcome.NOT_RUN})
#: Outcomes other than findings.
NO_FINDING = frozenset({Outcome.RIGHT, Outcome.UNSEEN, *_DID_NOT_RUN})
#: The cases of `QUESTIONS`, each with its position among them.
_ASKED = {case: n for n, case in enumerate(c for question in QUESTIONS for c in question.cases)}
#: How common each case is, by id; a case that is not there is `unusual`.
Uses = Mapping[str, Use]
_NO_USES: Uses = MappingProxyType({})


class Section(Enum):
    """The sections of the report that findings stand in, in their order."""

    EVERYDAY = "In everyday programs"
    UNUSUAL = "In unusual programs"
    LIMIT = "Documented limits"
    CHOICE = "Choices of the implementation"
    CONTRACT = "In programs that break a documented rule"

    @property
    def rank(self) -> int:
        return list(Section).index(self)


#: The sections of the causes other than defects, and of the uses of cases.
_OF_KIND = {"limit": Section.LIMIT, "choice": Section.CHOICE}
_OF_USE: Mapping[Use, Section] = {
    "everyday": Section.EVERYDAY,
    "unusual": Section.UNUSUAL,
    "contract": Section.CONTRACT,
}


@dataclass(frozen=True)
class Finding:
    """All deviations of one adapter that have the same cause.

    `note` describes the cause; for a deviation that is not `known`, its reason is the verdict's message.
    `pairs` are all cases and variants (full ids) that show the finding, `example` is the most telling
    one. `outcome` and `checks` (those that fail) are those of the example. `first` is whether the
    adapter's first variant shows the finding.
    """

    adapter: str
    outcome: Outcome
    note: KnownNote
    known: bool
    pairs: tuple[Pair, ...]
    example: Pair
    checks: tuple[str, ...]
    first: bool
    section: Section

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(variant for _, variant in self.pairs))

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that show it, in order, the example first."""
        return tuple(dict.fromkeys((self.example[0], *(case for case, _ in self.pairs))))


def ranked(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings sorted by section, then by severity, then by how many variants and cases show them.
    Those that an adapter's first variant shows precede the others of the same severity."""

    def rank(finding: Finding) -> tuple[int, int, bool, int, int]:
        extent = -len(finding.variants), -len(finding.cases)
        return finding.section.rank, finding.outcome.rank, not finding.first, *extent

    return tuple(sorted(found, key=rank))


def findings(
    header: Header, results: Iterable[Result], uses: Uses = _NO_USES
) -> tuple[Finding, ...]:
    """The findings of some results of a run, ranked.

    The example is a case of the most common use; of these the most severe one, then one of the earliest
    variant, then the one that comes first in `QUESTIONS`.
    """
    causes: dict[tuple[KnownNote, bool], list[tuple[Outcome, Result, str]]] = {}
    for result in results:
        for verdict in result.verdicts:
            outcome = of_verdict(verdict, result)
            if outcome not in NO_FINDING and verdict.status is not Status.UNSUPPORTED:
                shown = outcome, result, verdict.check
                causes.setdefault(_cause(verdict, result), []).append(shown)
    variants = {variant: number for number, variant in enumerate(header.variants)}

    def rank(shown: tuple[Outcome, Result, str]) -> tuple[int, int, int, int]:
        outcome, result, _ = shown
        bare = _ASKED.get(result.case.partition("[")[0], len(_ASKED))
        use = _OF_USE[uses.get(result.case, "unusual")].rank
        variant = variants.get(result.variant, len(variants))
        return use, outcome.rank, variant, _ASKED.get(result.case, bare)

    found = []
    for cause, shown_by in causes.items():
        outcome, best, _ = min(shown_by, key=rank)
        pairs = tuple(dict.fromkeys(result.pair for _, result, _ in shown_by))
        checks = tuple(dict.fromkeys(c for o, r, c in shown_by if o is outcome and r is best))
        first = any(variants.get(variant) == 0 for _, variant in pairs)
        section = _section(cause[0].kind, uses.get(best.case, "unusual"))
        finding = Finding(header.adapter, outcome, *cause, pairs, best.pair, checks, first, section)
        found.append(finding)
    return ranked(found)


def _section(kind: str, use: Use) -> Section:
    """Programs that break a rule stand apart, whatever the kind of the cause."""
    by_use = _OF_USE[use]
    return by_use if by_use is Section.CONTRACT else _OF_KIND.get(kind, by_use)


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
    unexpected. `of` is what the cases are called."""

    outcomes: Counter[Outcome]
    unexpected: int
    of: str = "case"

    @property
    def ran(self) -> int:
        """Cases that ran."""
        return sum(n for outcome, n in self.outcomes.items() if outcome not in _DID_NOT_RUN)

    @property
    def wrong(self) -> int:
        """Cases in which a user gets wrong results, an error, or no recomputation."""
        return sum(self.outcomes[o] for o in (Outcome.WRONG, Outcome.RAISES, Outcome.INERT))

    @property
    def good(self) -> int:
        """Cases with the right results, some of them for more memory or work."""
        return sum(self.outcomes[o] for o in (Outcome.RIGHT, Outcome.COSTS, Outcome.WARNS))

    @property
    def words(self) -> str:
        """As words: `right in 210 of 236 cases, silently wrong in 9, raises in 12`."""
        if not self.ran:
            return "nothing ran"
        shown = (Outcome.WRONG, Outcome.RAISES, Outcome.LIMIT, Outcome.INERT, Outcome.COSTS)
        parts = [f"right in {self.outcomes[Outcome.RIGHT]} of {counted(self.ran, self.of)}"]
        parts += [f"{o.value} in {self.outcomes[o]}" for o in shown if self.outcomes[o]]
        return ", ".join(parts)


def tally(results: Iterable[Result], uses: Uses = _NO_USES, only: Use | None = None) -> Tally:
    """The tally of some results: of the cases of one use, or of all that break no documented rule."""
    listed = list(results)
    unexpected = sum(is_unexpected(verdict) for result in listed for verdict in result.verdicts)

    def counts(result: Result) -> bool:
        use = uses.get(result.case, "unusual")
        return use == only if only else use != "contract"

    words = "everyday program" if only == "everyday" else "case"
    return Tally(Counter(map(of_result, filter(counts, listed))), unexpected, words)
