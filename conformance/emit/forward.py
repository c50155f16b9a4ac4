"""Writes the forward pass: operations, repetitions, regions and their calls."""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from conformance.emit import loops
from conformance.emit.base import Call
from conformance.emit.expressions import function, short_exponents
from conformance.emit.helpers import CALLS
from conformance.emit.options import Options
from conformance.errors import NotEmittedError
from conformance.language.operations import OPERATIONS
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


class Forward(Options, ABC):
    """Writes the nodes of a case, for `plain` and for `recomputed`."""

    #: The framework's vectorising map of a function over the first axis of its arguments.
    vmap: str = ""
    #: The head of the `with` of the framework's autocast; `{dtype}` stands for the dtype.
    autocast: str = ""

    def write_nodes(self, nodes: Iterable[Node], region: str) -> None:
        """The body of a function: `region` is the innermost region's name."""
        for node in nodes:
            self.within = region  # set for each node, since writing a region's body changes it
            if isinstance(node, Statement):
                self.write_statement(node, region)
            elif isinstance(node, Region):
                self.write_region(node)
                self.within = region
                if node.called:
                    self.write_call(node, self.recompute(node), node)
            elif isinstance(node, Again):
                self.write_call(node, self.again(node), self.region_named(node.region))
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
            written[ends[0] :] = (
                loops.loop(iterations, series, self._taken_names) or written[ends[0] :]
            )

    def writes_loop(self, node: Repeat) -> bool:
        """Whether a repetition is written as a loop, as far as `loops` decides it."""
        calls = all(isinstance(inner, Again) for inner in flat((node,)))
        wanted = self.loops == "all" or (self.loops == "calls" and calls)
        return wanted and len(node.iterations) >= loops.FEWEST

    def write_statement(self, statement: Statement, region: str) -> None:
        """`targets = operation`."""
        site = Site("statement", self.path, region, statement.label, statement.op)
        self.code(f"{', '.join(statement.targets)} = {self.expression(statement)}", site)

    def expression(self, statement: Statement) -> str:
        """The right-hand side of a statement."""
        return self._written(self.call_of(statement))

    def of_callable(self, statement: Statement, prefix: str) -> str:
        """The right-hand side of a statement of `OF_CALLABLES`; `prefix` and the name of a region's
        function make the name of the recomputed callable."""
        name = function(statement.names()[0])
        if self.path == "plain":
            return "True"
        if statement.op == "is_unwrapped_by":
            return f"{prefix}{name}.__wrapped__ is {name}"
        return f'not hasattr({prefix}{name}, "variables")'

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
        if call.op == "sin_or_cos" and call.op not in self.operations:
            x, flag = call.arguments["x"], call.arguments["flag"]
            return f"{self.written('sin', x=x)} if {flag} else {self.written('cos', x=x)}"
        writer = self.operations.get(call.op, CALLS.get(call.op))
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
        if call.op in self.helpers or call.op in CALLS:
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
        elif name in self._closed_over:
            self.code(f"return {name}")
        else:
            self.code.leave(name)

    def write_region(self, region: Region) -> None:
        """Define the function of a region, just before its first call, unless both paths share it."""
        if region.name not in self._shared:
            self.write_function(region)

    def write_function(self, region: Region) -> None:
        """The function of a region."""
        site = Site("region", self.path, region.name, region.name)
        with self.code.indent(self.heading(region), site):
            self.write_unpacking(region)
            with self.casting(region):
                self.write_nodes(region.body, region.name)
            if self.handed(region.gives) == self.tree(region.gives):
                self.write_return(region.gives)
            else:
                self.code(f"return {self.handed(region.gives)}")
        self.code()

    def heading(self, region: Region) -> str:
        """The `def` line of a region's function."""
        return f"def {function(region.name)}({self.parameters(region)}):"

    def casting(self, region: Region) -> AbstractContextManager[None]:
        """A context in which the lines of a region's body are written: indented below the framework's
        autocast, if the region enters it."""
        if not region.autocast:
            return nullcontext()
        self.wrote("autocast inside")
        return self.code.indent(self.offered("autocast").format(dtype=region.autocast))

    def parameters(self, region: Region) -> str:
        """The parameter list of a region's function: a name each, `data` for a tree."""
        if region.signature == "variadic":
            self.wrote("signature")
            return "*args, **named" if region.kwargs else "*args"
        return ", ".join([*self.formals(region), *self.named_formals(region)])

    def named_formals(self, region: Region) -> list[str]:
        """The keyword parameters of a region's function, after a `*` if they are keyword-only."""
        if region.signature in ("undeclared", "keyword-only"):
            self.wrote("signature")
        if region.signature == "undeclared" or not region.kwargs:
            return []
        return [*(["*"] if region.signature == "keyword-only" else []), *region.kwargs]

    def formals(self, region: Region) -> list[str]:
        """The positional parameters of a region's function."""
        trees = [tree for tree in region.takes if not isinstance(tree, Ref)]
        inner = {name for node in walk(region.body) for name in node_makes(node)}
        clear = len(trees) == 1 and "data" not in inner | self._case_names
        return [
            tree.name if isinstance(tree, Ref) else "data" if clear else f"data{number}"
            for number, tree in enumerate(region.takes, start=1)
        ]

    def write_unpacking(self, region: Region) -> None:
        """Give the leaves of a region's nested parameters their names."""
        if region.signature == "variadic":
            if region.takes:
                self.write_assignment(region.takes, "args")
            for key, tree in region.kwargs.items():
                self.write_assignment(tree, f"named[{key!r}]")
            return
        for formal, tree in zip(self.formals(region), region.takes, strict=True):
            if not isinstance(tree, Ref):
                self.write_assignment(tree, formal)
        for key, tree in region.kwargs.items():
            if tree != Ref(key) and region.signature != "undeclared":
                self.write_assignment(tree, key)

    def write_call(self, node: Region | Again, call: str, region: Region) -> None:
        """Call a region (`call` is the callable's expression) and name what it gives."""
        if not region.mapped:
            self.write_results(node, self.called(node, call, region), region)
            return
        formals = self.formals(region)
        inner = self.called(replace(node, takes=region.takes), call, region)
        given = [self.tree(tree) for tree in node.takes]
        self.wrote("mapped")
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
        self.write_assignment(self.received(whole, region), expression)
        if node.returned and isinstance(node.gives, Mapping):
            for key, part in node.gives.items():
                if leaves(part):
                    self.write_assignment(part, f"{node.returned}[{key!r}]")
        elif node.returned:
            self.write_assignment(node.gives, node.returned)

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

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        """The call of a region: in `plain` the function itself, in `recomputed` what `callee` says.

        A framework whose recompute takes the function as an argument overrides this.
        """
        name = function(region.name) if self.path == "plain" else callee
        return f"{name}({self.call_arguments(node)})"

    def call_arguments(self, node: Region | Again) -> str:
        """The arguments of a call of a region: positional ones, then those by name."""
        positional = [self.handed(t) for t in node.takes]
        return ", ".join([*positional, *(f"{k}={self.handed(t)}" for k, t in node.kwargs.items())])

    def handed(self, tree: Tree) -> str:
        """A tree that is handed to a region or given by it, as an expression; a framework that asks for
        containers of its own there overrides this."""
        return self.tree(tree)

    @abstractmethod
    def recompute(self, region: Region) -> str:
        """The expression of the recomputed callable at a region's first call."""

    def block(self, region: Region) -> str:
        """What is handed over to be recomputed: the region's function, or what is none where the case
        wants that refused."""
        return "None" if region.block == "invalid" else function(region.name)

    def again(self, node: Again) -> str:
        """The expression of the recomputed callable at a further call."""
        return self.recompute(self.region_named(node.region))

    def made_once(self, region: Region) -> bool:
        """Whether the recomputed callable is made once and assigned to a name: it is called again, or
        inspected by an operation, or configured."""
        return region.name in self._named_often or region.granularity in ("module", "operation")


@lru_cache(maxsize=1024)
def _fields(text: str) -> frozenset[str]:
    """The names in the braces of a format string."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)
