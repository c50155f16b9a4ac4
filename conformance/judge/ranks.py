"""The verdicts on a program of several ranks: each rank is judged as a program of its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from conformance.model.observation import Expected, Observation, RandomSample
from conformance.model.verdict import Status, Verdict

#: The expectation of a rank for the samples of all ranks.
Expect = Callable[[Sequence[RandomSample] | None, int], Expected]
#: The verdicts on what was seen of one rank.
Judge = Callable[
    [Callable[[Sequence[RandomSample] | None], Expected], Observation], tuple[Verdict, ...]
]
#: Which of two verdicts of a check counts, the first before the others.
_ORDER = (Status.BROKEN, Status.FAIL, Status.WARN, Status.UNSUPPORTED, Status.REPORT, Status.PASS)


def each_rank(observation: Observation, expect: Expect, judge: Judge) -> tuple[Verdict, ...]:
    """The verdicts of each check, those of the first rank on which it comes out worst; the message names
    the rank, unless it came out alike on all."""
    seen = (observation, *observation.others)
    if len(seen) == 1:
        return judge(lambda samples: expect(samples, 0), observation)
    drawn: list[RandomSample] | None = []
    for rank, one in enumerate(seen):
        samples = one.recomputed.samples
        if samples is None:
            drawn = None
            break
        assert drawn is not None
        drawn += [replace(s, rank=rank) for s in samples if s.phase == "forward"]
    judged = [
        judge(lambda _, rank=rank: expect(drawn, rank), one)  # type: ignore[misc]
        for rank, one in enumerate(seen)
    ]
    verdicts: list[Verdict] = []
    for check in dict.fromkeys(v.check for one in judged for v in one):
        each = [[v for v in one if v.check == check] for one in judged]
        worst = [min((_ORDER.index(v.status) for v in one), default=len(_ORDER)) for one in each]
        rank = worst.index(min(worst))
        named = len(set(worst)) > 1
        place = f"on rank {rank}: " if named else ""
        verdicts += [msgspec.structs.replace(v, message=place + v.message) for v in each[rank]]
    return tuple(verdicts)
