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
from typing import Literal

from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.limits import STEP, TENSORS
from conformance.model.case import Case
from conformance.model.facts import Growth
from conformance.model.verdict import Level, Status, Verdict

_What = Literal["live tensors", "bytes"]
_Readings = tuple[int, ...] | None


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
    growth: list[Growth] = []
    kinds: tuple[tuple[_What, _Readings, _Readings, float], ...] = (
        ("live tensors", plain.alive, recomputed.alive, TENSORS),
        ("bytes", plain.held, recomputed.held, max(unit * STEP, 1.0)),
    )
    for what, control, readings, allowed in kinds:
        if control is None or readings is None:
            continue
        ours, theirs = slope(readings), max(0.0, slope(control))
        seen.append(f"{what} {', '.join(map(str, readings))}")
        if ours - theirs >= allowed:
            growth.append(Growth("grows", what, ours, theirs))
        more = level(readings) - level(control)
        if more >= allowed and ours <= 0 and theirs == 0 and not evidence.case.error:
            growth.append(Growth("left", what, float(level(readings)), float(level(control))))
    if not seen:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed neither bytes nor tensors")
    grown = tuple(fact for fact in growth if fact.kind == "grows")
    if grown:
        message = "; ".join(
            f"{f.what} grow by {f.observed:g} per step, plain by {f.plain:g}" for f in grown
        )
        readings_seen = "; ".join(seen)
        return CHECK.verdict(
            Status.FAIL, message, "no growth beyond plain's", readings_seen, facts=grown
        )
    if growth:
        left = "; ".join(f"{f.observed:.0f} {f.what}, plain {f.plain:.0f}" for f in growth)
        return CHECK.verdict(
            Status.FAIL,
            f"more is left after each step than by the plain program: {left}",
            "no more than plain's",
            "; ".join(seen),
            facts=tuple(growth),
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
