"""Which tensors a loss depends on, and which gradients there are to differentiate again.

Programs of some frameworks have to say so: backward raises where a loss requires no gradient, and where
the gradient of a tensor is to be differentiated that the loss does not depend on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.language.operations import OPERATIONS
from conformance.model.binding import bind, build
from conformance.model.case import Again, Case, Loss, Node, Region, Statement, flat
from conformance.oracle import tape
from conformance.oracle.interpreter import Interpreter, make_inputs, tensor_of

#: Names of the tensors that a value depends on, by the name of the value, or a container of such.
_Reached = dict[str, Any]


def reached(case: Case, loss: Loss) -> frozenset[str]:
    """The tensors requiring a gradient that a loss depends on differentiably, by name."""
    asking = {array.name for array in case.arrays if array.gradient}
    names: _Reached = {n: frozenset({n} & asking) for n in case.names()}
    _follow(case.program, names, {region.name: region for region in case.regions()})
    return _union(names[loss.name])


def missing(case: Case) -> tuple[frozenset[str], ...]:
    """The tensors in `Case.wrt` that have no gradient, for each order that the procedure takes. Where
    the case raises an error, they are those of the good run after it, or else of the first order."""
    assert case.loss is not None
    first = frozenset(case.wrt) - reached(case, case.loss)
    if case.procedure.order == 1:
        return (first,)
    values, found = make_inputs(case), []
    values |= case.error.then if case.error else {}  # no error is raised with these
    with tape.quiet():
        try:
            _, loss = Interpreter(case, None).forward(values)
        except ValueError:
            if case.error is None:
                raise
            return (first,) * case.procedure.order
        assert loss is not None
        for _ in range(case.procedure.order):
            wrt = [tensor_of(name, values) for name in case.wrt]
            gradients = tape.gradient(loss, wrt, create_graph=True)
            pairs = zip(case.wrt, gradients, strict=True)
            found.append(frozenset(name for name, gradient in pairs if gradient is None))
            loss = tape.total(gradients)
    return tuple(found)


def _follow(nodes: Iterable[Node], names: _Reached, regions: dict[str, Region]) -> None:
    for node in flat(nodes):
        if isinstance(node, Statement):
            _statement(node, names)
        elif isinstance(node, Again) or node.called:
            region = regions[node.region] if isinstance(node, Again) else node
            inner = dict(names)
            bind(region.takes, build(node.takes, names), inner)
            bind(region.kwargs, build(node.kwargs, names), inner)
            _follow(region.body, inner, regions)
            result = build(region.gives, inner)
            bind(node.gives, result, names)


def _statement(statement: Statement, names: _Reached) -> None:
    operation, dtype = OPERATIONS[statement.op], statement.options.get("dtype")
    whole = isinstance(dtype, str) and "float" not in dtype
    found: frozenset[str] = frozenset()
    for name, argument in zip(operation.tensors, statement.arguments, strict=True):
        if name.removesuffix("...") in operation.needs and not whole:
            found |= _union(build(argument, names))
    if statement.op == "add_in_place":
        names[statement.names()[0]] = found
    names.update(dict.fromkeys(statement.targets, found))


def _union(value: Any) -> frozenset[str]:
    if isinstance(value, frozenset):
        return value
    parts = value.values() if isinstance(value, dict) else value
    return (
        frozenset().union(*map(_union, parts)) if isinstance(value, dict | tuple) else frozenset()
    )
