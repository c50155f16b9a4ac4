"""Nothing is left over from step to step: bytes and live tensors do not grow.

The procedure is repeated, the garbage collector off, and what is held after each run is read. The
first half is for caches to fill; over the second half, the slope of the recomputed program must be
no more than the plain one's. Live tensors are whole numbers, so that one tensor left over per step
shows; bytes may differ by up to half an activation per step. Where every run is to end in an error,
what the collector frees is not counted: an exception and the frames that it came through refer to
each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.case import Case
from conformance.checks.evidence import Check, Evidence
from conformance.verdict import Level, Status, Verdict


def _applies(case: Case) -> bool:
    return case.release > 0


def slope(readings: Sequence[int]) -> float:
    """Growth per step over the second half of the readings."""
    later = readings[len(readings) // 2 - 1 :]
    return (later[-1] - later[0]) / (len(later) - 1)


def _judge(evidence: Evidence) -> Verdict:
    plain, recomputed = evidence.plain, evidence.recomputed
    unit = evidence.expected.memory.unit if evidence.expected.memory else 0
    seen: list[str] = []
    grown: list[str] = []
    for what, control, readings, allowed in (
        ("live tensors", plain.alive, recomputed.alive, 0.5),
        ("bytes", plain.held, recomputed.held, max(unit / 2, 1.0)),
    ):
        if control is None or readings is None:
            continue
        ours, theirs = slope(readings), max(0.0, slope(control))
        seen.append(f"{what} {', '.join(map(str, readings))}")
        if ours - theirs >= allowed:
            grown.append(f"{what} grow by {ours:g} per step, plain by {theirs:g}")
    if not seen:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed neither bytes nor tensors")
    if grown:
        return CHECK.verdict(
            Status.FAIL, "; ".join(grown), "no growth beyond plain's", "; ".join(seen)
        )
    return CHECK.verdict(
        Status.PASS, "nothing is left over from step to step", observed="; ".join(seen)
    )


CHECK = Check(
    "release",
    "bytes and live tensors do not grow from step to step",
    Level.MUST,
    _applies,
    _judge,
)
