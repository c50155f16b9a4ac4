"""Retained memory: what recomputing frees against plain, in units of the case's own activation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conformance.compare.grouping import absence, cross_verdict, partition
from conformance.compare.model import EXPECTATION, CrossStatus, CrossVerdict, Group
from conformance.judge import memory as judged
from conformance.judge.limits import SLACK, SMALL
from conformance.model.observation import ExpectedMemory
from conformance.model.result import Result
from conformance.model.verdict import Status

CHECK = "retained memory"


@dataclass(frozen=True)
class Drop:
    """What recomputing freed and the range that the reference expects, in units of the activation."""

    units: float
    least: float
    most: float
    right: bool


def compare_memory(case: str, results: Mapping[str, Result]) -> Iterator[CrossVerdict]:
    """The verdict on the drop in retained bytes, where the observers can tell it."""
    absent = {v: why for v, r in results.items() if (why := _absence(r))}
    memories = [
        result.expected.memory for result in results.values() if result.expected is not None
    ]
    falls = {memory.drop for memory in memories if memory is not None}
    if not falls:
        return
    drops = {v: d for v, r in results.items() if v not in absent and (d := drop_of(r))}
    if len(drops) < 2:
        if max(falls) < SMALL:
            words = (
                f"{max(falls)} bytes should fall; an observer that asks an allocator tells none below "
                f"{SMALL}"
            )
            yield CrossVerdict(case, CHECK, "retained memory", CrossStatus.SKIPPED, words)
        return
    yield _verdict(case, drops, results, absent)


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
    least, most = drop_range(memory)
    unit = memory.unit
    return Drop((plain - recomputed) / unit, least / unit, most / unit, judged.right(seen))


def drop_range(memory: ExpectedMemory) -> tuple[int, int]:
    """The least and the most bytes that recomputing may free, by the reference."""
    return memory.drop, max(memory.drop, memory.plain[1] - memory.recomputed[0])


def _verdict(
    case: str,
    drops: Mapping[str, Drop],
    results: Mapping[str, Result],
    absent: Mapping[str, str],
) -> CrossVerdict:
    right = tuple(v for v, drop in drops.items() if drop.right)
    wrong = {v: drop for v, drop in drops.items() if not drop.right}
    others = partition(wrong, lambda a, b: abs(a.units - b.units) <= SLACK)
    first = next(iter(drops.values()))
    main = Group((EXPECTATION, *right), _range(drops[right[0]] if right else first))
    groups = (main, *(Group(members, _units(drops[members[0]])) for members in others))

    def difference(group: Group) -> str:
        drop = drops[group.variants[0]]
        return f"{_units(drop)}, but {_range(drop)} should have been freed"

    subject = "the drop in retained memory"
    return cross_verdict(
        case, CHECK, subject, groups, main, groups[1:], results, absent, difference
    )


def _absence(result: Result) -> str:
    why = absence(result, CHECK)
    if why:
        return why
    for verdict in result.verdicts:
        if verdict.check == CHECK and verdict.status is Status.REPORT:
            return verdict.message
    return "" if drop_of(result) is not None else "not observed"


def _units(drop: Drop) -> str:
    return f"{drop.units:.2f} activations"


def _range(drop: Drop) -> str:
    if drop.least == drop.most:
        return f"{drop.least:.2f} activations"
    return f"{drop.least:.2f} to {drop.most:.2f} activations"
