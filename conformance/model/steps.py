"""A case as each step of its training runs it, after what is changed between steps."""

from dataclasses import replace
from typing import Any, cast

from conformance.model.case import Array, Case, Change, Value


def stepped(case: Case) -> tuple[Case, ...]:
    """The case as each step of its procedure runs it: with what requires a gradient there, the shapes of
    inputs and the values of others. What is frozen later is differentiated until then."""
    found = [replace(case, procedure=replace(case.procedure, steps=1, changes=()))]
    by_number = dict(enumerate(case.procedure.changes, start=1))
    for number in range(1, case.procedure.steps):
        latest = found[-1]
        for change in by_number.get(number, ()):
            latest = changed(latest, change)
        found.append(latest)
    frozen = (c.name for each in case.procedure.changes for c in each if c.kind == "freeze")
    told = tuple(dict.fromkeys((*case.wrt, *frozen)))
    return tuple(replace(one, wrt=tuple(n for n in told if n in asking(one))) for one in found)


def changed(case: Case, change: Change) -> Case:
    """A case after a change."""
    if change.kind not in ("freeze", "unfreeze", "set", "rows"):
        return case

    def of(value: Any) -> Any:
        if isinstance(value, Array) and change.kind == "rows" and value in case.inputs:
            return replace(value, shape=(cast(int, change.value), *value.shape[1:]))
        if value.name != change.name:
            return value
        if change.kind == "set":
            return Value(value.name, change.value)
        return replace(value, gradient=change.kind == "unfreeze")

    sections = ("inputs", "parameters", "state")
    parts: dict[str, Any] = {s: tuple(map(of, getattr(case, s))) for s in sections}
    return replace(case, **parts)


def asking(case: Case) -> tuple[str, ...]:
    """The tensors that require a gradient."""
    return tuple(array.name for array in case.arrays if array.gradient)


def ever_asking(case: Case) -> frozenset[str]:
    """The tensors that require a gradient in one step or more."""
    return frozenset(name for step in stepped(case) for name in asking(step))


def held(case: Case) -> tuple[str, ...]:
    """The names that what holds the regions may have: all but the tensors among the inputs."""
    values = [value.name for value in case.inputs if isinstance(value, Value)]
    return (*values, *(array.name for array in (*case.parameters, *case.state)))
