"""What is done between the steps of training: read from a case, and the case as each step runs it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from conformance.errors import nearest
from conformance.language import spec
from conformance.language.graph import NodeError, Run
from conformance.language.operations import OPERATIONS
from conformance.language.source import KeyPath, Source
from conformance.model.case import (
    Again,
    Array,
    Case,
    Change,
    Region,
    Value,
    flat,
    leaves,
    node_makes,
    walk,
)
from conformance.model.steps import asking, changed, held, stepped

_WHERE: KeyPath = ("procedure", "train", "between")
_BY_NAME = ("freeze", "unfreeze", "assign", "replace")


def read_changes(written: spec.TrainModel) -> tuple[tuple[Change, ...], ...]:
    """The changes between steps, as the file has them."""
    return tuple(tuple(_changes(between)) if between else () for between in written.between)


def _changes(written: spec.ChangeModel) -> Iterator[Change]:
    """The changes of one entry, in the order of the model's keys."""
    for key in type(written).model_fields:
        value = getattr(written, key)
        if not value:
            continue
        if key in _BY_NAME:
            names = [value] if isinstance(value, str) else value
            yield from (Change(cast(Any, key), name) for name in names)
        elif key == "set":
            yield from (Change("set", name, given) for name, given in value.items())
        elif key == "fail":
            yield Change("fail", value)
        elif key == "rows":
            yield Change("rows", value=value)
        else:
            yield Change("copy" if key == "copied" else "run")


def with_changes(source: Source, case: Case, wrt: Sequence[str] | None) -> Case:
    """A case whose gradients are those of its last step. Refuses changes of what is not there, or that
    change nothing. Raises `CaseError`."""
    procedure = case.procedure
    if len(procedure.changes) >= procedure.steps:
        message = f"found {len(procedure.changes)} changes between {procedure.steps} steps"
        raise source.error(message, *_WHERE, hint="write one entry before each step but the first")
    latest = stepped(case)[0]
    asks = _asks(latest)
    for number, changes in enumerate(procedure.changes):
        for change in changes:
            _check(source, latest, change, (*_WHERE, number, change.kind))
            latest = changed(latest, change)
        if (now := _asks(latest)) != asks:
            none = "a" if now or asks is None else "no"
            message = f"what is differentiated requires {none} gradient after this change alone"
            raise source.error(message, *_WHERE, number)
    for name in wrt or ():
        if name not in asking(latest):
            message = (
                f"{name!r} requires no gradient in the last step, whose gradients are compared"
            )
            raise source.error(message, "gradients", "wrt", hint=f"remove {name!r}")
    if procedure.made == "once":
        _check_once(source, case)
    return replace(case, wrt=tuple(wrt) if wrt is not None else asking(latest))


def _asks(case: Case) -> bool | None:
    """Whether the loss requires a gradient; `None` where what the program takes a gradient of itself
    requires none."""
    try:
        return case.loss is not None and Run(case, opaque=False).asks(case.loss)
    except NodeError:
        return None


def _check(source: Source, case: Case, change: Change, at: KeyPath) -> None:
    floating = {a.name: a for a in case.arrays if "float" in a.dtype and a not in case.state}
    values = {v.name: v for v in case.inputs if isinstance(v, Value)}
    kind, name = change.kind, change.name
    known: Any = values if kind in ("set", "fail") else floating
    if kind in ("assign", "replace"):
        known = {a.name for a in case.parameters if a.name in floating}
    if name and name not in known:
        what = "an input with a value" if known is values else "a floating-point parameter"
        what = "a floating-point tensor" if known is floating else what
        raise source.error(f"{name!r} is not {what}", *at, hint=nearest(name, [*known]))
    if kind in ("freeze", "unfreeze") and floating[name].gradient == (kind == "unfreeze"):
        state = "requires a gradient" if kind == "unfreeze" else "is frozen"
        raise source.error(f"{name!r} {state} already", *at)
    if kind == "set" and type(values[name].value) is not type(change.value):
        message = f"found {change.value!r}, expected a value like {values[name].value!r}"
        raise source.error(message, *at)
    if kind == "set" and name in _defaults(case):
        message = f"{name!r} is the default of an argument, and a default stays as it is"
        raise source.error(message, *at)
    used = {OPERATIONS[statement.op].capability for _, statement in case.statements()}
    if kind == "run" and "gradient-inside" in used:
        raise source.error("the program takes a gradient, and gradients are switched off", *at)
    if kind == "fail" and values[name].value is not False:
        raise source.error(f"{name!r} is not false, so that a step fails without it", *at)
    if kind == "copy" and case.procedure.made != "once":
        hint = "add `made: once`"
        raise source.error("nothing that could be copied outlives a step", *at, hint=hint)
    if kind == "rows":
        sizes = [a.shape[:1] for a in case.inputs if isinstance(a, Array)]
        if not sizes or any(not size or size[0] < cast(int, change.value) for size in sizes):
            raise source.error(f"an input has no {change.value} rows", *at)


def _defaults(case: Case) -> frozenset[str]:
    """The names of what a call leaves out since it is the function's default."""
    again = [node for node in walk(case.program) if isinstance(node, Again)]
    return frozenset(n for one in again for key in one.left_out for n in leaves(one.kwargs[key]))


def _check_once(source: Source, case: Case) -> None:
    """Refuse regions made once that read what only a step has."""
    outside = {*held(case)}
    made = {name for node in walk(case.program) for name in node_makes(node)}
    if again := sorted(made & outside):
        message = f"{again[0]!r} is assigned, and belongs to what is made once"
        raise source.error(message, "program")
    for region in flat(case.program):
        if not isinstance(region, Region):
            continue
        for name in region.captured():
            if name not in outside:
                message = f"region {region.name!r} is made once, and reads {name!r} by closure"
                hint = f"pass it: `{region.name}({', '.join([*leaves(region.takes), name])})`"
                raise source.error(message, "program", hint=hint)
