"""Nothing is left over from step to step, and no more after a step than the plain program leaves.

The procedure is repeated, the garbage collector off, and what is held after each run is read, beyond
what was there before the first. The first half is for caches to fill; over the second half, the slope
of the recomputed program must be no more than the plain one's. Where neither grows, the least that
is left after a step must be no more either: what frees a step's activations one step late does not
grow. A case may have the outputs of all runs kept: then both programs grow by these, and the recomputed
one by no more. Live tensors are whole numbers, so that one tensor shows; bytes may differ by up to
half an activation. Where every run is to end in an error, what the collector frees is not counted: an
exception and the frames that it came through refer to each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.case import Case
from conformance.model.verdict import Level, Status, Verdict


def _applies(case: Case) -> bool:
    return case.release > 0


def slope(readings: Sequence[int]) -> float:
    """Growth per step over the second half of the readings."""
    later = readings[len(readings) // 2 - 1 :]
    return (later[-1] - later[0]) / (len(later) - 1)


def level(readings: Sequence[int]) -> int:
    """The least that is left after a step, in the second half of the readings."""
    return min(readings[len(readings) // 2 - 1 :])


def _judge(evidence: Evidence) -> Verdict:
    plain, recomputed = evidence.plain, evidence.recomputed
    unit = evidence.expected.memory.unit if evidence.expected.memory else 0
    seen: list[str] = []
    grown: list[str] = []
    left: list[str] = []
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
        more = level(readings) - level(control)
        if more >= allowed and ours <= 0 and theirs == 0 and not evidence.case.error:
            left.append(f"{level(readings)} {what}, plain {level(control)}")
    if not seen:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed neither bytes nor tensors")
    if grown:
        return CHECK.verdict(
            Status.FAIL, "; ".join(grown), "no growth beyond plain's", "; ".join(seen)
        )
    if left:
        return CHECK.verdict(
            Status.FAIL,
            f"more is left after each step than by the plain program: {'; '.join(left)}",
            "no more than plain's",
            "; ".join(seen),
        )
    return CHECK.verdict(
        Status.PASS, "nothing is left over from step to step", observed="; ".join(seen)
    )


CHECK = Check(
    "release",
    "bytes and live tensors do not grow from step to step, and after a step no more of them are left "
    "than by the plain program",
    Level.MUST,
    _applies,
    _judge,
)
