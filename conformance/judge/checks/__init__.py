"""The checks: what a recomputed run is held to, one module each, pure functions of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

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
from conformance.judge.checks.evidence import Check, Evidence, forward_samples
from conformance.model.case import Case
from conformance.model.observation import Expected, Observation, RandomSample
from conformance.model.verdict import Status, Verdict

CHECKS: Mapping[str, Check] = {
    module.CHECK.name: module.CHECK
    for module in (
        *(error, value, gradient, hooks, structure, executions, randomness),
        *(retained_memory, peak_memory, release, state),
    )
}


def applicable(case: Case) -> tuple[str, ...]:
    """The names of the checks that a case is put to, in the order of `CHECKS`."""
    if case.error is not None:
        # A run that ends in an error has no values to judge, but it may leave memory behind.
        leaks = (release.CHECK.name,) if case.release else ()
        return (error.CHECK.name, *leaks)
    return tuple(name for name, check in CHECKS.items() if check.applies(case))


def judge(
    case: Case,
    variant: Variant,
    expect: Callable[[Sequence[RandomSample] | None], Expected],
    observation: Observation,
) -> tuple[Verdict, ...]:
    """The verdicts of all applicable checks.

    `expect` returns the reference's expectation for the random samples that the forward pass drew, or
    for `None` where they were not observed. A run that raised and should not have is judged by the check
    `error` alone. Where the plain program raised, as the case lets it, the recomputed one is compared
    with the reference alone.
    """
    expected = expect(forward_samples(observation.recomputed))
    evidence = Evidence(case, variant, expected, observation)
    of_error = error.CHECK.verdicts(evidence)
    if evidence.refused_plain:
        return (*of_error, *_without_control(evidence))
    if case.error is None and observation.recomputed.error is not None:
        return of_error
    others = [CHECKS[name] for name in applicable(case) if name != error.CHECK.name]
    return (*of_error, *(verdict for check in others for verdict in check.verdicts(evidence)))


def _without_control(evidence: Evidence) -> Iterator[Verdict]:
    """The verdicts of all checks but `error` where the plain program raised, as it may.

    If the recomputed program ran, the checks that can do with the reference alone judge it; all others
    are `unsupported`.
    """
    expected, plain = evidence.expected, evidence.plain.error
    assert plain is not None
    judged = {
        executions.CHECK.name: True,
        value.CHECK.name: expected.outputs is not None,
        gradient.CHECK.name: expected.gradients is not None,
    }
    for name in applicable(evidence.case):
        if evidence.recomputed.error is None and judged.get(name):
            yield from CHECKS[name].verdicts(evidence)
        elif name != error.CHECK.name:
            message = f"the plain program raised {plain.type}: there is nothing to compare with"
            yield CHECKS[name].verdict(Status.UNSUPPORTED, message)


__all__ = ["CHECKS", "Check", "Evidence", "applicable", "judge"]
