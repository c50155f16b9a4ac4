"""Outputs, losses and trained parameters of the recomputed run equal those of the plain run.

They must be equal bit for bit where the variant runs eagerly, and otherwise within the case's
tolerance. They must also equal the reference within the tolerance. If the case draws random numbers,
the reference computes with the numbers that the forward pass drew. If these cannot be observed, the
plain run under the same seed is the only control. If the plain run differs from the reference, the
verdict is `broken`: the suite or the adapter is at fault, not recompute. Runs without a seed have no
control; `randomness` judges them.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.judge.arrays import quantities
from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.facts import Difference
from conformance.model.observation import Array
from conformance.model.verdict import Status, Verdict


def agreed(check: Check, what: str, *, alike: bool, reference: bool) -> Verdict:
    """The verdict where nothing differed: a pass, unless there was nothing to compare with."""
    against = ["the plain run"] * alike + ["the reference"] * reference
    if not against:
        message = "the plain and the recomputed run drew different numbers in forward"
        return check.verdict(Status.UNSUPPORTED, message)
    return check.verdict(Status.PASS, f"{what} equal {' and '.join(against)}")


def _judge(evidence: Evidence) -> Verdict:
    expected = evidence.expected
    # The reference has none where the case draws and no draws were observed.
    reference = {} if expected.outputs is None else dict(quantities(expected))
    plain, recomputed = dict(quantities(evidence.plain)), dict(quantities(evidence.recomputed))
    if evidence.refused_plain:
        plain = recomputed
    alike, exact = evidence.drew_alike, evidence.variant.model.exact
    if evidence.case.procedure.kind == "train":  # parameters are made of gradients
        exact = evidence.exact_gradients
    fault = _missing(evidence, reference, plain, recomputed)
    for name, array in recomputed.items():
        control = plain.get(name) if alike else None
        fault = fault or evidence.difference(
            "value", name, array, control, reference.get(name), exact=exact
        )
    if fault:
        status = Status.BROKEN if fault.in_plain else Status.FAIL
        return CHECK.verdict(status, fault.words(), facts=(fault,))
    return agreed(CHECK, f"{len(recomputed)} values", alike=alike, reference=bool(reference))


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


CHECK = Check("value", _judge, applies=lambda case: case.seeded)
