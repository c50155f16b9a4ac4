"""The report's first screen: each framework in a sentence and a bar, and the worst findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from conformance.drivers.adapter import REFERENCE
from conformance.judge.outcomes import Outcome, of_result
from conformance.report.costs import PROGRAM_WORDS, Cost, cost, recommended
from conformance.report.findings import Finding, Tally, findings, ranked, tallies
from conformance.report.questions import Answer, answers
from conformance.results import Results
from conformance.words import counted

#: Findings on the first screen, and the most of one framework.
_SHOWN, _OF_EACH = 10, 2
#: The outcomes of a bar, in its order: the gravest first.
BAR: tuple[Outcome, ...] = (
    Outcome.BROKEN,
    Outcome.WRONG,
    Outcome.RAISES,
    Outcome.INERT,
    Outcome.COSTS,
    Outcome.WARNS,
    Outcome.RIGHT,
)
_NO_TALLY = Tally(Counter(), 0)


@dataclass(frozen=True)
class Segment:
    """A segment of a bar; `number` of cases, and `share` in percent of the cases that ran."""

    outcome: Outcome
    number: int
    share: float


@dataclass(frozen=True)
class Mode:
    """A variant: its tally, its answers to the questions, the gravest of its findings (with the example
    in this variant), and what it costs. `title` is how users name it, where the adapter is at hand."""

    id: str
    tally: Tally
    answers: tuple[Answer, ...]
    worst: Finding | None
    cost: Cost = field(default_factory=Cost)
    discipline: str = ""
    title: str = ""

    @property
    def name(self) -> str:
        """Its name without the adapter's."""
        return self.id.partition("/")[2] or self.id

    @property
    def outcome_words(self) -> str:
        """How its cases come out, in words."""
        return described(self.tally) if self.tally.ran else "nothing ran"

    @property
    def bar(self) -> tuple[Segment, ...]:
        """The segments of its bar."""
        return bar(self.tally)


@dataclass(frozen=True)
class Framework:
    """An adapter's run; the first of its modes is the one that users meet first."""

    name: str
    version: str
    modes: tuple[Mode, ...]
    findings: tuple[Finding, ...]

    @property
    def tally(self) -> Tally:
        """The sum of the tallies of all modes."""
        return sum((mode.tally for mode in self.modes), _NO_TALLY)

    @property
    def bar(self) -> tuple[Segment, ...]:
        """The bar of its first mode."""
        return self.modes[0].bar if self.modes else ()

    @property
    def is_reference(self) -> bool:
        """Whether it is no framework, but what the others are held against."""
        return self.name == REFERENCE

    @property
    def recommended(self) -> Mode | None:
        """The mode that comes out best, if any does (see `costs.recommended`)."""
        name = recommended({mode.id: (mode.tally, mode.cost) for mode in self.modes})
        return next((mode for mode in self.modes if mode.id == name), None)

    @property
    def advice(self) -> str:
        """Which mode to use, in a sentence, and what to expect of it."""
        best = self.recommended
        if best is None:
            return "No mode that runs most of the cases recomputes in most of them."
        sentence = f"{best.name} comes out best: {described(best.tally)}."
        cost = best.cost
        costs = []
        if cost.memory is not None:
            kind = "peak" if cost.retained is None else "retained memory"
            costs.append(f"the {kind} is {cost.memory:.0%} of that without recompute")
        if cost.reruns is not None:
            costs.append(f"an operation of a region runs again {cost.reruns:.2f} times")
        if cost.seconds is not None:
            costs.append(f"a step takes {cost.seconds:.2f} times as long")
        return f"{sentence} In {PROGRAM_WORDS} {', '.join(costs)}." if costs else sentence

    @property
    def sentence(self) -> str:
        """How the cases of its first mode come out, and how often its worst mode is silently wrong."""
        if not self.modes or not any(mode.tally.ran for mode in self.modes):
            return "Nothing ran."
        first = self.modes[0]
        if self.is_reference:
            why = f" Why: {first.worst.words}" if first.worst and first.worst.grave else ""
            tally = described(first.tally)
            return f"The others are held against it. As an adapter of its own: {tally}.{why}"
        sentence = f"{first.name}: {described(first.tally)}."
        worst = max(self.modes, key=lambda mode: mode.tally.outcomes[Outcome.WRONG])
        wrong = worst.tally.outcomes[Outcome.WRONG]
        if worst is not first and wrong > first.tally.outcomes[Outcome.WRONG]:
            sentence += (
                f" Worst of {len(self.modes)} modes: {worst.name}, silently wrong in {wrong}"
            )
            sentence += f" of {worst.tally.ran}."
        return sentence


def described(tally: Tally) -> str:
    """A tally in words: `right in 210 of 236 cases, silently wrong in 9, raises in 12`."""
    outcomes = tally.outcomes
    parts = [f"right in {outcomes[Outcome.RIGHT]} of {counted(tally.ran, 'case')}"]
    words = {
        Outcome.WRONG: "silently wrong in",
        Outcome.RAISES: "refuses or raises in",
        Outcome.INERT: "recomputes nothing in",
    }
    parts += [
        f"{phrase} {outcomes[outcome]}" for outcome, phrase in words.items() if outcomes[outcome]
    ]
    return ", ".join(parts)


def bar(tally: Tally) -> tuple[Segment, ...]:
    """The segments of a tally's bar; outcomes that no case has are left out."""
    total = sum(tally.outcomes[outcome] for outcome in BAR)
    return tuple(
        Segment(outcome, number, 100 * number / total)
        for outcome in BAR
        if (number := tally.outcomes[outcome])
    )


def frameworks(
    results: Sequence[Results],
    titles: Mapping[str, str] = MappingProxyType({}),
    seconds: Mapping[str, tuple[str, float]] = MappingProxyType({}),
) -> tuple[Framework, ...]:
    """Each adapter's run as the first screen shows it. `titles` are those of variants (full ids),
    `seconds` the ratios measured of them, each with the version that it is of."""
    return tuple(_framework(run, titles, seconds) for run in results)


def _framework(
    run: Results, titles: Mapping[str, str], seconds: Mapping[str, tuple[str, float]]
) -> Framework:
    ranked = findings([run])
    answers_of = answers([run])
    modes = []
    for variant, tally in tallies(run).items():
        of_variant = tuple(result for result in run.results if result.variant == variant)
        worst = next(iter(findings([replace(run, results=of_variant)])), None)
        discipline, title = run.header.disciplines.get(variant, ""), titles.get(variant, "")
        version, ratio = seconds.get(variant, ("", None))
        seconds_ratio = ratio if version == version_of(run) else None
        mode_cost = replace(cost(of_variant), seconds=seconds_ratio)
        modes.append(Mode(variant, tally, answers_of[variant], worst, mode_cost, discipline, title))
    return Framework(run.header.adapter, version_of(run), tuple(modes), ranked)


def version_of(run: Results) -> str:
    """The version of the framework, which a run names before all that it builds on; else nothing."""
    others = ("python", "numpy", "platform")
    return next((v for k, v in run.header.versions.items() if k not in others), "")


def worst(frameworks: Sequence[Framework]) -> tuple[Finding, ...]:
    """The findings of the first screen, the gravest first, at most two of each framework.

    Of equally grave ones, the first of each framework precede the second ones. The reference is left
    out. So is a finding that shows mostly in the same cases as an earlier one of its framework: it is
    probably a consequence, as a wrong gradient is of other random samples.
    """
    chosen: list[tuple[int, int, Finding]] = []
    for framework in (f for f in frameworks if not f.is_reference):
        of_it: list[Finding] = []
        for finding in framework.findings:
            if len(of_it) < _OF_EACH and not any(_overlap(finding, other) for other in of_it):
                chosen.append((finding.outcome.rank, len(of_it), finding))
                of_it.append(finding)
    chosen.sort(key=lambda item: item[:2])
    return tuple(finding for _, _, finding in chosen[:_SHOWN])


def _overlap(finding: Finding, other: Finding) -> bool:
    """Whether at least half of the pairs of the smaller finding are also the other's."""
    ours, theirs = set(finding.pairs), set(other.pairs)
    return 2 * len(ours & theirs) >= min(len(ours), len(theirs))


def all_findings(frameworks: Iterable[Framework]) -> tuple[Finding, ...]:
    """The findings of all frameworks, the gravest first."""
    return ranked(finding for framework in frameworks for finding in framework.findings)


def outcomes_of_cases(results: Sequence[Results]) -> dict[str, Counter[Outcome]]:
    """By case id, how many variants have each outcome."""
    outcomes: dict[str, Counter[Outcome]] = {}
    for run in results:
        for result in run.results:
            outcomes.setdefault(result.case, Counter())[of_result(result)] += 1
    return outcomes
