"""The checks: what a recomputed run is held to, one module each, pure functions of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

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
from conformance.judge.checks.evidence import Check, Evidence, drawn
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
        # A run that ends in an error has no values to judge. It may leave memory behind, and a generator
        # elsewhere.
        draws = (randomness.CHECK.name,) if randomness.CHECK.applies(case) and case.seeded else ()
        leaks = (release.CHECK.name,) if case.release else ()
        return (error.CHECK.name, *draws, *leaks)
    return tuple(name for name, check in CHECKS.items() if check.applies(case))


@np.errstate(all="ignore")  # a case may have infinities and NaN
def judge(
    case: Case,
    variant: Variant,
    expect: Callable[[Sequence[RandomSample] | None], Expected],
    observation: Observation,
) -> tuple[Verdict, ...]:
    """The verdicts of all applicable checks.

    `expect` returns the reference's expectation for the random samples that the forward pass drew, or
    for `None` where they were not observed. A run that raised and should not have is judged by the check
    `error` alone. Where the plain program raised, as the case lets it, and the recomputed one ran, the
    checks that can do with the reference alone judge it; all others are `unsupported`.
    """
    expected = expect(drawn(observation))
    evidence = Evidence(case, variant, expected, observation)
    of_error = error.CHECK.verdicts(evidence)
    others = [CHECKS[name] for name in applicable(case) if name != error.CHECK.name]
    plain, raised = observation.plain.error, observation.recomputed.error is not None
    if plain is None or not evidence.refused_plain:
        if raised and case.error is None:
            return of_error
        return (*of_error, *(verdict for check in others for verdict in check.verdicts(evidence)))
    verdicts = list(of_error)
    alone = {
        executions.CHECK: True,
        value.CHECK: expected.outputs is not None,
        gradient.CHECK: expected.gradients is not None,
    }
    for check in others:
        if alone.get(check) and not raised:
            verdicts += check.verdicts(evidence)
        else:
            message = f"the plain program raised {plain.type}: there is nothing to compare with"
            verdicts.append(check.verdict(Status.UNSUPPORTED, message))
    return tuple(verdicts)


__all__ = ["CHECKS", "Check", "Evidence", "applicable", "judge"]
