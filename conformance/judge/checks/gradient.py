"""Every gradient asked for is there, and equals the plain run's and the reference's.

`None` where there should be an array is a failure, whatever the framework's documentation says; zeros
where the plain run has `None` are one too, since an optimizer decays what has a gradient of zeros. The
gradients of a second backward, and those of the second order, are held to the same. Where the case
lets a rerun draw other random numbers, a difference is reported and not failed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.checks.numbers import difference, summary
from conformance.judge.checks.value import agreed, drew_alike
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.observation import Array
from conformance.model.verdict import Level, Status, Verdict

_Gradients = Mapping[str, Array | None]


def _applies(case: Case) -> bool:
    return case.loss is not None and case.seeded


def _judge(evidence: Evidence) -> Verdict:
    verdict = _both(evidence)
    if verdict.status is Status.FAIL and _may_draw_again(evidence.case):
        told = f"random state is not preserved here, and {verdict.message}"
        return CHECK.verdict(Status.REPORT, told, verdict.expected, verdict.observed)
    return verdict


def _may_draw_again(case: Case) -> bool:
    """Whether a region that draws random numbers says that the rerun may draw others."""
    free = {region.name for region in case.regions() if not region.preserve_rng}
    return any(region in free and s.op in RANDOM for region, s in case.statements())


#: What the second set of gradients is called, by procedure.
_AGAIN = {
    "second_backward": "gradient of the second backward",
    "per_output": "gradient of the second output",
    "second_order": "second-order gradient",
    "third_order": "third-order gradient",
}


def _both(evidence: Evidence) -> Verdict:
    """The gradients of the first backward, and those of the second or of the second order."""
    first = _compare(
        evidence,
        "gradient",
        evidence.plain.gradients,
        evidence.recomputed.gradients,
        evidence.expected.gradients,
    )
    kind = evidence.case.procedure.kind
    if first.status is not Status.PASS or kind not in _AGAIN:
        return first
    what = _AGAIN[kind]
    again = evidence.recomputed.again
    second = _compare(evidence, what, evidence.plain.again, again, evidence.expected.again)
    return second if second.status is not Status.PASS else first


def _compare(
    evidence: Evidence,
    what: str,
    plain: _Gradients,
    recomputed: _Gradients,
    reference: _Gradients | None,
) -> Verdict:
    tolerance, wide = evidence.case.tolerance, evidence.against_reference
    alike, controlled = drew_alike(evidence), not evidence.refused_plain
    for name in evidence.case.wrt:
        control, found = plain.get(name), recomputed.get(name)
        right = None if reference is None else reference.get(name)
        title = f"{what} with respect to {name}"
        if control is None and right is not None and np.any(right) and controlled:
            return CHECK.verdict(Status.BROKEN, f"{title} is None in the plain run")
        if control is not None and right is not None and alike:
            off = difference(control, right, wide)
            if off:
                return CHECK.verdict(Status.BROKEN, f"{title} of the plain run {off} (reference)")
        wanted = right if right is not None else control
        if found is None:
            if wanted is None or not np.any(wanted):
                continue
            return CHECK.verdict(
                Status.FAIL,
                f"{title} is None, but should be an array of shape {wanted.shape}",
                summary(wanted),
                "None",
            )
        if control is not None and alike:
            model = evidence.variant.model
            exact = model.exact and model.exact_gradients
            off = difference(found, control, None if exact else tolerance)
            if off:
                return CHECK.verdict(
                    Status.FAIL, f"{title} {off} (plain run)", summary(control), summary(found)
                )
        if right is not None:
            off = difference(found, right, wide)
            if off:
                return CHECK.verdict(
                    Status.FAIL, f"{title} {off} (reference)", summary(right), summary(found)
                )
        if control is None and (controlled or right is None):
            told = "is not zero" if np.any(found) else "is zeros, not None"
            return CHECK.verdict(
                Status.FAIL, f"{title} {told}, but nothing depends on it", "None", summary(found)
            )
    what = f"{len(evidence.case.wrt)} gradients"
    return agreed(CHECK, what, alike=alike, reference=bool(reference))


CHECK = Check(
    "gradient",
    "every gradient asked for is there, and equals plain and reference; `None` where there should "
    "be an array is a failure, and so is an array where the plain run has `None`",
    Level.MUST,
    _applies,
    _judge,
)
