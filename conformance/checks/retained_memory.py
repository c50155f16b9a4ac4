"""Bytes held between forward and backward stay within the reference's bound, and fall as it says.

A region keeps its inputs and nothing from inside. So the recomputed run keeps at most what the
reference counts, and less than the plain run by at least the reference's drop. What operations
outside regions keep is the framework's own affair, and plain bytes of one framework are never held
against another's. Cases whose drop is smaller than `RESOLUTION` are recorded and not judged.
"""

from __future__ import annotations

from conformance.case import Case
from conformance.checks.evidence import Check, Evidence
from conformance.verdict import Level, Status, Verdict

#: Bytes. Below it allocators round, pool and cache by as much as recompute saves.
RESOLUTION = 256 * 1024


def _applies(case: Case) -> bool:
    return case.procedure.kind != "inference"


def _judge(evidence: Evidence) -> Verdict:
    expected = evidence.expected.memory
    plain, recomputed = evidence.plain.retained, evidence.recomputed.retained
    if expected is None or plain is None or recomputed is None:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed no bytes")
    seen = f"plain {plain} B, recomputed {recomputed} B"
    if expected.drop < RESOLUTION:
        return CHECK.verdict(Status.REPORT, f"{seen}: too small to be judged", observed=seen)
    unit = expected.unit
    tolerance = unit // 4
    bound = f"recomputed at most {expected.recomputed[1]} B, at least {expected.drop} B below plain"
    if recomputed > expected.recomputed[1] + tolerance:
        return CHECK.verdict(
            Status.FAIL,
            f"{recomputed / unit:.2f} activations are kept, but at most "
            f"{expected.recomputed[1] / unit:.2f} should be",
            bound,
            seen,
        )
    if plain - recomputed < expected.drop - tolerance:
        return CHECK.verdict(
            Status.FAIL,
            f"recompute frees {(plain - recomputed) / unit:.2f} activations, but should free "
            f"{expected.drop / unit:.2f}",
            bound,
            seen,
        )
    return CHECK.verdict(
        Status.PASS,
        f"{plain / unit:.2f} activations plain, {recomputed / unit:.2f} recomputed",
        bound,
        seen,
    )


CHECK = Check(
    "retained memory",
    "bytes held between forward and backward stay within the reference's bound, and fall as the "
    "reference says against plain",
    Level.MUST,
    _applies,
    _judge,
)
