"""Retained memory: what recomputing frees against plain, in units of the case's own activation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conformance.compare.grouping import Compared, absence, partition
from conformance.compare.model import EXPECTATION, Agreement, CrossVerdict, Group
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

    @property
    def range(self) -> str:
        """What should have been freed, in words."""
        to = "" if self.least == self.most else f" to {self.most:.2f}"
        return f"{self.least:.2f}{to} activations"


def compare_memory(case: str, results: Mapping[str, Result]) -> Iterator[CrossVerdict]:
    """The verdict on the drop in retained bytes, where the observers can tell it."""
    compared = Compared.of(case, CHECK, results, _absence)
    expected = [r.expected.memory for r in results.values() if r.expected and r.expected.memory]
    if not expected:
        return
    drops = {v: d for v, r in compared.present.items() if (d := drop_of(r))}
    if len(drops) > 1:
        yield _verdict(compared, drops)
    elif (most := max(memory.drop for memory in expected)) < SMALL:
        words = (
            f"{most} bytes should fall; an observer that asks an allocator tells none below {SMALL}"
        )
        yield CrossVerdict(case, CHECK, CHECK, Agreement.SKIPPED, words)


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


def _verdict(compared: Compared, drops: Mapping[str, Drop]) -> CrossVerdict:
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
    return compared.verdict(subject, (main, *others), main, others, difference)


def _absence(result: Result) -> str:
    why = absence(result, CHECK)
    if why:
        return why
    for verdict in result.verdicts:
        if verdict.check == CHECK and verdict.status is Status.REPORT:
            return verdict.message
    return "" if drop_of(result) is not None else "not observed"
