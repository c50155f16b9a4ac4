"""Statements: `name = op(arguments, option=literal)`, parsed with `ast` and never evaluated.

A further call of a region reads as one, too: `name = region(arguments, keyword=name)`. In a `repeat`,
`$i` may stand in names, and in place of an argument or a whole number.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from conformance.errors import CaseError, nearest
from conformance.language.operations import OPERATIONS, RENAMED, Operation, OptionSpec
from conformance.language.source import is_finite
from conformance.language.spec import Dtype
from conformance.language.yaml_marks import CUT, is_cut
from conformance.model.case import NUMBER, Argument, Literal, Option, Position, Ref, Statement
from conformance.words import counted

#: Characters; longer texts only keep the parser busy.
MAX_LENGTH = 2_000
_FORM = "write `name = operation(arguments, option=value)`"
_HEAD = "write the region's name (`recompute: block`), or its call (`recompute: block(x, mask=m)`)"
#: What stands for `$i` while Python parses a text: letters, and as many.
_STAND_IN = "ǂǂ"


@dataclass(frozen=True)
class RegionCall:
    """A further call of a region: names that it takes, and names that it gives."""

    targets: tuple[str, ...]
    region: str
    takes: tuple[Ref, ...]
    kwargs: Mapping[str, Ref]
    where: Position


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
        message = f"found a statement of {len(text)} characters, expected at most {MAX_LENGTH}"
        raise CaseError(message, where=where)
    where = _shift(where, len(text) - len(text.lstrip()))
    bare = text.strip().replace(NUMBER, _STAND_IN)
    try:
        return _parsed(text.strip(), ast.parse(bare), _Place(where, bare), regions)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = str(error) or "nested too deep"
        if isinstance(error, SyntaxError):
            # An offset beyond the text, or in another line, is of no use.
            column = error.offset or 1
            inside = error.lineno == 1 and column <= len(bare)
            where, reason = _shift(where, column - 1 if inside else 0), error.msg
        hint = CUT if is_cut(bare) else _FORM
        raise CaseError(f"not a statement: {text!r} ({reason})", where=where, hint=hint) from error


def _parsed(
    text: str, tree: ast.Module, place: _Place, regions: Collection[str]
) -> Statement | RegionCall:
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Assign):
        raise CaseError(f"found {text!r}, expected one assignment", where=place.start, hint=_FORM)
    assign = tree.body[0]
    if len(assign.targets) != 1:
        raise place.error(f"found {text!r}, expected one assignment", assign.targets[1], _FORM)
    call = assign.value
    if not isinstance(call, ast.Call):
        message = f"found {ast.unparse(call)!r}, expected a call of an operation"
        raise place.error(message, call, "write one operation per statement: `y = add(a, b)`")
    targets = _targets(assign.targets[0], place)
    function = _name(call.func) if isinstance(call.func, ast.Name) else ""
    if function in regions and function not in OPERATIONS:
        return _region_call(call, function, targets, place)
    operation = _operation(call, function, place, regions)
    options = _options(call, operation, place)
    arguments = _arguments(call, operation, place)
    results = options["sections"] if operation.results == 0 else operation.results
    if len(targets) != results:
        message = (
            f"{operation.name} returns {results} result(s), found {counted(len(targets), 'name')}"
        )
        raise place.error(message, assign.targets[0], f"write `{operation.signature()}`")
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

    def error(self, message: str, node: ast.expr | ast.keyword, hint: str = "") -> CaseError:
        return CaseError(message.replace(_STAND_IN, NUMBER), where=self.of(node), hint=hint)


def _shift(where: Position, columns: int) -> Position:
    return replace(where, column=where.column + columns)


def _name(node: ast.Name) -> str:
    return node.id.replace(_STAND_IN, NUMBER)


def parse_head(text: str, where: Position) -> RegionCall | None:
    """The arguments of `block(x, mask=m)`, where a region begins; none where only a name stands there.

    Raises `CaseError` at the column of the part that is wrong.
    """
    name, bracket, rest = text.partition("(")
    if not bracket:
        return None
    # A region's name may have hyphens; what stands in its place does not move what follows.
    bare = f"f({rest}".replace(NUMBER, _STAND_IN)
    refused = CaseError(f"not a region: {text!r}", where=where, hint=_HEAD)
    try:
        call = ast.parse(bare, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise refused from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise refused
    return _region_call(call, name, (), _Place(_shift(where, len(name) - 1), bare))


def _region_call(
    call: ast.Call, region: str, targets: tuple[str, ...], place: _Place
) -> RegionCall:
    def read(node: ast.expr) -> Ref:
        if isinstance(node, ast.Name) and node.id != _STAND_IN:
            return Ref(_name(node), place.of(node))
        hint = "declare a value among the inputs: `scale: {value: 2}`"
        if isinstance(node, ast.List | ast.Tuple | ast.Dict):
            hint = "write lists and mappings under `takes` or `kwargs`: `takes: [[a, b]]`"
        raise place.error(f"found {ast.unparse(node)!r}, expected a name", node, hint)

    kwargs: dict[str, Ref] = {}
    for word in call.keywords:
        if word.arg is None or word.arg in kwargs:
            found = (
                f"argument {word.arg!r} is given twice"
                if word.arg
                else "found '**', expected names"
            )
            raise place.error(found, word, "write each argument by its name: `block(x, mask=m)`")
        kwargs[word.arg] = read(word.value)
    return RegionCall(targets, region, tuple(map(read, call.args)), kwargs, place.start)


def _operation(call: ast.Call, name: str, place: _Place, regions: Collection[str]) -> Operation:
    if not name:
        found = ast.unparse(call.func)
        hint = nearest(found.rpartition(".")[2], OPERATIONS)
        message = f"found {found!r}, expected the name of an operation"
        raise place.error(message, call.func, hint)
    if name not in OPERATIONS:
        near = nearest(name, (*OPERATIONS, *regions))
        near = near if near.startswith("did you mean") else "docs/cases.md lists the operations"
        hint = f"did you mean {RENAMED[name]!r}?" if name in RENAMED else near
        raise place.error(f"unknown operation {name!r}", call.func, hint)
    return OPERATIONS[name]


def _targets(target: ast.expr, place: _Place) -> tuple[str, ...]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [_name(part) for part in parts if isinstance(part, ast.Name)]
    if len(names) != len(parts) or NUMBER in names:
        raise place.error(f"found {ast.unparse(target)!r}, expected a name for the result", target)
    if len(set(names)) < len(names):
        raise place.error("two results have the same name", target)
    return tuple(names)


def _arguments(call: ast.Call, operation: Operation, place: _Place) -> tuple[Argument, ...]:
    if len(call.args) != len(operation.tensors):
        wanted = f"{operation.name} takes {counted(len(operation.tensors), 'argument')}"
        raise place.error(
            f"{wanted}, found {len(call.args)}", call, f"write `{operation.signature()}`"
        )
    arguments: list[Argument] = []
    for node, name in zip(call.args, operation.tensors, strict=True):
        if not name.endswith("..."):
            arguments.append(_argument(node, place))
            continue
        if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
            message = f"{operation.name} takes a list of names"
            raise place.error(message, node, f"write `{operation.signature()}`")
        parts = [_argument(part, place) for part in node.elts]
        names = tuple(part for part in parts if isinstance(part, Ref))
        if len(names) < len(parts):
            raise place.error("found a number in a list of tensors, expected names", node)
        arguments.append(names)
    return tuple(arguments)


def _argument(node: ast.expr, place: _Place) -> Ref | Literal:
    if isinstance(node, ast.Name) and node.id != _STAND_IN:
        return Ref(_name(node), place.of(node))
    value = _literal(node)
    if value == NUMBER or (isinstance(value, bool | int | float) and is_finite(value)):
        return Literal(value)
    message = f"found {ast.unparse(node)!r}, expected a name or a number"
    hint = "write one operation per statement, and give each result a name"
    raise place.error(message, node, hint)


def _literal(node: ast.expr) -> object:
    """The value of a literal, `$i` for the number of a `repeat`, an ellipsis for anything else."""
    if isinstance(node, ast.Name):
        return NUMBER if node.id == _STAND_IN else ...
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return ...
    return ... if isinstance(value, str) and _STAND_IN in value else value


def _options(call: ast.Call, operation: Operation, place: _Place) -> Mapping[str, Option]:
    options: dict[str, Option] = {}
    for keyword in call.keywords:
        name = (keyword.arg or "**").replace(_STAND_IN, NUMBER)
        if name not in operation.options:
            hint = nearest(name, operation.options) if operation.options else "it has no options"
            raise place.error(f"{operation.name} has no option {name!r}", keyword, hint)
        if name in options:
            raise place.error(f"option {name!r} is given twice", keyword)
        spec = operation.options[name]
        value = _literal(keyword.value)
        if not _fits(value, spec):
            words = f" ({', '.join(map(repr, spec.words))})" if spec.words else ""
            found = f"option {name} of {operation.name} is {ast.unparse(keyword.value)}"
            raise place.error(f"{found}, expected {spec.type}{words}", keyword.value)
        options[name] = tuple(value) if isinstance(value, list | tuple) else value  # type: ignore[assignment]
    for name, spec in operation.options.items():
        if spec.required and name not in options:
            message = f"{operation.name} needs its option {name!r}"
            raise place.error(message, call, f"write `{operation.signature()}`")
    return options


def _fits(value: object, spec: OptionSpec) -> bool:
    if value is None:
        return spec.default is None
    match spec.type:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return type(value) is int or value == NUMBER
        case "float":
            return value == NUMBER or (type(value) in (int, float) and is_finite(value))  # type: ignore[arg-type]
        case "ints":
            return isinstance(value, list | tuple) and all(type(v) is int for v in value)
        case "dtype":
            return value in get_args(Dtype)
    return isinstance(value, str) and (not spec.words or value in spec.words)
