"""What is expected of a case: values, gradients, executions and bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, cast

import numpy as np

from conformance.language.flow import draws_anew
from conformance.language.operations import RANDOM
from conformance.model.case import FORWARD_MODE, Case, Change
from conformance.model.containers import Listed, alike
from conformance.model.observation import Array, Expected, Leaf, Phase, RandomSample, Tree
from conformance.model.steps import stepped
from conformance.oracle import tape
from conformance.oracle.changes import Pass, changing, counts_of
from conformance.oracle.dataflow import Dataflow, Step
from conformance.oracle.executions import needed_inside, needed_steps, passes_of
from conformance.oracle.interpreter import (
    Drawn,
    DrawsError,
    Interpreter,
    ProgramValue,
    make_inputs,
    on_ranks,
    tensor_of,
)
from conformance.oracle.memory import expected_memory


def expect(
    case: Case,
    discipline: str,
    *,
    residuals: Mapping[str, str] = {},
    samples: Sequence[RandomSample] | None = None,
    rank: int = 0,
) -> Expected:
    """What should be seen of a case, on a rank, under a discipline: `whole`, `early-stop` or `minimal`.

    `residuals` is what a variant declares under `residuals` in its adapter.yaml: for an operation, what
    its gradient reads (names of arguments, `out` for its result, `mask`; `early` where they are saved
    before its end, `elements` where only of results with elements), and for `region`, words of
    `REGION_RESIDUALS`. An operation that is not declared may do whatever `OPERATIONS` lists for it.

    `samples` are the random numbers that the program drew, on all of its ranks. Without them the values
    of a program that draws are unknown, and so are the gradients of one that draws new random numbers in
    its rerun (`preserve_rng: false`): these are `None`. Arrays are float64 (int64, bool) of the case's
    shapes, bytes are at the dtypes that the tensors stand for. Raises `ValueError` where the samples do
    not fit the program.
    """
    if case.error is not None:
        return Expected(None, None, None, None, None, None, {}, None, case.error.type)
    try:
        evaluated = _evaluated(case, samples)[rank]
    except DrawsError:
        if not case.procedure.changes:
            raise
        # Not every framework shows what passes of other shapes, or without gradients, have drawn.
        evaluated, samples = _evaluated(case, None)[rank], None
    unknown: tuple[str, ...] = ()
    if samples is None and case.uses(RANDOM):
        unknown = ("outputs", "losses", "parameters", "state", "gradients", "again")
    elif draws_anew(case):
        unknown = ("parameters", "gradients", "again")
        if case.procedure.kind == "train":
            unknown += ("outputs", "losses")
    key = (discipline, frozenset(residuals.items()))
    if key not in evaluated.found:
        memory = None
        if (
            case.procedure.kind not in _WITHOUT_MEMORY
        ):  # where no gradients are taken there are no bytes
            memory = expected_memory(case, evaluated.dataflow, residuals, discipline)
        counts = counts_of(case, evaluated.passes, discipline, residuals)
        evaluated.found[key] = replace(evaluated.values, executions=counts, memory=memory)
    nothing: Any = dict.fromkeys(unknown)
    return replace(evaluated.found[key], **nothing)


def computed(
    case: Case,
    change: Callable[[Array], Array] | None = None,
    samples: Sequence[RandomSample] | None = None,
) -> Expected:
    """The values and gradients of a case, with the random samples of a run, or with random numbers of
    the reference's own. `change` is done to what each operation computes, in forward and backward."""
    before = tape.random_state()
    tape.seed(case.seed)
    np.random.seed(0)
    random.seed(0)
    try:
        with tape.quiet(), tape.rounding(change) if change else nullcontext():
            return _on_ranks(case, samples)[0].values
    finally:
        tape.set_random_state(before)


@dataclass
class _Evaluation:
    """A case evaluated: the dataflow of its first forward pass, and the results of its procedure as
    `values`, without executions and bytes; `found` has those, too, by discipline and residuals."""

    case: Case
    dataflow: Dataflow
    values: Expected
    #: Where the steps differ: all forward passes.
    passes: Sequence[Pass]
    found: dict[tuple[str, frozenset[tuple[str, str]]], Expected] = field(default_factory=dict)


#: Procedures in which no bytes are judged.
_WITHOUT_MEMORY = FORWARD_MODE | {"inference", "jacobian"}
_Gradients = list[tape.Tensor | None]
#: A cache of one entry, the last case evaluated without samples: it is judged for all variants of an
#: adapter in turn, several of which need the same counts.
_latest: list[_Evaluation] = []


def _evaluated(case: Case, samples: Sequence[RandomSample] | None) -> Sequence[_Evaluation]:
    """A case evaluated on each rank, with the random samples of a run, or with the tape's own if there
    are none."""
    with tape.quiet():
        if samples is not None:
            return _on_ranks(case, samples)
        if not _latest or _latest[0].case is not case:
            _latest[:] = _on_ranks(case, None)
        return _latest


def _on_ranks(case: Case, samples: Sequence[RandomSample] | None) -> list[_Evaluation]:
    def evaluate() -> _Evaluation:
        own = samples and [s for s in samples if s.rank == tape.rank()]
        return _evaluate(case, None if own is None else _by_statement(case, own))

    return on_ranks(case, evaluate)


def _by_statement(case: Case, samples: Sequence[RandomSample]) -> Drawn:
    """The samples that forward passes drew, by region and label.

    Where there are fewer than executions, those of executions that no output needs are `None`, or those
    that no result of the outermost region around them does: a framework that traces a program leaves
    them out, or one that traces the regions that it differentiates.
    """
    drawn: dict[tuple[str, str], list[Array | None]] = {}
    for sample in samples:
        if sample.phase == "forward":
            drawn.setdefault((sample.region, sample.statement), []).append(sample.array)
    run = Interpreter(case, None)
    run.forward(make_inputs(case))
    steps = [step for step in run.dataflow.steps if step.statement.op in RANDOM]
    needed, active = needed_steps(run.dataflow), run.dataflow.active(case.wrt)
    inside = needed_inside(run.dataflow, active)
    for key in {step.key for step in steps}:
        once = [step in needed for step in steps if step.key == key]
        seen, passes = drawn.get(key, []), passes_of(case)
        twice = {2 * len(once), 2 * sum(once)} - {len(once)}
        if case.procedure.after == "inference" and len(seen) in twice:
            seen = drawn[key] = seen[len(seen) // 2 :]  # the first pass is dropped
        within = [step in inside for step in steps if step.key == key]
        fitting = (one for one in (once, within) if len(seen) == passes * sum(one))
        drew = next(fitting, once)
        if len(seen) == passes * sum(drew) < passes * len(once):
            left = iter(seen)
            drawn[key] = [next(left) if one else None for one in drew * passes]
        elif len(seen) < passes * len(once) and not any(once):
            drawn[key] = [None for _ in once * passes]  # nothing depends on what was drawn
    return drawn


def _steps(case: Case) -> Iterable[tuple[Case, Sequence[Change]]]:
    """The case as each forward pass of its procedure runs it, with what is changed before."""
    if not case.procedure.changes:
        return [(case, ())] * passes_of(case)
    return zip_longest(stepped(case), ((), *case.procedure.changes), fillvalue=())  # type: ignore[arg-type]


def _evaluate(whole: Case, samples: Drawn | None) -> _Evaluation:
    """Run the procedure of a case on the tape; without samples it draws its own random numbers."""
    kind, case = whole.procedure.kind, whole
    values = make_inputs(whole)
    dataflow: Dataflow | None = None
    outputs: ProgramValue = None
    losses: list[float] = []
    gradients: dict[str, Array | None] = {}
    again: dict[str, Array | None] = {}
    passes: list[Pass] = []
    # The case as each pass runs it, and what is changed before.
    for case, changes in _steps(whole):
        for change in changes:
            passes += changing(case, values, change, samples)
        run = Interpreter(case, samples)
        with tape.no_gradient() if kind == "inference" else nullcontext():
            outputs, loss = run.forward(values)
        dataflow = dataflow or run.dataflow
        passes.append(Pass(case, run.dataflow))
        if loss is None:
            break
        losses.append(float(loss.data))
        first, second = _gradients(case, values, loss, run)
        if case.parallel:
            first = _synchronised(case, first)
        before, gradients = gradients, _by_name(case.differentiated, first)
        again = _by_name(case.wrt, second)
        if (
            case.procedure.after == "backward"
        ):  # gradients are added up, and the last loss is returned
            gradients = {n: _added(g, before.get(n)) for n, g in gradients.items()}
            losses = losses[-1:]
        if kind == "train":
            _descend(case, values, loss)
    assert dataflow is not None, "a procedure has one step or more"
    trained = case.parameters if kind == "train" else ()
    found = Expected(
        outputs=_leaves(outputs),
        losses=tuple(losses),
        gradients=gradients,
        again=again,
        parameters={p.name: tensor_of(p.name, values).data for p in trained},
        state={s.name: tensor_of(s.name, values).data for s in case.state},
        executions={},
        memory=None,
        error=None,
        sums=_sums(whole, dataflow),
    )
    return _Evaluation(whole, dataflow, found, passes)


def _sums(case: Case, dataflow: Dataflow) -> bool:
    """Whether so many contributions to a gradient are added up, some of them from regions, that their
    order matters; or a region takes a tensor whose axes are permuted, and its gradient is laid out as
    the tensor is, which a matrix product may compute with in another order."""
    active = dataflow.active(array.name for array in case.arrays if array.gradient)
    taken = (dataflow.tensors[n].producer for c in dataflow.calls for n in active & {*c.taken})
    if any(step is not None and step.statement.op == "permute_dims" for step in taken):
        return True
    contributions: dict[int, list[Step]] = {}
    for step in dataflow.differentiated(active, (dataflow.loss, dataflow.second_loss)):
        for name in dataflow.differentiable(step, active):
            for number in step.arguments[name]:
                contributions.setdefault(number, []).append(step)
    # Under autocast, those of a tensor that is cast once are added up in low precision.
    low = case.autocast or any(region.autocast for region in case.regions())
    two = 2 if case.procedure.after == "backward" or low else 3
    return any(
        len(steps) >= (2 if _captured(dataflow, number, steps) else two)
        for number, steps in contributions.items()
        if number in active and any(step.chain for step in steps)
    )


def _captured(dataflow: Dataflow, number: int, steps: Iterable[Step]) -> bool:
    """Whether a region in which one of the steps is reads by closure a tensor that was computed before
    it: its contribution may go on alone, before it is added to the others."""
    made = dataflow.tensors[number].producer is not None
    calls = [call for step in steps for call in step.chain]
    return made and any(number not in (*call.taken, *call.made) for call in calls)


def _added(gradient: Array | None, before: Array | None) -> Array | None:
    return gradient if gradient is None or before is None else np.add(gradient, before)


def _gradients(
    case: Case, values: Mapping[str, ProgramValue], loss: tape.Tensor, run: Interpreter
) -> tuple[_Gradients, _Gradients]:
    """The gradients of a loss with respect to `case.wrt`, and those of a second backward pass: of the
    other loss, of the same again, or of the sum of all first gradients; in forward mode tangents."""
    wrt = [tensor_of(name, values) for name in case.wrt]
    order, kind = case.procedure.order, case.procedure.kind
    if kind == "jacobian":
        return [tape.jacobian(run.of_loss, one) for one in wrt], []
    if kind in FORWARD_MODE:
        slopes = tape.gradient(loss, wrt, create_graph=order > 1)
        again = tape.gradient(tape.total(slopes, wrt), wrt) if order > 1 else []
        return (slopes if kind == "jvp_of_gradient" else [tape.jvp(run.of_loss, wrt)]), again
    first = tape.gradient(loss, wrt, create_graph=order > 1)
    if order > 1:
        total = tape.total(first)
        if order > 2:
            total = tape.total(tape.gradient(total, wrt, create_graph=True))
        return first, tape.gradient(total, wrt)
    second = {"per_output": run.second_loss, "second_backward": loss}.get(kind)
    return first, [] if second is None else tape.gradient(second, wrt)


def _synchronised(case: Case, gradients: _Gradients) -> _Gradients:
    """The gradients as data parallelism gives them: those of parameters averaged over the ranks."""
    shared = {array.name for array in case.parameters}
    pairs = zip(case.wrt, gradients, strict=True)
    return [tape.averaged(g) if g and name in shared else g for name, g in pairs]


def _descend(case: Case, values: dict[str, ProgramValue], loss: tape.Tensor) -> None:
    trained = {p.name: tensor_of(p.name, values) for p in case.parameters if p.gradient}
    slopes = tape.gradient(loss, trained.values())
    if case.parallel:
        slopes = [slope and tape.averaged(slope) for slope in slopes]
    for (name, tensor), slope in zip(trained.items(), slopes, strict=True):
        values[name] = tape.descend(tensor, slope, case.procedure.learning_rate)


def _by_name(names: Sequence[str], gradients: _Gradients) -> dict[str, Array | None]:
    """Gradients by name; empty if none were taken."""
    if not gradients:
        return {}
    pairs = zip(names, gradients, strict=True)
    return {name: None if g is None else np.array(g.data) for name, g in pairs}


def _leaves(value: ProgramValue) -> Tree:
    if isinstance(value, tape.Tensor):
        return Leaf(np.array(value.data), value.dtype)
    if isinstance(value, Listed):
        return [_leaves(part) for part in value]
    if isinstance(value, tuple):
        return tuple(_leaves(part) for part in value)
    if isinstance(value, Mapping):
        made: dict[str, Tree] = alike(value, {key: _leaves(p) for key, p in value.items()})
        return made
    assert not isinstance(value, np.random.Generator), "a generator is no output"
    return value


def check_printed(case: Case, expected: Expected) -> list[str]:
    """Disagreements of the oracle with numbers that a document printed, a sentence for each.

    Gradients are compared to a relative tolerance of 1e-6.
    """
    messages: list[str] = []
    for name, printed in case.printed_gradients.items():
        array = (expected.gradients or {}).get(name)
        numbers = np.asarray(printed, np.float64)
        if array is None:
            messages.append(f"gradient of {name} is printed, but the reference has none")
        elif array.shape != numbers.shape:
            messages.append(f"gradient of {name} has shape {array.shape}, printed {numbers.shape}")
        elif not np.allclose(array.astype(np.float64), numbers, rtol=1e-6, atol=0):
            messages.append(f"gradient of {name} is {array.tolist()}, printed {numbers.tolist()}")
    for region, counts in case.printed_executions.items():
        for phase, count in counts.items():
            allowed = expected.executions.get((region, "", cast(Phase, phase)))
            if allowed is None:
                messages.append(
                    f"executions of region {region} are printed, but there is no such region"
                )
            elif count not in allowed:
                messages.append(f"region {region} runs {allowed} times in {phase}, printed {count}")
    return messages
