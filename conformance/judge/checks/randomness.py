"""The recomputation draws the numbers of forward, and leaves the generator where the plain run does.

The first is a must: another dropout mask in the recomputation gives a wrong gradient, and no error is
raised. If draws cannot be observed, gradients are compared: under one seed, the outputs of plain and
recomputed are equal, so gradients that differ come from other draws. What the program draws after a
recomputation is also a must: the masks of the next step must not depend on whether this step was
recomputed. The position of the generator at the end is a should, also after an error that the case
promises. If the case says that the random state need not be preserved, what happened is reported and
never failed.

A case may state the sum of a gradient's elements as a multiple of the loss that holds for all draws.
This is checked first. It needs no seed and no observed draw.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

import numpy as np
from msgspec.structs import replace

from conformance.judge.arrays import differs, quantities
from conformance.judge.checks.evidence import Check, Evidence, forward_samples, place_name
from conformance.judge.limits import ROUNDING
from conformance.language.flow import Flow, redrawing
from conformance.language.operations import RANDOM
from conformance.language.place import reads
from conformance.language.properties import places
from conformance.model.case import Case
from conformance.model.facts import Sampling
from conformance.model.observation import Array, RandomSample, Run
from conformance.model.verdict import Status, Verdict

#: What a rerun did, in words, by the kind of `Sampling`.
_DID = {
    "same": "drew the same numbers as the forward pass",
    "nothing": "drew no numbers",
    "like": "drew no numbers that were observed; with the same seed, gradients that depend on draws "
    "equal the plain run's",
    "unread": "drew no numbers that were observed, and no gradient depends on a draw",
}
#: The region and the label of a statement.
Place = tuple[str, str]


def _judge(evidence: Evidence) -> Verdict:
    if evidence.case.error is not None:
        return _after_error(evidence)
    by_sums = _by_sums(evidence) if evidence.case.totals else None
    if by_sums is not None:
        return by_sums
    free, called = redrawing(evidence.case), {r.name for r in evidence.case.called()}
    preserved = {
        (region, s.label)
        for region, s in evidence.case.statements()
        if region in called and region not in free and s.op in RANDOM
    }
    samples = evidence.recomputed.samples
    if samples is None:
        drawn, method = _by_gradients(evidence), "gradients under one seed"
    else:
        drawn, method = _by_samples(evidence.case, [d for d in samples if d.region]), ""
    verdict = partial(CHECK.verdict, method=method, facts=(drawn,))
    if drawn.kind == "unknown":
        message = (
            "no draw was observed, and with the same seed outputs differ from the plain run's: "
        )
        return verdict(Status.UNSUPPORTED, f"{message}gradients cannot be compared")
    if drawn.kind == "fresh":
        if not preserved or (samples is not None and preserved.isdisjoint(drawn.where)):
            return verdict(Status.REPORT, "the rerun drew other numbers, which is allowed here")
        message = "the rerun drew other numbers than the forward pass"
        where = ", ".join(place_name(*place) for place in drawn.where)
        message += f": {where}" if where else ""
        return verdict(Status.FAIL, message, "the numbers of the forward pass", "other numbers")
    # The rerun drew no other numbers: what the program draws after it, and the generators at the end.
    rerun_drew = f"the rerun {_DID[drawn.kind]}"
    later, alike = _disturbed(evidence)
    if later and preserved:
        message = f"{rerun_drew}, but numbers drawn after it differ from the plain run's: "
        message += ", ".join(place_name(*place) for place in later)
        sides = ("the numbers of the plain run", "other numbers")
        return verdict(Status.FAIL, message, *sides, facts=(drawn, Sampling("later", later)))
    moved = _moved(evidence)
    if moved and alike:
        message = f"{rerun_drew}, but afterwards {_elsewhere(moved)}"
        status = Status.WARN if preserved else Status.REPORT
        return verdict(status, message, facts=(replace(drawn, generators=moved),))
    if drawn.kind == "unread":
        return verdict(Status.UNSUPPORTED, rerun_drew)
    if not preserved:
        return verdict(Status.REPORT, f"{rerun_drew}, although it did not have to")
    return verdict(Status.PASS, rerun_drew)


def _after_error(evidence: Evidence) -> Verdict:
    """The verdict on a run that ends in an error: only where the generators stand was observed."""
    if evidence.recomputed.generators.keys().isdisjoint(evidence.plain.generators):
        message = "the adapter does not observe the state of generators after an error"
        return CHECK.verdict(Status.UNSUPPORTED, message)
    moved, how = _moved(evidence), "the numbers that generators draw next"
    if not moved:
        message = "after the error, generators have the same state as after the plain run"
        return CHECK.verdict(Status.PASS, message, method=how)
    preserved = all(region.preserve_rng for region in evidence.case.regions())
    status, fact = (
        Status.WARN if preserved else Status.REPORT,
        Sampling("unknown", generators=moved),
    )
    return CHECK.verdict(status, f"after the error {_elsewhere(moved)}", method=how, facts=(fact,))


def _moved(evidence: Evidence) -> tuple[str, ...]:
    """The generators that are not where the plain run leaves them."""
    left = evidence.plain.generators
    return tuple(
        name
        for name, numbers in evidence.recomputed.generators.items()
        if name in left and not np.array_equal(numbers, left[name])
    )


def _elsewhere(moved: tuple[str, ...]) -> str:
    which = "" if moved == ("implicit",) else f" ({', '.join(moved)})"
    return f"the generator{which} has another state than after the plain run"


def _by_sums(evidence: Evidence) -> Verdict | None:
    """The verdict by the sums of gradients; `None` where they are right and draws can be compared."""
    if not _totals(evidence.case, evidence.plain):
        message = "gradients of the plain run have another sum than the case says"
        return CHECK.verdict(Status.BROKEN, message)
    steps = evidence.case.procedure.steps
    over = "" if steps == 1 else f", over {steps} steps"
    verdict = partial(CHECK.verdict, method="sums of gradients, against the losses")
    if not _totals(evidence.case, evidence.recomputed):
        message = (
            "gradients are not those of the numbers that the forward pass drew: their sum differs "
        )
        message += f"from the one that all draws have{over}"
        sides, facts = ("the numbers of the forward pass", "other numbers"), (Sampling("unlike"),)
        return verdict(Status.FAIL, message, *sides, facts=facts)
    if evidence.recomputed.samples is None or not evidence.case.seeded:
        message = f"gradients are those of the numbers that the forward pass drew{over}"
        return verdict(Status.PASS, message, facts=(Sampling("like"),))
    return None


def _totals(case: Case, run: Run) -> bool:
    """Whether the sums of gradients are the stated multiples of the losses: those of the last step and,
    from how far training has moved a parameter, those of all steps together."""
    sums: list[tuple[float, float]] = []
    for name, factor in case.totals.items():
        gradient = run.gradients.get(name)
        last = math.nan if gradient is None else float(gradient.astype(np.float64).sum())
        sums.append((last, factor * run.losses[-1]))
        if case.procedure.kind == "train":
            array = next(p for p in case.parameters if p.name == name)
            moved = array.fill.numbers[0] - run.parameters[name].astype(np.float64)
            total = float(moved.sum()) / case.procedure.learning_rate
            sums.append((total, factor * math.fsum(run.losses)))
    return all(math.isclose(observed, known, rel_tol=ROUNDING) for observed, known in sums)


def _disturbed(evidence: Evidence) -> tuple[tuple[Place, ...], bool]:
    """The statements whose later forward draws are not those of the plain run, since a rerun has left
    the generator elsewhere; none where the first draw of all differs, too: under one seed, a graph with
    reruns may draw other numbers from the start. And whether as many numbers were drawn as in the plain
    run.

    A draw is observed as the statement's result: of a dropout, the mask is compared. `rrelu` draws a
    number for each negative element of its argument, and returns the others: where these are others than
    in the plain run, no draw from there on can be compared; where there are none, this draw cannot be.
    """
    recomputed, plain = forward_samples(evidence.recomputed), forward_samples(evidence.plain)
    if recomputed is None or plain is None:
        return (), True
    if list(map(_place, recomputed)) != list(map(_place, plain)):
        return (), True
    tolerance, different = evidence.case.tolerance, list[RandomSample]()
    ops = {(region, s.label): s.op for region, s in evidence.case.statements()}
    for sample, other in zip(recomputed, plain, strict=True):
        a, b, op = sample.array, other.array, ops[_place(sample)]
        if op == "rrelu" and differs(np.maximum(a, 0), np.maximum(b, 0), tolerance):
            return _places(different), False
        if op == "rrelu" and not np.any(np.maximum(a, 0)):
            continue
        if differs(a != 0, b != 0, tolerance) if op == "dropout" else differs(a, b, tolerance):
            different.append(sample)
    first = bool(different) and different[0] is recomputed[0]
    return (() if first else _places(different)), True


def _place(draw: RandomSample) -> Place:
    return draw.region, draw.statement


def _places(draws: Iterable[RandomSample]) -> tuple[Place, ...]:
    """Where numbers were drawn, each place once, sorted by label."""
    return tuple(sorted(set(map(_place, draws)), key=lambda place: (place[1], place[0])))


def _by_samples(case: Case, samples: list[RandomSample]) -> Sampling:
    """What the reruns drew. A draw is fresh if no forward run of the same statement drew it. Of a
    dropout, the mask is, where gradients are differentiated: what runs again may be a derivative."""
    higher = case.procedure.order > 1
    masks = {(r, s.label) for r, s in case.statements() if s.op == "dropout" and higher}

    def drawn(sample: RandomSample) -> Array:
        return sample.array != 0 if _place(sample) in masks else sample.array

    forward: dict[Place, list[RandomSample]] = defaultdict(list)
    for draw in samples:
        if draw.phase == "forward":
            forward[_place(draw)].append(draw)
    reruns = [draw for draw in samples if draw.phase == "rerun"]
    fresh = [
        draw
        for draw in reruns
        if not any(
            np.array_equal(drawn(draw), drawn(known), equal_nan=True)
            for known in forward[_place(draw)]
        )
    ]
    if fresh:
        return Sampling("fresh", _places(fresh))
    return Sampling("same" if reruns else "nothing")


def _by_gradients(evidence: Evidence) -> Sampling:
    """What the gradients imply about draws that cannot be observed."""
    tolerance = evidence.case.tolerance
    plain = dict(quantities(evidence.plain))
    if evidence.case.procedure.kind != "train":
        for name, array in quantities(evidence.recomputed):
            if name not in plain or differs(array, plain[name], tolerance):
                return Sampling("unknown")  # the check `value` reports the difference
    case = evidence.case
    if not any(reads(place, draws=True) for place in places(Flow(case), case)):
        return Sampling("unread")
    for name, gradient in evidence.recomputed.gradients.items():
        control = evidence.plain.gradients.get(name)
        if gradient is not None and control is not None and differs(gradient, control, tolerance):
            return Sampling("fresh")
    return Sampling("like")


CHECK = Check(
    "randomness",
    _judge,
    applies=lambda case: any(region and s.op in RANDOM for region, s in case.statements()),
)
