"""The rerun drew what the forward drew, and afterwards the generator stands where plain leaves it.

The first is a must: another mask in the rerun gives a wrong gradient and no error. Where the draws
themselves cannot be seen, the gradients tell: under one seed the outputs of plain and recomputed are
equal, and gradients that differ come from other draws. So is what the program draws after a rerun: the
next step's masks are not to depend on whether the last one was recomputed. Where the generator stands
at the end is a should. Where the case says
that the random state need not be preserved, what happened is reported and never failed.

A case may know the sum of a gradient's elements in multiples of the loss, whatever is drawn. That is
asked first: it holds without any seed and without seeing a draw, in one step and over many.
"""

from __future__ import annotations

import math

import numpy as np

from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.checks.numbers import difference
from conformance.judge.checks.value import quantities
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.observation import Draw, Run
from conformance.model.verdict import Level, Status, Verdict

#: Sums at float32 are off by some 1e-7. Another mask moves one step's by about a tenth, and those of
#: many steps partly cancel: of thirty, some come within 2e-3 of what they should be.
_ROUNDING = 1e-5


def _applies(case: Case) -> bool:
    return any(region and s.op in RANDOM for region, s in case.statements())


def _judge(evidence: Evidence) -> Verdict:
    regions = {r.name: r for r in evidence.case.regions()}
    asked = {
        (region, s.label)
        for region, s in evidence.case.statements()
        if region and s.op in RANDOM and regions[region].preserve_rng
    }
    draws = evidence.recomputed.draws
    steps = evidence.case.procedure.steps
    if evidence.case.totals:
        if not _totals(evidence.case, evidence.plain):
            return CHECK.verdict(
                Status.BROKEN, "gradients of the plain run do not sum to what the case says"
            )
        if not _totals(evidence.case, evidence.recomputed):
            return CHECK.verdict(
                Status.FAIL,
                "gradients are not those of the numbers that the forward drew: "
                + _of(steps, "their sum is not what it is whatever is drawn"),
                "the numbers of the forward",
                "other numbers",
                "sums of gradients, against the losses",
            )
        if draws is None or not evidence.case.seeded:
            return CHECK.verdict(
                Status.PASS,
                _of(steps, "gradients are those of the numbers that the forward drew"),
                method="sums of gradients, against the losses",
            )
    if draws is not None:
        fresh, again = _fresh([d for d in draws if d.region])
        method = ""
    else:
        fresh, again = _by_gradients(evidence)
        method = "gradients under one seed"
    if fresh and (not asked or (draws is not None and fresh.isdisjoint(asked))):
        return CHECK.verdict(
            Status.REPORT, "the rerun drew other numbers, as it may here", method=method
        )
    if fresh:
        where = ", ".join(sorted(f"{label} in region {region}" for region, label in fresh if label))
        return CHECK.verdict(
            Status.FAIL,
            f"the rerun drew other numbers than the forward{': ' + where if where else ''}",
            "the numbers of the forward",
            "other numbers",
            method,
        )
    if draws is None and not again:
        return CHECK.verdict(
            Status.UNSUPPORTED,
            "no draw is seen, and under one seed outputs are not those of the plain run: gradients tell "
            "nothing",
            method=method,
        )
    if draws is None:
        said = "is not seen to draw; under one seed gradients are those of the plain run"
    else:
        said = "drew what the forward drew" if again else "drew nothing again"
    later = _disturbed(evidence)
    if later and asked:
        return CHECK.verdict(
            Status.FAIL,
            f"the rerun {said}, but what is drawn after it is not what the plain run draws: "
            + ", ".join(later),
            "the numbers of the plain run",
            "other numbers",
        )
    moved = _moved(evidence)
    if moved:
        status = Status.WARN if asked else Status.REPORT
        which = "" if moved == ["implicit"] else f" ({', '.join(moved)})"
        return CHECK.verdict(
            status,
            f"the rerun {said}, but afterwards the generator{which} is not where the plain run "
            "leaves it",
            method=method,
        )
    if not asked:
        return CHECK.verdict(Status.REPORT, f"the rerun {said}, though it need not", method=method)
    return CHECK.verdict(Status.PASS, f"the rerun {said}", method=method)


def _of(steps: int, words: str) -> str:
    return words if steps == 1 else f"{words}, over {steps} steps"


def _totals(case: Case, run: Run) -> bool:
    """Whether the sums of gradients are the multiples of the losses that the case says: that of the last
    step, and, by what training has moved a parameter by, those of all steps together."""
    for name, factor in case.totals.items():
        gradient = run.gradients.get(name)
        last = math.nan if gradient is None else float(gradient.astype(np.float64).sum())
        sums = [(last, factor * run.losses[-1])]
        if case.procedure.kind == "train":
            array = next(p for p in case.parameters if p.name == name)
            moved = array.fill.numbers[0] - run.parameters[name].astype(np.float64)
            every = float(moved.sum()) / case.procedure.learning_rate
            sums.append((every, factor * math.fsum(run.losses)))
        if not all(math.isclose(ours, wanted, rel_tol=_ROUNDING) for ours, wanted in sums):
            return False
    return True


def _moved(evidence: Evidence) -> list[str]:
    """The generators that the recomputed run leaves elsewhere than the plain run."""
    ours, plain = evidence.recomputed.generators, evidence.plain.generators
    return [n for n in ours if n in plain and not np.array_equal(ours[n], plain[n])]


def _disturbed(evidence: Evidence) -> list[str]:
    """The statements whose later forward draws are not those of the plain run, though the first of all
    is: some rerun has left the generator elsewhere, and the program went on drawing from there.

    What is seen of a dropout is its result, so that draws are compared within the case's tolerance:
    after a step, parameters that compiled code has updated differ from the plain run's in their last
    bit.
    """
    if evidence.plain.draws is None or evidence.recomputed.draws is None:
        return []
    ours = [draw for draw in evidence.recomputed.draws if draw.phase == "forward"]
    plain = [draw for draw in evidence.plain.draws if draw.phase == "forward"]
    pairs = list(zip(ours, plain, strict=False))
    if len(ours) != len(plain) or any(
        (a.region, a.statement) != (b.region, b.statement) for a, b in pairs
    ):
        return []
    tolerance = evidence.case.tolerance
    other = [a for a, b in pairs if difference(a.array, b.array, tolerance)]
    if other and other[0] is ours[0]:
        return []  # under one seed a graph with reruns may draw other numbers from the start
    return sorted({_place(draw) for draw in other})


def _place(draw: Draw) -> str:
    return f"{draw.statement} in region {draw.region}" if draw.region else draw.statement


def _fresh(draws: list[Draw]) -> tuple[set[tuple[str, str]], bool]:
    """The statements whose rerun drew what no forward had drawn, and whether any rerun drew."""
    forward: dict[tuple[str, str], list[Draw]] = {}
    for draw in draws:
        if draw.phase == "forward":
            forward.setdefault((draw.region, draw.statement), []).append(draw)
    reruns = [draw for draw in draws if draw.phase == "rerun"]
    fresh = {
        (draw.region, draw.statement)
        for draw in reruns
        if not any(
            np.array_equal(draw.array, known.array)
            for known in forward.get((draw.region, draw.statement), [])
        )
    }
    return fresh, bool(reruns)


def _by_gradients(evidence: Evidence) -> tuple[set[tuple[str, str]], bool]:
    """What gradients tell of draws that cannot be seen."""
    tolerance = evidence.case.tolerance
    plain = dict(quantities(evidence.plain))
    if evidence.case.procedure.kind != "train":
        for name, array in quantities(evidence.recomputed):
            if name not in plain or difference(array, plain[name], tolerance):
                return set(), False  # other outputs: the value check says so
    for name, gradient in evidence.recomputed.gradients.items():
        control = evidence.plain.gradients.get(name)
        if gradient is None or control is None:
            continue
        if difference(gradient, control, tolerance):
            return {("", "")}, True
    return set(), True


CHECK = Check(
    "randomness",
    "the rerun drew what the forward drew, and what is drawn after it is what the plain run draws "
    "(must); at the end the generator stands where the plain run leaves it (should)",
    Level.MUST,
    _applies,
    _judge,
)
