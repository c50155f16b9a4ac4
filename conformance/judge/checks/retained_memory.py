"""Bytes kept between forward and backward are at most the reference's, and fewer than in the plain run.

A region keeps its inputs, nothing from inside, and one copy of the random state if it preserves it. So
the recomputed run may keep at most what the reference counts, and must keep less than the plain run by
at least the difference in the reference. What operations outside of regions keep is the framework's
choice, so plain bytes of two frameworks are never compared. In cases with small activations, the
bounds follow the plain run: if it keeps more than the reference counts, so may the recomputed run; if
it keeps less, less must be freed.

If the observer sees every tensor, the margin is a quarter of the case's largest activation. There is
no margin if the case is a point of a growth law, because a few bytes for each region add up. An
observer that cannot see small tensors states its resolution in bytes. A case in which less is freed is
recorded and not judged.
"""

from __future__ import annotations

from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.limits import SLACK
from conformance.judge.memory import can_tell, retained, too_little, too_much
from conformance.model.case import FORWARD_MODE
from conformance.model.facts import Fact, States
from conformance.model.observation import RandomState
from conformance.model.verdict import Status, Verdict


def _judge(evidence: Evidence) -> Verdict | tuple[Verdict, ...]:
    expected = evidence.expected.memory
    plain, recomputed = evidence.plain.retained, evidence.recomputed.retained
    if expected is None or plain is None or recomputed is None:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed no bytes")
    state = evidence.recomputed.random_state or RandomState(0, 0)
    resolution = evidence.observation.resolution
    measured = retained(expected, plain, recomputed, resolution, evidence.case.law is not None)
    states = States(state.copies, state.nbytes, expected.states)
    judged = can_tell(expected, measured)
    bound = f"recomputed at most {expected.recomputed[1]} B, at least {expected.drop} B below plain"
    if states.allowed or states.copies:
        bound += f", and at most {_copies(states.allowed)} of the random state"
    more = f" and {states.nbytes} B of random state" if states.nbytes else ""
    seen = f"plain {plain} B, recomputed {recomputed} B{more}"
    facts: tuple[Fact, ...] = (measured, states) if states.copies else (measured,)
    unit, wrong = measured.unit or 1, []  # a case may have no elements at all
    if judged and too_much(measured):
        kept, most = _amount(recomputed, measured.most, unit)
        wrong.append(f"{kept} are kept, but at most {most} should be")
    elif judged and measured.drop is not None and too_little(measured):
        less, least = _amount(plain - recomputed, measured.drop, unit)
        kept = f"{recomputed / unit:.2f} activations are kept"
        wrong.append(f"{kept}: recompute frees {less}, but should free {least}")
    if states.copies > states.allowed:
        wrong.append(
            f"{_copies(states.copies)} of the random state ({states.nbytes} B) kept, but regions that "
            f"preserve it need at most {_copies(states.allowed)}"
        )
    if wrong:
        return tuple(CHECK.verdict(Status.FAIL, fault, bound, seen, facts=facts) for fault in wrong)
    if not judged:
        told = (
            f"{seen}: differences below {resolution} B cannot be measured, and {expected.drop} B "
        )
        return CHECK.verdict(Status.REPORT, f"{told}should be freed", observed=seen, facts=facts)
    message = f"{plain / unit:.2f} activations plain, {recomputed / unit:.2f} recomputed"
    return CHECK.verdict(Status.PASS, f"{message}{more}", bound, seen, facts=facts)


def _amount(observed: int, bound: int, unit: int) -> tuple[str, str]:
    """Both in activations, or in bytes where these differ by less than a tolerance would be."""
    if abs(observed - bound) <= unit * SLACK:
        return f"{observed} B", f"{bound} B"
    return f"{observed / unit:.2f} activations", f"{bound / unit:.2f}"


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


#: Procedures in which nothing is kept for a backward pass, or that put no boundary before it.
_APART = FORWARD_MODE | {"inference", "jacobian"}

CHECK = Check("retained memory", _judge, applies=lambda case: case.procedure.kind not in _APART)
