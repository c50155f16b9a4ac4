"""Every gradient asked for is there, and equals the plain run's and the reference's.

`None` where there should be an array is a failure, whatever the framework's documentation says. So are
zeros where the plain run has `None`, since an optimizer applies weight decay to a parameter with a zero
gradient. The gradients of a second backward and of higher orders are judged in the same way. Where the
case lets a rerun draw other random numbers, a difference is reported and not failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from conformance.judge.arrays import (
    Against,
    difference,
    is_none_or_zero,
    is_unexpected,
    summary,
)
from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.checks.value import agreed, drew_alike
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.facts import Difference
from conformance.model.observation import Array
from conformance.model.verdict import Level, Status, Verdict

#: Gradients by the names of the tensors; `None` where the framework returned none.
_Gradients = Mapping[str, Array | None]


@dataclass(frozen=True)
class _Gradient:
    """A gradient with respect to one tensor, from the three places that are compared.

    `kind` says which gradient it is, in the words of messages, and `name` is the tensor's. `reference`
    is `None` as well where the reference has no gradients, since draws were not observed.
    """

    kind: str
    name: str
    plain: Array | None
    recomputed: Array | None
    reference: Array | None


def _applies(case: Case) -> bool:
    return case.loss is not None and case.seeded


def _judge(evidence: Evidence) -> Verdict:
    """The gradients of the first backward, then those of the second or of a higher order."""
    plain, recomputed, expected = evidence.plain, evidence.recomputed, evidence.expected
    first = _compare(
        evidence, "gradient", plain.gradients, recomputed.gradients, expected.gradients
    )
    further = _FURTHER.get(evidence.case.procedure.kind)
    if first.status is not Status.PASS or further is None:
        return first
    second = _compare(evidence, further, plain.again, recomputed.again, expected.again)
    return second if second.status is not Status.PASS else first


def _may_draw_again(case: Case) -> bool:
    """Whether the rerun of a region that draws random numbers may draw others than the forward."""
    free = {region.name for region in case.regions() if not region.preserve_rng}
    return any(region in free and s.op in RANDOM for region, s in case.statements())


#: What the second set of gradients of a run is called, by procedure.
_FURTHER = {
    "second_backward": "gradient of the second backward",
    "per_output": "gradient of the second output",
    "second_order": "second-order gradient",
    "third_order": "third-order gradient",
}


def _compare(
    evidence: Evidence,
    kind: str,
    plain: _Gradients,
    recomputed: _Gradients,
    reference: _Gradients | None,
) -> Verdict:
    """The verdict on the first gradient that is wrong; else that all are right."""
    for name in evidence.case.wrt:
        expected = None if reference is None else reference.get(name)
        gradient = _Gradient(kind, name, plain.get(name), recomputed.get(name), expected)
        fault = (
            _wrong_in_plain(evidence, gradient)
            or _missing(gradient)
            or _different(evidence, gradient)
            or _needless(evidence, gradient)
        )
        if fault:
            return _fault_verdict(evidence, fault, gradient)
    what = f"{len(evidence.case.wrt)} gradients"
    return agreed(CHECK, what, alike=drew_alike(evidence), reference=bool(reference))


def _wrong_in_plain(evidence: Evidence, gradient: _Gradient) -> Difference | None:
    """How the plain run's gradient differs from the reference. If it does, nothing else is judged."""
    kind, name, plain, expected = gradient.kind, gradient.name, gradient.plain, gradient.reference
    if plain is None:
        allowed = is_none_or_zero(expected) or evidence.refused_plain
        return None if allowed else Difference(kind, name, "none", "reference", in_plain=True)
    if expected is None or not drew_alike(evidence):
        return None
    tolerance = evidence.against_reference
    return difference(kind, name, plain, expected, tolerance, "reference", in_plain=True)


def _missing(gradient: _Gradient) -> Difference | None:
    """`None` in the recomputed run where there should be an array that is not zero."""
    expected = gradient.plain if gradient.reference is None else gradient.reference
    if gradient.recomputed is not None or expected is None or is_none_or_zero(expected):
        return None
    against: Against = "plain run" if gradient.reference is None else "reference"
    return Difference(gradient.kind, gradient.name, "none", against, expected_shape=expected.shape)


def _different(evidence: Evidence, gradient: _Gradient) -> Difference | None:
    """How the recomputed run's gradient differs from the plain run's, or else from the reference's."""
    kind, name, recomputed = gradient.kind, gradient.name, gradient.recomputed
    if recomputed is None:
        return None
    model = evidence.variant.model
    if gradient.plain is not None and drew_alike(evidence):
        tolerance = None if model.exact and model.exact_gradients else evidence.case.tolerance
        fault = difference(kind, name, recomputed, gradient.plain, tolerance, "plain run")
        if fault:
            return fault
    if gradient.reference is None:
        return None
    tolerance = evidence.against_reference
    return difference(kind, name, recomputed, gradient.reference, tolerance, "reference")


def _needless(evidence: Evidence, gradient: _Gradient) -> Difference | None:
    """An array in the recomputed run where the plain run has `None`.

    Where the plain program raised, as it may, the reference alone says what should be there.
    """
    recomputed = gradient.recomputed
    if evidence.refused_plain and gradient.reference is not None:
        return None
    if recomputed is None or not is_unexpected(recomputed, gradient.plain):
        return None
    what: Literal["zeros", "not zero"] = "zeros" if is_none_or_zero(recomputed) else "not zero"
    return Difference(gradient.kind, gradient.name, what, "plain run")


def _fault_verdict(evidence: Evidence, fault: Difference, gradient: _Gradient) -> Verdict:
    if fault.in_plain:
        return CHECK.verdict(Status.BROKEN, fault.words(), facts=(fault,))
    status = Status.FAIL
    if _may_draw_again(evidence.case):
        fault, status = replace(fault, may_draw=True), Status.REPORT
    expected = gradient.reference if fault.against == "reference" else gradient.plain
    observed = summary(gradient.recomputed)
    return CHECK.verdict(status, fault.words(), summary(expected), observed, facts=(fault,))


CHECK = Check(
    "gradient",
    "every gradient asked for is there, and equals plain and reference; `None` where there should "
    "be an array is a failure, and so is an array where the plain run has `None`",
    Level.MUST,
    _applies,
    _judge,
)
