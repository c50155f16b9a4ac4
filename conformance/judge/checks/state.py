"""State after the step: running statistics that a rerun may update a second time, and notes that the
body leaves outside of the program.

Statistics that move twice as far make another model in the end: a SHOULD. What the body leaves
elsewhere is nobody's promise: how often it ran shows there, and is reported.
"""

from __future__ import annotations

import numpy as np

from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.checks.numbers import difference, summary
from conformance.language.operations import NOTED
from conformance.model.case import Case
from conformance.model.verdict import Level, Status, Verdict


def _applies(case: Case) -> bool:
    return bool(case.state) or case.uses(NOTED)


def _judge(evidence: Evidence) -> Verdict:
    start = {a.name: a.fill.numbers[0] for a in evidence.case.state if a.fill.kind == "full"}
    different: list[str] = []
    status = Status.REPORT
    names = [array.name for array in evidence.case.state]
    for name in [*names, *(["noted"] if evidence.case.uses(NOTED) else [])]:
        control, found = evidence.plain.state.get(name), evidence.recomputed.state.get(name)
        if control is None or found is None:
            return CHECK.verdict(Status.REPORT, f"{name} was not observed")
        if name == "noted" and not np.any(control):
            return CHECK.verdict(
                Status.REPORT,
                "no note is left, without recompute either: the effect is compiled away",
            )
        if difference(found, control, evidence.case.tolerance):
            status = status if name == "noted" else Status.WARN
            ratio = ""
            same = found.shape == control.shape
            if same and name in start and np.all(control != start[name]):
                steps = [a.astype(np.float64) - start[name] for a in (found, control)]
                moved = float(np.mean(steps[0] / steps[1]))
                ratio = f" ({moved:.2f} times as far)"
            different.append(
                f"{name} is {summary(found)}, but {summary(control)} without recompute{ratio}"
            )
    if not different:
        return CHECK.verdict(Status.PASS, "state is that of the plain run")
    return CHECK.verdict(status, f"the rerun has left its mark, too: {'; '.join(different[:2])}")


CHECK = Check(
    "state",
    "state after the step (running statistics of batch normalisation, notes of the body)",
    Level.SHOULD,
    _applies,
    _judge,
)
