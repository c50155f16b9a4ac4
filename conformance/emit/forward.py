"""Writes the forward pass: operations, repetitions, regions and their calls."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from conformance.emit import loops
from conformance.emit.expressions import function, short_exponents
from conformance.emit.helpers import CALLS, helper
from conformance.emit.part import Call, Part
from conformance.errors import NotEmittedError
from conformance.language.operations import OF_CALLABLES, OPERATIONS
from conformance.model.case import (
    Again,
    Generator,
    Literal,
    Node,
    Option,
    Ref,
    Region,
    Repeat,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    walk,
)
from conformance.model.program import Site

if TYPE_CHECKING:
    from conformance.emit.emitter import Emitter


class Body(Part):
    """Writes the nodes of a case as lines of a function: statements, repetitions, trees of names."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        #: How names of the case are read here, those that are no variables of the same name.
        self.spelled: Mapping[str, str] = {}
        self.temporary = 0  # the number of temporaries in the function that is being written

    def write_helpers(self) -> None:
        """The functions that the case's operations call and that the program defines for itself."""
        first: dict[str, Statement] = {}
        for _, statement in self.case.statements():
            first.setdefault(statement.op, statement)
        for op, text in self.words.helpers.items():
            if op in first and op in self.words.operations:
                self.code(text)
                self.code("\n")
        for op in CALLS:
            if op in first and op not in self.words.operations:
                self.code(helper(op, self.written, first[op]))
                self.code("\n")

    def write_nodes(self, nodes: Iterable[Node], region: str) -> None:
        """The body of a function: `region` is the innermost region's name."""
        for node in nodes:
            # Set for each node, since writing a region's body changes it.
            self.emitter.within = region
            if isinstance(node, Statement):
                self.write_statement(node, region)
            elif isinstance(node, Region):
                self.forward.write_region(node)
                self.emitter.within = region
                if node.called:
                    self.forward.write_call(node, node)
            elif isinstance(node, Again):
                self.forward.write_call(node, self.emitter.region_named(node.region))
            else:
                self.write_repeat(node, region)

    def write_repeat(self, node: Repeat, region: str) -> None:
        """A loop; the lines of all iterations one after the other where `loops` says so, and where they
        differ in more than which of the program's own tensors they read."""
        written, ends = self.code.lines, [len(self.code.lines)]
        for iteration in node.iterations:
            self.write_nodes(iteration, region)
            ends.append(len(written))
        if self.writes_loop(node):
            iterations = [written[a:b] for a, b in pairwise(ends)]
            series = loops.in_turn(node, {array.name for array in self.case.arrays})
            taken = self.emitter.taken_names
            written[ends[0] :] = loops.loop(iterations, series, taken) or written[ends[0] :]

    def writes_loop(self, node: Repeat) -> bool:
        """Whether a repetition is written as a loop, as far as `loops` decides it."""
        calls = all(isinstance(inner, Again) for inner in flat((node,)))
        wanted = self.words.loops == "all" or (self.words.loops == "calls" and calls)
        return wanted and len(node.iterations) >= loops.FEWEST

    def write_statement(self, statement: Statement, region: str) -> None:
        """`targets = operation`."""
        site = Site("statement", self.path, region, statement.label, statement.op)
        self.code(f"{', '.join(statement.targets)} = {self.expression(statement)}", site)

    def expression(self, statement: Statement) -> str:
        """The right-hand side of a statement: a layer's call, or an operation."""
        if id(statement) in self.layers.attribute_of:
            return self.layers.called(statement)
        if statement.op in OF_CALLABLES and self.recompute.prefix:
            return self.recompute.of_callable(statement)
        return self._written(self.call_of(statement))

    def written(self, op: str, **words: object) -> str:
        """An operation by itself, its arguments given as expressions and its options as values."""
        operation = OPERATIONS[op]
        arguments = {name: str(words[name]) for name in words if name not in operation.options}
        options: dict[str, Option] = {
            name: words.get(name, spec.default)  # type: ignore[misc]
            for name, spec in operation.options.items()
        }
        statement = Statement(("x",), op, (), {}, self.case.where)
        return self._written(Call(op, arguments, options, statement))

    def _written(self, call: Call) -> str:
        if call.op == "sin_or_cos" and call.op not in self.words.operations:
            x, flag = call.arguments["x"], call.arguments["flag"]
            return f"{self.written('sin', x=x)} if {flag} else {self.written('cos', x=x)}"
        writer = self.words.operations.get(call.op, CALLS.get(call.op))
        if writer is None:
            raise NotEmittedError(self.variant.id, call.op)
        if callable(writer):
            return writer(call)
        self.refuse_half(call, writer)
        return short_exponents(writer.format(**call.arguments, **call.options))

    def refuse_half(self, call: Call, writer: str) -> None:
        """Raise `NotEmittedError` if a format string passes over an option that the case sets.

        What calls a function that the program defines is left to that function.
        """
        if call.op in self.words.helpers or call.op in CALLS:
            return
        used = _fields(writer)
        for name, spec in OPERATIONS[call.op].options.items():
            if name not in used and call.options[name] != spec.default:
                raise NotEmittedError(self.variant.id, f"{call.op} with {name}")

    def call_of(self, statement: Statement) -> Call:
        """A statement's operation with its arguments as Python expressions."""
        operation = OPERATIONS[statement.op]
        arguments = {
            name.rstrip("?.").removesuffix("..."): self.argument(argument)
            for name, argument in zip(operation.tensors, statement.arguments, strict=True)
        }
        options: dict[str, Option] = {
            name: statement.options.get(name, spec.default)  # type: ignore[arg-type]
            for name, spec in operation.options.items()
        }
        return Call(statement.op, arguments, options, statement, self.draws_of_numpy(statement))

    def draws_of_numpy(self, statement: Statement) -> bool:
        """Whether a statement draws from an explicit generator of NumPy's."""
        return any(
            isinstance(value, Generator) and value.library == "numpy"
            for value in self.case.inputs
            if statement.op == "uniform_from" and value.name in statement.names()
        )

    def argument(self, argument: object) -> str:
        """An argument of an operation as a Python expression."""
        if isinstance(argument, tuple):
            return f"[{', '.join(self.argument(part) for part in argument)}]"
        if isinstance(argument, Literal):
            return repr(argument.value)
        assert isinstance(argument, Ref)
        return self.name(argument.name)

    def write_return(self, tree: Tree) -> None:
        """Write the `return` of a tree; the last line's expression, if it made the tree and no region
        captures its name."""
        name = self.tree(tree)
        if isinstance(tree, tuple) and len(tree) > 1:
            self.code(f"return {', '.join(map(self.tree, tree))}")
        elif any(name in region.captured() for region in self.case.regions()):
            self.code(f"return {name}")
        else:
            self.code.leave(name)

    def name(self, name: str) -> str:
        """The expression that reads a name of the case at this point."""
        return self.spelled.get(name, name)

    @contextmanager
    def spelling(self, names: Mapping[str, str]) -> Iterator[None]:
        """A context in which these names of the case, and no others, are read by other expressions
        (`self.w`)."""
        outer, self.spelled = self.spelled, names
        yield
        self.spelled = outer

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
            self.temporary += 1
            first = self.temporary == 1 and "result" not in self.emitter.taken_names
            name = "result" if first else f"result{self.temporary}"
            later += [(t, f"{name}[{k!r}]") for k, t in tree.items() if leaves(t)]
            return name
        parts = [self._pattern(part, later) for part in tree]
        parts = [f"({p})" if isinstance(t, tuple) else p for p, t in zip(parts, tree, strict=True)]
        return f"{parts[0]}," if len(parts) == 1 else ", ".join(parts)


class Forward(Part):
    """Writes `plain` and `recomputed`, and in them the functions of regions and their calls."""

    #: Whether `plain` and `recomputed` make a network, which `run` calls on the inputs.
    makes_network = False

    def write_forward(self, path: str) -> None:
        """`plain` or `recomputed`."""
        self.body.temporary = 0
        with self.code.indent(f"def {path}({', '.join(self.case.names())}):"):
            with self.autocast():
                self.body.write_nodes(self.case.program, "")
            self.body.write_return(self.case.outputs)
        self.code("\n")

    def autocast(self) -> AbstractContextManager[None]:
        """A context in which the lines of the whole pass are written, in the framework's autocast if the
        case asks for it."""
        if not self.words.autocast or not self.case.autocast:
            return nullcontext()
        self.code.wrote("autocast")
        return self.code.indent(self.words.autocast.format(dtype=self.case.autocast))

    def serves_both(self, region: Region) -> bool:
        """Whether the observer, too, can do with one function of a region for both paths."""
        return True

    def place(self, region: Region) -> str:
        """The expression of a region's function, or of the layer or method that it is."""
        return function(region.name)

    def write_method(self, name: str, region: Region, attributes: Iterable[str]) -> None:
        """Write a region as a method, which reads these attributes: `forward` of a class of its own, or
        a method of the network's."""
        site = Site("region", self.path, region.name, region.name)
        formals = ", ".join(filter(None, ["self", self.parameters(region)]))
        own = {attribute: f"self.{attribute}" for attribute in attributes}
        with self.code.indent(f"def {name}({formals}):", site), self.body.spelling(own):
            self.write_unpacking(region)
            with self.casting(region):
                self.body.write_nodes(region.body, region.name)
            self.body.write_return(region.gives)

    def write_region(self, region: Region) -> None:
        """Define the function of a region, just before its first call, unless both paths share it; and
        its recomputed callable, if that has a name."""
        if region.name not in self.emitter.shared:
            self.write_function(region)
        self.recompute.write_made(region)

    def write_function(self, region: Region) -> None:
        """The function of a region."""
        site = Site("region", self.path, region.name, region.name)
        with self.code.indent(self.heading(region), site):
            self.write_unpacking(region)
            with self.casting(region):
                self.body.write_nodes(region.body, region.name)
            self.write_returned(region)
        self.code()

    def write_returned(self, region: Region) -> None:
        """The `return` of a region's function."""
        tree = self.received(region.gives, region)
        if self.handed(tree) == self.body.tree(tree):
            self.body.write_return(tree)
        else:
            self.code(f"return {self.handed(tree)}")

    def heading(self, region: Region) -> str:
        """The `def` line of a region's function."""
        return f"def {function(region.name)}({self.parameters(region)}):"

    def casting(self, region: Region) -> AbstractContextManager[None]:
        """A context in which the lines of a region's body are written: indented below the framework's
        autocast, if the region enters it."""
        if not region.autocast:
            return nullcontext()
        self.code.wrote("autocast inside")
        return self.code.indent(self.offered("autocast").format(dtype=region.autocast))

    def parameters(self, region: Region) -> str:
        """The parameter list of a region's function: a name each, `data` for a tree."""
        extra = self.extra(region)
        if region.signature == "variadic":
            self.code.wrote("signature")
            return ", ".join([*extra, "*args", *(["**named"] if region.kwargs else [])])
        return ", ".join([*self.formals(region), *extra, *self.named_formals(region)])

    def extra(self, region: Region) -> list[str]:
        """What a region's function takes beyond the case's arguments."""
        return []

    def extra_arguments(self, region: Region) -> list[str]:
        """What a call gives for `extra`."""
        return self.extra(region)

    def named_formals(self, region: Region) -> list[str]:
        """The keyword parameters of a region's function, after a `*` if they are keyword-only."""
        if region.signature in ("undeclared", "keyword-only"):
            self.code.wrote("signature")
        if region.signature == "undeclared" or not region.kwargs:
            return []
        return [*(["*"] if region.signature == "keyword-only" else []), *region.kwargs]

    def formals(self, region: Region) -> list[str]:
        """The positional parameters of a region's function."""
        trees = [tree for tree in region.takes if not isinstance(tree, Ref)]
        inner = {name for node in walk(region.body) for name in node_makes(node)}
        clear = len(trees) == 1 and "data" not in inner | self.emitter.case_names
        return [
            tree.name if isinstance(tree, Ref) else "data" if clear else f"data{number}"
            for number, tree in enumerate(region.takes, start=1)
        ]

    def write_unpacking(self, region: Region) -> None:
        """Give the leaves of a region's nested parameters their names."""
        if region.signature == "variadic":
            if region.takes:
                self.body.write_assignment(region.takes, "args")
            for key, tree in region.kwargs.items():
                self.body.write_assignment(tree, f"named[{key!r}]")
            return
        for formal, tree in zip(self.formals(region), region.takes, strict=True):
            if not isinstance(tree, Ref):
                self.body.write_assignment(tree, formal)
        for key, tree in region.kwargs.items():
            if tree != Ref(key) and region.signature != "undeclared":
                self.body.write_assignment(tree, key)

    def write_call(self, node: Region | Again, region: Region) -> None:
        """Call a region and name what it gives."""
        if not region.mapped:
            self.write_results(node, self.recompute.called(node, region), region)
            return
        formals = self.formals(region)
        inner = self.recompute.called(replace(node, takes=region.takes), region)
        given = [self.body.tree(tree) for tree in node.takes]
        self.code.wrote("mapped")
        mapped = self.vectorized(f"lambda {', '.join(formals)}: {inner}", given)
        self.write_results(node, mapped, region)

    def write_results(self, node: Region | Again, expression: str, region: Region) -> None:
        """Assign the results of a region's call to names, and first the return value as a whole, if the
        case names it. The plain program calls a region with `contexts` in the first of them."""
        first = region.contexts and self.path == "plain"
        with self.code.indent("with contexts()[0]:") if first else nullcontext():
            self._write_received(node, expression, region)

    def _write_received(self, node: Region | Again, expression: str, region: Region) -> None:
        whole = Ref(node.returned) if node.returned else node.gives
        self.body.write_assignment(self.received(whole, region), expression)
        if node.returned and isinstance(node.gives, Mapping):
            for key, part in node.gives.items():
                if leaves(part):
                    self.body.write_assignment(part, f"{node.returned}[{key!r}]")
        elif node.returned:
            self.body.write_assignment(node.gives, node.returned)

    def received(self, tree: Tree, region: Region) -> Tree:
        """What a region's function returns where the case says that it returns `tree`."""
        return tree

    @staticmethod
    def tupled(function: str) -> str:
        """A lambda that takes one tuple and passes its items on, made from `function`, a lambda that
        passes on its arguments unchanged."""
        callee = Forward.passed_to(function)
        assert callee != function, f"not a call of the arguments as they are: {function}"
        return f"lambda given: {callee}(*given)"

    @staticmethod
    def passed_to(function: str) -> str:
        """What a lambda calls that passes on its arguments unchanged; the lambda, if it does more."""
        formals, _, call = function.removeprefix("lambda ").partition(": ")
        callee = call.removesuffix(f"({formals})")
        return function if callee == call else callee

    def vectorized(self, function: str, arguments: Sequence[str]) -> str:
        """A function (an expression) mapped over the first axis of its arguments, and called."""
        return f"{self.offered('vmap')}({function})({', '.join(arguments)})"

    def call_arguments(self, node: Region | Again) -> str:
        """The arguments of a call of a region: positional ones, then those by name."""
        region = node if isinstance(node, Region) else self.emitter.region_named(node.region)
        pairs = zip(node.takes, region.takes, strict=True)
        words = [self.argument(tree, formal, region) for tree, formal in pairs]
        extra = self.extra_arguments(region)
        words = [*extra, *words] if region.signature == "variadic" else [*words, *extra]
        return ", ".join([*words, *(f"{k}={self.handed(t)}" for k, t in node.kwargs.items())])

    def argument(self, tree: Tree, formal: Tree, region: Region) -> str:
        """A positional argument of a call, where the region's function has `formal`."""
        return self.handed(tree)

    def handed(self, tree: Tree) -> str:
        """A tree that is handed to a region or given by it, as an expression; a framework that asks for
        containers of its own there overrides this."""
        return self.body.tree(tree)


@lru_cache(maxsize=1024)
def _fields(text: str) -> frozenset[str]:
    """The names in the braces of a format string."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)
