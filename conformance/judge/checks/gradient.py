"""Every gradient asked for is there, and equals the plain run's and the reference's.

`None` where there should be an array is a failure, whatever the framework's documentation says; zeros
where the plain run has `None` are one too, since an optimizer decays what has a gradient of zeros. The
gradients of a second backward, and those of the second order, are held to the same. Where the case
lets a rerun draw other random numbers, a difference is reported and not failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from conformance.judge.arrays import Against, difference, is_nothing, is_unasked, summary
from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.checks.value import agreed, drew_alike
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.facts import Difference
from conformance.model.observation import Array
from conformance.model.verdict import Level, Status, Verdict

_Gradients = Mapping[str, Array | None]


def _applies(case: Case) -> bool:
    return case.loss is not None and case.seeded


def _judge(evidence: Evidence) -> Verdict:
    """The gradients of the first backward, then those of the second or of the second order."""
    first = _compare(
        evidence,
        "gradient",
        evidence.plain.gradients,
        evidence.recomputed.gradients,
        evidence.expected.gradients,
    )
    again = _AGAIN.get(evidence.case.procedure.kind)
    if first.status is not Status.PASS or again is None:
        return first
    runs = evidence.plain.again, evidence.recomputed.again
    second = _compare(evidence, again, *runs, evidence.expected.again)
    return second if second.status is not Status.PASS else first


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


def _compare(
    evidence: Evidence,
    of: str,
    plain: _Gradients,
    recomputed: _Gradients,
    reference: _Gradients | None,
) -> Verdict:
    for name in evidence.case.wrt:
        control, observed = plain.get(name), recomputed.get(name)
        right = None if reference is None else reference.get(name)
        fault = (
            _of_plain(evidence, of, name, control, right)
            or _is_there(evidence, of, name, observed, control, right)
            or _differs(evidence, of, name, observed, control, right)
        )
        if fault:
            return _fault(evidence, fault, observed, control, right)
    what = f"{len(evidence.case.wrt)} gradients"
    alike = drew_alike(evidence)
    return agreed(CHECK, what, alike=alike, reference=bool(reference))


def _of_plain(
    evidence: Evidence, of: str, name: str, control: Array | None, right: Array | None
) -> Difference | None:
    """How the plain run's gradient differs from the reference: then nothing else is judged."""
    if control is None:
        needless = is_nothing(right) or evidence.refused_plain
        return None if needless else Difference(of, name, "none", "reference", in_plain=True)
    if right is None or not drew_alike(evidence):
        return None
    wide = evidence.against_reference
    return difference(of, name, control, right, wide, "reference", in_plain=True)


def _is_there(
    evidence: Evidence,
    of: str,
    name: str,
    observed: Array | None,
    control: Array | None,
    right: Array | None,
) -> Difference | None:
    """Whether there is `None` where an array should be."""
    wanted = control if right is None else right
    if observed is not None or wanted is None or is_nothing(wanted):
        return None
    against: Against = "plain run" if right is None else "reference"
    return Difference(of, name, "none", against, expected_shape=wanted.shape)


def _differs(
    evidence: Evidence,
    of: str,
    name: str,
    observed: Array | None,
    control: Array | None,
    right: Array | None,
) -> Difference | None:
    """How an array differs from the plain run's and from the reference's, and whether it should be."""
    if observed is None:
        return None
    model, case = evidence.variant.model, evidence.case
    if control is not None and drew_alike(evidence):
        tolerance = None if model.exact and model.exact_gradients else case.tolerance
        off = difference(of, name, observed, control, tolerance, "plain run")
        if off:
            return off
    if right is not None:
        off = difference(of, name, observed, right, evidence.against_reference, "reference")
        if off:
            return off
    controlled = not evidence.refused_plain or right is None
    if not controlled or not is_unasked(observed, control):
        return None
    return Difference(of, name, "zeros" if is_nothing(observed) else "not zero", "plain run")


def _fault(
    evidence: Evidence,
    fault: Difference,
    observed: Array | None,
    control: Array | None,
    right: Array | None,
) -> Verdict:
    if fault.in_plain:
        return CHECK.verdict(Status.BROKEN, fault.words(), facts=(fault,))
    status = Status.FAIL
    if _may_draw_again(evidence.case):
        fault, status = replace(fault, may_draw=True), Status.REPORT
    expected = right if fault.against == "reference" else control
    sides = summary(expected), summary(observed)
    return CHECK.verdict(status, fault.words(), *sides, facts=(fault,))


CHECK = Check(
    "gradient",
    "every gradient asked for is there, and equals plain and reference; `None` where there should "
    "be an array is a failure, and so is an array where the plain run has `None`",
    Level.MUST,
    _applies,
    _judge,
)
