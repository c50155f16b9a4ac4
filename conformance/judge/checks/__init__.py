"""The checks: what a recomputed run is held to, one module each, pure functions of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.drivers.adapter import Variant
from conformance.judge.checks import (
    error,
    executions,
    gradient,
    hooks,
    peak_memory,
    randomness,
    release,
    retained_memory,
    state,
    structure,
    value,
)
from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.case import Case
from conformance.model.observation import Expected, Observation, RandomSample
from conformance.model.verdict import Status, Verdict

CHECKS: Mapping[str, Check] = {
    module.CHECK.name: module.CHECK
    for module in (
        error,
        value,
        gradient,
        hooks,
        structure,
        executions,
        randomness,
        retained_memory,
        peak_memory,
        release,
        state,
    )
}


def applicable(case: Case) -> tuple[str, ...]:
    """The names of the checks that a case is put to, in the order of `CHECKS`."""
    if case.error is not None:
        # What ends in an error computes nothing; it may leave something behind.
        left = (release.CHECK.name,) if case.release else ()
        return (error.CHECK.name, *left)
    return tuple(name for name, check in CHECKS.items() if check.applies(case))


def judge(
    case: Case,
    variant: Variant,
    expect: Callable[[Sequence[RandomSample] | None], Expected],
    observation: Observation,
) -> tuple[Verdict, ...]:
    """The verdicts of all applicable checks.

    `expect` gives the reference's expectation, for the random samples that the forward pass was seen
    to make (or `None`). A run that did not finish, and should have, has one verdict alone, of the check
    `error`. Where the case lets the plain program raise, and it did, the reference alone is what the
    recomputed one is held to.
    """
    samples = observation.recomputed.samples
    forward = None if samples is None else tuple(d for d in samples if d.phase == "forward")
    evidence = Evidence(case, variant, expect(forward), observation)
    first = error.CHECK.verdicts(evidence)
    if evidence.refused_plain:
        return (*first, *_without_control(evidence))
    if case.error is None and observation.recomputed.error is not None:
        return first
    rest = [CHECKS[name] for name in applicable(case) if name != error.CHECK.name]
    return (*first, *(verdict for check in rest for verdict in check.verdicts(evidence)))


def _without_control(evidence: Evidence) -> tuple[Verdict, ...]:
    """The verdicts of all checks but `error` where the plain program raised, as it may: those that the
    reference alone can give, if the recomputed program ran."""
    expected, plain, seen = evidence.expected, evidence.plain.error, evidence.recomputed.error
    assert plain is not None
    judged: set[str] = set()
    if seen is None:
        judged = {executions.CHECK.name}
        judged |= {value.CHECK.name} if expected.outputs is not None else set()
        judged |= {gradient.CHECK.name} if expected.gradients is not None else set()
    verdicts: list[Verdict] = []
    for name in applicable(evidence.case):
        if name in judged:
            verdicts += CHECKS[name].verdicts(evidence)
        elif name != error.CHECK.name:
            message = f"the plain program raised {plain.type}: there is nothing to compare with"
            verdicts.append(CHECKS[name].verdict(Status.UNSUPPORTED, message))
    return tuple(verdicts)


__all__ = ["CHECKS", "Check", "Evidence", "applicable", "judge"]
