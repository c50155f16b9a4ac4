"""What all views are made from: each framework with its modes, and the report as a whole."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from conformance.compare import Comparison
from conformance.compare.releases import History
from conformance.drivers.adapter import REFERENCE
from conformance.judge.outcomes import Outcome, of_result
from conformance.model.case import Case
from conformance.model.result import SMOKE, Header, Result, Results
from conformance.model.verdict import KnownNote, Verdict
from conformance.report.costs import Cost, cost
from conformance.report.findings import (
    NO_FINDING,
    Finding,
    Section,
    Tally,
    Uses,
    findings,
    ranked,
    tally,
)
from conformance.report.questions import QUESTIONS, Answer, answers
from conformance.words import counted

#: Findings in the first list, and the most of one framework.
_SHOWN, _OF_EACH = 10, 2
#: Findings that are listed with the best mode of a framework.
_AVOIDED = 3
#: The outcomes of a bar, in its order: the most severe first.
BAR = tuple(outcome for outcome in Outcome if outcome is Outcome.RIGHT or outcome not in NO_FINDING)
#: Outcomes by which a user notices that recompute does not work.
_GOES_WRONG = frozenset({Outcome.BROKEN, Outcome.WRONG, Outcome.RAISES, Outcome.INERT})


def name_of(variant: str) -> str:
    """The name of a variant (full id) without the adapter's."""
    return variant.partition("/")[2] or variant


@dataclass(frozen=True)
class Background:
    """What the report says that is not in results.

    Of variants (full ids): `titles`, how users name them; `seconds` of a step in multiples of the step
    without recompute, each with the version that it was measured with; and `advice` on when to use them,
    the best variant of each adapter first. Variants without advice are for debugging and tests.
    Of causes (adapter and name): `notes` as the adapters have them today, which take the place of those
    in the results; and `programs` that show them. Of cases: their `uses`. Of adapters: in which releases
    their causes show (`histories`).
    """

    titles: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[tuple[str, str], KnownNote] = field(default_factory=dict)
    programs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    uses: Uses = field(default_factory=dict)
    histories: Mapping[str, History] = field(default_factory=dict)

    def noted(self, run: Results) -> Results:
        """A run whose known deviations have the notes of today."""
        adapter = run.header.adapter
        changed: dict[int, Verdict] = {}

        def noted(verdict: Verdict) -> Verdict:
            # Results share their verdicts.
            if id(verdict) not in changed:
                known = verdict.known
                now = known and self.notes.get((adapter, known.cause), known)
                same = now == known
                changed[id(verdict)] = (
                    verdict if same else msgspec.structs.replace(verdict, known=now)
                )
            return changed[id(verdict)]

        results = (replace(r, verdicts=tuple(map(noted, r.verdicts))) for r in run.results)
        return replace(run, results=tuple(results))


@dataclass(frozen=True)
class Mode:
    """A variant: the outcomes of its cases and of the everyday ones among them, its answers to the
    questions, its findings (each with an example in this variant), and what it costs."""

    id: str
    tally: Tally
    everyday: Tally
    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]
    cost: Cost
    discipline: str = ""
    title: str = ""
    advice: str = ""

    @property
    def name(self) -> str:
        return name_of(self.id)

    @property
    def worst(self) -> Finding | None:
        """Its first finding: the most severe one in everyday programs, if there is such."""
        return next(iter(self.findings), None)

    @property
    def reliable(self) -> tuple[str, ...]:
        """What is right in it: the `short` words of the questions that it answers so."""
        both = zip(QUESTIONS, self.answers, strict=True)
        return tuple(q.short for q, a in both if q.short and a.outcome is Outcome.RIGHT)

    @property
    def told(self) -> Tally:
        """The tally that is shown first: that of everyday programs, if any of them ran."""
        return self.everyday if self.everyday.ran else self.tally

    @property
    def bar(self) -> tuple[tuple[Outcome, int], ...]:
        """The number of cases of each outcome that occurs, the most severe first."""
        return tuple((o, n) for o in BAR if (n := self.told.outcomes[o]))


@dataclass(frozen=True)
class Framework:
    """An adapter's run; the first of its modes is the one that users meet first."""

    header: Header
    version: str
    modes: tuple[Mode, ...]
    findings: tuple[Finding, ...]
    #: The ids of the modes with advice, in its order.
    advised: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.header.adapter

    @property
    def unexpected(self) -> int:
        return sum(mode.tally.unexpected for mode in self.modes)

    @property
    def is_reference(self) -> bool:
        return self.name == REFERENCE

    @cached_property
    def offered(self) -> tuple[Mode, ...]:
        """The modes to choose from: those with advice (all, if none has any) on which at least half as
        many cases ran as on the one with the most."""
        by_id = {mode.id: mode for mode in self.modes}
        modes = [by_id[variant] for variant in self.advised] or list(self.modes)
        most = max((mode.told.ran for mode in modes), default=0)
        return tuple(mode for mode in modes if mode.told.ran and 2 * mode.told.ran >= most)

    @cached_property
    def best(self) -> Mode | None:
        """The mode to use: the first one, or the best of those in which fewer cases go wrong and no
        fewer have the right results. `None` if nothing ran."""
        if not self.offered:
            return None
        first = self.offered[0]
        better = [
            mode
            for mode in self.offered
            if mode.told.wrong < first.told.wrong and mode.told.good >= first.told.good
        ]
        return max(better, key=lambda mode: mode.told.good, default=first)

    @cached_property
    def worse(self) -> tuple[Mode, ...]:
        """The modes in which more cases go wrong than in the best one, the worst first."""
        limit = self.best.told.wrong if self.best else 0
        found = (mode for mode in self.offered if mode.told.wrong > limit)
        return tuple(sorted(found, key=lambda mode: -mode.told.wrong))

    @cached_property
    def avoid(self) -> tuple[Finding, ...]:
        """What goes wrong in everyday programs in the best mode, the most severe first."""
        severe = (f for f in self.best.findings if f.outcome in _GOES_WRONG) if self.best else ()
        return apart((f for f in severe if f.section is Section.EVERYDAY), _AVOIDED)

    @property
    def sentence(self) -> str:
        """Which mode to use, and what becomes of its cases."""
        if self.best is None:
            return "Nothing ran."
        words = self.best.told.words
        if self.is_reference:
            broken = self.best.worst and self.best.worst.outcome in (Outcome.BROKEN, Outcome.WRONG)
            why = f" Why: {self.best.worst.note.reason}" if self.best.worst and broken else ""
            return f"The others are compared with it. As an adapter: {words}.{why}"
        return f"{self.best.name}: {words}."


def frameworks(
    results: Iterable[Results], background: Background = Background()
) -> tuple[Framework, ...]:
    """Each adapter's run as the first screen shows it."""
    return tuple(_framework(background.noted(run), background) for run in results)


def _framework(run: Results, background: Background) -> Framework:
    header, uses = run.header, background.uses
    # The version of the framework, which a run names before all that it builds on.
    others = ("python", "numpy", "platform")
    version = next((v for k, v in header.versions.items() if k not in others), "")
    by_variant: dict[str, list[Result]] = {variant: [] for variant in header.variants}
    for result in run.results:
        by_variant.setdefault(result.variant, []).append(result)
    modes = []
    for variant, found in by_variant.items():
        measured, ratio = background.seconds.get(variant, ("", None))
        mode = Mode(
            id=variant,
            tally=tally(found, uses),
            everyday=tally(found, uses, "everyday"),
            answers=answers(found),
            findings=findings(header, found, uses),
            cost=cost(found, ratio if measured == version else None),
            discipline=header.disciplines.get(variant, ""),
            title=background.titles.get(variant, ""),
            advice=background.advice.get(variant, ""),
        )
        modes.append(mode)
    advised = tuple(v for v in background.advice if v in by_variant)
    return Framework(header, version, tuple(modes), findings(header, run.results, uses), advised)


def worst(frameworks: Iterable[Framework]) -> tuple[Finding, ...]:
    """The findings of the first list, the most severe first, at most two of each framework.

    They are those in everyday programs or, if there are none, in others. Of equally severe ones, the
    first of each framework precede the second ones. The reference is left out.
    """
    shown = [framework for framework in frameworks if not framework.is_reference]
    for section in Section:
        chosen = [
            (finding.outcome.rank, number, finding)
            for framework in shown
            for number, finding in enumerate(
                apart((f for f in framework.findings if f.section is section), _OF_EACH)
            )
        ]
        if chosen:
            chosen.sort(key=lambda item: item[:2])
            return tuple(finding for _, _, finding in chosen[:_SHOWN])
    return ()


def apart(found: Iterable[Finding], most: int) -> tuple[Finding, ...]:
    """The first of some findings of a framework, without those that show mostly in the same cases as an
    earlier one: they are probably its consequences, as a wrong gradient is of other random samples."""
    chosen: list[Finding] = []
    for finding in found:
        if len(chosen) < most and not any(_overlap(finding, other) for other in chosen):
            chosen.append(finding)
    return tuple(chosen)


def _overlap(finding: Finding, other: Finding) -> bool:
    """Whether at least half of the pairs of the smaller finding are also the other's."""
    ours, theirs = set(finding.pairs), set(other.pairs)
    return 2 * len(ours & theirs) >= min(len(ours), len(theirs))


@dataclass(frozen=True)
class Report:
    """The report on results, cases and their comparison; cases without a result are left out."""

    results: Sequence[Results]
    given: Sequence[Case]
    comparison: Comparison
    background: Background = field(default_factory=Background)

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        return {case.id: case for case in self.given}

    @cached_property
    def frameworks(self) -> tuple[Framework, ...]:
        return frameworks(self.results, self.background)

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
        """The findings of all frameworks, ranked."""
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
