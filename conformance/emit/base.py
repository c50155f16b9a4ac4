"""What the parts of an emitter share: case, variant, the lines written so far, names in use, trees."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal as OneOf

from conformance.drivers.adapter import Variant
from conformance.emit import lists
from conformance.emit.code import Code
from conformance.emit.expressions import function
from conformance.emit.lists import Item
from conformance.errors import NotOfferedError
from conformance.language.operations import OF_CALLABLES
from conformance.model.case import (
    Again,
    Case,
    Literal,
    Option,
    Ref,
    Region,
    Statement,
    Tree,
    leaves,
    node_makes,
    walk,
)
from conformance.model.program import Site


@dataclass(frozen=True)
class Call:
    """An operation in a statement, its arguments and options as Python expressions.

    `arguments` maps the operation's argument names to expressions (a list argument to `[a, b]`);
    `options` maps option names to values, defaults filled in. `of_numpy` says that the explicit
    generator among the arguments is NumPy's.
    """

    op: str
    arguments: Mapping[str, str]
    options: Mapping[str, Option]
    statement: Statement
    of_numpy: bool = False


Writer = str | Callable[[Call], str]
Lists = OneOf["all", "uncaptured", "nothing"]
RAISE_IF = """
    def raise_if(x, flag):
        if flag:
            raise ValueError("raise_if")
        return x
    """
#: Names that every program defines.
OWN_NAMES = frozenset(
    {"plain", "recomputed", "run", "main", "inputs", "values", "outputs", "forward"}
)


class Base:
    """What an adapter declares about its programs, and the state of writing one."""

    #: Import lines; those that a program does not use are removed.
    imports: Sequence[str] = ()
    #: For each operation a format string over its arguments and options, or a function of a `Call`.
    operations: Mapping[str, Writer] = {}
    #: Which repetitions become a loop: those of calls of regions alone (`calls`) if the observer tells
    #: operations apart by their lines, since a loop hides how often a line ran within one call.
    loops: OneOf["all", "calls", "nothing"] = "all"
    #: Whether a region's function without captured names is written once, before `plain`, for both
    #: paths. The observer must then not rely on lines to tell `plain` and `recomputed` apart.
    shares: bool = False
    #: Which numbered parameters (`w1`, `w2`, …) are one list: those that no region captures
    #: (`uncaptured`), `all`, or none (`nothing`).
    lists: Lists = "nothing"
    #: What a module holds a list of parameters in, as a format string.
    list_of_parameters = "{}"
    #: The kinds of procedure that `write_gradients` and `write_training` write; cases with another one
    #: are unsupported.
    procedures_written: Collection[str] = ("backward", "inference")
    #: Functions that a program defines for itself, by the operation that calls them.
    helpers: Mapping[str, str] = {"raise_if": RAISE_IF}

    def __init__(self, case: Case, variant: Variant) -> None:
        self.case, self.variant = case, variant
        self.code = Code()
        self.path = "plain"  # which of `plain` and `recomputed` is being written
        self.within = ""  # the innermost region whose body is being written
        self._regions = {region.name: region for region in case.regions()}
        self._named_often = {n.region for n in walk(case.program) if isinstance(n, Again)} | {
            s.names()[0] for _, s in case.statements() if s.op in OF_CALLABLES
        }
        self._closed_over = frozenset(n for region in case.regions() for n in region.captured())
        made = {name for node in walk(case.program) for name in node_makes(node)}
        self._case_names = made | {*case.names()}
        self._taken_names = self._case_names | {*map(function, self._regions), *OWN_NAMES}
        self._taken_names |= imported(tuple(self.imports)) | set(dir(builtins))
        self._temporary = 0
        self._shared: frozenset[str] = frozenset()
        #: The parameters that are in lists, and where.
        self.in_lists: Mapping[str, Item] = {}
        if self.lists != "nothing":
            self.in_lists = lists.items(case, self._taken_names, captured=self.lists == "all")
        self._taken_names |= {item.name for item in self.in_lists.values()}

    def wrote(self, part: str) -> None:
        """Record that a part of the case is written, a word of `conformance.emit.asked.PARTS`.

        An override of a method that calls this has to call that method, or this one.
        """
        self.code.parts.add(part)

    def offered(self, attribute: str) -> str:
        """The value of an optional attribute (`hook`). Raises `NotOfferedError` if it is empty."""
        line: str = getattr(self, attribute)
        if not line:
            raise NotOfferedError(self.variant.id, f"`{attribute}`")
        return line

    def region_named(self, name: str) -> Region:
        """The region of that name."""
        return self._regions[name]

    def name(self, name: str) -> str:
        """The expression that reads a name of the case at this point; a framework may override it."""
        return name

    def tree(self, tree: Tree) -> str:
        """A tree as an expression: lists of the case are Python tuples."""
        if isinstance(tree, Ref):
            return self.name(tree.name)
        if isinstance(tree, Literal):
            return repr(tree.value)
        if isinstance(tree, Mapping):
            return "{" + ", ".join(f"{k!r}: {self.tree(t)}" for k, t in tree.items()) + "}"
        parts = [self.tree(part) for part in tree]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"

    def write_assignment(self, tree: Tree, expression: str, site: Site | None = None) -> None:
        """Assign an expression's value to the names in a tree, through temporaries at dicts."""
        later: list[tuple[Tree, str]] = []
        if isinstance(tree, Mapping) and expression.isidentifier():
            later += [
                (part, f"{expression}[{key!r}]") for key, part in tree.items() if leaves(part)
            ]
        else:
            self.code(f"{self._pattern(tree, later)} = {expression}", site)
        for part, source in later:
            self.write_assignment(part, source)

    def _pattern(self, tree: Tree, later: list[tuple[Tree, str]]) -> str:
        if isinstance(tree, Ref):
            return tree.name
        if isinstance(tree, Literal):
            return "_"
        if isinstance(tree, Mapping):
            self._temporary += 1
            first = self._temporary == 1 and "result" not in self._taken_names
            name = "result" if first else f"result{self._temporary}"
            later += [(t, f"{name}[{k!r}]") for k, t in tree.items() if leaves(t)]
            return name
        parts = [self._pattern(part, later) for part in tree]
        parts = [f"({p})" if isinstance(t, tuple) else p for p, t in zip(parts, tree, strict=True)]
        return f"{parts[0]}," if len(parts) == 1 else ", ".join(parts)


@lru_cache(maxsize=64)
def imported(lines: tuple[str, ...]) -> frozenset[str]:
    """The names that lines of imports give, which are the same for all cases of a variant."""
    names = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.alias)]
    return frozenset((n.asname or n.name).partition(".")[0] for n in names)
