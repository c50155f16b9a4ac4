"""Makes a standalone program, for a bug report, from one in `tests/reasons/<adapter>/*.py`.

A program there shows the reason of a known deviation: its function `differs(changed)` returns whether
the difference appears, without and with the one change that the reason blames. The standalone program
is that function's body with `changed` set to false and without the code that only the change needs. It
prints what the function compared and asserts that there is no difference, so that it fails as long as
the difference exists.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.emit.code import Code
from conformance.emit.finishing import finish

#: Prefix of a string statement that carries a comment through `ast`, which drops comments.
_COMMENT = "__comment__:"
#: Calls that make or measure a container and have no side effects.
_CONTAINERS = frozenset({"dict", "frozenset", "len", "list", "set", "tuple"})
#: Calls that compare their arguments. The arguments are printed, which says more than the result.
_COMPARING = frozenset({"allclose", "array_equal", "equal"})
_INVERSE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_Block = list[ast.stmt]


@dataclass(frozen=True)
class Shown:
    """A program that uses only the framework, and fails while a difference exists.

    `title` says what is wrong, `change` which one change makes the difference go away; both are taken
    from the reason's program. `asserts` says whether it ends with an assertion; else the framework
    raises, or ends the process. `environment` are variables to set before it runs.
    """

    text: str
    title: str
    change: str
    asserts: bool
    environment: Mapping[str, str]


def alone(source: str, module: Callable[[str], str], say: Callable[[str], str]) -> Shown:
    """The standalone form of a reason's program.

    `module` returns the source of an imported module of the tests, by name; `say` replaces the suite's
    terms in a text by common ones. Raises `ValueError` for a program without `differs(changed)`.
    """
    tree = _with_comments(source)
    title = say(" ".join((ast.get_docstring(tree) or "").split()).rstrip("."))
    given = _assigned(tree, "ENVIRONMENT")
    environment = given if isinstance(given, dict) else {}
    body = [node for node in tree.body if not _is_note(node)]
    differs = next((n for n in body if _is_named(n, "differs")), None)
    if not isinstance(differs, ast.FunctionDef):
        raise ValueError("no function `differs`")
    docstring = " ".join((ast.get_docstring(differs) or "").split()).rstrip(".")
    change = say(docstring.partition("with the change, ")[2])
    body = [node for part in body for node in _imported(part, module)]
    if any(isinstance(n, ast.Name) and n.id == "died" for n in ast.walk(differs)):
        asserts = False
        body = [node for part in body if not _is_named(part, "differs") for node in _main(part)]
        body = _folded(body, "sys.argv[1:]", "len(sys.argv) > 1")
    else:
        rest = [node for node in body if not _is_named(node, "differs")]
        ended, asserts = _as_program(differs, rest, _message(docstring, title, say))
        body = _without_argument([*rest, *ended], differs.args.args[0].arg)
    whole = _in_their_words(ast.Module(_needed(body), []), say)
    lines = ast.unparse(ast.fix_missing_locations(whole)).splitlines()
    text = "\n".join(_comment(line, say) for line in lines)
    return Shown(formatted(text), title, change, asserts, environment)


def reason_of(source: str) -> str:
    """The first words of the known deviation's reason that a program shows; empty if it names none."""
    reason = _assigned(ast.parse(source), "REASON")
    return reason if isinstance(reason, str) else ""


def formatted(text: str) -> str:
    """A program, formatted, without unused imports."""
    code = Code()
    code.lines = text.splitlines()
    return finish({"": code})[""].text


def _message(docstring: str, title: str, say: Callable[[str], str]) -> str:
    """The assertion's message: what `differs` tests, from its docstring; the title if that
    docstring begins with a pronoun."""
    question = say(docstring.partition(";")[0].removeprefix("Whether ").rstrip(", "))
    return title if question.split(" ")[0] in ("it", "its", "they", "both", "two") else question


def _in_their_words(tree: ast.Module, say: Callable[[str], str]) -> ast.Module:
    """A program with the suite's own terms replaced in docstrings, names and printed labels."""
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    used |= {name for node in ast.walk(tree) for name in _bound(node)}
    renamed = {"region": next(n for n in ("block", "function", "part") if n not in used)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            if not _is_comment(first):
                first.value = ast.Constant(say(ast.get_docstring(node) or ""))
        label = node.args[0] if isinstance(node, ast.Call) and node.args else None
        if isinstance(label, ast.Constant) and ast.unparse(node.func) == "print":  # type: ignore[attr-defined]
            label.value = re.sub(r"\bregion\b", renamed["region"], str(label.value))
        for field in ("id", "name", "arg"):
            if getattr(node, field, None) in renamed and not isinstance(node, ast.keyword):
                setattr(node, field, renamed[getattr(node, field)])
    return tree


def _bound(node: ast.AST) -> list[str]:
    """The name that a definition or a parameter binds, in a list; empty for other nodes."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [node.arg] if isinstance(node, ast.arg) else []


# -- the parts of the file ----------------------------------------------------------------------


def _is_note(node: ast.stmt) -> bool:
    """Whether a statement is only for the tests: the docstring, the reason, or its environment."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return not str(node.value.value).startswith(_COMMENT)
    return _names(node) in (["REASON"], ["ENVIRONMENT"])


def _is_named(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _assigned(tree: ast.Module, name: str) -> object:
    for node in tree.body:
        if isinstance(node, ast.Assign) and _names(node) == [name]:
            return ast.literal_eval(node.value)
    return None


def _names(node: ast.stmt) -> list[str]:
    """The names that a definition or a plain assignment binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return []


def _imported(node: ast.stmt, module: Callable[[str], str]) -> Iterator[ast.stmt]:
    """The statements of a module of the tests in place of its import; other statements unchanged."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tests."):
        yield node
        return
    assert node.module is not None
    yield from (part for part in _with_comments(module(node.module)).body if not _is_note(part))


def _main(node: ast.stmt) -> Iterator[ast.stmt]:
    """The body of `if __name__ == "__main__"`; any other statement unchanged."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
        yield from node.body
    else:
        yield node


def _needed(body: Sequence[ast.stmt]) -> _Block:
    """The statements without unused definitions; unused imports are left to the formatter."""
    kept = list(body)
    while True:
        read = {
            n.id
            for part in kept
            for n in ast.walk(part)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        left = [
            part
            for part in kept
            if not isinstance(part, ast.FunctionDef | ast.ClassDef)
            or part.decorator_list  # which may register it somewhere
            or part.name in read
        ]
        constants = [p for p in left if _is_constant(p) and set(_names(p)).isdisjoint(read)]
        left = _uncommented([p for p in left if p not in constants], kept)
        if len(left) == len(kept):
            return left
        kept = left


def _is_constant(node: ast.stmt) -> bool:
    """Whether a statement assigns a value made without calls, other than those of `_CONTAINERS`."""
    calls = any(
        isinstance(n, ast.Subscript)
        or (isinstance(n, ast.Call) and ast.unparse(n.func) not in _CONTAINERS)
        for n in ast.walk(node)
    )
    targets = node.targets if isinstance(node, ast.Assign) else []
    return bool(targets) and all(isinstance(t, ast.Name) for t in targets) and not calls


def _uncommented(left: _Block, before: _Block) -> _Block:
    """The remaining statements, without comments on statements that were removed."""
    gone = {id(part) for part in before} - {id(part) for part in left}
    orphans = set()
    for number, part in enumerate(before[:-1]):
        if _is_comment(part) and id(before[number + 1]) in gone:
            orphans.add(id(part))
    return [part for part in left if id(part) not in orphans]


# -- comments -----------------------------------------------------------------------------------


def _with_comments(source: str) -> ast.Module:
    """The syntax tree of a program, with comments that have a line of their own as string statements;
    without comments if that is not valid Python."""
    lines = source.splitlines()
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        own_line = token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
        if own_line and not depth:
            comment = token.string.removeprefix("#").strip()
            lines[token.start[0] - 1] = " " * token.start[1] + repr(f"{_COMMENT} {comment}")
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:  # a comment above an `else`
        return ast.parse(source)


def _is_comment(node: ast.stmt) -> bool:
    constant = node.value if isinstance(node, ast.Expr) else None
    return isinstance(constant, ast.Constant) and str(constant.value).startswith(_COMMENT)


def _comment(line: str, say: Callable[[str], str]) -> str:
    """A line of the program; a string that carries a comment is turned back into it."""
    if _COMMENT not in line:
        return line
    words = str(ast.literal_eval(line.strip())).removeprefix(_COMMENT).strip()
    head = line[: len(line) - len(line.lstrip())]
    return "\n".join(
        textwrap.wrap(say(words), 88, initial_indent=f"{head}# ", subsequent_indent=f"{head}# ")
    )


# -- without the change -------------------------------------------------------------------------


class _Folder(ast.NodeTransformer):
    """Treats the given expressions as false, and removes code that only runs if they are true."""

    def __init__(self, *false: str) -> None:
        self.false = false

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        if isinstance(node, ast.expr) and ast.unparse(node) in self.false:
            return ast.Constant(False)
        rewritten: ast.AST | list[ast.stmt] = super().visit(node)
        return rewritten

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Constant):
            return ast.Constant(not node.operand.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        values: list[ast.expr] = []
        for value in node.values:
            if not isinstance(value, ast.Constant) or not isinstance(value.value, bool):
                values.append(value)
            elif value.value is decides:
                values.append(value)
                break
        if len(values) <= 1:
            return values[0] if values else ast.Constant(not decides)
        node.values = values
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.args = [a for a in node.args if not _is_nothing(a)]
        return node


def _is_nothing(node: ast.expr) -> bool:
    starred = isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List)
    return starred and not node.value.elts  # type: ignore[attr-defined]


def _folded(body: Sequence[ast.stmt], *false: str) -> _Block:
    """Statements simplified by `_Folder` for the given false expressions."""
    module = _Folder(*false).visit(ast.Module(list(body), []))
    assert isinstance(module, ast.Module)
    return ast.parse(ast.unparse(ast.fix_missing_locations(module))).body


def _without_argument(body: _Block, name: str) -> _Block:
    """The statements, without the parameter `name` of functions that always receive false for it."""
    for part in body:
        given = [a.arg for a in part.args.args] if isinstance(part, ast.FunctionDef) else []
        if not isinstance(part, ast.FunctionDef) or name not in given or part.args.defaults:
            continue
        place = given.index(name)
        inside = [n for p in body for n in ast.walk(p)]
        named = [n for n in inside if isinstance(n, ast.Name) and n.id == part.name]
        called = [n for n in inside if isinstance(n, ast.Call) and n.func in named]
        keyed = [k for c in called for k in c.keywords if k.arg == name]
        values = [c.args[place] for c in called if len(c.args) > place] + [k.value for k in keyed]
        false = all(isinstance(v, ast.Constant) and v.value is False for v in values)
        if len(named) != len(called) or len(values) != len(called) or not false:
            continue
        del part.args.args[place]
        for call in called:
            call.args = [a for a in call.args if a not in values]
            call.keywords = [k for k in call.keywords if k not in keyed]
        part.body = _folded(part.body, name)
    return body


# -- the end ------------------------------------------------------------------------------------


def _as_program(differs: ast.FunctionDef, rest: _Block, message: str) -> tuple[_Block, bool]:
    """The body of `differs` as the end of the program, and whether it contains an assertion."""
    body = _without_try(_folded(differs.body[1:], differs.args.args[0].arg))
    returned = list(_returns(body))
    taken = {name for part in rest for name in _names(part)}
    bound = {
        n.id
        for p in body
        for n in ast.walk(p)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    local = {name for part in body if isinstance(part, ast.FunctionDef) for name in _names(part)}
    if not returned:
        return _at_top(body), False
    value = returned[0].value
    if len(returned) > 1 or returned[0] is not body[-1] or value is None:
        shows = ast.FunctionDef("shows", ast.arguments([], [], None, [], [], None, []), body, [])
        call = ast.parse("found = shows()").body
        end = ast.parse(f"print('shows it:', found)\nassert not found, {message!r}").body
        return [shows, *call, *end], True
    ended = [*body[:-1], *_told(value, message, taken | bound | local)]
    if taken.isdisjoint(bound | local):
        return _at_top(ended), True
    main = ast.FunctionDef("main", ast.arguments([], [], None, [], [], None, []), ended, [])
    return [main, *ast.parse("main()").body], True


def _at_top(body: _Block) -> _Block:
    """A function's body as module code: without `global`, and with `nonlocal` turned into `global`."""
    body = [part for part in body if not isinstance(part, ast.Global)]
    for part in body:
        for node in ast.walk(part):
            for _, block in ast.iter_fields(node):
                if isinstance(block, list):
                    block[:] = [
                        ast.Global(n.names) if isinstance(n, ast.Nonlocal) else n for n in block
                    ]
    return body


def _without_try(body: _Block) -> _Block:
    """A body without a `try` whose handlers only return, so that the error is raised to the caller."""
    for number, node in enumerate(body):
        if not isinstance(node, ast.Try) or node.finalbody:
            continue
        if not all(len(h.body) == 1 and isinstance(h.body[0], ast.Return) for h in node.handlers):
            continue
        after = [] if isinstance(node.body[-1], ast.Return) else [*node.orelse, *body[number + 1 :]]
        statements = [*body[:number], *node.body, *after]
        last = statements[-1]
        if isinstance(last, ast.Return) and isinstance(last.value, ast.Constant):
            if last.value.value is not False:
                return body
            statements.pop()
        return statements
    return body


def _returns(body: Sequence[ast.AST]) -> Iterator[ast.Return]:
    for node in body:
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield from _returns(list(ast.iter_child_nodes(node)))


def _told(value: ast.expr, message: str, taken: set[str]) -> _Block:
    """Statements that print the values which `value` compares, and assert that it is false."""
    names = iter(n for n in ("found", "other", "third", "fourth", "fifth") if n not in taken)
    parts = (
        value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    )
    bound: _Block = []
    printed: _Block = []
    for operand in (operand for part in parts for operand in _operands(part)):
        words = ast.unparse(operand)
        label = words if len(words) <= 60 and "\n" not in words else ""
        if any(isinstance(n, ast.Call) for n in ast.walk(operand)):
            name = next(names)
            bound += ast.parse(f"{name} = {words}").body
            _become(operand, name)
            words = name
        statement = ast.parse(f"print({(label or words) + ':'!r}, {words})".replace("\n", " ")).body
        if ast.unparse(statement[0]) not in map(ast.unparse, printed):
            printed += statement
    text = ast.unparse(_negated(value))
    return [*bound, *printed, *ast.parse(f"assert {text}, {message!r}").body]


def _operands(part: ast.expr) -> list[ast.expr]:
    """The parts of a condition that are worth printing."""
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
        return _operands(part.operand)
    if isinstance(part, ast.Compare):
        return [o for o in (part.left, *part.comparators) if not _is_literal(o)]
    if isinstance(part, ast.Call):
        function = part.func
        if isinstance(function, ast.Name) and function.id in ("bool", "abs", "float") and part.args:
            return _operands(part.args[0])
        if isinstance(function, ast.Attribute) and function.attr in _COMPARING:
            return [a for a in part.args if not _is_literal(a)]
        if isinstance(function, ast.Attribute) and function.attr in ("all", "any"):
            return _operands(function.value) if not part.args else [part]
        if any(isinstance(a, ast.GeneratorExp) for a in part.args):
            generator = part.args[0]
            assert isinstance(generator, ast.GeneratorExp)
            return [generator.generators[0].iter]
    return [part]


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node) in ("[True] * 3", "[False] * 4")
    return True


def _become(node: ast.expr, name: str) -> None:
    """Turn an expression node into a name, in place."""
    node.__class__ = ast.Name  # the trees around it hold this very object
    node.__dict__.clear()
    node.__dict__.update(id=name, ctx=ast.Load())


def _negated(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        return value.operand
    if isinstance(value, ast.BoolOp):
        turned: ast.boolop = ast.Or() if isinstance(value.op, ast.And) else ast.And()
        return ast.BoolOp(turned, [_negated(part) for part in value.values])
    if isinstance(value, ast.Compare) and len(value.ops) == 1 and type(value.ops[0]) in _INVERSE:
        inverse = _INVERSE[type(value.ops[0])]()
        return ast.Compare(value.left, [inverse], value.comparators)
    return ast.UnaryOp(ast.Not(), value)
