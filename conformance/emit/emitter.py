"""Writes a case as a program of a framework: the part that all frameworks share.

`Emitter` walks a case and writes a program with the same few functions in every framework:

- `inputs()` returns a dict of what the program starts from, by name;
- `plain(...)` and `recomputed(...)` are the forward pass without and with recompute of its regions;
- `run(forward)` does the case's procedure and returns a dict with `outputs`, `losses` (a list),
  `gradients`, and where the procedure has them `again`, `parameters` and `state` (dicts by name);
- run as a script, it does both and prints what they computed.

An adapter's `emitter.py` subclasses it, says how operations are written and overrides what its
framework writes differently. While lines are written, marks (comments) refer to their sites; `finish`
formats the programs with ruff, removes the marks and returns the source map.
"""

from __future__ import annotations

import ast
import builtins
import re
import string
import symtable
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal as OneOf

from conformance.drivers import contract
from conformance.drivers.adapter import Implementation, Variant
from conformance.emit import lists, loops
from conformance.emit.asked import REQUIRED, missing
from conformance.emit.code import BACKWARD, FORWARD, Code
from conformance.emit.expressions import function, in_docstring, listed, numpy_fill, short_exponents
from conformance.emit.helpers import CALLS, HELPERS, LISTS
from conformance.emit.lists import Item
from conformance.errors import AdapterError, NotEmittedError, NotOfferedError
from conformance.language.operations import NOTED, OF_CALLABLES, OPERATIONS
from conformance.model.case import (
    Again,
    Array,
    Case,
    Generator,
    Literal,
    Loss,
    Node,
    Option,
    Ref,
    Region,
    Repeat,
    Statement,
    Tree,
    Value,
    flat,
    leaves,
    node_makes,
    walk,
)
from conformance.model.program import Site

#: Up to so many entries of a list or dict are written out, more as a comprehension over names.
FEW = 3


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


class Emitter(contract.Emitter, contract.Writes, contract.MayWrite, ABC):
    """Writes one case for one variant. A subclass per adapter, named `Emitter`."""

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
        self._taken_names = self._case_names | {*map(function, self._regions), *_OWN_NAMES}
        self._taken_names |= _imported(tuple(self.imports)) | set(dir(builtins))
        self._temporary = 0
        self._shared: frozenset[str] = frozenset()
        #: The parameters that are in lists, and where.
        self.in_lists: Mapping[str, Item] = {}
        if self.lists != "nothing":
            self.in_lists = lists.items(case, self._taken_names, captured=self.lists == "all")
        self._taken_names |= {item.name for item in self.in_lists.values()}

    # -- the program ---------------------------------------------------------------------------

    def write(self) -> Code:
        """The whole program."""
        code, case = self.code, self.case
        self.refuse_clashes()
        self.refuse_unoffered()
        code(f'"""{in_docstring(case.title)}.')
        code()
        code(f"Case {in_docstring(case.id)}, variant {self.variant.id}.\n")
        code(f'Source: {in_docstring(case.source)}\n"""\n')
        for line in self.import_lines():
            code(line)
        code("\n")
        self.write_helpers()
        self.write_inputs()
        self.write_shared()
        for path in ("plain", "recomputed"):
            begin = len(code.lines)
            self.write_forward(path)
            lines = lists.replaced(code.lines[begin:], self.in_lists, self.list_of_parameters)
            code.lines[begin:] = lines
        self.write_run()
        self.write_main()
        self.refuse_missing()
        return code

    def wrote(self, part: str) -> None:
        """Record that a part of the case is written, a word of `conformance.emit.asked.PARTS`.

        An override of a method that calls this has to call that method, or this one.
        """
        self.code.parts.add(part)

    def refuse_unoffered(self) -> None:
        """Raise `NotOfferedError` if the case has a procedure that the adapter does not say it writes.

        What needs a single line of the framework's (`hook`, `vmap`) is refused by `offered`, where that
        line would be written.
        """
        kind = self.case.procedure.kind
        trains = type(self).write_training is not Emitter.write_training
        claimed = kind in self.procedures_written or (kind == "train" and trains)
        if kind not in REQUIRED and not claimed:
            raise NotOfferedError(self.variant.id, f"procedure {kind}")

    def refuse_missing(self) -> None:
        """Raise `AdapterError` if the case demands a part that is not written, though offered."""
        lacking = missing(self.case, self.code.parts, self.procedures_written, self.code.sites)
        if "autocast" in lacking:  # which a framework may also ask of its layers, elsewhere
            self.offered("autocast")
        if lacking:
            raise AdapterError(
                f"not written for {self.variant.id}: {', '.join(lacking)}",
                where=self.case.where,
                hint="each is a part of the case, see Emitter.procedures_written and Emitter.wrote",
            )

    def import_lines(self) -> list[str]:
        """The import lines of a program: `imports`, and the user's own recompute if there is one."""
        imports = [*self.imports]
        if self.case.procedure.between == "thread":
            imports.append("from concurrent.futures import ThreadPoolExecutor")
        if self.own is None:
            return imports
        module, _, name = self.own.function.partition(":")
        first, bound = name.partition(".")[0], self.callee.partition(".")[0]
        line = f"from {module} import {first}" + (f" as {bound}" if bound != first else "")
        hidden = re.compile(rf"from \S+ import {re.escape(bound)}")
        return [*(given for given in imports if not hidden.fullmatch(given)), line]

    def refuse_clashes(self) -> None:
        """Raise `AdapterError` where a name of the case would hide one that the program imports."""
        imported = _imported(tuple(self.imports))
        made = {name for node in walk(self.case.program) for name in node_makes(node)}
        clashes = imported & (made | set(self.case.names()))
        if clashes:
            raise AdapterError(
                f"case {self.case.id} names a value {min(clashes)!r}, which is an import here",
                where=self.case.where,
                hint="give the value another name",
            )

    def write_helpers(self) -> None:
        """The functions of `helpers` that the case's operations call."""
        first: dict[str, Statement] = {}
        for _, statement in self.case.statements():
            first.setdefault(statement.op, statement)
        for op, text in self.helpers.items():
            if op in first and op in self.operations:
                self.code(text)
                self.code("\n")
        for op, helper in HELPERS.items():
            if op in first and op not in self.operations:
                self.code(helper(self.written, first[op]))
                self.code("\n")

    def write_inputs(self) -> None:
        """`inputs()`: every draw comes from one NumPy generator, in the order of the case."""
        with self.code.indent("def inputs():"):
            if any(array.fill.kind in _DRAWS for array in self.case.arrays):
                self.code(f"rng = np.random.default_rng({self.case.seed})")
            begin = len(self.code.lines)
            for value in (*self.case.inputs, *self.case.parameters, *self.case.state):
                if isinstance(value, Value):
                    listed = isinstance(value.value, tuple)
                    self.code(f"{value.name} = {list(value.value) if listed else value.value!r}")  # type: ignore[arg-type]
                elif isinstance(value, Generator):
                    self.code(f"{value.name} = {self.generator(value)}")
                else:
                    self.write_array(value)
            taken = {*self.case.names(), *_imported(tuple(self.imports)), "rng"}
            lines, entry = loops.series(self.code.lines[begin:], taken)
            self.code.lines[begin:] = lines
            entry |= {name: f'"{item.name}": {item.name}' for name, item in self.in_lists.items()}
            entries = [entry.get(name, f"{name!r}: {name}") for name in self.case.names()]
            self.code(f"return {{{', '.join(dict.fromkeys(entries))}}}")
        self.code("\n")

    def write_array(self, array: Array) -> None:
        """Write the line(s) that make a tensor from `numpy_fill(array)`."""
        self.code(f"{array.name} = {self.tensor(array, numpy_fill(array))}")

    def generator(self, value: Generator) -> str:
        """The expression that makes an explicit generator; `framework_generator` for its own."""
        if value.library == "numpy":
            return f"np.random.default_rng({value.seed})"
        return self.framework_generator(value.seed)

    def framework_generator(self, seed: int) -> str:
        """The expression of the framework's explicit generator or key."""
        raise NotOfferedError(self.variant.id, "an explicit generator (`framework_generator`)")

    def write_shared(self) -> None:
        """Write the functions that `plain` and `recomputed` share; their sites have the path `both`."""
        if not self.shares:
            return
        self.path = "both"
        regions = [node for node in self.case.program if isinstance(node, Region)]
        for region in filter(self._serves_both, regions):
            begin = len(self.code.lines)
            self.write_function(region)
            if _globals(self.code.lines[begin:]) & (
                self._case_names | {*map(function, self._regions)}
            ):
                del self.code.lines[
                    begin:
                ]  # the function captures a local name, so it is not shared
                continue
            self._shared |= {region.name}
            self.code()
        self.path = "plain"

    def _serves_both(self, region: Region) -> bool:
        """Whether both paths may share a region's function: it calls no other region (which might be
        recomputed), and no value of the case has its name."""
        names = self._case_names | _OWN_NAMES | _imported(tuple(self.imports))
        inner = any(isinstance(node, Region | Again) for node in flat(region.body))
        return not inner and not region.mapped and function(region.name) not in names

    def write_forward(self, path: str) -> None:
        """`plain` or `recomputed`."""
        self.path, self._temporary = path, 0
        with self.code.indent(f"def {path}({', '.join(self.case.names())}):"):
            head = self.autocast.format(dtype=self.case.autocast)
            if head:
                self.wrote("autocast")
            with self.code.indent(head) if head and self.case.autocast else nullcontext():
                self.write_nodes(self.case.program, "")
            self.write_return(self.case.outputs)
        self.code("\n")

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
            tensors = {array.name for array in self.case.arrays}
            iterations = [loops.iteration(written[a:b], tensors) for a, b in pairwise(ends)]
            written[ends[0] :] = loops.loop(iterations, self._taken_names) or written[ends[0] :]

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

    def name(self, name: str) -> str:
        """The expression that reads a name of the case at this point; a framework may override it."""
        return name

    # -- regions -------------------------------------------------------------------------------

    def write_region(self, region: Region) -> None:
        """Define the function of a region, just before its first call, unless both paths share it."""
        if region.name not in self._shared:
            self.write_function(region)

    def write_function(self, region: Region) -> None:
        """The function of a region."""
        site = Site("region", self.path, region.name, region.name)
        with self.code.indent(f"def {function(region.name)}({self.parameters(region)}):", site):
            self.write_unpacking(region)
            with self.casting(region):
                self.write_nodes(region.body, region.name)
            if self.handed(region.gives) == self.tree(region.gives):
                self.write_return(region.gives)
            else:
                self.code(f"return {self.handed(region.gives)}")
        self.code()

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

    #: The framework's vectorising map of a function over the first axis of its arguments.
    vmap: str = ""

    @staticmethod
    def tupled(function: str) -> str:
        """A lambda that takes one tuple and passes its items on, made from `function`, a lambda that
        passes on its arguments unchanged."""
        callee = Emitter.passed_to(function)
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

    @staticmethod
    def option(region: Region, option: str, keyword: str) -> list[str]:
        """An option of a region (`preserve_rng`, `merge_adjacent`) as a framework's keyword; empty if it
        has its default value, unless the case writes it explicitly."""
        value = getattr(region, option)
        written = value != (option == "preserve_rng") or option in region.written
        return [f"{keyword}={value}"] if written else []

    #: The keyword with a text as the value of an option that takes none.
    wrong_option: str = ""

    def misuse(self, region: Region) -> list[str]:
        """The keyword argument that recompute should refuse, if the case gives it one (`option`)."""
        if not region.option:
            return []
        self.wrote("option")
        return [
            "unknown_option=True" if region.option == "unknown" else self.offered("wrong_option")
        ]

    def contexts_option(self, region: Region, keyword: str) -> list[str]:
        """The function that gives a region's contexts, as a framework's keyword; empty for none."""
        if not region.contexts:
            return []
        self.wrote("contexts")
        return [f"{keyword}=contexts"]

    # -- a user's own recompute -----------------------------------------------------------------

    @property
    def own(self) -> Implementation | None:
        """The user's own recompute that the program uses in place of the framework's, if any."""
        return self.variant.implementation

    @property
    def callee(self) -> str:
        """The name of the user's own recompute in a program; another one if the case uses that name."""
        assert self.own is not None
        name = self.own.function.partition(":")[2]
        first, dot, rest = name.partition(".")
        nodes = list(walk(self.case.program))
        taken = {made for node in nodes for made in node_makes(node)} | set(self.case.names())
        taken |= {function(region.name) for region in self.case.regions()} | _OWN_NAMES
        return f"own_{first}{dot}{rest}" if first in taken else name

    def own_keywords(self, region: Region) -> list[str]:
        """The keyword arguments of a call of the user's own recompute: those of every call, then the
        options of the case that it has keywords for."""
        assert self.own is not None
        named = self.own.options
        keywords = [f"{name}={value!r}" for name, value in self.own.always.items()]
        wrong = self.misuse(region)
        if "preserve_rng" in named and not any(w.startswith(named["preserve_rng"]) for w in wrong):
            keywords.append(f"{named['preserve_rng']}={region.preserve_rng}")
        if "merge_adjacent" in named:
            keywords.append(f"{named['merge_adjacent']}={region.merge_adjacent}")
        if "save" in named and region.save:
            keywords.append(f"{named['save']}={self.policy(region)}")
        if "contexts" in named:
            keywords += self.contexts_option(region, named["contexts"])
        return keywords + wrong

    def policy(self, region: Region) -> str:
        """A region's policy as an expression of the framework; by default a list of the case's words."""
        return repr(list(region.save))

    def own_call(self, block: str, arguments: str, region: Region) -> str:
        """A call of a region (`block` is its expression) through the user's own recompute."""
        assert self.own is not None
        keywords = self.own_keywords(region)
        if self.own.style == "call":
            return f"{self.callee}({', '.join(filter(None, [block, arguments, *keywords]))})"
        return f"{self.own_transform(block, region)}({arguments})"

    def own_transform(self, block: str, region: Region) -> str:
        """The recomputed callable of a region that the user's own recompute returns."""
        return f"{self.callee}({', '.join([block, *self.own_keywords(region)])})"

    # -- calls ---------------------------------------------------------------------------------

    @abstractmethod
    def recompute(self, region: Region) -> str:
        """The expression of the recomputed callable at a region's first call."""

    def again(self, node: Again) -> str:
        """The expression of the recomputed callable at a further call."""
        return self.recompute(self.region_named(node.region))

    def region_named(self, name: str) -> Region:
        """The region of that name."""
        return self._regions[name]

    def made_once(self, region: Region) -> bool:
        """Whether the recomputed callable is made once and assigned to a name: it is called again, or
        inspected by an operation, or configured."""
        return region.name in self._named_often or region.granularity in ("module", "operation")

    # -- trees ---------------------------------------------------------------------------------

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

    # -- what each framework has to define -------------------------------------------------------

    @abstractmethod
    def tensor(self, array: Array, source: str) -> str:
        """The expression that makes a tensor from a NumPy expression of the array's elements."""

    #: The line that seeds the framework's implicit generator; `{seed}` stands for the number.
    seeding: str = ""
    #: The line that draws from the implicit generator and discards the result.
    drawing: str = ""
    #: The head of the `with` in which gradients are off; empty where nothing has to be written.
    without_gradients: str = ""
    #: The line that runs the forward pass with gradients off, and discards the result.
    inferring: str = "forward(**values)"
    #: The head of the `with` of the framework's autocast; `{dtype}` stands for the dtype.
    autocast: str = ""
    #: The line that registers a gradient hook on a tensor of `values`; the hook appends `{name}` to the
    #: list `fired`.
    hook: str = ""
    #: The lines that halve the parameters in `values` whose names are in `{names}`.
    halving: str = ""
    #: The expression of a loss that is made of an output `{x}`: its `{kind}`, `sum` or `mean`.
    reduction: str = "{x}.{kind}()"

    def write_run(self) -> None:
        """`run(forward)`, for the case's procedure.

        The line that runs the forward pass is marked with `FORWARD`, and the one that starts the
        backward pass with `BACKWARD`.
        """
        with self.code.indent(self.run_signature()):
            self.write_beginning()
            if self.case.procedure.kind == "inference":
                self.write_inference()
            elif self.case.procedure.kind == "train":
                self.write_training()
            else:
                self.write_gradients()
        self.code("\n")

    def write_beginning(self) -> None:
        """Write what `run` does first, whatever its procedure: seed, and make the inputs."""
        self.write_seeding(self.case.seed)
        used = {statement.op for _, statement in self.case.statements()}
        for op in (op for op in LISTS if op in used):
            self.code(f"{LISTS[op]}.clear()")
        self.code(f"values = {self.inputs_call()}")
        self.write_hooks()

    def write_hooks(self) -> None:
        """Register a gradient hook on each tensor in the case's `hooks`."""
        if self.case.hooks:
            self.wrote("hooks")
            self.code("fired = []")
        for name in self.case.hooks:
            self.code(self.offered("hook").format(name=name))

    def offered(self, attribute: str) -> str:
        """The value of an optional attribute (`hook`). Raises `NotOfferedError` if it is empty."""
        line: str = getattr(self, attribute)
        if not line:
            raise NotOfferedError(self.variant.id, f"`{attribute}`")
        return line

    def write_seeding(self, seed: int) -> None:
        """Seed the implicit generators that the case draws from, unless it is not `seeded`."""
        if not self.case.seeded:
            return
        self.wrote("seeding")
        drawn = self.case.sources()
        if "implicit" in drawn:
            self.write_own_seeding(seed)
        if "numpy" in drawn:
            self.code(f"np.random.seed({seed})")
        if "python" in drawn:
            self.code(f"random.seed({seed})")

    def write_own_seeding(self, seed: int) -> None:
        """Seed the framework's implicit generator."""
        self.code(self.offered("seeding").format(seed=seed))

    def write_after(self) -> None:
        """Write what the procedure does first (`after`); an emitter calls it before its forward pass."""
        if self.case.procedure.after == "backward":
            self.write_backward_before()
        elif self.case.procedure.after == "inference":
            self.write_inference_before()
        self.wrote("after")

    def write_inference_before(self) -> None:
        """A forward pass with gradients off, whose result is dropped."""
        head = self.without_gradients
        with self.code.indent(head) if head else nullcontext():
            self.code(self.inferring)

    def write_backward_before(self) -> None:
        """A forward and a backward pass, to whose gradients those that follow are added.

        Raises `NotOfferedError` unless an emitter writes it, where tensors accumulate gradients.
        """
        raise NotOfferedError(
            self.variant.id, "gradients that are added to (`write_backward_before`)"
        )

    def write_between(self) -> None:
        """Write what happens between forward and backward; every emitter calls it before backward."""
        self.wrote("between")
        if self.case.procedure.between == "reseed":
            self.write_seeding(self.case.seed + 1)
        elif self.case.procedure.between == "update":
            names = listed(p.name for p in self.case.parameters)
            self.code(self.offered("halving").format(names=names))
        elif self.case.procedure.between == "draw":
            drawn = self.case.sources()
            if "implicit" in drawn:
                self.code(self.offered("drawing"))
            if "numpy" in drawn:
                self.code("np.random.uniform()")
            if "python" in drawn:
                self.code("random.random()")
        elif self.case.procedure.between == "switch":
            self.code(f'{LISTS["switched_sin"]}.append("on")')

    def write_backward(
        self, function: str, *arguments: str, into: str = "", site: Site | None = BACKWARD
    ) -> None:
        """Write the call that starts the backward pass: in another thread, under autocast or where
        gradients are switched off, if the case says so.

        The result is assigned to `into`, unless that is empty. The thread is started only for this call,
        so that it inherits no thread-local state.
        """
        self.wrote("start")
        into = f"{into} = " if into else ""
        if self.case.procedure.between in ("autocast", "no-gradients"):
            head = self.offered("without_gradients")
            if self.case.procedure.between == "autocast":
                head = self.offered("autocast").format(dtype="bfloat16")
            with self.code.indent(head):
                self.code(f"{into}{function}({', '.join(arguments)})", site)
            return
        if self.case.procedure.between != "thread":
            self.code(f"{into}{function}({', '.join(arguments)})", site)
            return
        with self.code.indent("with ThreadPoolExecutor(max_workers=1) as executor:"):
            call = f"executor.submit({', '.join([function, *arguments])}).result()"
            self.code(f"{into}{call}", site)

    def generators_entry(self) -> str:
        """The entry of explicit generators in what `run` returns; empty where the case has none."""
        self.wrote("generators")
        made = [value.name for value in self.case.inputs if isinstance(value, Generator)]
        if not made:
            return ""
        return ', "generators": {' + ", ".join(f'"{n}": values["{n}"]' for n in made) + "}"

    def write_inference(self) -> None:
        """The forward pass with gradients off, and what `run` returns."""
        head = self.without_gradients
        with self.code.indent(head) if head else nullcontext():
            self.code("outputs = forward(**values)", FORWARD)
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_gradients(self) -> None:
        """Forward, backward (once, twice, or of the second order), and what `run` returns."""
        raise NotImplementedError

    def write_training(self) -> None:
        """Steps of SGD, and what `run` returns."""
        raise NotImplementedError

    def write_clearing(self, statement: str) -> None:
        """Clear the gradients of all tensors that have one; `{tensor}` in `statement` stands for one."""
        asking = [array.name for array in self.case.arrays if array.gradient]
        if len(asking) < FEW:
            for name in asking:
                self.code(statement.format(tensor=self.value(name)))
        else:
            with self.code.indent(f"for name in {listed(asking)}:"):
                self.code(statement.format(tensor="values[name]"))

    def chosen(self, arrays: Iterable[Array]) -> str:
        """A dict of some of the program's tensors by name, out of `values`."""
        return self.entries(array.name for array in arrays)

    def entries(self, names: Iterable[str], source: str = "values", part: str = "") -> str:
        """A dict of the entries of `source` with these names, or of their attribute `part` (`.grad`):
        written out if they are few, else a comprehension over numbers (`w1`, `w2`, …) or names."""
        names = list(names)
        if not self.in_lists.keys().isdisjoint(names):
            return f"{{{', '.join(self._out_of_lists(names, source, part))}}}"
        if len(names) <= FEW and "|" not in source:
            return "{" + ", ".join(f'"{name}": {source}["{name}"]{part}' for name in names) + "}"
        if source == "values" and names == self.value_names():
            each = f"name: value{part} for name, value in values.items()" if part else "**values"
            return f"{{{each}}}"
        series = _series(names)
        if len(series) > FEW or "|" in source:
            return f"{{name: {source}[name]{part} for name in {listed(names)}}}"
        words = []
        for stem, count in series.items():
            name = f'f"{stem}{{i}}"' if count else f'"{stem}"'
            loop = f" for i in range(1, {count + 1})"
            entry = f"{name}: {source}[{name}]{part}"
            words.append(f"**{{{entry}{loop}}}" if count else entry)
        text = ", ".join(words)
        return text.removeprefix("**") if len(words) == 1 else f"{{{text}}}"

    def _out_of_lists(self, names: Sequence[str], source: str, part: str) -> list[str]:
        """The entries of such a dict, with one comprehension for all tensors of a list."""
        found: list[str] = []
        for name in names:
            item = self.in_lists.get(name)
            if item is None or not self._is_whole(item, names):
                found.append(f'"{name}": {self.value(name, source)}{part}')
            elif item.position == 0:
                stem = name.removesuffix("1")
                one = stem if stem != item.name else "value"
                listed = f'enumerate({source}["{item.name}"], 1)'
                found.append(f'**{{f"{stem}{{i}}": {one}{part} for i, {one} in {listed}}}')
        return found

    def _is_whole(self, item: Item, names: Collection[str]) -> bool:
        """Whether all of a list is among these names."""
        return all(n in names for n, other in self.in_lists.items() if other.name == item.name)

    def value(self, name: str, source: str = "values") -> str:
        """The expression of a tensor of the program, out of `values` or a dict of the same form."""
        item = self.in_lists.get(name)
        if item is None:
            return f'{source}["{name}"]'
        return f'{source}["{item.name}"][{item.position}]'

    def given(self, names: Iterable[str]) -> list[str]:
        """The names under which `values` has these tensors: those of lists for what is in lists."""
        return lists.arguments(names, self.in_lists)

    def value_names(self) -> list[str]:
        """The keys of the dict `values` of `run`, in order: what `plain` and `recomputed` take."""
        return self.given(self.case.names())

    def items(self, names: Iterable[str]) -> str:
        """A list of some of the program's tensors, out of `values`."""
        names = list(names)
        if len(names) > FEW and names == self.value_names():
            return "list(values.values())"
        if not self.in_lists.keys().isdisjoint(names):
            words: list[str] = []
            for name in names:
                item = self.in_lists.get(name)
                if item is None or not self._is_whole(item, names):
                    words.append(self.value(name))
                elif item.position == 0:
                    words.append(f'*values["{item.name}"]')
            alone = len(words) == 1 and words[0].startswith("*")
            return words[0].removeprefix("*") if alone else f"[{', '.join(words)}]"
        series = _series(names)
        if len(names) > FEW and len(series) == 1:
            ((stem, count),) = series.items()
            return f'[values[f"{stem}{{i}}"] for i in range(1, {count + 1})]'
        if len(names) > FEW:
            return f"[values[name] for name in {listed(names)}]"
        return f"[{', '.join(map(self.value, names))}]"

    def state_entry(self) -> str:
        """The entries of state and generators in what `run` returns; empty where there are none."""
        entries = self.state_entries()
        state = f', "state": {{{", ".join(entries)}}}' if entries else ""
        return state + self.generators_entry()

    def state_entries(self) -> list[str]:
        """The entries of the dict of state: buffers, numbers of notes (side effects), calls of hooks."""
        self.wrote("state")
        entries = [f'"{a.name}": values["{a.name}"]' for a in self.case.state]
        if self.case.uses(NOTED):
            entries.append('"noted": len(noted)')
        return entries + [f'"hook of {n}": fired.count("{n}")' for n in self.case.hooks]

    def run_signature(self) -> str:
        """The `def` line of `run`, with `**changes` if a good run follows an expected error."""
        changes = self.case.error is not None and self.case.error.then
        return "def run(forward, **changes):" if changes else "def run(forward):"

    def inputs_call(self) -> str:
        """The expression for the inputs inside `run`."""
        self.wrote("then")
        return "inputs() | changes" if "changes" in self.run_signature() else "inputs()"

    def loss_place(self, outputs: str = "outputs", loss: Loss | None = None) -> str:
        """The expression of the output that a loss (the case's own) is made of: `outputs`,
        `outputs[1]["a"]`, …"""
        chosen = loss or self.case.loss
        assert chosen is not None
        place = _place(self.case.outputs, chosen.name)
        assert place is not None
        return outputs + place

    @property
    def result(self) -> str:
        """The name of what the forward pass gives: `loss` where that is the loss itself."""
        loss = self.case.loss
        whole = loss is not None and loss.reduction == "none" and self.loss_place("") == ""
        return "loss" if whole and self.case.procedure.kind in _NAMED else "outputs"

    def write_loss(self, forward: str = "forward(**values)", site: Site | None = FORWARD) -> None:
        """The line that runs the forward pass, and where the loss is something else, the line of it."""
        self.code(f"{self.result} = {forward}", site)
        if self.result != "loss":
            self.code(f"loss = {self.loss()}")

    def loss(self, other: Loss | None = None) -> str:
        """The expression of a loss (the case's own): an output, or its sum or mean."""
        chosen = other or self.case.loss
        place = self.loss_place(loss=chosen)
        assert chosen is not None
        if chosen.reduction == "none":
            return place
        return self.reduction.format(x=place, kind=chosen.reduction)

    def write_main(self) -> None:
        """Write what the program does as a script: run both paths and print their results."""
        self.code(
            """
            if __name__ == "__main__":
                for forward in (plain, recomputed):
                    print(forward.__name__, run(forward))
            """
        )


#: Procedures whose `run` does nothing with the outputs but take the loss of them.
_NAMED = ("backward", "part", "second_backward", "train")
_DRAWS = ("normal", "uniform", "integers")
#: Names that every program defines.
_OWN_NAMES = frozenset(
    {"plain", "recomputed", "run", "main", "inputs", "values", "outputs", "forward"}
)


def _series(names: Sequence[str]) -> dict[str, int]:
    """Names in order; a series numbered from 1 (`w1`, `w2`, …) as its stem with its length, any other
    name with 0."""
    made: dict[str, int] = {}
    last = ""
    for name in names:
        stem = name.rstrip("0123456789")
        number = name.removeprefix(stem)
        if number == "1" and stem not in made:
            made[stem] = 1
        elif last == stem and number == str(made[stem] + 1):
            made[stem] += 1
        else:
            made[name], stem = 0, ""
        last = stem
    short = {stem for stem, count in made.items() if 0 < count < loops.FEWEST}
    return {
        name: count
        for stem, many in made.items()
        for name, count in (
            [(f"{stem}{i}", 0) for i in range(1, many + 1)] if stem in short else [(stem, many)]
        )
    }


def _globals(lines: Sequence[str]) -> set[str]:
    """The global names that the functions in some lines read."""
    names: set[str] = set()
    tables = symtable.symtable("\n".join(lines), "program", "exec").get_children()
    while tables:
        table = tables.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return names


def _place(tree: Tree, name: str) -> str | None:
    if isinstance(tree, Ref):
        return "" if tree.name == name else None
    if isinstance(tree, Literal):
        return None
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    for key, part in items:
        inner = _place(part, name)
        if inner is not None:
            return f"[{key!r}]{inner}"
    return None


@lru_cache(maxsize=1024)
def _fields(text: str) -> frozenset[str]:
    """The names in the braces of a format string."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


@lru_cache(maxsize=64)
def _imported(lines: tuple[str, ...]) -> frozenset[str]:
    """The names that lines of imports give, which are the same for all cases of a variant."""
    names = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.alias)]
    return frozenset((n.asname or n.name).partition(".")[0] for n in names)
