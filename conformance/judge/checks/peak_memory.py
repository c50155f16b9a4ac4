"""The most bytes held in forward and backward are near the reference, and fewer than in the plain run.

In the reference, gradients are computed one statement after the other, and each value is freed when
nothing needs it any more. Engines may hold up to three and a half activations more. A compiler that
fuses operations needs less in the plain run, so only a quarter of the reference's difference is
required. One region around a whole chain does not lower the peak, and is not expected to: if the
reference's difference is 0, the recomputed run may hold three and a half activations more than the
plain run. Cases whose peaks differ by fewer than eight activations in the reference are recorded and
not judged, and so are cases without a difference and with small activations. Cases without a large
tensor do not have this check.
"""

from __future__ import annotations

import math
from functools import partial

from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.limits import PEAK_LARGE, PEAK_LEAST, PEAK_SHARE, PEAK_SLACK, SMALL
from conformance.model.case import Case
from conformance.model.facts import Bytes
from conformance.model.verdict import Level, Status, Verdict

_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "bool": 1}


def _applies(case: Case) -> bool:
    sizes = (math.prod(a.shape) * _BYTES.get(a.dtype, 4) for a in case.arrays)
    return case.procedure.kind == "backward" and max(sizes, default=0) >= PEAK_LARGE


def _judge(evidence: Evidence) -> Verdict:
    expected = evidence.expected.memory
    plain, recomputed = evidence.plain.peak, evidence.recomputed.peak
    if expected is None or plain is None or recomputed is None:
        return CHECK.verdict(Status.UNSUPPORTED, "cannot be observed here: no method is exact")
    words = f"plain {plain} B, recomputed {recomputed} B"
    unit, drop = expected.unit, expected.peaks[0] - expected.peaks[1]
    lowers = drop > 0
    most = (expected.peaks[1] if lowers else max(expected.peaks[1], plain)) + PEAK_SLACK * unit
    measured = Bytes(plain, recomputed, int(most), math.ceil(drop * PEAK_SHARE), unit)
    if unit < SMALL if not lowers else drop < max(PEAK_LEAST * unit, SMALL):
        message = f"{words}: the difference is too small to judge"
        return CHECK.verdict(Status.REPORT, message, observed=words, facts=(measured,))
    bound = f"recomputed at most {most:.0f} B"
    bound += f", at least {int(drop * PEAK_SHARE)} B below plain" if lowers else ""
    judged = partial(CHECK.verdict, expected=bound, observed=words, facts=(measured,))
    if recomputed > most:
        message = f"{recomputed / unit:.2f} activations at the peak, but at most {most / unit:.2f} "
        return judged(Status.FAIL, f"{message}should be")
    if lowers and plain - recomputed < drop * PEAK_SHARE:
        lowered, least = (plain - recomputed) / unit, drop * PEAK_SHARE / unit
        message = f"recompute lowers the peak by {lowered:.2f} activations, expected "
        return judged(Status.FAIL, f"{message}at least {least:.2f}")
    message = f"{plain / unit:.2f} activations plain, {recomputed / unit:.2f} recomputed"
    message += "" if lowers else ": recompute does not lower the peak here"
    return judged(Status.PASS, message)


CHECK = Check("peak memory", _judge, applies=_applies, level=Level.SHOULD)
