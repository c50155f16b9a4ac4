"""Memory does not grow from step to step, and after a step no more is held than in the plain program.

The step is repeated with the garbage collector switched off. After each repetition, the bytes held
beyond those before the first one are read. Caches may fill during the first half of the repetitions.
In the second half, the recomputed program must not grow faster than the plain one. If neither grows,
the recomputed program must not hold more after a step either: a program that frees each step's
activations one step late does not grow. A case may keep the outputs of all steps. Then both programs
grow by these, and the recomputed one also by what regions keep that no backward pass reaches. A single
live tensor shows, because tensors are counted. Bytes may differ by half an activation. If every step
ends in an error, garbage is collected after each, because an exception and its frames refer to each
other. A region that leaves tensors in a list leaves them there when it is recomputed, too, until the
next step, so only growth is judged. A module that is created in the forward pass lives for one step, so
what it holds is freed with it and is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from conformance.judge.arrays import tensors
from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.limits import STEP, TENSORS
from conformance.model.facts import Growth, told_apart
from conformance.model.verdict import Status, Verdict

_Quantity = Literal["live tensors", "bytes"]
#: After each run, beyond those before the first; `None` where they were not observed.
_Readings = tuple[int, ...] | None


def slope(readings: Sequence[int]) -> float:
    """Growth per step over the second half of the readings."""
    later = readings[len(readings) // 2 - 1 :]
    return (later[-1] - later[0]) / (len(later) - 1)


def level(readings: Sequence[int]) -> int:
    """The least that is left after a step, in the second half of the readings."""
    return min(readings[len(readings) // 2 - 1 :])


def _judge(evidence: Evidence) -> Verdict:
    plain, recomputed = evidence.plain, evidence.recomputed
    memory = evidence.expected.memory
    unit = memory.unit if memory else max((a.nbytes for _, a in tensors(plain.outputs)), default=0)
    kept, size = memory.left if memory and evidence.case.keeps else (0, 0)
    quantities: tuple[tuple[_Quantity, _Readings, _Readings, float], ...] = (
        ("live tensors", plain.alive, recomputed.alive, TENSORS + kept),
        ("bytes", plain.held, recomputed.held, max(unit * STEP, 1.0) + size),
    )
    if memory is None and evidence.case.keeps:
        message = "what regions keep with the outputs is not counted for this procedure"
        return CHECK.verdict(Status.UNSUPPORTED, message)
    # What a region leaves in a list when it runs again is there until the next step begins.
    judged = not evidence.case.error and not any(r.left for r in evidence.case.regions())
    readings: list[str] = []
    faults: list[Growth] = []
    for what, control, observed, allowed in quantities:
        if control is None or observed is None:
            continue
        readings.append(f"{what} {', '.join(map(str, observed))}")
        growth, plain_growth = slope(observed), max(0.0, slope(control))
        if growth - plain_growth >= allowed:
            faults.append(Growth("grows", what, growth, plain_growth))
        left, plain_left = level(observed), level(control)
        neither_grows = growth <= 0 and plain_growth == 0
        if judged and neither_grows and left - plain_left >= allowed:
            faults.append(Growth("left", what, float(left), float(plain_left)))
    if not readings:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed neither bytes nor tensors")
    shown = "; ".join(readings)
    # What grows is named, if anything does, else what is left after each step.
    growing = [fault for fault in faults if fault.kind == "grows"]
    words = [
        "{} grow by {} per step, and by {} in the plain run".format(
            f.what, *told_apart(f.observed, f.plain)
        )
        for f in growing
    ]
    wanted, message = "no more growth than in the plain run", "; ".join(words)
    if faults and not growing:
        words = [f"{f.observed:.0f} {f.what}, plain {f.plain:.0f}" for f in faults]
        message = f"each step leaves more behind than in the plain program: {'; '.join(words)}"
        wanted = "no more than in the plain run"
    if faults:
        facts = tuple(growing or faults)
        return CHECK.verdict(Status.FAIL, message, wanted, shown, facts=facts)
    return CHECK.verdict(Status.PASS, "nothing is left over from step to step", observed=shown)


CHECK = Check("release", _judge, applies=lambda case: case.release > 0)
