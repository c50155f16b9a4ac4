"""Whether the bytes kept between forward and backward are as few as they should be."""

from __future__ import annotations

from conformance.judge.limits import OUTSIDE, SLACK, SMALL
from conformance.model.facts import Bytes
from conformance.model.observation import ExpectedMemory


def retained(
    memory: ExpectedMemory, plain: int, recomputed: int, resolution: int, law: bool = False
) -> Bytes:
    """The bytes that the plain and the recomputed run kept, with the bounds of the reference.

    Where the reference expects little to be freed (less than `SMALL`), the few numbers that an operation
    keeps for itself are as large as an activation. The bounds then follow the plain run: what it keeps
    beyond the reference, the recomputed run may keep, too, and what it keeps less need not be freed.
    Which count of the reference is that of the plain run is not known: what operations outside of
    regions may keep is allowed as long as no less is freed than has to be.
    `resolution` is 0, or the bytes below which the observer cannot tell what is retained. With `law`,
    the case is a point of a law. It is judged to the byte, unless the observer cannot tell single bytes,
    since even the few bytes that each region may keep for itself grow with the law.
    """
    small = memory.drop < SMALL
    most = memory.recomputed[1]
    if small:
        outside = most + int(OUTSIDE * memory.outside)
        beyond = most + plain - memory.plain[1]
        most = max(most, beyond, min(plain - memory.drop + memory.rise, outside))
    drop = memory.drop - (max(0, memory.plain[0] - plain) if small else 0)
    least = drop if memory.drop else None
    exact = law and not resolution
    return Bytes(plain, recomputed, most, least, memory.unit, resolution, exact)


def can_tell(memory: ExpectedMemory, measured: Bytes) -> bool:
    """Whether the observer can resolve the expected drop or an observed increase."""
    increase = measured.recomputed - measured.plain
    return not measured.resolution or max(memory.drop, increase) >= measured.resolution


def slack(measured: Bytes) -> int:
    """The tolerance, in bytes, on retained and on freed memory."""
    return 0 if measured.exact else int(measured.unit * SLACK)


def too_much(measured: Bytes) -> bool:
    """Whether more is kept than may be."""
    return measured.recomputed > measured.most + slack(measured)


def too_little(measured: Bytes) -> bool:
    """Whether less is freed than must be."""
    freed = measured.plain - measured.recomputed
    return measured.drop is not None and freed < measured.drop - slack(measured)


def right(measured: Bytes) -> bool:
    """Whether no more is kept and no less freed than should be."""
    return not too_much(measured) and not too_little(measured)
