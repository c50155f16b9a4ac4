"""Bytes held between forward and backward stay within the reference's bound, and fall as it says.

A region keeps its inputs and nothing from inside, and one copy of the random state where it preserves
that. So the recomputed run keeps at most what the reference counts, and less than the plain run by at
least the reference's drop. What operations outside regions keep is the framework's own affair: plain
bytes of one framework are never held against another's. Where its plain run keeps more than the
reference knows of, so may the recomputed one, and where it keeps less, less is to be freed; but not
where activations are so large that such things tell nothing.

An observer that sees every tensor is held to a quarter of the case's largest activation. One that does
not tell small tensors apart says below how many bytes: a case whose drop is smaller is recorded and
not judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.case import Case
from conformance.model.observation import RESOLUTION, ExpectedMemory, RandomState
from conformance.model.verdict import Level, Status, Verdict

_NONE = RandomState(0, 0)


def _applies(case: Case) -> bool:
    return case.procedure.kind != "inference"


def _judge(evidence: Evidence) -> Verdict | tuple[Verdict, ...]:
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
    wrong = list(_too_many_states(state, expected.states))
    judged = not resolution or max(expected.drop, recomputed - plain) >= resolution
    if judged:
        wrong = [*_too_much(plain, recomputed, expected), *wrong]
    if wrong:
        return tuple(CHECK.verdict(Status.FAIL, fault, bound, seen) for fault in wrong)
    if not judged:
        return CHECK.verdict(
            Status.REPORT,
            f"{seen}: bytes are told from {resolution} B on, and {expected.drop} B should fall",
            observed=seen,
        )
    unit = expected.unit
    return CHECK.verdict(
        Status.PASS,
        f"{plain / unit:.2f} activations plain, {recomputed / unit:.2f} recomputed{_more(state)}",
        bound,
        seen,
    )


def _too_many_states(state: RandomState, allowed: int) -> Iterator[str]:
    if state.copies > allowed:
        yield (
            f"{_copies(state.copies)} of the random state ({state.nbytes} B) kept, but regions that "
            f"preserve it need at most {_copies(allowed)}"
        )


def _too_much(plain: int, recomputed: int, expected: ExpectedMemory) -> Iterator[str]:
    """That more is kept than may be, or else that too little is freed."""
    unit = expected.unit
    tolerance = unit // 4
    # A few numbers that an operation keeps for itself weigh as much as a small activation.
    small = expected.drop < RESOLUTION
    most = expected.recomputed[1] + (max(0, plain - expected.plain[1]) if small else 0)
    drop = expected.drop - (max(0, expected.plain[0] - plain) if small else 0)
    if recomputed > most + tolerance:
        yield (
            f"{recomputed / unit:.2f} activations are kept, but at most {most / unit:.2f} should be"
        )
    elif expected.drop and plain - recomputed < drop - tolerance:
        yield (
            f"recompute frees {(plain - recomputed) / unit:.2f} activations, but should free "
            f"{drop / unit:.2f}"
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
