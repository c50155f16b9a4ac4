"""Statements: `name = op(arguments, option=literal)`, parsed with `ast` and never evaluated.

A further call of a region reads as one, too: `name = region(arguments, keyword=name)`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from conformance.errors import CaseError, nearest
from conformance.language.operations import OPERATIONS, RENAMED, Operation, OptionSpec
from conformance.model.case import Argument, Literal, Option, Position, Ref, Statement

#: Characters; longer texts only keep the parser busy.
MAX_LENGTH = 2_000
_FORM = "a statement reads `name = op(arguments, option=literal)`"
_HEAD = "a region begins with its name, or as its call: `block(x, mask=m)`"
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool")


@dataclass(frozen=True)
class RegionCall:
    """A further call of a region: names that it takes, and names that it gives."""

    targets: tuple[str, ...]
    region: str
    takes: tuple[str, ...]
    kwargs: Mapping[str, str]
    where: Position
    #: Where each argument stands.
    places: Mapping[str, Position]


def divided(text: str, where: Position) -> Iterator[tuple[str, Position]]:
    """The statements of a text, separated by semicolons, and where each begins."""
    start = 0
    for part in text.split(";"):
        yield part, _shift(where, start)
        start += len(part) + 1


def parse(text: str, where: Position, regions: Collection[str] = ()) -> Statement | RegionCall:
    """A statement from its text. Raises `CaseError` at the column of the part that is wrong.

    `where` is the place of the text's first character. `regions` are those that may be called, by the
    name of their function; an operation of the same name goes before.
    """
    if len(text) > MAX_LENGTH:
        raise CaseError(
            f"found a statement of {len(text)} characters, expected at most {MAX_LENGTH}",
            where=where,
        )
    bare = text.strip()
    where = _shift(where, len(text) - len(text.lstrip()))
    try:
        return _parsed(bare, ast.parse(bare, mode="exec"), _Place(where, bare), regions)
    except SyntaxError as error:
        # An offset beyond the text, or in another line, is of no use.
        column = error.offset or 1
        inside = error.lineno == 1 and column <= len(bare)
        raise CaseError(
            f"not a statement: {text!r} ({error.msg})",
            where=_shift(where, column - 1 if inside else 0),
            hint=_FORM,
        ) from error
    except (ValueError, MemoryError, RecursionError) as error:
        reason = str(error) or "nested too deep"
        raise CaseError(f"not a statement: {text!r} ({reason})", where=where, hint=_FORM) from error


def _parsed(
    text: str, tree: ast.Module, place: _Place, regions: Collection[str]
) -> Statement | RegionCall:
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Assign):
        raise CaseError(f"found {text!r}, expected one assignment", where=place.start, hint=_FORM)
    assign = tree.body[0]
    if len(assign.targets) != 1:
        raise CaseError(
            f"found {text!r}, expected one assignment",
            where=place.of(assign.targets[1]),
            hint=_FORM,
        )
    if not isinstance(assign.value, ast.Call):
        raise CaseError(
            f"the right-hand side of {text!r} is not a call of an operation",
            where=place.of(assign.value),
            hint="write one operation per statement: `y = add(a, b)`",
        )
    call = assign.value
    targets = _targets(assign.targets[0], place)
    function = call.func.id if isinstance(call.func, ast.Name) else ""
    if function in regions and function not in OPERATIONS:
        return _region_call(call, function, targets, place)
    operation = _operation(call, place, regions)
    options = _options(call, operation, place)
    arguments = _arguments(call, operation, place)
    results = options["sections"] if operation.results == 0 else operation.results
    if len(targets) != results:
        raise CaseError(
            f"{operation.name} gives {results} result(s), found {len(targets)} name(s)",
            where=place.of(assign.targets[0]),
            hint=operation.signature(),
        )
    return Statement(targets, operation.name, arguments, options, place.start)


@dataclass(frozen=True)
class _Place:
    """Where a statement starts, and its text, whose bytes are what `ast` counts columns in."""

    start: Position
    text: str

    def of(self, node: ast.expr | ast.keyword) -> Position:
        if node.lineno != 1:  # YAML folds lines, so positions of further lines are unknown
            return self.start
        before = self.text.encode("utf-8", "surrogatepass")[: node.col_offset]
        return _shift(self.start, len(before.decode("utf-8", "surrogatepass")))


def _shift(where: Position, columns: int) -> Position:
    return replace(where, column=where.column + columns)


def parse_head(text: str, where: Position) -> RegionCall | None:
    """The arguments of `block(x, mask=m)`, where a region begins; none where only a name stands there.

    Raises `CaseError` at the column of the part that is wrong.
    """
    name, bracket, rest = text.partition("(")
    if not bracket:
        return None
    # A region's name may have hyphens; what stands in its place does not move what follows.
    bare = f"f({rest}"
    place = _Place(_shift(where, len(name) - 1), bare)
    try:
        call = ast.parse(bare, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise CaseError(f"not a region: {text!r}", where=where, hint=_HEAD) from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise CaseError(f"not a region: {text!r}", where=where, hint=_HEAD)
    return _region_call(call, name, (), place)


def _region_call(
    call: ast.Call, region: str, targets: tuple[str, ...], place: _Place
) -> RegionCall:
    named: dict[str, ast.expr] = {}
    for word in call.keywords:
        if word.arg is None or word.arg in named:
            raise CaseError(
                f"argument {word.arg!r} is given twice" if word.arg else "found '**'",
                where=place.of(word),
                hint="each argument by its name",
            )
        named[word.arg] = word.value
    for node in (*call.args, *named.values()):
        if not isinstance(node, ast.Name):
            raise CaseError(
                f"found {ast.unparse(node)!r}, expected a name",
                where=place.of(node),
                hint="a number is declared among the inputs (`scale: {value: 2}`); lists and "
                "mappings of names stand under `takes` and `kwargs`",
            )
    takes = tuple(node.id for node in call.args if isinstance(node, ast.Name))
    kwargs = {key: node.id for key, node in named.items() if isinstance(node, ast.Name)}
    given = (*call.args, *named.values())
    places = {node.id: place.of(node) for node in given if isinstance(node, ast.Name)}
    return RegionCall(targets, region, takes, kwargs, place.start, places)


def _operation(call: ast.Call, place: _Place, regions: Collection[str]) -> Operation:
    if not isinstance(call.func, ast.Name):
        raise CaseError("an operation is called by its plain name", where=place.of(call.func))
    name = call.func.id
    if name not in OPERATIONS:
        near = nearest(name, (*OPERATIONS, *regions))
        hint = f"did you mean {RENAMED[name]!r}?" if name in RENAMED else near
        raise CaseError(f"unknown operation {name!r}", where=place.of(call.func), hint=hint)
    return OPERATIONS[name]


def _targets(target: ast.expr, place: _Place) -> tuple[str, ...]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    if len(names) != len(parts):
        raise CaseError("a result is assigned to a plain name", where=place.of(target))
    if len(set(names)) < len(names):
        raise CaseError("two results have the same name", where=place.of(target))
    return tuple(names)


def _arguments(call: ast.Call, operation: Operation, place: _Place) -> tuple[Argument, ...]:
    if len(call.args) != len(operation.tensors):
        raise CaseError(
            f"{operation.name} takes {len(operation.tensors)} argument(s), found {len(call.args)}",
            where=place.of(call),
            hint=operation.signature(),
        )
    arguments: list[Argument] = []
    for node, name in zip(call.args, operation.tensors, strict=True):
        if name.endswith("..."):
            if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
                raise CaseError(
                    f"{operation.name} takes a list of names",
                    where=place.of(node),
                    hint=operation.signature(),
                )
            parts = tuple(_argument(part, place) for part in node.elts)
            if not all(isinstance(part, Ref) for part in parts):
                raise CaseError("a list of tensors holds names", where=place.of(node))
            arguments.append(tuple(part for part in parts if isinstance(part, Ref)))
        else:
            arguments.append(_argument(node, place))
    return tuple(arguments)


def _argument(node: ast.expr, place: _Place) -> Ref | Literal:
    if isinstance(node, ast.Name):
        return Ref(node.id)
    value = _literal(node)
    if isinstance(value, bool | int | float) and _is_finite(value):
        return Literal(value)
    raise CaseError(
        f"found {ast.unparse(node)!r}, expected a name or a number",
        where=place.of(node),
        hint="one operation per statement: give an inner result a name of its own",
    )


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return ...


def _options(call: ast.Call, operation: Operation, place: _Place) -> Mapping[str, Option]:
    options: dict[str, Option] = {}
    for keyword in call.keywords:
        name = keyword.arg or "**"
        if name not in operation.options:
            raise CaseError(
                f"{operation.name} has no option {name!r}",
                where=place.of(keyword),
                hint=nearest(name, operation.options) if operation.options else "it has none",
            )
        if name in options:
            raise CaseError(f"option {name!r} is given twice", where=place.of(keyword))
        spec = operation.options[name]
        value = _literal(keyword.value)
        if not _fits(value, spec):
            words = f" ({', '.join(map(repr, spec.words))})" if spec.words else ""
            raise CaseError(
                f"option {name} of {operation.name} is {ast.unparse(keyword.value)}, "
                f"expected {spec.type}{words}",
                where=place.of(keyword.value),
            )
        options[name] = tuple(value) if isinstance(value, list | tuple) else value  # type: ignore[assignment]
    for name, spec in operation.options.items():
        if spec.required and name not in options:
            raise CaseError(
                f"{operation.name} needs its option {name!r}",
                where=place.of(call),
                hint=operation.signature(),
            )
    return options


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
        return isinstance(value, int | float) and _is_finite(value)
    if spec.type == "ints":
        return isinstance(value, list | tuple) and all(type(v) is int for v in value)
    if spec.type == "dtype":
        return value in DTYPES
    return isinstance(value, str) and (not spec.words or value in spec.words)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond all floats
        return False
