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
from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from conformance.judge.arrays import differs, quantities
from conformance.judge.checks.evidence import Check, Evidence
from conformance.judge.limits import ROUNDING
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.facts import Sampling
from conformance.model.observation import RandomSample, Run
from conformance.model.verdict import Level, Status, Verdict

#: What the rerun did, by kind.
_DID = {
    "same": "drew what the forward drew",
    "nothing": "drew nothing again",
    "like": "is not seen to draw; under one seed gradients are those of the plain run",
}
_BY_SUMS, _BY_GRADIENTS = "sums of gradients, against the losses", "gradients under one seed"
Place = tuple[str, str]


def _applies(case: Case) -> bool:
    return any(region and s.op in RANDOM for region, s in case.statements())


def _judge(evidence: Evidence) -> Verdict:
    regions = {r.name: r for r in evidence.case.regions()}
    asked = {
        (region, s.label)
        for region, s in evidence.case.statements()
        if region and s.op in RANDOM and regions[region].preserve_rng
    }
    by_sums = _by_sums(evidence) if evidence.case.totals else None
    if by_sums is not None:
        return by_sums
    samples = evidence.recomputed.samples
    if samples is None:
        drawn, method = _by_gradients(evidence), _BY_GRADIENTS
    else:
        drawn, method = _seen([d for d in samples if d.region]), ""
    if drawn.kind == "unknown":
        message = (
            "no draw is seen, and under one seed outputs are not those of the plain run: gradients "
            "tell nothing"
        )
        return CHECK.verdict(Status.UNSUPPORTED, message, method=method, facts=(drawn,))
    if drawn.kind == "fresh":
        may = not asked or (samples is not None and asked.isdisjoint(drawn.where))
        return _fresh(drawn, method, may=may)
    return _afterwards(evidence, drawn, method, asked=bool(asked))


def _fresh(drawn: Sampling, method: str, *, may: bool) -> Verdict:
    if may:
        message = "the rerun drew other numbers, as it may here"
        return CHECK.verdict(Status.REPORT, message, method=method, facts=(drawn,))
    where = ", ".join(f"{label} in region {region}" for region, label in drawn.where)
    return CHECK.verdict(
        Status.FAIL,
        f"the rerun drew other numbers than the forward{': ' + where if where else ''}",
        "the numbers of the forward",
        "other numbers",
        method,
        facts=(drawn,),
    )


def _afterwards(evidence: Evidence, drawn: Sampling, method: str, *, asked: bool) -> Verdict:
    """The verdict where the rerun drew nothing else: on what is drawn after it, and in the end."""
    said = f"the rerun {_DID[drawn.kind]}"
    later = _disturbed(evidence)
    if later and asked:
        places = (f"{label} in region {region}" if region else label for region, label in later)
        return CHECK.verdict(
            Status.FAIL,
            f"{said}, but what is drawn after it is not what the plain run draws: "
            + ", ".join(places),
            "the numbers of the plain run",
            "other numbers",
            facts=(drawn, Sampling("later", later)),
        )
    moved = _moved(evidence)
    if moved:
        which = "" if moved == ("implicit",) else f" ({', '.join(moved)})"
        return CHECK.verdict(
            Status.WARN if asked else Status.REPORT,
            f"{said}, but afterwards the generator{which} is not where the plain run leaves it",
            method=method,
            facts=(replace(drawn, generators=moved),),
        )
    if not asked:
        message = f"{said}, though it need not"
        return CHECK.verdict(Status.REPORT, message, method=method, facts=(drawn,))
    return CHECK.verdict(Status.PASS, said, method=method, facts=(drawn,))


def _by_sums(evidence: Evidence) -> Verdict | None:
    """The verdict from the known sums of gradients; `None` where they are right and draws can be
    compared as well.
    """
    if not _totals(evidence.case, evidence.plain):
        return CHECK.verdict(
            Status.BROKEN, "gradients of the plain run do not sum to what the case says"
        )
    steps = evidence.case.procedure.steps
    if not _totals(evidence.case, evidence.recomputed):
        return CHECK.verdict(
            Status.FAIL,
            "gradients are not those of the numbers that the forward drew: "
            + _of(steps, "their sum is not what it is whatever is drawn"),
            "the numbers of the forward",
            "other numbers",
            _BY_SUMS,
            facts=(Sampling("unlike"),),
        )
    if evidence.recomputed.samples is None or not evidence.case.seeded:
        message = _of(steps, "gradients are those of the numbers that the forward drew")
        return CHECK.verdict(Status.PASS, message, method=_BY_SUMS, facts=(Sampling("like"),))
    return None


def _of(steps: int, words: str) -> str:
    return words if steps == 1 else f"{words}, over {steps} steps"


def _totals(case: Case, run: Run) -> bool:
    """Whether the sums of gradients are the multiples of the losses that the case states: those of
    the last step and, from how far training has moved a parameter, those of all steps together.
    """
    for name, factor in case.totals.items():
        gradient = run.gradients.get(name)
        last = math.nan if gradient is None else float(gradient.astype(np.float64).sum())
        sums = [(last, factor * run.losses[-1])]
        if case.procedure.kind == "train":
            array = next(p for p in case.parameters if p.name == name)
            moved = array.fill.numbers[0] - run.parameters[name].astype(np.float64)
            every = float(moved.sum()) / case.procedure.learning_rate
            sums.append((every, factor * math.fsum(run.losses)))
        if not all(math.isclose(ours, wanted, rel_tol=ROUNDING) for ours, wanted in sums):
            return False
    return True


def _moved(evidence: Evidence) -> tuple[str, ...]:
    """The generators whose final state differs between the recomputed and the plain run."""
    ours, plain = evidence.recomputed.generators, evidence.plain.generators
    return tuple(n for n in ours if n in plain and not np.array_equal(ours[n], plain[n]))


def _disturbed(evidence: Evidence) -> tuple[Place, ...]:
    """The statements whose later forward draws are not those of the plain run, though the first of all
    is: some rerun has left the generator elsewhere, and the program went on drawing from there.

    What is seen of a dropout is its result, so that draws are compared within the case's tolerance:
    after a step, parameters that compiled code has updated differ from the plain run's in their last
    bit.
    """
    if evidence.plain.samples is None or evidence.recomputed.samples is None:
        return ()
    ours = [draw for draw in evidence.recomputed.samples if draw.phase == "forward"]
    plain = [draw for draw in evidence.plain.samples if draw.phase == "forward"]
    pairs = list(zip(ours, plain, strict=False))
    if len(ours) != len(plain) or any(
        (a.region, a.statement) != (b.region, b.statement) for a, b in pairs
    ):
        return ()
    tolerance = evidence.case.tolerance
    other = [a for a, b in pairs if differs(a.array, b.array, tolerance)]
    if other and other[0] is ours[0]:
        return ()  # under one seed a graph with reruns may draw other numbers from the start
    return _by_label({(draw.region, draw.statement) for draw in other})


def _by_label(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(sorted(places, key=lambda place: (place[1], place[0])))


def _seen(samples: list[RandomSample]) -> Sampling:
    """What the reruns drew. A draw is fresh if no forward run of the same statement drew it."""
    forward: dict[Place, list[RandomSample]] = {}
    for draw in samples:
        if draw.phase == "forward":
            forward.setdefault((draw.region, draw.statement), []).append(draw)
    reruns = [draw for draw in samples if draw.phase == "rerun"]
    fresh = {
        (draw.region, draw.statement)
        for draw in reruns
        if not any(
            np.array_equal(draw.array, known.array)
            for known in forward.get((draw.region, draw.statement), [])
        )
    }
    if fresh:
        return Sampling("fresh", _by_label(fresh))
    return Sampling("same" if reruns else "nothing")


def _by_gradients(evidence: Evidence) -> Sampling:
    """What the gradients imply about draws that cannot be observed."""
    tolerance = evidence.case.tolerance
    plain = dict(quantities(evidence.plain))
    if evidence.case.procedure.kind != "train":
        for name, array in quantities(evidence.recomputed):
            if name not in plain or differs(array, plain[name], tolerance):
                return Sampling("unknown")  # other outputs: the value check says so
    for name, gradient in evidence.recomputed.gradients.items():
        control = evidence.plain.gradients.get(name)
        if gradient is None or control is None:
            continue
        if differs(gradient, control, tolerance):
            return Sampling("fresh")
    return Sampling("like")


CHECK = Check(
    "randomness",
    "the rerun drew what the forward drew, and what is drawn after it is what the plain run draws "
    "(must); at the end the generator stands where the plain run leaves it (should)",
    Level.MUST,
    _applies,
    _judge,
)
