"""State after the step: running statistics that are updated twice, and what the function leaves outside.

Running statistics that move twice as far change the model in evaluation, so they are a should. No
framework promises anything about other side effects of the function. They are reported.
"""

from __future__ import annotations

import numpy as np

from conformance.judge.arrays import differs, summaries
from conformance.judge.checks.evidence import Check, Evidence
from conformance.language.operations import NOTED
from conformance.model.case import Case
from conformance.model.facts import Calls, State, number
from conformance.model.observation import Array
from conformance.model.verdict import Level, Status, Verdict

#: How one entry of the state differs from the plain run's.
Change = Calls | State
#: The name under which notes of the body stand among the state.
NOTES = "noted"


def _judge(evidence: Evidence) -> Verdict:
    names = [array.name for array in evidence.case.state]
    changes: list[Change] = []
    for name in [*names, *([NOTES] if evidence.case.uses(NOTED) else [])]:
        control, observed = evidence.plain.state.get(name), evidence.recomputed.state.get(name)
        if control is None or observed is None:
            return CHECK.verdict(Status.REPORT, f"{name} was not observed")
        if name == NOTES and not np.any(control):
            message = "no note is left, also without recompute: the compiler removed the effect"
            return CHECK.verdict(Status.REPORT, message)
        if differs(observed, control, evidence.case.tolerance):
            changes.append(_change(evidence.case, name, observed, control))
    if not changes:
        return CHECK.verdict(Status.PASS, "state equals the plain run's")
    only_notes = all(change.name == NOTES for change in changes)
    status = Status.REPORT if only_notes else Status.WARN
    message = f"the rerun changed state again: {'; '.join(map(_words, changes[:2]))}"
    return CHECK.verdict(status, message, facts=tuple(changes))


def _change(case: Case, name: str, observed: Array, control: Array) -> Change:
    """How state differs from the plain run's: as counts for notes that are whole numbers, else as
    arrays, with the ratio of their changes where the state starts from one number."""
    single = observed.shape == control.shape == ()
    if name == NOTES and single and all(float(a).is_integer() for a in (observed, control)):
        return Calls(name, int(observed), int(control))
    starts = {a.name: a.fill.numbers[0] for a in case.state if a.fill.kind == "full"}
    times = None
    if observed.shape == control.shape and name in starts and np.all(control != starts[name]):
        moved, plain_moved = (a.astype(np.float64) - starts[name] for a in (observed, control))
        times = number(float(np.mean(moved / plain_moved)))
    expected, seen = summaries(control, observed)
    return State(name, seen, expected, times)


def _words(change: Change) -> str:
    name, observed, expected = change.name, change.observed, change.expected
    if isinstance(change, Calls):
        return f"{name} is () [{observed}], but () [{expected}] without recompute"
    ratio = "" if change.times is None else f" ({float(change.times):.2f} times as far)"
    return f"{name} is {observed}, but {expected} without recompute{ratio}"


CHECK = Check(
    "state", _judge, applies=lambda case: bool(case.state) or case.uses(NOTED), level=Level.SHOULD
)
