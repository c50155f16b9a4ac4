"""Variants of all adapters against each other: which of them agree, case by case.

They are compared on values, executions and retained memory, with the reference's expectation beside
them.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from conformance.compare import model, numeric
from conformance.compare.beside import belong_together, side_of
from conformance.compare.model import EXPECTATION, Agreement, Comparison, CrossVerdict, Group
from conformance.compare.numeric import Subject, Value, close, partition, values_of
from conformance.errors import ComparisonError
from conformance.judge import memory as judged
from conformance.judge.arrays import against_others
from conformance.judge.checks import executions
from conformance.judge.limits import SLACK, SMALL
from conformance.judge.outcomes import of_verdict
from conformance.language.features import required_by
from conformance.language.operations import RANDOM
from conformance.model.case import Case, Tolerance
from conformance.model.observation import Allowed, Expected, Observation, Phase, Run
from conformance.model.result import Result, Results
from conformance.model.verdict import Status
from conformance.store import cases_hash

MEMORY = "retained memory"
_NUMBERS = frozenset({"value", "gradient", "structure", "randomness"})
#: Checks of a variant's own whose failure explains a disagreement, by the check compared.
_EXPLAINS = {"value": _NUMBERS, "gradient": _NUMBERS}


def compare(results: Sequence[Results], cases: Sequence[Case]) -> Comparison:
    """Compare every case that ran in at least two variants, within the case's tolerance.

    Raises `ComparisonError` for no results at all, the same adapter twice, and results from other
    cases than those given.
    """
    _refuse(results, cases)
    disciplines = {v: d for run in results for v, d in run.header.disciplines.items()}
    accuracy = {v: a for run in results for v, a in run.header.accuracy.items()}
    by_case: dict[str, dict[str, Result]] = defaultdict(dict)
    for result in (result for run in results for result in run.results):
        by_case[result.case][result.variant] = result
    known = {case.id: case for case in cases}
    verdicts: list[CrossVerdict] = []
    for id_, found in by_case.items():
        # Where implementations legitimately differ, each one's own results say how.
        if len(found) > 1 and id_ in known and not known[id_].differs:
            # The least accurate of those compared decides how far apart they may lie.
            tolerances = [against_others(known[id_], accuracy.get(v, {})) for v in found]
            tolerance = max(tolerances, key=lambda tolerance: tolerance.atol)
            verdicts += _numbers(known[id_], found, tolerance)
            if executions.CHECK.applies(known[id_]):
                verdicts += _executions(id_, found, disciplines)
            verdicts += _memory(id_, found)
    return Comparison(tuple(v for run in results for v in run.header.variants), tuple(verdicts))


def _refuse(results: Sequence[Results], cases: Sequence[Case]) -> None:
    if not results:
        hint = "write the results first: `conformance run --adapter NAME`"
        raise ComparisonError("there are no results to compare", hint=hint)
    belong_together([results])
    for run in results:
        missing = [v for v in run.header.variants if v not in run.header.disciplines]
        if missing:
            raise ComparisonError(f"no discipline for {missing[0]}", where=run.path)
    if cases_hash(cases) != results[0].header.cases:
        words = "found results of other cases: the cases have changed since the run"
        raise ComparisonError(words, where=results[0].path, hint="run the adapters again")


@dataclass(frozen=True)
class _Compared:
    """Variants that are compared on what one check is about: those that have something to compare,
    with their results, and why others have not."""

    case: str
    check: str
    present: Mapping[str, Result]
    absent: Mapping[str, str]

    @classmethod
    def of(
        cls,
        case: str,
        check: str,
        results: Mapping[str, Result],
        why: Callable[[Result], str] = lambda _: "",
    ) -> Self:
        """All of a case. `why` says why an observed result has nothing to compare, else nothing."""
        absent = {v: words for v, r in results.items() if (words := _absence(r, check) or why(r))}
        return cls(case, check, {v: r for v, r in results.items() if v not in absent}, absent)

    @property
    def observed(self) -> dict[str, Observation]:
        return {v: r.observation for v, r in self.present.items() if r.observation is not None}

    def among(self, variants: Collection[str], absent: Mapping[str, str]) -> Self:
        """The same with some of the variants that are present, and others absent."""
        present = {v: r for v, r in self.present.items() if v in variants}
        return replace(self, present=present, absent=absent)

    def majority(self, groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        """The group that the others are compared with.

        It is the one that contains the expectation; else the one with most members whose own checks
        passed; else the largest, and of equal ones the first.
        """

        def weight(group: tuple[str, ...]) -> tuple[bool, int, int]:
            clean = sum(v in self.present and not self._judged(v) for v in group)
            return EXPECTATION in group, clean, len(group)

        return max(groups, key=weight)

    def verdict(
        self,
        subject: str,
        groups: tuple[Group, ...],
        main: Group,
        wrong: Iterable[Group],
        difference: Callable[[Group], str],
    ) -> CrossVerdict:
        """The verdict where the `wrong` ones among the groups are held against the main one.

        `difference` says in words how a wrong group differs.
        """
        against = main.variants or (EXPECTATION,)
        disagreements: list[model.Disagreement] = []
        for variants, words in ((group.variants, difference(group)) for group in wrong):
            verb = "disagrees" if len(variants) == 1 else "disagree"
            who = f"{_listed(variants)} {verb} with {_listed(against)}"
            shown = {variant: how for variant in variants if (how := self._judged(variant))}
            new = tuple(variant for variant in variants if variant not in shown)
            message = f"{who} on {subject}: {words}"
            disagreements.append(model.Disagreement(variants, against, message, shown, new))
        if not disagreements:
            words = f"{sum(len(g.variants) for g in groups)} variants agree on {subject}"
            return self.told(subject, Agreement.AGREE, words, groups)
        message = "; ".join(disagreement.message for disagreement in disagreements)
        told = self.told(subject, Agreement.DISAGREE, message, groups)
        return replace(told, disagreements=tuple(disagreements))

    def told(
        self, subject: str, status: Agreement, message: str, groups: tuple[Group, ...] = ()
    ) -> CrossVerdict:
        found = self.case, self.check, subject, status, message, groups
        return CrossVerdict(*found, absent=self.absent)

    def _judged(self, variant: str) -> str:
        """The outcome of a variant's own checks that explains a disagreement, and why; or empty."""
        result = self.present[variant]
        for verdict in result.verdicts:
            if verdict.status.deviates and verdict.check in _EXPLAINS.get(self.check, {self.check}):
                words = verdict.message if verdict.known is None else verdict.known.reason
                return f"{of_verdict(verdict, result)}: {words}"
        return ""


def _absence(result: Result, check: str) -> str:
    """Why a result has no value to compare for a check; empty if it has one."""
    observation = result.observation
    if observation is None:
        return side_of(result).text
    if observation.recomputed.error is not None:
        return f"raised {observation.recomputed.error.type}"
    if observation.plain.error is not None:
        return f"the plain run raised {observation.plain.error.type}"
    return observation.unobserved.get(check, "")


def _listed(names: tuple[str, ...]) -> str:
    """A list of names in words: `a, b and c`; the expectation gets an article."""
    *first, last = [f"the {name}" if name == EXPECTATION else name for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def _numbers(
    case: Case, results: Mapping[str, Result], tolerance: Tolerance
) -> Iterator[CrossVerdict]:
    """Verdicts on every array of a case.

    Arrays of deterministic cases are held against each other and against the expectation (float64).
    Where a case draws random numbers, generators differ between frameworks: there only variants of
    one framework are compared, and only those whose plain runs drew the same. Where random state is
    not preserved, gradients are those of other draws, and nothing is compared.
    """
    compared = _Compared.of(case.id, "value", results)
    if not case.uses(RANDOM):
        expected = next((r.expected for r in compared.present.values() if r.expected), None)
        yield from _values(compared, tolerance, expected)
    elif "preserve-rng-off" in required_by(case):
        words = "random, and random state is not preserved: nothing to compare"
        yield compared.told("values", Agreement.SKIPPED, words)
    else:
        words = "random: compared within each framework only"
        yield compared.told("values", Agreement.SKIPPED, words)
        for same in _drew_the_same(compared, tolerance):
            yield from _values(compared.among(same, {}), tolerance, None)


def _values(
    compared: _Compared, tolerance: Tolerance, expected: Expected | None
) -> Iterator[CrossVerdict]:
    if len(compared.present) < 2:
        return
    anchor = {} if expected is None else values_of(expected)
    recomputed = {v: values_of(o.recomputed) for v, o in compared.observed.items()}
    plain = {v: values_of(o.plain) for v, o in compared.observed.items()}
    for key in dict.fromkeys(s for values in (anchor, *recomputed.values()) for s in values):
        entries = {v: values.get(key, numeric.Missing()) for v, values in recomputed.items()}
        if key[0] == "gradient":
            for v, value in entries.items():
                control = plain[v].get(key)
                entries[v] = numeric.comparable_gradient(value, control, anchor.get(key))
        if key in anchor:
            entries = {EXPECTATION: anchor[key], **entries}
        yield _of_entries(replace(compared, check=key[0]), key[1], entries, tolerance)


def _of_entries(
    compared: _Compared, subject: str, entries: Mapping[str, Value], tolerance: Tolerance
) -> CrossVerdict:
    names = numeric.agreeing(entries, tolerance)
    groups = tuple(Group(members, numeric.summary(entries[members[0]])) for members in names)
    main = groups[names.index(compared.majority(names))]

    def difference(group: Group) -> str:
        pairs = [(entries[a], entries[b]) for a in group.variants for b in main.members]
        return numeric.worst(*next(pair for pair in pairs if not close(*pair, tolerance)))

    wrong = [group for group in groups if group is not main and group.variants]
    return compared.verdict(subject, groups, main, wrong, difference)


def _drew_the_same(compared: _Compared, tolerance: Tolerance) -> Iterator[tuple[str, ...]]:
    """Variants of one framework whose plain runs agree: these drew the same numbers."""
    by_adapter: dict[str, dict[str, dict[Subject, Value]]] = defaultdict(dict)
    for variant, observation in compared.observed.items():
        values = {k: v for k, v in values_of(observation.plain).items() if k[0] == "value"}
        by_adapter[variant.partition("/")[0]][variant] = values

    def agree(a: Mapping[Subject, Value], b: Mapping[Subject, Value]) -> bool:
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)

    for own in by_adapter.values():
        yield from (group for group in partition(own, agree) if len(group) > 1)


def _executions(
    case: str, results: Mapping[str, Result], disciplines: Mapping[str, str]
) -> Iterator[CrossVerdict]:
    """Verdicts on every region: its forward runs over all variants, and its reruns among variants of
    one discipline for which the reference expects the same. What a variant declares of itself
    (`residuals`) may make another count right for it than for its neighbours."""

    def why(result: Result) -> str:
        seen = result.observation
        return "" if seen and seen.recomputed.executions is not None else "not observed"

    compared = _Compared.of(case, "executions", results, why)
    for region in dict.fromkeys(n for r in compared.present.values() for n in _regions(r)):
        yield from _counts(compared, f"forward runs of region {region}", region, "forward")
        alike: dict[str, dict[tuple[int, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
        for variant, result in compared.present.items():
            expected = _allowed(result, region, "rerun")
            counts = () if expected is None else tuple(sorted(expected.counts))
            alike[disciplines[variant]][counts].append(variant)
        for discipline, by_counts in alike.items():
            absent = {v: w for v, w in compared.absent.items() if disciplines[v] == discipline}
            for counts, variants in by_counts.items():
                words = f"discipline {discipline}"
                if len(by_counts) > 1:
                    words += f", {' or '.join(map(str, counts)) or 'no count'} expected"
                subject = f"reruns of region {region} ({words})"
                yield from _counts(compared.among(variants, absent), subject, region, "rerun")


def region_count(run: Run, region: str, phase: Phase) -> int | None:
    """How often a region ran as a whole in a phase; `None` where it was not counted.

    A way of counting that sees statements alone has no entry for regions: there the statement of
    the region that ran most often tells.
    """
    if run.executions is None:
        return None
    of_region = [e for e in run.executions if e.region == region]
    whole = [e for e in of_region if not e.statement]
    if whole:
        return sum(e.count for e in whole if e.phase == phase)
    return max((e.count for e in of_region if e.phase == phase), default=0)


def _counts(compared: _Compared, subject: str, region: str, phase: Phase) -> Iterator[CrossVerdict]:
    if len(compared.present) < 2:
        return
    counts = {
        variant: region_count(observation.recomputed, region, phase) or 0
        for variant, observation in compared.observed.items()
    }
    allowed = {v: a for v, r in compared.present.items() if (a := _allowed(r, region, phase))}
    right = {v: v not in allowed or n in allowed[v] for v, n in counts.items()}
    names = partition(counts, lambda a, b: a == b)
    times = {n: "once" if n == 1 else f"{n} times" for n in counts.values()}
    groups = tuple(Group(members, times[counts[members[0]]]) for members in names)
    if len(names) > 1 and all(right.values()):
        reasons = dict.fromkeys(a.reason for a in allowed.values() if a.reason)
        message = "; ".join((f"they differ in {subject}, as is allowed", *reasons))
        yield compared.told(subject, Agreement.ALLOWED, message, groups)
        return
    # The expectation stands with the variants that meet it, and alone where none does.
    met = [members for members in names if all(right[v] for v in members)]
    wrong = [group for group in groups if group.members not in met]
    if met:
        main = groups[names.index(compared.majority(met))]
    else:
        main = Group((EXPECTATION,), f"{next(iter(allowed.values()))} times")
        groups = (main, *groups)
    yield compared.verdict(
        subject, groups, main, wrong, lambda group: f"{group.value} against {main.value}"
    )


def _regions(result: Result) -> Iterator[str]:
    if result.expected is not None:
        yield from (region for region, _, _ in result.expected.executions if region)
    if result.observation is not None:
        yield from (e.region for e in result.observation.recomputed.executions or () if e.region)


def _allowed(result: Result, region: str, phase: Phase) -> Allowed | None:
    return None if result.expected is None else result.expected.executions.get((region, "", phase))


@dataclass(frozen=True)
class Drop:
    """What recomputing freed, and the least and the most that it may free by the reference, in units
    of the case's own activation."""

    units: float
    least: float
    most: float
    right: bool

    @property
    def range(self) -> str:
        to = "" if self.least == self.most else f" to {self.most:.2f}"
        return f"{self.least:.2f}{to} activations"


def drop_of(result: Result) -> Drop | None:
    """What recomputing freed on one variant; `None` where it or the expectation is not known."""
    observation, expected = result.observation, result.expected
    if observation is None or expected is None or expected.memory is None:
        return None
    plain, recomputed = observation.plain.retained, observation.recomputed.retained
    memory = expected.memory
    if plain is None or recomputed is None or memory.unit <= 0:
        return None
    seen = judged.retained(memory, plain, recomputed, observation.resolution)
    if not judged.can_tell(memory, seen):
        return None
    unit, most = memory.unit, max(memory.drop, memory.plain[1] - memory.recomputed[0])
    return Drop((plain - recomputed) / unit, memory.drop / unit, most / unit, judged.right(seen))


def _memory(case: str, results: Mapping[str, Result]) -> Iterator[CrossVerdict]:
    """The verdict on the drop in retained bytes, where the observers can observe it."""
    expected = [r.expected.memory for r in results.values() if r.expected and r.expected.memory]
    if not expected:
        return
    compared = _Compared.of(case, MEMORY, results, _unmeasured)
    drops = {v: d for v, r in compared.present.items() if (d := drop_of(r))}
    if len(drops) < 2:
        most = max(memory.drop for memory in expected)
        if most < SMALL:
            words = f"{most} bytes should fall; an observer that asks an allocator tells none below"
            yield CrossVerdict(case, MEMORY, MEMORY, Agreement.SKIPPED, f"{words} {SMALL}")
        return
    right = tuple(v for v, drop in drops.items() if drop.right)
    wrong = {v: drop for v, drop in drops.items() if not drop.right}
    main = Group((EXPECTATION, *right), drops[right[0] if right else next(iter(drops))].range)
    others = [
        Group(members, f"{drops[members[0]].units:.2f} activations")
        for members in partition(wrong, lambda a, b: abs(a.units - b.units) <= SLACK)
    ]

    def difference(group: Group) -> str:
        return f"{group.value}, but {drops[group.variants[0]].range} should have been freed"

    subject = "the drop in retained memory"
    yield compared.verdict(subject, (main, *others), main, others, difference)


def _unmeasured(result: Result) -> str:
    reported = (
        verdict.message
        for verdict in result.verdicts
        if verdict.check == MEMORY and verdict.status is Status.REPORT
    )
    return next(reported, "" if drop_of(result) is not None else "not observed")
