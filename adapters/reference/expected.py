"""What the reference says of a case: values, gradients, executions and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conformance.language.operations import RANDOM
from conformance.model.case import Case, Statement, walk
from conformance.model.observation import Array, Draw, Expected, Leaf, Tree

from . import discipline as discipline_
from . import flow, memory

tape = flow.tape
#: Operations that are there to raise.
RAISING = ("raise_if", "raise_in_rerun")


def expect(
    case: Case,
    discipline: str,
    *,
    saves: Mapping[str, str] = {},
    draws: Sequence[Draw] | None = None,
) -> Expected:
    """What should be seen of a case under a discipline.

    `saves` says for an operation what its gradient keeps in this variant (words out of its
    arguments, `out`, `mask`). For `region` it says more of regions as a whole: `out`, that what a
    region gives is at hand in backward, and `inner` with it, that what regions inside it give is
    too; `anew`, that what a region gives is not kept for gradients around it but made again;
    `flat`, that nested regions are run again as one; `after`, that a value is saved when its
    operation has run, so that early stop comes after it. `draws` are the random numbers that the
    program drew; without them the values of a program that draws are unknown, and so are the
    gradients of one that draws anew in its rerun (`preserve_rng: false`). Raises `ValueError` where
    the draws do not fit the program.
    """
    if case.error is not None:
        return Expected(None, None, None, None, None, None, {}, None, case.error.type)
    first, results, known = _values(case, draws)
    results = dict(results)
    key = (discipline, *sorted(saves.items()))
    if key not in known:
        executions = discipline_.executions(case, first, discipline, saves)
        inference = case.procedure.kind == "inference"
        known[key] = executions, None if inference else memory.expected(case, first, saves)
    executions, bytes_ = known[key]
    if draws is None and case.uses(RANDOM):
        results = dict.fromkeys(results)
    elif _draws_anew(case):
        results |= dict.fromkeys(("gradients", "again", "parameters"))
        if case.procedure.kind == "train":
            results |= dict.fromkeys(("outputs", "losses"))
    return Expected(**results, executions=executions, memory=bytes_, error=None)


def _draws_anew(case: Case) -> bool:
    """Whether a region that does not preserve random state draws, itself or in a region inside."""
    for region in case.regions():
        ops = {node.op for node in walk(region.body) if isinstance(node, Statement)}
        if not region.preserve_rng and ops & RANDOM:
            return True
    return False


#: Executions and bytes, by discipline and what the variant saves.
Counted = dict[tuple[Any, ...], tuple[Any, Any]]
#: What the last case without draws gave: the variants of an adapter ask for it one after the other,
#: and several of them for the same counts.
_last: dict[str, tuple[Case, tuple[Any, dict[str, Any], Counted]]] = {}


def _values(case: Case, draws: Sequence[Draw] | None) -> tuple[Any, dict[str, Any], Counted]:
    """The flow of the first forward pass, what the procedure gives, and what was counted of it."""
    with tape.quiet():
        if draws is not None:
            return *_evaluated(case, flow.Draws(draws)), {}
        if "last" not in _last or _last["last"][0] is not case:
            _last["last"] = (case, (*_evaluated(case, None), {}))
        return _last["last"][1]


def _evaluated(case: Case, draws: Any) -> tuple[Any, dict[str, Any]]:
    kind = case.procedure.kind
    values = flow.make_inputs(case)
    steps = case.procedure.steps if kind == "train" else 1
    first = outputs = None
    losses: list[float] = []
    gradients: dict[str, Array | None] = {}
    again: dict[str, Array | None] = {}
    for _ in range(steps):
        walk = flow.Interpreter(case, draws)
        outputs, loss = walk.forward(values)
        first = first or walk.flow
        if loss is None:
            break
        losses.append(float(loss.data))
        wrt = [values[name] for name in case.wrt]
        order = case.procedure.order
        found = tape.gradient(loss, wrt, create_graph=order > 1)
        gradients = _arrays(case, found)
        if case.procedure.after == "backward":
            gradients = {n: None if g is None else 2 * g for n, g in gradients.items()}
        if order > 1:
            total = tape.total(found)
            if order > 2:
                total = tape.total(tape.gradient(total, wrt, create_graph=True))
            again = _arrays(case, tape.gradient(total, wrt))
        elif kind == "per_output":
            again = _arrays(case, tape.gradient(walk.then, wrt))
        elif kind == "second_backward":
            again = _arrays(case, tape.gradient(loss, wrt))
        elif kind == "train":
            trained = [p.name for p in case.parameters if p.gradient]
            slopes = tape.gradient(loss, [values[name] for name in trained])
            for name, slope in zip(trained, slopes, strict=True):
                values[name] = tape.descend(values[name], slope, case.procedure.learning_rate)
    training = kind == "train"
    return first, {
        "outputs": _leaves(outputs),
        "losses": tuple(losses),
        "gradients": gradients,
        "again": again,
        "parameters": {p.name: values[p.name].data for p in case.parameters} if training else {},
        "state": {s.name: values[s.name].data for s in case.state},
    }


def _arrays(case: Case, found: list[Any]) -> dict[str, Array | None]:
    pairs = zip(case.wrt, found, strict=True)
    return {name: None if g is None else np.array(g.data) for name, g in pairs}


def _leaves(value: Any) -> Tree:
    if isinstance(value, tape.Tensor):
        return Leaf(np.array(value.data), value.dtype)
    if isinstance(value, tuple):
        return tuple(_leaves(part) for part in value)
    if isinstance(value, dict):
        return {key: _leaves(part) for key, part in value.items()}
    found: Tree = value
    return found


class _MisfitError(Exception):
    """A statement that its arguments do not fit."""


class _Shapes(flow.Interpreter):  # type: ignore[misc, name-defined]
    """Evaluates until a statement does not fit, or one raises that is there to raise."""

    def _apply(self, step: Any, arguments: list[Any]) -> Any:
        try:
            return super()._apply(step, arguments)
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            if step.statement.op in RAISING:
                raise
            flat = [p for a in arguments for p in (a if isinstance(a, list) else [a])]
            shapes = [p.shape for p in flat if isinstance(p, tape.Tensor)]
            raise _MisfitError(step.statement, shapes, str(error)) from error


def misfit(case: Case) -> tuple[Statement | None, list[tuple[int, ...]], str] | None:
    """The first statement whose arguments do not fit it, their shapes, and what is wrong with them;
    `None` for the statement where it is the loss that is no single number. `None` where all fits."""
    walk = _Shapes(case, None)
    with tape.quiet(), np.errstate(all="ignore"):
        try:
            _, loss = walk.forward(flow.make_inputs(case))
        except _MisfitError as found:
            return found.args  # type: ignore[return-value]
        except ValueError:
            return None
    for made in (loss, walk.then):
        if made is not None and made.data.size != 1:
            return None, [made.shape], ""
    return None


def check_printed(case: Case, expected: Expected) -> list[str]:
    """Where the reference disagrees with numbers that a document printed: a sentence for each."""
    found: list[str] = []
    for name, printed in case.printed_gradients.items():
        array = (expected.gradients or {}).get(name)
        numbers = np.asarray(printed, np.float64)
        if array is None:
            found.append(f"gradient of {name} is printed, but the reference has none")
        elif array.shape != numbers.shape:
            found.append(f"gradient of {name} has shape {array.shape}, printed {numbers.shape}")
        elif not np.allclose(array.astype(np.float64), numbers, rtol=1e-6, atol=0):
            found.append(f"gradient of {name} is {array.tolist()}, printed {numbers.tolist()}")
    for region, counts in case.printed_executions.items():
        for phase, count in counts.items():
            allowed = expected.executions.get((region, "", phase))  # type: ignore[call-overload]
            if allowed is None:
                found.append(
                    f"executions of region {region} are printed, but there is no such region"
                )
            elif count not in allowed:
                found.append(f"region {region} runs {allowed} times in {phase}, printed {count}")
    return found
