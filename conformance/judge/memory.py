"""Whether the bytes kept between forward and backward are as few as they should be.

The check of retained memory, the comparison and the report all ask here.
"""

from __future__ import annotations

from conformance.judge.limits import SLACK, SMALL
from conformance.model.facts import Bytes
from conformance.model.observation import ExpectedMemory


def retained(
    memory: ExpectedMemory, plain: int, recomputed: int, resolution: int, law: bool = False
) -> Bytes:
    """What the two runs kept, and what the reference says of it.

    Where it lets little be freed (`SMALL`), a few numbers that an operation keeps for itself weigh as
    much as an activation: what the plain run keeps beyond the reference, the recomputed run may keep,
    too, and where it keeps less, there is less to free. `resolution` is 0, or the bytes below which the
    observer cannot tell what is retained. A point of a `law` is judged to the byte, unless the observer
    cannot tell: what a region keeps for itself, however little, grows with the law.
    """
    small = memory.drop < SMALL
    most = memory.recomputed[1] + (max(0, plain - memory.plain[1]) if small else 0)
    drop = memory.drop - (max(0, memory.plain[0] - plain) if small else 0)
    least = drop if memory.drop else None
    exact = law and not resolution
    return Bytes(plain, recomputed, most, least, memory.unit, resolution, exact)


def can_tell(memory: ExpectedMemory, seen: Bytes) -> bool:
    """Whether the observer's resolution is fine enough for the expected drop or for an observed
    increase.
    """
    rose = seen.recomputed - seen.plain
    return not seen.resolution or max(memory.drop, rose) >= seen.resolution


def slack(seen: Bytes) -> int:
    """The tolerance, in bytes, on retained and on freed memory."""
    return 0 if seen.exact else int(seen.unit * SLACK)


def too_much(seen: Bytes) -> bool:
    """Whether more is kept than may be."""
    return seen.recomputed > seen.most + slack(seen)


def too_little(seen: Bytes) -> bool:
    """Whether less is freed than must be."""
    return seen.drop is not None and seen.plain - seen.recomputed < seen.drop - slack(seen)


def right(seen: Bytes) -> bool:
    """Whether no more is kept and no less freed than should be."""
    return not too_much(seen) and not too_little(seen)
