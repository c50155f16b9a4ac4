"""Executions: regions run equally often in forward everywhere, and rerun equally by expectation.

Reruns are compared among variants of one discipline for which the reference expects the same: what a
variant declares of itself (`residuals`) may make another count right for it than for its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.compare.grouping import absence, cross_verdict, majority, partition
from conformance.compare.model import EXPECTATION, CrossStatus, CrossVerdict, Group
from conformance.model.observation import Allowed, Phase, Run
from conformance.model.result import Result

CHECK = "executions"


def compare_executions(
    case: str, results: Mapping[str, Result], disciplines: Mapping[str, str]
) -> Iterator[CrossVerdict]:
    """Verdicts on every region: its forward runs over all variants, its reruns where they are
    expected to be equal."""
    absent = {v: why for v, r in results.items() if (why := _absence(r))}
    present = {v: r for v, r in results.items() if v not in absent}
    for region in dict.fromkeys(n for r in present.values() for n in _regions(r)):
        subject = f"forward runs of region {region}"
        yield from _compare(case, subject, region, "forward", present, absent)
        for discipline in dict.fromkeys(disciplines[v] for v in present):
            chosen = {v: r for v, r in present.items() if disciplines[v] == discipline}
            missing = {v: why for v, why in absent.items() if disciplines[v] == discipline}
            alike: dict[tuple[int, ...], dict[str, Result]] = {}
            for variant, result in chosen.items():
                expected = _allowed(result, region, "rerun")
                counts = () if expected is None else tuple(sorted(expected.counts))
                alike.setdefault(counts, {})[variant] = result
            for counts, equal in alike.items():
                words = f"discipline {discipline}"
                if len(alike) > 1:
                    words += f", {' or '.join(map(str, counts)) or 'no count'} expected"
                subject = f"reruns of region {region} ({words})"
                yield from _compare(case, subject, region, "rerun", equal, missing)


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


def _compare(
    case: str,
    subject: str,
    region: str,
    phase: Phase,
    results: Mapping[str, Result],
    absent: Mapping[str, str],
) -> Iterator[CrossVerdict]:
    counts = {v: n for v, r in results.items() if (n := _count(r, region, phase)) is not None}
    if len(counts) < 2:
        return
    allowed = {v: a for v, r in results.items() if (a := _allowed(r, region, phase))}
    right = {v: v not in allowed or n in allowed[v] for v, n in counts.items()}
    names = partition(counts, lambda a, b: a == b)
    if len(names) > 1 and all(right.values()):
        groups = tuple(Group(members, _times(counts[members[0]])) for members in names)
        reasons = dict.fromkeys(a.reason for a in allowed.values() if a.reason)
        yield CrossVerdict(
            case,
            CHECK,
            subject,
            CrossStatus.ALLOWED,
            "; ".join((f"they differ in {subject}, as is allowed", *reasons)),
            groups,
            absent=absent,
        )
        return
    # The expectation stands with the variants that meet it, and alone where none does.
    groups = tuple(Group(members, _times(counts[members[0]])) for members in names)
    met = [members for members in names if all(right[v] for v in members)]
    wrong = [group for group in groups if group.members not in met]
    if met:
        main = groups[names.index(majority(met, results, CHECK))]
    else:
        main = Group((EXPECTATION,), f"{next(iter(allowed.values()))} times")
        groups = (main, *groups)
    yield cross_verdict(
        case,
        CHECK,
        subject,
        groups,
        main,
        wrong,
        results,
        absent,
        lambda group: f"{group.value} against {main.value}",
    )


def _absence(result: Result) -> str:
    why = absence(result, CHECK)
    if why or result.observation is None:
        return why
    return "" if result.observation.recomputed.executions is not None else "not observed"


def _regions(result: Result) -> Iterator[str]:
    if result.expected is not None:
        yield from (region for region, _, _ in result.expected.executions if region)
    if result.observation is not None:
        yield from (e.region for e in result.observation.recomputed.executions or () if e.region)


def _count(result: Result, region: str, phase: Phase) -> int | None:
    if result.observation is None:
        return None
    return region_count(result.observation.recomputed, region, phase)


def _allowed(result: Result, region: str, phase: Phase) -> Allowed | None:
    if result.expected is None:
        return None
    return result.expected.executions.get((region, "", phase))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
