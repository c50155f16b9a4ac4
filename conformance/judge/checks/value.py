"""Outputs, losses and trained parameters of the recomputed run equal those of the plain run.

Bit for bit where the variant runs eagerly, else within the case's tolerance; and they equal the
reference within the tolerance. Where the case draws random numbers, the reference is evaluated with
the numbers that the forward pass was seen to draw; where those could not be seen, the plain run under
the same seed is the only control. A plain run that differs from the reference is `broken`: the suite
or the adapter is at fault, not recompute. Runs that nothing has seeded have no control: `randomness`
judges them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.checks.numbers import difference, flat
from conformance.model.case import Case
from conformance.model.observation import Array, Leaf, Run, Tree
from conformance.model.verdict import Level, Status, Verdict


def _applies(case: Case) -> bool:
    return case.seeded


def quantities(run: Run) -> Iterator[tuple[str, Array]]:
    """Everything that a run computed forward: outputs that are numbers, losses, parameters."""
    yield from tensors(run.outputs)
    if run.losses:
        yield "losses", np.array(run.losses)
    for name, array in run.parameters.items():
        yield f"parameter {name}", array


def tensors(tree: Tree) -> Iterator[tuple[str, Array]]:
    """The leaves of an output tree that are numbers, as arrays."""
    for path, leaf in flat(tree):
        if isinstance(leaf, Leaf):
            yield path, leaf.array
        elif isinstance(leaf, bool | int | float):
            yield path, np.array(leaf)


def expected_quantities(evidence: Evidence) -> dict[str, Array]:
    """What the reference says of the same quantities; empty where it cannot say."""
    expected = evidence.expected
    if expected.outputs is None:
        return {}
    found = dict(tensors(expected.outputs))
    if expected.losses:
        found["losses"] = np.array(expected.losses)
    for name, array in (expected.parameters or {}).items():
        found[f"parameter {name}"] = array
    return found


def drew_alike(evidence: Evidence) -> bool:
    """Whether plain and recomputed drew the same numbers in forward, as far as draws were seen; not
    where the plain program raised, as it may."""
    if evidence.refused_plain:
        return False
    ours, theirs = evidence.recomputed.draws, evidence.plain.draws
    if ours is None or theirs is None:
        return True
    a = [d.array for d in ours if d.phase == "forward"]
    b = [d.array for d in theirs if d.phase == "forward"]
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def agreed(check: Check, what: str, *, alike: bool, reference: bool) -> Verdict:
    """The verdict where nothing differed: a pass, unless there was nothing to compare with."""
    against = [*(["the plain run"] if alike else []), *(["the reference"] if reference else [])]
    if not against:
        return check.verdict(
            Status.UNSUPPORTED, "plain and recomputed drew other numbers in forward"
        )
    return check.verdict(Status.PASS, f"{what} equal {' and '.join(against)}")


def _judge(evidence: Evidence) -> Verdict:
    tolerance, wide = evidence.case.tolerance, evidence.against_reference
    reference = expected_quantities(evidence)
    plain, recomputed = dict(quantities(evidence.plain)), dict(quantities(evidence.recomputed))
    alike = drew_alike(evidence)
    if evidence.refused_plain:
        for name in reference:
            if name not in recomputed:
                return CHECK.verdict(Status.FAIL, f"{name} is not there")
        plain = recomputed
    for name in reference:
        if name not in plain:
            return CHECK.verdict(Status.BROKEN, f"{name} is not there in the plain run")
    if set(plain) != set(recomputed):
        lost = sorted(set(plain) ^ set(recomputed))
        return CHECK.verdict(Status.FAIL, f"{lost[0]} is not there in both runs")
    for name, array in recomputed.items():
        if alike and name in reference:
            off = difference(plain[name], reference[name], wide)
            if off:
                return CHECK.verdict(Status.BROKEN, f"{name} of the plain run {off} (reference)")
        if alike:
            exact = evidence.variant.model.exact
            off = difference(array, plain[name], None if exact else tolerance)
            if off:
                return CHECK.verdict(Status.FAIL, f"{name} {off} (plain run)")
        if name in reference:
            off = difference(array, reference[name], wide)
            if off:
                return CHECK.verdict(Status.FAIL, f"{name} {off} (reference)")
    return agreed(CHECK, f"{len(recomputed)} values", alike=alike, reference=bool(reference))


CHECK = Check(
    "value",
    "outputs of the recomputed run equal the plain run (bit for bit in eager) and the reference",
    Level.MUST,
    _applies,
    _judge,
)
