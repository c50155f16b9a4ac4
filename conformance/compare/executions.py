"""Executions: regions run equally often in forward everywhere, and rerun equally by expectation.

Reruns are compared among variants of one discipline for which the reference expects the same: what a
variant declares of itself (`residuals`) may make another count right for it than for its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.compare.grouping import Compared, absence, partition
from conformance.compare.model import EXPECTATION, Agreement, CrossVerdict, Group
from conformance.model.observation import Allowed, Phase, Run
from conformance.model.result import Result

CHECK = "executions"


def compare_executions(
    case: str, results: Mapping[str, Result], disciplines: Mapping[str, str]
) -> Iterator[CrossVerdict]:
    """Verdicts on every region: its forward runs over all variants, its reruns where they are
    expected to be equal."""
    compared = Compared.of(case, CHECK, results, _absence)
    for region in dict.fromkeys(n for r in compared.present.values() for n in _regions(r)):
        yield from _compare(compared, f"forward runs of region {region}", region, "forward")
        for discipline in dict.fromkeys(disciplines[v] for v in compared.present):
            chosen = {v: r for v, r in results.items() if disciplines[v] == discipline}
            of_discipline = Compared.of(case, CHECK, chosen, _absence)
            alike: dict[tuple[int, ...], list[str]] = {}
            for variant, result in of_discipline.present.items():
                expected = _allowed(result, region, "rerun")
                counts = () if expected is None else tuple(sorted(expected.counts))
                alike.setdefault(counts, []).append(variant)
            for counts, variants in alike.items():
                words = f"discipline {discipline}"
                if len(alike) > 1:
                    words += f", {' or '.join(map(str, counts)) or 'no count'} expected"
                subject = f"reruns of region {region} ({words})"
                yield from _compare(of_discipline.among(variants), subject, region, "rerun")


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


def _compare(compared: Compared, subject: str, region: str, phase: Phase) -> Iterator[CrossVerdict]:
    counts: dict[str, int] = {}
    for variant, result in compared.present.items():
        run = result.observation and result.observation.recomputed
        count = region_count(run, region, phase) if run else None
        if count is not None:
            counts[variant] = count
    if len(counts) < 2:
        return
    allowed = {v: a for v, r in compared.present.items() if (a := _allowed(r, region, phase))}
    right = {v: v not in allowed or n in allowed[v] for v, n in counts.items()}
    names = partition(counts, lambda a, b: a == b)
    groups = tuple(Group(members, _times(counts[members[0]])) for members in names)
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


def _allowed(result: Result, region: str, phase: Phase) -> Allowed | None:
    return None if result.expected is None else result.expected.executions.get((region, "", phase))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
