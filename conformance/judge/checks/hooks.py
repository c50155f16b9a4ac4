"""A hook on a tensor's gradient is called as often as without recompute.

Recomputation builds the region's graph a second time. The hook of a parameter must not be called for
that graph as well, nor once for every region that uses the parameter.
"""

from __future__ import annotations

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.facts import Calls
from conformance.model.verdict import Status, Verdict


def _judge(evidence: Evidence) -> Verdict:
    for name in evidence.case.hooks:
        key = f"hook of {name}"
        control, observed = evidence.plain.state.get(key), evidence.recomputed.state.get(key)
        wanted, seen = int(control or 0), None if observed is None else int(observed)
        reached = (evidence.expected.gradients or {}).get(name) is not None
        if reached and not wanted:
            return CHECK.verdict(Status.BROKEN, f"the {key} was not called in the plain run")
        if (seen or 0) != wanted:
            times = "never" if seen is None else f"{seen} time(s)"
            message = f"the {key} was called {times}, but {wanted} time(s) without recompute"
            facts = (Calls(key, seen, wanted),)
            return CHECK.verdict(Status.FAIL, message, str(wanted), times, facts=facts)
    return CHECK.verdict(Status.PASS, "every hook was called as often as in the plain run")


CHECK = Check("hooks", _judge, applies=lambda case: bool(case.hooks))
