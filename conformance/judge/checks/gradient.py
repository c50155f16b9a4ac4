"""Every gradient that the case asks for is present, and equals the plain run's and the reference's.

`None` instead of an array is a failure, whatever the framework's documentation says. The plain run
decides, even if the gradient is zero: an optimizer applies weight decay to a parameter with a zero
gradient, and skips a parameter whose gradient is `None`. So `None` instead of the plain run's zeros is
a failure, and so are zeros instead of its `None`. Gradients of a second backward pass and of higher
orders are judged in the same way. If the case allows the recomputation to draw other random numbers, a
difference is reported, not failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from conformance.judge.arrays import (
    Against,
    is_none_or_zero,
    is_unexpected,
    summaries,
)
from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.checks.value import agreed
from conformance.language.flow import draws_anew
from conformance.model.facts import Difference
from conformance.model.observation import Array
from conformance.model.verdict import Status, Verdict

#: Gradients by the names of the tensors; `None` where the framework returned none.
_Gradients = Mapping[str, Array | None]
#: What the second set of gradients of a run is called, by procedure.
_FURTHER = {
    "second_backward": "gradient of the second backward",
    "per_output": "gradient of the second output",
    "second_order": "second-order gradient",
    "third_order": "third-order gradient",
    "jvp_of_gradient": "tangent of the gradient",
    "gradient_of_jvp": "gradient of the tangent",
}
#: The same of the first set, where it is not called a gradient.
_FIRST = {"jvp": "tangent", "gradient_of_jvp": "tangent", "jacobian": "jacobian"}


def _judge(evidence: Evidence) -> Verdict:
    plain, seen, expected = evidence.plain, evidence.recomputed, evidence.expected
    case = evidence.case
    kind = _FIRST.get(case.procedure.kind, "gradient")
    sides = plain.gradients, seen.gradients, expected.gradients
    first = _compare(evidence, kind, case.differentiated, *sides)
    further = _FURTHER.get(case.procedure.kind)
    if first.status is not Status.PASS or further is None:
        return first
    second = _compare(evidence, further, case.wrt, plain.again, seen.again, expected.again)
    return second if second.status is not Status.PASS else first


def _compare(
    evidence: Evidence,
    kind: str,
    names: Sequence[str],
    plain: _Gradients,
    recomputed: _Gradients,
    reference: _Gradients | None,
) -> Verdict:
    """The verdict on the first gradient that is wrong; else that all are right."""
    for name in names:
        expected = None if reference is None else reference.get(name)
        fault = _fault(evidence, kind, name, plain.get(name), recomputed.get(name), expected)
        if fault is None:
            continue
        if fault.in_plain:
            return CHECK.verdict(Status.BROKEN, fault.words(), facts=(fault,))
        status = Status.FAIL
        if draws_anew(evidence.case):
            fault, status = replace(fault, may_draw=True), Status.REPORT
        wanted = expected if fault.against == "reference" else plain.get(name)
        sides = summaries(wanted, recomputed.get(name))
        return CHECK.verdict(status, fault.words(), *sides, facts=(fault,))
    what = f"{len(names)} {'gradient' if kind in _FURTHER.values() else kind}s"
    return agreed(CHECK, what, alike=evidence.drew_alike, reference=bool(reference))


def _fault(
    evidence: Evidence,
    kind: str,
    name: str,
    plain: Array | None,
    recomputed: Array | None,
    reference: Array | None,
) -> Difference | None:
    """What is wrong with the gradient with respect to one tensor, if anything is. `reference` is `None`
    as well where draws were not observed."""
    if plain is None and not (is_none_or_zero(reference) or evidence.refused_plain):
        return Difference(kind, name, "none", "reference", in_plain=True)
    control = plain if evidence.drew_alike else None
    exact = evidence.exact_gradients
    different = evidence.difference(kind, name, recomputed, control, reference, exact=exact)
    if different:
        return different
    if recomputed is None:
        against: Against = "plain run" if is_none_or_zero(reference) else "reference"
        should = plain if against == "plain run" else reference
        if should is None:
            return None
        return Difference(kind, name, "none", against, expected_shape=should.shape)
    # Where the plain program raised, as it may, the reference alone says what should be there, and
    # nothing whether it is zeros or `None`.
    alone = evidence.refused_plain and (reference is not None or is_none_or_zero(recomputed))
    if alone or not is_unexpected(recomputed, plain):
        return None
    what: Literal["zeros", "not zero"] = "zeros" if is_none_or_zero(recomputed) else "not zero"
    return Difference(kind, name, what, "plain run")


CHECK = Check("gradient", _judge, applies=lambda case: case.loss is not None and case.seeded)
