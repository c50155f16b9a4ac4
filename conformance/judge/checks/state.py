"""State after the step: running statistics that a rerun may update a second time, and notes that the
body leaves outside of the program.

Statistics that move twice as far make another model in the end: a SHOULD. What the body leaves
elsewhere is nobody's promise: how often it ran shows there, and is reported.
"""

from __future__ import annotations

import numpy as np

from conformance.judge.arrays import differs, summary
from conformance.judge.checks.evidence import Check, Evidence
from conformance.language.operations import NOTED
from conformance.model.case import Case
from conformance.model.facts import Calls, State, number
from conformance.model.observation import Array
from conformance.model.verdict import Level, Status, Verdict

Mark = Calls | State
#: What notes of the body are called among the state.
NOTES = "noted"


def _applies(case: Case) -> bool:
    return bool(case.state) or case.uses(NOTED)


def _judge(evidence: Evidence) -> Verdict:
    names = [array.name for array in evidence.case.state]
    marks: list[Mark] = []
    for name in [*names, *([NOTES] if evidence.case.uses(NOTED) else [])]:
        control, observed = evidence.plain.state.get(name), evidence.recomputed.state.get(name)
        if control is None or observed is None:
            return CHECK.verdict(Status.REPORT, f"{name} was not observed")
        if name == NOTES and not np.any(control):
            return CHECK.verdict(
                Status.REPORT,
                "no note is left, without recompute either: the effect is compiled away",
            )
        if differs(observed, control, evidence.case.tolerance):
            marks.append(_mark(evidence.case, name, observed, control))
    if not marks:
        return CHECK.verdict(Status.PASS, "state is that of the plain run")
    status = Status.REPORT if all(mark.name == NOTES for mark in marks) else Status.WARN
    words = "; ".join(map(_words, marks[:2]))
    message = f"the rerun has left its mark, too: {words}"
    return CHECK.verdict(status, message, facts=tuple(marks))


def _mark(case: Case, name: str, observed: Array, control: Array) -> Mark:
    """How state differs from the plain run's; a note in numbers, where it is one."""
    if name == NOTES and observed.shape == control.shape == () and _whole(observed, control):
        return Calls(name, int(observed), int(control))
    starts = {a.name: a.fill.numbers[0] for a in case.state if a.fill.kind == "full"}
    times = None
    if observed.shape == control.shape and name in starts and np.all(control != starts[name]):
        steps = [a.astype(np.float64) - starts[name] for a in (observed, control)]
        times = number(float(np.mean(steps[0] / steps[1])))
    return State(name, summary(observed), summary(control), times)


def _whole(*arrays: Array) -> bool:
    return all(float(array).is_integer() for array in arrays)


def _words(mark: Mark) -> str:
    if isinstance(mark, Calls):
        return f"{mark.name} is () [{mark.observed}], but () [{mark.expected}] without recompute"
    ratio = "" if mark.times is None else f" ({float(mark.times):.2f} times as far)"
    return f"{mark.name} is {mark.observed}, but {mark.expected} without recompute{ratio}"


CHECK = Check(
    "state",
    "state after the step (running statistics of batch normalisation, notes of the body)",
    Level.SHOULD,
    _applies,
    _judge,
)
