"""Defaults of a case.

A region returns, and a program outputs, the last value that is made; the loss is the sum of the first
output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.language.operations import BOOLS
from conformance.model.case import (
    Array,
    FlatNode,
    Generator,
    Loss,
    Node,
    Ref,
    Statement,
    Tree,
    Value,
    leaves,
    node_makes,
    walk,
)


def last_value(nodes: Sequence[FlatNode]) -> Ref | None:
    """The value that the last of these nodes makes; `None` if that makes none or several."""
    made = node_makes(nodes[-1]) if nodes else ()
    return Ref(made[0], nodes[-1].where) if len(made) == 1 else None


def usual_loss(outputs: Tree) -> Loss | None:
    """The sum of the first named output; `None` if there is none."""
    named = leaves(outputs)
    return Loss("sum", named[0]) if named else None


def without_gradient(
    program: Sequence[Node], given: Iterable[Array | Value | Generator]
) -> frozenset[str]:
    """The names of values that are no floating tensors and so have no gradient, as far as the text
    shows."""
    made = [node for node in walk(tuple(program)) if isinstance(node, Statement)]
    whole = {n for node in made if _is_whole(node) for n in node.targets}
    whole |= {v.name for v in given if not isinstance(v, Array) or "float" not in v.dtype}
    return frozenset(whole - {n for node in made if not _is_whole(node) for n in node.targets})


def _is_whole(statement: Statement) -> bool:
    dtype = statement.options.get("dtype")
    return statement.op in BOOLS or (isinstance(dtype, str) and "float" not in dtype)
