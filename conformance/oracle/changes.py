"""What is done between the steps of a training, on the tape, and what all steps together run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

from conformance.model.case import Case, Change
from conformance.model.observation import Allowed, Phase
from conformance.oracle import tape
from conformance.oracle.dataflow import Dataflow
from conformance.oracle.executions import Executions
from conformance.oracle.interpreter import Drawn, Interpreter, ProgramValue, tensor_of

_Key = tuple[str, str, Phase]
_MAYBE = "a pass with gradients off, or one that fails, may be another program, and not counted"


@dataclass(frozen=True)
class Pass:
    """A forward pass of a case as a step runs it; one that is `apart` has no backward pass."""

    case: Case
    dataflow: Dataflow
    apart: bool = False


def changing(
    case: Case, values: dict[str, ProgramValue], change: Change, samples: Drawn | None
) -> Sequence[Pass]:
    """Do a change to the values that the next step starts from; `case` is as that step runs it. Returns
    the forward passes that the change consists of."""
    if change.kind in ("run", "fail"):
        run = Interpreter(case, samples)
        flag = {change.name: True} if change.kind == "fail" else {}
        with tape.no_gradient():
            try:
                run.forward(values | flag)
            except ValueError:
                if not flag:
                    raise
        return [Pass(case, run.dataflow, apart=True)]
    if change.kind == "set":
        values[change.name] = change.value
    rows = cast(int, change.value)
    for array in case.arrays:
        of_rows = change.kind == "rows" and array in case.inputs
        if array.name == change.name or of_rows:
            held = tensor_of(array.name, values)
            halved = 0.5 * held.data if change.kind in ("assign", "replace") else held.data
            cut = halved[:rows] if of_rows else halved
            made = tape.tensor(cut, held.dtype, array.gradient)
            # What is halved in place is what training made, and not rounded.
            values[array.name] = replace(made, data=cut) if change.kind == "assign" else made
    return []


def counts_of(
    case: Case, passes: Sequence[Pass], discipline: str, residuals: Mapping[str, str]
) -> dict[_Key, Allowed]:
    """The allowed counts over the whole procedure of a case."""
    if not case.procedure.changes:
        return Executions(case, passes[0].dataflow, discipline, residuals).allowed()
    total: dict[_Key, Allowed] = {}
    for one in sorted(passes, key=lambda one: one.apart):  # steps first: they say what is counted
        run = Executions(one.case, one.dataflow, discipline, residuals)
        found = _once(run, total) if one.apart else run.allowed()
        for key, allowed in found.items():
            total[key] = _added(total[key], allowed) if key in total else allowed
    return total


def _once(run: Executions, keys: Iterable[_Key]) -> dict[_Key, Allowed]:
    """The allowed counts of a forward pass without a backward pass; one that fails has no outputs."""
    least = run.needed if run.dataflow.outputs else run.once
    every = {key: key[:2] for key in keys if key[2] == "forward"}
    return {
        key: Allowed((*range(run.once[own], least[own] - 1, -1), 0), _MAYBE)
        for key, own in every.items()
    }


def _added(first: Allowed, second: Allowed) -> Allowed:
    """The counts that two passes may have together."""
    sums = dict.fromkeys(a + b for a, b in product(first.counts, second.counts))
    return Allowed(tuple(sums), first.reason or second.reason)
