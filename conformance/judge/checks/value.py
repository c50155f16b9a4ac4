"""Outputs, losses and trained parameters of the recomputed run equal those of the plain run.

Bit for bit where the variant runs eagerly, else within the case's tolerance; and they equal the
reference within the tolerance. Where the case draws random numbers, the reference is evaluated with
the numbers that the forward pass was seen to draw; where those could not be seen, the plain run under
the same seed is the only control. A plain run that differs from the reference is `broken`: the suite
or the adapter is at fault, not recompute. Runs that nothing has seeded have no control: `randomness`
judges them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conformance.judge.arrays import difference, quantities
from conformance.judge.checks.evidence import Check, Evidence, forward_samples
from conformance.model.case import Case
from conformance.model.facts import Difference
from conformance.model.observation import Array
from conformance.model.verdict import Level, Status, Verdict


def _applies(case: Case) -> bool:
    return case.seeded


def expected_quantities(evidence: Evidence) -> dict[str, Array]:
    """The same quantities of the reference; empty where it has none, since no draws were observed."""
    expected = evidence.expected
    return {} if expected.outputs is None else dict(quantities(expected))


def drew_alike(evidence: Evidence) -> bool:
    """Whether the recomputed run can be compared with the plain one: that one did not raise, and both
    drew the same numbers in forward, as far as draws were observed."""
    if evidence.refused_plain:
        return False
    recomputed, plain = forward_samples(evidence.recomputed), forward_samples(evidence.plain)
    if recomputed is None or plain is None:
        return True
    return len(recomputed) == len(plain) and all(
        np.array_equal(a.array, b.array) for a, b in zip(recomputed, plain, strict=True)
    )


def agreed(check: Check, what: str, *, alike: bool, reference: bool) -> Verdict:
    """The verdict where nothing differed: a pass, unless there was nothing to compare with."""
    against = [*(["the plain run"] if alike else []), *(["the reference"] if reference else [])]
    if not against:
        return check.verdict(
            Status.UNSUPPORTED, "plain and recomputed drew other numbers in forward"
        )
    return check.verdict(Status.PASS, f"{what} equal {' and '.join(against)}")


def _judge(evidence: Evidence) -> Verdict:
    reference = expected_quantities(evidence)
    plain, recomputed = dict(quantities(evidence.plain)), dict(quantities(evidence.recomputed))
    if evidence.refused_plain:
        plain = recomputed
    alike = drew_alike(evidence)
    missing = _missing(evidence, reference, plain, recomputed)
    if missing:
        return _fault(missing)
    for name, array in recomputed.items():
        control = plain[name] if alike else None
        fault = _compare(evidence, name, array, control, reference.get(name))
        if fault:
            return _fault(fault)
    return agreed(CHECK, f"{len(recomputed)} values", alike=alike, reference=bool(reference))


def _fault(fault: Difference) -> Verdict:
    status = Status.BROKEN if fault.in_plain else Status.FAIL
    return CHECK.verdict(status, fault.words(), facts=(fault,))


def _missing(
    evidence: Evidence,
    reference: Mapping[str, Array],
    plain: Mapping[str, Array],
    recomputed: Mapping[str, Array],
) -> Difference | None:
    """The first quantity that the reference or the other run has, and one of the runs lacks."""
    for name in reference:
        if name not in plain:
            in_plain = not evidence.refused_plain
            return Difference("value", name, "missing", "reference", in_plain=in_plain)
    for name in sorted(set(plain) ^ set(recomputed)):
        return Difference("value", name, "missing", "plain run")
    return None


def _compare(
    evidence: Evidence, name: str, array: Array, plain: Array | None, reference: Array | None
) -> Difference | None:
    """How a value differs from the plain run and the reference, where these are available."""
    to_reference = evidence.against_reference
    if plain is not None and reference is not None:
        fault = difference(
            "value", name, plain, reference, to_reference, "reference", in_plain=True
        )
        if fault:
            return fault
    if plain is not None:
        tolerance = None if evidence.variant.model.exact else evidence.case.tolerance
        fault = difference("value", name, array, plain, tolerance, "plain run")
        if fault:
            return fault
    if reference is None:
        return None
    return difference("value", name, array, reference, to_reference, "reference")


CHECK = Check(
    "value",
    "outputs of the recomputed run equal the plain run (bit for bit in eager) and the reference",
    Level.MUST,
    _applies,
    _judge,
)
