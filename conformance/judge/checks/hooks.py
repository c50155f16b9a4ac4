"""A hook on a tensor's gradient is called as often as without recompute.

A rerun builds the region's graph once more. A parameter that is used in it must not call its hook for
the rerun as well, nor once for every region that uses it.
"""

from __future__ import annotations

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.case import Case
from conformance.model.verdict import Level, Status, Verdict


def _applies(case: Case) -> bool:
    return bool(case.hooks)


def _judge(evidence: Evidence) -> Verdict:
    for name in evidence.case.hooks:
        key = f"hook of {name}"
        control, found = evidence.plain.state.get(key), evidence.recomputed.state.get(key)
        if control is None or not int(control):
            return CHECK.verdict(Status.BROKEN, f"the {key} was not called in the plain run")
        if found is None or int(found) != int(control):
            times = "never" if found is None else f"{int(found)} time(s)"
            return CHECK.verdict(
                Status.FAIL,
                f"the {key} was called {times}, but {int(control)} time(s) without recompute",
                str(int(control)),
                times,
            )
    return CHECK.verdict(Status.PASS, "every hook was called as often as in the plain run")


CHECK = Check(
    "hooks",
    "a hook on a tensor's gradient is called as often as without recompute",
    Level.MUST,
    _applies,
    _judge,
)
