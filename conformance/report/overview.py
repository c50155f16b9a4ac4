"""What all views are made from: each framework with its modes, and the report as a whole."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from conformance.compare import Comparison
from conformance.drivers.adapter import REFERENCE
from conformance.judge.outcomes import Outcome, of_result
from conformance.model.case import Case
from conformance.model.result import SMOKE, Header, Result, Results
from conformance.report.costs import Cost, cost
from conformance.report.findings import NO_FINDING, Finding, Tally, findings, ranked, tally
from conformance.report.questions import Answer, answers
from conformance.words import counted

#: Findings on the first screen, and the most of one framework.
_SHOWN, _OF_EACH = 10, 2
#: The outcomes of a bar, in its order: the gravest first.
BAR = tuple(outcome for outcome in Outcome if outcome is Outcome.RIGHT or outcome not in NO_FINDING)


def name_of(variant: str) -> str:
    """The name of a variant (full id) without the adapter's."""
    return variant.partition("/")[2] or variant


@dataclass(frozen=True)
class Mode:
    """A variant: its tally, its answers to the questions, the gravest of its findings (with the example
    in this variant), and what it costs. `title` is how users name it, if known."""

    id: str
    tally: Tally
    answers: tuple[Answer, ...]
    worst: Finding | None
    cost: Cost
    discipline: str = ""
    title: str = ""

    @property
    def name(self) -> str:
        return name_of(self.id)

    @property
    def bar(self) -> tuple[tuple[Outcome, int], ...]:
        """The number of cases of each outcome that occurs, the gravest first."""
        return tuple((o, n) for o in BAR if (n := self.tally.outcomes[o]))


@dataclass(frozen=True)
class Framework:
    """An adapter's run; the first of its modes is the one that users meet first."""

    header: Header
    version: str
    modes: tuple[Mode, ...]
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        return self.header.adapter

    @property
    def unexpected(self) -> int:
        return sum(mode.tally.unexpected for mode in self.modes)

    @property
    def is_reference(self) -> bool:
        return self.name == REFERENCE

    @property
    def sentence(self) -> str:
        """How the cases of its first mode come out, and how often its worst mode is silently wrong."""
        if not any(mode.tally.ran for mode in self.modes):
            return "Nothing ran."
        first = self.modes[0]
        if self.is_reference:
            wrong = first.worst and first.worst.outcome in (Outcome.BROKEN, Outcome.WRONG)
            why = f" Why: {first.worst.note.reason}" if first.worst and wrong else ""
            return f"The others are compared with it. As an adapter: {first.tally.words}.{why}"
        sentence = f"{first.name}: {first.tally.words}."
        worst = max(self.modes, key=lambda mode: mode.tally.outcomes[Outcome.WRONG])
        wrong_cases = worst.tally.outcomes[Outcome.WRONG]
        if wrong_cases > first.tally.outcomes[Outcome.WRONG]:
            sentence += f" Worst of {len(self.modes)} variants: {worst.name}, silently wrong in"
            sentence += f" {wrong_cases} of {worst.tally.ran}."
        return sentence


def frameworks(
    results: Iterable[Results],
    titles: Mapping[str, str] = MappingProxyType({}),
    seconds: Mapping[str, tuple[str, float]] = MappingProxyType({}),
) -> tuple[Framework, ...]:
    """Each adapter's run as the first screen shows it. `titles` are those of variants (full ids),
    `seconds` the ratios measured of them, each with the version that it is of."""
    return tuple(_framework(run, titles, seconds) for run in results)


def _framework(
    run: Results, titles: Mapping[str, str], seconds: Mapping[str, tuple[str, float]]
) -> Framework:
    header = run.header
    # The version of the framework, which a run names before all that it builds on.
    others = ("python", "numpy", "platform")
    version = next((v for k, v in header.versions.items() if k not in others), "")
    by_variant: dict[str, list[Result]] = {variant: [] for variant in header.variants}
    for result in run.results:
        by_variant.setdefault(result.variant, []).append(result)
    modes = []
    for variant, found in by_variant.items():
        measured, ratio = seconds.get(variant, ("", None))
        mode = Mode(
            id=variant,
            tally=tally(found),
            answers=answers(found),
            worst=next(iter(findings(header, found)), None),
            cost=cost(found, ratio if measured == version else None),
            discipline=header.disciplines.get(variant, ""),
            title=titles.get(variant, ""),
        )
        modes.append(mode)
    return Framework(header, version, tuple(modes), findings(header, run.results))


def worst(frameworks: Iterable[Framework]) -> tuple[Finding, ...]:
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


@dataclass(frozen=True)
class Report:
    """The report on results, cases and their comparison; cases without a result are left out.

    `titles` say what variants (full ids) are, `seconds` what was measured of them (see `frameworks`),
    and `programs` are programs that show a cause, by adapter and cause.
    """

    results: Sequence[Results]
    given: Sequence[Case]
    comparison: Comparison
    titles: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    programs: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        return {case.id: case for case in self.given}

    @cached_property
    def frameworks(self) -> tuple[Framework, ...]:
        return frameworks(self.results, self.titles, self.seconds)

    @cached_property
    def by_case(self) -> Mapping[str, Mapping[str, Result]]:
        """Results by case and variant: first those of known cases, in their order."""
        found: dict[str, dict[str, Result]] = {}
        for run in self.results:
            for result in run.results:
                found.setdefault(result.case, {})[result.variant] = result
        return {case: found[case] for case in self.cases if case in found} | found

    @cached_property
    def outcomes(self) -> Mapping[str, Counter[Outcome]]:
        """By case, how many variants have each outcome."""
        return {case: Counter(map(of_result, of.values())) for case, of in self.by_case.items()}

    @property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(mode for framework in self.frameworks for mode in framework.modes)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all frameworks, the gravest first."""
        return ranked(finding for framework in self.frameworks for finding in framework.findings)

    @property
    def unexpected(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.known)

    @property
    def headline(self) -> str:
        """How much is unexpected, in a line."""
        verdicts = sum(framework.unexpected for framework in self.frameworks)
        if not verdicts and self.comparison.ok:
            return "Nothing unexpected"
        new = len(self.comparison.unexpected)
        return f"{counted(verdicts, 'unexpected verdict')}, {counted(new, 'new disagreement')}"

    @property
    def ok(self) -> bool:
        """Whether nothing is unexpected."""
        return self.headline == "Nothing unexpected"

    @property
    def partial(self) -> str:
        """Which adapters ran only some of the cases, or lack results; empty where all have all."""
        unfinished = [f"{run.header.adapter} ({run.lacks})" for run in self.results if run.lacks]
        sentences = [f"Not finished: {', '.join(unfinished)}."] if unfinished else []
        selections: dict[str, list[str]] = {}
        for header in (run.header for run in self.results if run.header.selection):
            selections.setdefault(header.selection, []).append(header.adapter)
        if selections:
            smoke = all(selection.startswith(SMOKE) for selection in selections)
            which = "; ".join(f"{', '.join(who)} ({what})" for what, who in selections.items())
            kind = "A smoke run covers part of the cases" if smoke else "Part of the cases"
            sentences.append(f"{kind}: {which}.")
        return " ".join(sentences)
