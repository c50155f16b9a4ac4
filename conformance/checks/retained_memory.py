"""Bytes held between forward and backward stay within the reference's bound, and fall as it says.

A region keeps its inputs and nothing from inside, and one copy of the random state where it preserves
that. So the recomputed run keeps at most what the reference counts, and less than the plain run by at
least the reference's drop. What operations outside regions keep is the framework's own affair: plain
bytes of one framework are never held against another's, and where its plain run keeps more than the
reference knows of, so may the recomputed one.

An observer that sees every tensor is held to a quarter of the case's largest activation. One that does
not tell small tensors apart says below how many bytes: a case whose drop is smaller is recorded and
not judged.
"""

from __future__ import annotations

from conformance.case import Case
from conformance.checks.evidence import Check, Evidence
from conformance.observation import RandomState
from conformance.verdict import Level, Status, Verdict

_NONE = RandomState(0, 0)


def _applies(case: Case) -> bool:
    return case.procedure.kind != "inference"


def _judge(evidence: Evidence) -> Verdict:
    expected = evidence.expected.memory
    plain, recomputed = evidence.plain.retained, evidence.recomputed.retained
    if expected is None or plain is None or recomputed is None:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed no bytes")
    state = evidence.recomputed.random_state or _NONE
    seen = f"plain {plain} B, recomputed {recomputed} B{_more(state)}"
    resolution = evidence.observation.resolution
    bound = f"recomputed at most {expected.recomputed[1]} B, at least {expected.drop} B below plain"
    if expected.states or state.copies:
        bound += f", and at most {_copies(expected.states)} of the random state"
    if state.copies > expected.states:
        return CHECK.verdict(
            Status.FAIL,
            f"{_copies(state.copies)} of the random state ({state.nbytes} B) kept, but regions that "
            f"preserve it need at most {_copies(expected.states)}",
            bound,
            seen,
        )
    if resolution and expected.drop < resolution and recomputed - plain < resolution:
        return CHECK.verdict(
            Status.REPORT,
            f"{seen}: bytes are told from {resolution} B on, and {expected.drop} B should fall",
            observed=seen,
        )
    unit = expected.unit
    tolerance = unit // 4
    strange = max(0, plain - expected.plain[1])
    if recomputed > expected.recomputed[1] + strange + tolerance:
        return CHECK.verdict(
            Status.FAIL,
            f"{recomputed / unit:.2f} activations are kept, but at most "
            f"{(expected.recomputed[1] + strange) / unit:.2f} should be",
            bound,
            seen,
        )
    if expected.drop and plain - recomputed < expected.drop - tolerance:
        return CHECK.verdict(
            Status.FAIL,
            f"recompute frees {(plain - recomputed) / unit:.2f} activations, but should free "
            f"{expected.drop / unit:.2f}",
            bound,
            seen,
        )
    return CHECK.verdict(
        Status.PASS,
        f"{plain / unit:.2f} activations plain, {recomputed / unit:.2f} recomputed{_more(state)}",
        bound,
        seen,
    )


def _more(state: RandomState) -> str:
    return f" and {state.nbytes} B of random state" if state.nbytes else ""


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


CHECK = Check(
    "retained memory",
    "bytes held between forward and backward stay within the reference's bound, and fall as the "
    "reference says against plain; a region that preserves randomness keeps one copy of its state",
    Level.MUST,
    _applies,
    _judge,
)
