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


def samples_of(observation: Observation) -> list[RandomSample] | None:
    """What the recomputed run drew in forward, on all ranks; `None` where that was not observed."""
    drawn: list[RandomSample] = []
    for rank, one in enumerate((observation, *observation.others)):
        if one.recomputed.samples is None:
            return None
        forward = (s for s in one.recomputed.samples if s.phase == "forward")
        drawn += [replace(sample, rank=rank) for sample in forward]
    return drawn


def each_rank(observation: Observation, expect: Expect, judge: Judge) -> tuple[Verdict, ...]:
    """The verdicts of each check, those of the first rank on which it comes out worst, and of errors of
    the rank that raised before the others; the message names it, unless all ranks say the same."""
    seen = (observation, *observation.others)
    if len(seen) == 1:
        return judge(lambda samples: expect(samples, 0), observation)
    drawn = samples_of(observation)
    judged = [
        judge(lambda _, rank=rank: expect(drawn, rank), one)  # type: ignore[misc]
        for rank, one in enumerate(seen)
    ]
    verdicts: list[Verdict] = []
    for check in dict.fromkeys(v.check for one in judged for v in one):
        each = [[v for v in one if v.check == check] for one in judged]
        worst = [min((_ORDER.index(v.status) for v in one), default=len(_ORDER)) for one in each]
        among = [rank for rank, one in enumerate(worst) if one == min(worst)]
        alike = len({tuple(v.message for v in one) for one in each}) == 1
        if check == "error" and not alike:  # the others raise because that one has ended
            among.sort(key=lambda rank: seen[rank].seconds)
        rank = among[0]
        passes = alike or min(worst) == _ORDER.index(Status.PASS)
        place = "" if passes else f"on rank {rank}: "
        verdicts += [msgspec.structs.replace(v, message=place + v.message) for v in each[rank]]
    return tuple(verdicts)
