"""Statements: `name = op(arguments, option=literal)`, parsed with `ast` and never evaluated."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from conformance.case import Argument, Literal, Option, Position, Ref, Statement
from conformance.errors import CaseError, nearest
from conformance.operations import OPERATIONS, RENAMED, Operation, OptionSpec

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool")


def parse(text: str, where: Position) -> Statement:
    """A statement from its text. Raises `CaseError` at the column of the part that is wrong."""
    try:
        tree = ast.parse(text.strip(), mode="exec")
    except (SyntaxError, ValueError) as error:
        column = getattr(error, "offset", None) or 1
        raise CaseError(
            f"not a statement: {text!r} ({getattr(error, 'msg', error)})",
            where=_shift(where, column - 1),
            hint="a statement reads `name = op(arguments, option=literal)`",
        ) from error
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Assign):
        raise CaseError(
            f"found {text!r}, expected one assignment",
            where=where,
            hint="a statement reads `name = op(arguments, option=literal)`",
        )
    assign = tree.body[0]
    if len(assign.targets) != 1 or not isinstance(assign.value, ast.Call):
        raise CaseError(
            f"the right-hand side of {text!r} is not a call of an operation",
            where=_at(where, assign.value),
            hint="write one operation per statement: `y = add(a, b)`",
        )
    call = assign.value
    operation = _operation(call, where)
    targets = _targets(assign.targets[0], where)
    options = _options(call, operation, where)
    arguments = _arguments(call, operation, where)
    results = options.get("sections") if operation.results == 0 else operation.results
    if len(targets) != results:
        raise CaseError(
            f"{operation.name} gives {results} result(s), found {len(targets)} name(s)",
            where=_at(where, assign.targets[0]),
        )
    return Statement(targets, operation.name, arguments, options, where)


def _shift(where: Position, columns: int) -> Position:
    return replace(where, column=where.column + columns)


def _at(where: Position, node: ast.expr | ast.keyword) -> Position:
    return _shift(where, node.col_offset)


def _operation(call: ast.Call, where: Position) -> Operation:
    if not isinstance(call.func, ast.Name):
        raise CaseError("an operation is called by its plain name", where=_at(where, call.func))
    name = call.func.id
    if name not in OPERATIONS:
        hint = f"did you mean {RENAMED[name]!r}?" if name in RENAMED else nearest(name, OPERATIONS)
        raise CaseError(f"unknown operation {name!r}", where=_at(where, call.func), hint=hint)
    return OPERATIONS[name]


def _targets(target: ast.expr, where: Position) -> tuple[str, ...]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    if len(names) != len(parts):
        raise CaseError("a result is assigned to a plain name", where=_at(where, target))
    return tuple(names)


def _arguments(call: ast.Call, operation: Operation, where: Position) -> tuple[Argument, ...]:
    if len(call.args) != len(operation.tensors):
        raise CaseError(
            f"{operation.name} takes {len(operation.tensors)} argument(s), found {len(call.args)}",
            where=_at(where, call),
            hint=operation.signature(),
        )
    found: list[Argument] = []
    for node, name in zip(call.args, operation.tensors, strict=True):
        if name.endswith("..."):
            if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
                raise CaseError(
                    f"{operation.name} takes a list of names",
                    where=_at(where, node),
                    hint=operation.signature(),
                )
            parts = tuple(_argument(part, where) for part in node.elts)
            if not all(isinstance(part, Ref) for part in parts):
                raise CaseError("a list of tensors holds names", where=_at(where, node))
            found.append(tuple(part for part in parts if isinstance(part, Ref)))
        else:
            found.append(_argument(node, where))
    return tuple(found)


def _argument(node: ast.expr, where: Position) -> Ref | Literal:
    if isinstance(node, ast.Name):
        return Ref(node.id)
    value = _literal(node)
    if isinstance(value, bool | int | float) and not isinstance(value, tuple):
        return Literal(value)
    raise CaseError(
        f"found {ast.unparse(node)!r}, expected a name or a number",
        where=_at(where, node),
        hint="one operation per statement: give an inner result a name of its own",
    )


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return ...


def _options(call: ast.Call, operation: Operation, where: Position) -> Mapping[str, Option]:
    found: dict[str, Option] = {}
    for keyword in call.keywords:
        name = keyword.arg or "**"
        if name not in operation.options:
            raise CaseError(
                f"{operation.name} has no option {name!r}",
                where=_at(where, keyword),
                hint=nearest(name, operation.options) if operation.options else "it has none",
            )
        spec = operation.options[name]
        value = _literal(keyword.value)
        if not _fits(value, spec):
            words = f" ({', '.join(map(repr, spec.words))})" if spec.words else ""
            raise CaseError(
                f"option {name} of {operation.name} is {ast.unparse(keyword.value)}, "
                f"expected {spec.type}{words}",
                where=_at(where, keyword.value),
            )
        found[name] = tuple(value) if isinstance(value, list | tuple) else value  # type: ignore[assignment]
    for name, spec in operation.options.items():
        if spec.required and name not in found:
            raise CaseError(
                f"{operation.name} needs its option {name!r}",
                where=_at(where, call),
                hint=operation.signature(),
            )
    return found


def _fits(value: object, spec: OptionSpec) -> bool:
    if value is None:
        return spec.default is None
    if spec.type == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if spec.type == "int":
        return isinstance(value, int)
    if spec.type == "float":
        return isinstance(value, int | float)
    if spec.type == "ints":
        return isinstance(value, list | tuple) and all(type(v) is int for v in value)
    if spec.type == "dtype":
        return value in DTYPES
    return isinstance(value, str) and (not spec.words or value in spec.words)
