"""Writes the forward pass: operations, repetitions, regions and their calls."""

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from conformance.emit import containers, lists
from conformance.emit.containers import part_of
from conformance.emit.expressions import function, short_exponents
from conformance.emit.part import OWN_NAMES, Call, Part
from conformance.emit.usual import CALLS, LEFT, helper
from conformance.errors import NotEmittedError, NotOfferedError
from conformance.language.flow import parts
from conformance.language.operations import OF_CALLABLES, OPERATIONS
from conformance.model import case as model
from conformance.model.case import Again, Literal, Ref, Region, Segment, Statement, Tree, leaves
from conformance.model.containers import Listed
from conformance.model.program import Site


class Body(Part):
    """Writes the nodes of a case as lines of a function: statements, repetitions, trees of names."""

    def __init__(self, emitter: Any) -> None:
        super().__init__(emitter)
        #: How names of the case are read here, those that differ from the variable's name.
        self.spelled: Mapping[str, str] = {}
        self.temporary = 0  # the number of temporaries in the function that is being written

    def write_helpers(self) -> None:
        """The functions that the case's operations call and that the program defines for itself, and the
        list that regions leave results in."""
        if any(region.left for region in self.case.regions()):
            self.code(f"{LEFT} = []\n\n")
        first: dict[str, Statement] = {}
        for _, statement in self.case.statements():
            first.setdefault(statement.op, statement)
        for (kind, *fields), name in self.emitter.classes.items():
            decorator = self.words.registered if kind == "object" else ""
            self.code(containers.definition(kind, name, fields, decorator))
        for op, text in self.words.helpers.items():
            if op in first and op in self.words.operations:
                self.code(text)
        for op in CALLS:
            if op in first and op not in self.words.operations:
                self.code(helper(op, self.written, first[op]))

    def write_nodes(self, nodes: Iterable[model.Node], region: str) -> None:
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
                self.forward.write_call(node, self.emitter.regions[node.region])
            else:
                self.write_repeat(node, region)

    def write_repeat(self, node: model.Repeat, region: str) -> None:
        """A loop; the lines of all iterations one after the other where `loops` says so, and where they
        differ in more than which of the program's own tensors they read."""
        written, ends = self.code.lines, [len(self.code.lines)]
        for iteration in node.iterations:
            self.write_nodes(iteration, region)
            ends.append(len(written))
        calls = all(isinstance(inner, Again) for inner in model.flat((node,)))
        wanted = self.words.loops == "all" or (self.words.loops == "calls" and calls)
        if wanted and len(node.iterations) >= lists.FEWEST:
            iterations = [written[a:b] for a, b in pairwise(ends)]
            # Of each tensor that iterations read by their number (`w$i`), those of the iterations.
            inner = [*model.walk(node.body)]
            made = {name for one in inner for name in model.node_makes(one)}
            read = dict.fromkeys(name for one in inner for name in model.node_reads(one))
            turns = [n for n in read if model.NUMBER in n and n not in made]
            series = [[model.numbered(name, i) for i in node.numbers] for name in turns]
            known = {array.name for array in self.case.arrays}
            series = [names for names in series if known.issuperset(names)]
            taken = self.emitter.taken_names
            written[ends[0] :] = lists.loop(iterations, series, taken) or written[ends[0] :]

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
        options = _options(op, words)
        arguments = {name: str(words[name]) for name in words if name not in options}
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
        # A function that the program defines may have an option by default; a format string may not.
        if call.op not in self.words.helpers and call.op not in CALLS:
            for name, spec in OPERATIONS[call.op].options.items():
                if name not in _fields(writer) and call.options[name] != spec.default:
                    raise NotEmittedError(self.variant.id, f"{call.op} with {name}")
        return short_exponents(writer.format(**call.arguments, **call.options))

    def call_of(self, statement: Statement) -> Call:
        """A statement's operation with its arguments as Python expressions."""
        op, tensors = statement.op, OPERATIONS[statement.op].tensors
        arguments = {
            name.rstrip("?."): self.argument(argument)
            for name, argument in zip(tensors, statement.arguments, strict=True)
        }
        of_numpy = any(
            isinstance(value, model.Generator) and value.library == "numpy"
            for value in self.case.inputs
            if op == "uniform_from" and value.name in statement.names()
        )
        return Call(op, arguments, _options(op, statement.options), statement, of_numpy)

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
        if isinstance(tree, tuple) and len(tree) > 1 and not isinstance(tree, Listed):
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
        """A tree as an expression."""
        if isinstance(tree, Ref):
            return self.name(tree.name)
        if isinstance(tree, Literal):
            return repr(tree.value)
        return containers.written(tree, [*map(self.tree, parts(tree))], self.emitter.classes)

    def write_assignment(self, tree: Tree, expression: str, site: Site | None = None) -> None:
        """Assign an expression's value to the names in a tree, through temporaries at dicts."""
        later: list[tuple[Tree, str]] = []
        if isinstance(tree, Mapping) and expression.isidentifier():
            later += [
                (part, part_of(tree, expression, k)) for k, part in tree.items() if leaves(part)
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
            later += [(t, part_of(tree, name, k)) for k, t in tree.items() if leaves(t)]
            return name
        if not tree:
            return "_"
        names = [self._pattern(part, later) for part in tree]
        pairs = zip(names, tree, strict=True)
        names = [f"({name})" if t and isinstance(t, tuple) else name for name, t in pairs]
        return f"{names[0]}," if len(names) == 1 else ", ".join(names)


class Forward(Part):
    """Writes `plain` and `recomputed`, and in them the functions of regions and their calls."""

    #: Whether `plain` and `recomputed` make a network, which `run` calls on the inputs.
    makes_network = False

    def write_forward(self, path: str) -> None:
        """`plain` or `recomputed`."""
        self.body.temporary = 0
        if self.modelled:
            self.write_model(path)
            return
        with self.code.indent(f"def {path}({', '.join(self.given())}):"):
            self.write_pass()

    def write_pass(self) -> None:
        """The forward pass, from what is given to the outputs."""
        with self.autocast(), self.default_dtype():
            self.body.write_nodes(self.case.program, "")
        self.body.write_return(self.case.outputs)

    def write_model(self, path: str) -> None:
        """`Plain` or `Recomputed`: a class whose objects hold the recomputed regions, as methods."""
        code, own = self.code, {name: f"self.{name}" for name in self.held_once}
        outermost = [node for node in model.flat(self.case.program) if isinstance(node, Region)]
        for region in outermost:
            self.check_held(region)
        with code.indent(f"class {path.capitalize()}:"):
            with code.indent("def __init__(self, values):"), self.body.spelling(own):
                code("vars(self).update(values)")
                for region in outermost:
                    self.write_held(region)
            for region in filter(self.is_written, outermost):
                with self.body.spelling(own):
                    self.write_function(region)
            call = f"def __call__({', '.join(['self', *self.given()])}):"
            with code.indent(call), self.body.spelling(own):
                self.write_pass()
        with code.indent(f"def {path}(values):"):
            code(f"return {path.capitalize()}(values)")

    def check_held(self, region: Region) -> None:
        """Raise `NotOfferedError` for a region that no object can hold."""
        what = ""
        if region.granularity != "function":
            what = f"a region of granularity {region.granularity!r} in an object that is made once"
        elif not {*region.captured()} <= {*self.held_once, *self.extra(region)}:
            what = "tensors that a region made once reads by closure"
        if what:
            raise NotOfferedError(self.variant.id, what)

    def write_held(self, region: Region) -> None:
        """Make what an object holds for a region: its recomputed callable, if that has a name."""
        self.recompute.write_made(region)

    def is_written(self, region: Region) -> bool:
        """Whether an object has a method for a region."""
        return True

    def given(self) -> list[str]:
        """What the forward pass is given: all that no object holds."""
        return [name for name in self.case.names() if name not in self.held_once]

    def autocast(self) -> AbstractContextManager[None]:
        """A context in which the lines of the whole pass are written, in the framework's autocast if the
        case asks for it."""
        if not self.words.autocast or not self.case.autocast:
            return nullcontext()
        self.code.wrote("autocast")
        return self.code.indent(self.words.autocast.format(dtype=self.case.autocast))

    @contextmanager
    def default_dtype(self) -> Iterator[None]:
        """A context in which the lines of the whole pass are written, with another default dtype if the
        case asks for it."""
        if not self.case.around:
            yield
            return
        self.code.wrote("around")
        line = self.offered("default_dtype")
        self.code(line.format(dtype=self.case.around.removeprefix("default-")))
        with self.code.indent("try:"):
            yield
        with self.code.indent("finally:"):
            self.code(line.format(dtype="float32"))

    def serves_both(self, region: Region) -> bool:
        """Whether both paths may share a region's function: it calls no other region (which might be
        recomputed) and inspects none, no value has its name, and the observer can do with one."""
        if self.modelled:
            return False
        names = self.emitter.case_names | OWN_NAMES | self.emitter.imported
        inner = any(
            isinstance(node, Region | Again) or node.op in OF_CALLABLES
            for node in model.flat(region.body)
        )
        return not inner and not region.mapped and function(region.name) not in names

    def place(self, region: Region) -> str:
        """The expression of a region's function, or of the layer or method that it is."""
        return f"self.{function(region.name)}" if self.is_method(region) else function(region.name)

    def is_method(self, region: Region) -> bool:
        """Whether a region is a method of the object that holds it."""
        return self.modelled and any(node is region for node in model.flat(self.case.program))

    def write_method(self, name: str, region: Region, attributes: Iterable[str]) -> None:
        """Write a region as a method, which reads these attributes: `forward` of a class of its own, or
        a method of the network's."""
        site = Site("region", self.path, region.name, region.name)
        formals = ", ".join(filter(None, ["self", self.parameters(region)]))
        own = {attribute: f"self.{attribute}" for attribute in attributes}
        with self.code.indent(f"def {name}({formals}):", site), self.body.spelling(own):
            self.write_body(region)
            self.write_given(region)

    def write_region(self, region: Region) -> None:
        """Define the function of a region, just before its first call, unless both paths share it; and
        its recomputed callable, if that has a name."""
        if self.is_method(region):
            return
        if region.name not in self.emitter.shared:
            self.write_function(region)
        self.recompute.write_made(region)

    def write_function(self, region: Region) -> None:
        """The function of a region."""
        site = Site("region", self.path, region.name, region.name)
        with self.hiding(region), self.code.indent(self.heading(region), site):
            self.write_body(region)
            self.write_returned(region)

    def hiding(self, region: Region) -> AbstractContextManager[None]:
        """A context in which the names of a region's arguments are its own, not those around it."""
        own = {*leaves(region.takes), *leaves(region.kwargs)}
        return self.body.spelling({n: s for n, s in self.body.spelled.items() if n not in own})

    def passing(self, region: Region) -> AbstractContextManager[None]:
        """A context in which a lambda passes on its arguments, which are named as the region's are."""
        return self.hiding(region)

    def write_body(self, region: Region) -> None:
        """The lines of a region's function but for its `return`."""
        self.write_unpacking(region)
        with self.casting(region):
            self.body.write_nodes(region.body, region.name)

    def write_given(self, region: Region) -> None:
        """The end of a region's function: the results that it leaves in the list, and its `return`."""
        self.write_left(region)
        self.body.write_return(region.returns)

    def write_left(self, region: Region) -> None:
        """The lines that append to the list what a region leaves there."""
        for name in region.left:
            self.code.wrote("left")
            self.code(f"{LEFT}.append({self.body.name(name)})")

    def write_returned(self, region: Region) -> None:
        """The `return` of a region's function, after what it leaves in the list."""
        self.write_left(region)
        tree = self.received(region.returns, region)
        if self.handed(tree) == self.body.tree(tree):
            self.body.write_return(tree)
        else:
            self.code(f"return {self.handed(tree)}")

    def heading(self, region: Region) -> str:
        """The `def` line of a region's function."""
        own = ["self"] if self.is_method(region) else []
        parameters = ", ".join(filter(None, [*own, self.parameters(region)]))
        return f"def {function(region.name)}({parameters}):"

    def casting(self, region: Region) -> AbstractContextManager[None]:
        """A context in which the lines of a region's body are written: indented below the framework's
        autocast, if the region enters it."""
        if not region.autocast:
            return nullcontext()
        self.code.wrote("autocast inside")
        return self.code.indent(self.offered("autocast").format(dtype=region.autocast))

    def parameters(self, region: Region) -> str:
        """The parameter list of a region's function: a name each, `data` for a tree."""
        extra, signature = self.extra(region), region.signature
        if signature != "plain":
            self.code.wrote("signature")
        if signature == "variadic":
            return ", ".join([*extra, "*args", *(["**named"] if region.kwargs else [])])
        named = [] if signature == "undeclared" else self._by_name(region)
        star = ["*"] if named and signature == "keyword-only" else []
        return ", ".join([*self.formals(region), *extra, *star, *named])

    def _by_name(self, region: Region) -> list[str]:
        """The parameters of what is given by name, those with a default last."""
        left_out = {
            key for call in self.emitter.again.get(region.name, ()) for key in call.left_out
        }
        values = {v.name: v.value for v in self.case.inputs if isinstance(v, model.Value)}
        names = {key: leaves(tree) for key, tree in region.kwargs.items()}
        defaults = [f"{key}={values[names[key][0]]!r}" for key in names if key in left_out]
        return [*(key for key in names if key not in left_out), *defaults]

    def extra(self, region: Region) -> list[str]:
        """What a region's function takes beyond the case's arguments."""
        return []

    def extra_arguments(self, region: Region) -> list[str]:
        """What a call gives for `extra`."""
        return self.extra(region)

    def formals(self, region: Region) -> list[str]:
        """The positional parameters of a region's function."""
        trees = [tree for tree in region.takes if not isinstance(tree, Ref)]
        inner = {name for node in model.walk(region.body) for name in model.node_makes(node)}
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
                if leaves(tree):
                    self.body.write_assignment(tree, f"named[{key!r}]")
            return
        for formal, tree in zip(self.formals(region), region.takes, strict=True):
            if leaves(tree) and not isinstance(tree, Ref):
                self.body.write_assignment(tree, formal)
        for key, tree in region.kwargs.items():
            if leaves(tree) and tree != Ref(key) and region.signature != "undeclared":
                self.body.write_assignment(tree, key)

    def write_call(self, node: Region | Again, region: Region) -> None:
        """Call a region and name what it gives."""
        if not region.mapped:
            self.write_results(node, self.recompute.called(node, region), region)
            return
        self.code.wrote("mapped")
        with self.passing(region):
            inner = self.recompute.called(replace(node, takes=region.takes), region)
        function = f"lambda {', '.join(self.formals(region))}: {inner}"
        given = [self.body.tree(tree) for tree in node.takes]
        self.write_results(node, self.vectorized(function, given), region)

    def write_results(self, node: Region | Again, expression: str, region: Region) -> None:
        """Assign the results of a region's call to names, and first the return value as a whole, if the
        case names it. The plain program calls a region with `contexts` in the first of them."""
        first = region.contexts and self.path == "plain"
        whole = Ref(node.returned) if node.returned else region.returned_of(node.gives)
        with self.code.indent("with contexts()[0]:") if first else nullcontext():
            self.body.write_assignment(self.received(whole, region), expression)
            if node.returned:
                self.body.write_assignment(node.gives, node.returned)
        for name in reversed(region.left_of(node.gives)):
            self.code(f"{name} = {LEFT}.pop()")

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
        region = node if isinstance(node, Region) else self.emitter.regions[node.region]
        pairs = zip(node.takes, region.takes, strict=True)
        words = [self.argument(tree, formal, region) for tree, formal in pairs]
        extra = self.extra_arguments(region)
        words = [*extra, *words] if region.signature == "variadic" else [*words, *extra]
        left_out = node.left_out if isinstance(node, Again) else ()
        given = [f"{k}={self.handed(t)}" for k, t in node.kwargs.items() if k not in left_out]
        return ", ".join([*words, *given])

    def argument(self, tree: Tree, formal: Tree, region: Region) -> str:
        """A positional argument of a call, where the region's function has `formal`."""
        return self.handed(tree)

    def handed(self, tree: Tree) -> str:
        """A tree that is handed to a region or given by it, as an expression; a framework that asks for
        containers of its own there overrides this."""
        return self.body.tree(tree)


class Sequences(Forward):
    """Programs in which recompute takes a list of layers, and divides it into segments: a function per
    layer at a sequence's first segment, and one call that runs them all."""

    def sequential(self, region: Region, segment: Segment, handed: str) -> str:
        """The call that recomputes the list `layers` in `segment.count` segments, from the tensor
        `handed` on."""
        raise NotImplementedError

    def write_region(self, region: Region) -> None:
        if region.segment is not None and region.segment.first:
            for names, part in self._named_layers(region.segment):
                self._write_layers(names, part)

    def write_call(self, node: Region | Again, region: Region) -> None:
        if region.segment is None or not region.segment.first:
            return
        handed = _handed(region)
        layers = [name for names, _ in self._named_layers(region.segment) for name in names]
        self.code(f"layers = [{', '.join(layers)}]")
        if self.path == "plain":
            with self.code.indent("for layer in layers:"):
                self.code(f"{handed} = layer({handed})")
        else:
            self.code(f"{handed} = {self.sequential(region, region.segment, handed)}")

    def _named_layers(self, segment: Segment) -> list[tuple[list[str], Region]]:
        """The segments of a sequence in order, each after the names of its layers' functions, which are
        numbered through the sequence."""
        named: list[tuple[list[str], Region]] = []
        name, number = function(segment.sequence), 0
        for region in self.case.regions():
            if region.segment is not None and region.segment.sequence == segment.sequence:
                start, number = number, number + len(region.segment.layers)
                named.append(([f"{name}_layer{n + 1}" for n in range(start, number)], region))
        return named

    def _write_layers(self, names: list[str], region: Region) -> None:
        """Write the functions of a segment's layers. The first one counts as the segment's entry."""
        assert region.segment is not None
        handed = _handed(region)
        entry: Site | None = Site("region", self.path, region.name, region.name)
        for name, body in zip(names, region.segment.layers, strict=True):
            with self.code.indent(f"def {name}({handed}):", entry):
                self.body.write_nodes(body, region.name)
                self.code.leave(handed)
            entry = None


def _handed(region: Region) -> str:
    """The name of the tensor that is handed from layer to layer."""
    (handed,) = region.takes
    assert isinstance(handed, Ref)
    return handed.name


def _options(op: str, given: Mapping[str, Any]) -> dict[str, model.Option]:
    """The options of an operation as they are given, defaults filled in."""
    return {name: given.get(name, o.default) for name, o in OPERATIONS[op].options.items()}


@lru_cache(maxsize=1024)
def _fields(text: str) -> frozenset[str]:
    """The names in the braces of a format string."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)
