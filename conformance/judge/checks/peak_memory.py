"""The most bytes held during forward and backward stay near the reference's, and fall against plain.

The reference's peak is that of gradients taken one statement after the other, each value freed as
soon as nothing needs it any more. Engines hold up to a few activations more (`SLACK`), and a compiler
that fuses needs less in the plain run, so that a quarter of the reference's drop is asked for. One
region around a whole chain does not lower the peak, and is not expected to. Cases whose peaks differ
by fewer than `LEAST` activations are recorded and not judged, those without a large tensor not
looked at.
"""

from __future__ import annotations

import math

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.case import Case
from conformance.model.observation import RESOLUTION
from conformance.model.verdict import Level, Status, Verdict

#: Activations that an engine may hold beyond the reference's peak; up to 3.0 were seen.
SLACK = 3.5
#: Activations by which the peaks must differ to be judged.
LEAST = 8


#: Bytes of a program's largest tensor from which a peak is looked at.
LARGE = 64 * 1024


def _applies(case: Case) -> bool:
    sizes = (math.prod(a.shape) * _BYTES.get(a.dtype, 4) for a in case.arrays)
    return case.procedure.kind == "backward" and max(sizes, default=0) >= LARGE


_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "bool": 1}


def _judge(evidence: Evidence) -> Verdict:
    expected = evidence.expected.memory
    plain, recomputed = evidence.plain.peak, evidence.recomputed.peak
    if expected is None or plain is None or recomputed is None:
        return CHECK.verdict(Status.UNSUPPORTED, "cannot be observed here: no method is exact")
    seen = f"plain {plain} B, recomputed {recomputed} B"
    unit, drop = expected.unit, expected.peaks[0] - expected.peaks[1]
    if drop < LEAST * unit or drop < RESOLUTION:
        return CHECK.verdict(Status.REPORT, f"{seen}: too near to be judged", observed=seen)
    most = expected.peaks[1] + SLACK * unit
    bound = f"recomputed at most {most:.0f} B, at least {drop // 4} B below plain"
    if recomputed > most:
        high = f"{recomputed / unit:.2f} activations at the peak"
        message = f"{high}, but at most {most / unit:.2f} should be"
        return CHECK.verdict(Status.FAIL, message, bound, seen)
    if plain - recomputed < drop / 4:
        message = (
            f"recompute lowers the peak by {(plain - recomputed) / unit:.2f} activations, but should "
            f"by {drop / 4 / unit:.2f} at least"
        )
        return CHECK.verdict(Status.FAIL, message, bound, seen)
    message = f"{plain / unit:.2f} activations plain, {recomputed / unit:.2f} recomputed"
    return CHECK.verdict(Status.PASS, message, bound, seen)


CHECK = Check(
    "peak memory",
    "the most bytes held during forward and backward stay near the reference's, and fall against "
    "plain where the reference's do",
    Level.SHOULD,
    _applies,
    _judge,
)
