"""How JAX writes a case: pure functions, explicit keys, `jax.checkpoint` around a region's function.

Running statistics go into a function and are returned by it; random operations take a key that is made
from the seed and folded for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

from conformance.drivers.adapter import Variant
from conformance.emit import functional
from conformance.emit.emitter import Body, Call, Emitter, Forward, Parts, Recompute, Tensors
from conformance.emit.expressions import function
from conformance.emit.part import FURTHER, PROCEDURES
from conformance.errors import AdapterError
from conformance.language.operations import NOTED, OPERATIONS
from conformance.model.case import (
    Again,
    Array,
    Case,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    Value,
    leaves,
    walk,
)
from conformance.model.chains import chains
from conformance.model.program import Site

from . import layouts, operations, policies, procedures, ranks, references

#: Variants with `prevent_cse=False`: no optimisation barrier keeps a rerun from being merged with the
#: forward by common-subexpression elimination.
UNGUARDED = ("jit-prevent-cse-false", "scan")

#: Operations with which Python does something itself while it traces a region.
BY_PYTHON = frozenset({*NOTED, "numpy_uniform", "python_uniform", "uniform_from"})


WORDS = replace(
    functional.WORDS,
    procedures_written=(*PROCEDURES, *FURTHER),
    reverse_only=("custom_sin",),
    helpers=operations.HELPERS,
    operations=operations.OPERATIONS,
    vmap="jax.vmap",
    wrong_option='policy="wrong"',
    rank="rank",
    shares=True,
    shares_nested=True,
    loops="calls",  # operations are distinguished by the lines that led to them
    lists="all",
    registered="@jax.tree_util.register_dataclass",
    imports=(
        "import random",
        "from functools import partial",
        "import jax",
        "import jax.numpy as jnp",
        "import numpy as np",
        "from jax import lax",
        *policies.IMPORTS,
    ),
)


class Arrays(Tensors):
    """Arrays, references, and keys. Of split weights, each of the `devices` has a part."""

    def __init__(self, emitter: Emitter, devices: int = 1) -> None:
        super().__init__(emitter)
        self.devices = devices

    @property
    def head(self) -> str:
        return "inputs()" if self.case.ranks == 1 else "inputs_of(rank)"

    def write_inputs(self) -> None:
        if self.case.split:
            self.code.notes.add(layouts.SPLIT)
            self.code(ranks.text(layouts.HELPERS, self.devices))
        super().write_inputs()
        if self.case.parallel:
            held = self.values.given(array.name for array in self.case.parameters)
            self.code(ranks.parallel(self.case, held, self.variant.id))
            self.code.notes |= {ranks.WHOLE + array.name for array in self.case.parameters}
        elif self.case.ranks > 1:
            self.code(ranks.text(ranks.INPUTS, self.case.ranks))

    def tensor(self, array: Array, source: str) -> str:
        fill, dtype = array.fill, array.dtype
        if not is_wide(self.case):
            # What JAX has where 64 bits are not switched on.
            dtype = dtype.replace("int64", "int32")
        made = f"jnp.asarray({source}, jnp.{dtype})"
        if fill.kind == "full":
            shape = array.shape[0] if len(array.shape) == 1 else array.shape
            number: object = fill.numbers[0] if "float" in dtype else int(fill.numbers[0])
            made = f"jnp.full({shape}, {number}, jnp.{dtype})"
            if number in (0, 1):
                made = f"jnp.{'ones' if number else 'zeros'}({shape}, jnp.{dtype})"
        referred = array.name in procedures.plan(self.case).references
        if array.name in self.case.split:
            made = f"split({made}, {layouts.AXES[self.case.split[array.name]]})"
        return f"jax.new_ref({made})" if referred else made

    def framework_generator(self, seed: int) -> str:
        return f"jax.random.key({seed})"


class Statements(Body):
    """Pure statements: with keys, and with references to what is written over."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.plan = procedures.plan(self.case)
        self.references = references.References(emitter)
        self._held = {array.name for array in self.case.parameters}
        self._folds = [0]  # random numbers asked for so far, in each function around this place

    def write_helpers(self) -> None:
        if is_wide(self.case):
            self.code('jax.config.update("jax_enable_x64", True)')
        super().write_helpers()
        if self.case.ranks > 1:
            lines, key = ranks.text(ranks.HELPERS, self.case.ranks), self.plan.key
            alike = ranks.ALIKE if self.case.parallel == "data" else ""
            lines = lines.replace("{layouts}", self._layouts()).replace("{alike}", alike)
            if self.plan.random:
                lines = lines.replace(
                    "(**values)\n", f'(**values | {{"{key}": values["{key}"][0]}})\n', 1
                )
            self.code(lines)
        if self.case.parallel == "sharded":
            self.code(ranks.GATHER)

    def _layouts(self) -> str:
        """Where `shard_map` expects the values: each rank has its part, or all of what is alike."""
        if self.case.parallel != "data":
            return "each_rank"
        alike = self.values.given(array.name for array in self.case.parameters)
        layouts = (
            f'"{name}": {ranks.LAYOUTS["data"] if name in alike else "each_rank"}'
            for name in self.values.value_names()
        )
        return f"({{{', '.join(layouts)}}},)"

    def argument(self, argument: object) -> str:
        written = super().argument(argument)
        if self.case.parallel == "sharded" and isinstance(argument, Ref):
            return f"gather({written})" if argument.name in self._held else written
        return written

    @contextmanager
    def function(self, nodes: tuple[Node, ...], taken: Iterable[str]) -> Iterator[None]:
        """The body of a function with these nodes is written inside the `with`; `taken` are the names
        of its arguments."""
        self._folds.append(0)
        with self.references.function_of(nodes, taken):
            yield
        self._folds.pop()

    def name(self, name: str) -> str:
        return self.spelled.get(name) or self.references.name(name)

    def write_statement(self, statement: Statement, region: str) -> None:
        site = Site("statement", self.path, region, statement.label, statement.op)
        if statement.op == references.WRITES:
            self.code(self._written_over_by(statement), site)
            return
        targets = (*statement.targets, *_updated(statement))
        made = self.references.referred(targets, self.expression(statement))
        self.code(f"{', '.join(targets)} = {made}", site)
        if len(targets) > 1:
            self.references.write_references(targets)

    def _written_over_by(self, statement: Statement) -> str:
        """The line of an operation in place."""
        added = self.call_of(statement).arguments["b"]
        held = self.references.write_over(statement)
        named = self._named(f"{held}[...] + {added}", statement)
        whole = named.startswith("checkpoint_name")
        return f"{held}[...] = {named}" if whole else f"{held}[...] += {added}"

    def expression(self, statement: Statement) -> str:
        return self._named(super().expression(statement), statement)

    def _named(self, expression: str, statement: Statement) -> str:
        """A result with a name, if the policy of the region around its statement keeps it by name."""
        within = self.emitter.within
        if not within or not policies.is_named(self.emitter.regions[within], statement):
            return expression
        return f'checkpoint_name({expression}, "{statement.label}")'

    def call_of(self, statement: Statement) -> Call:
        call = super().call_of(statement)
        if not _is_keyed(statement):
            return call
        seed = statement.options.get("seed")
        key = self.next_key() if seed is None else f"jax.random.key({seed})"
        return replace(call, arguments={**call.arguments, "key": key})

    def next_key(self) -> str:
        """The expression of the key of the next operation that draws, or call that does."""
        self._folds[-1] += 1
        return f"jax.random.fold_in({self.plan.key}, {self._folds[-1] - 1})"

    def threaded(self, nodes: Iterable[Node]) -> list[str]:
        """The state that these nodes change, in the order of the case."""
        if not self.plan.state:
            return []
        changed = {n for s in self.inside(nodes) for n in _updated(s)}
        return [name for name in self.plan.state if name in changed]

    def draws(self, nodes: Iterable[Node]) -> bool:
        """Whether these nodes draw with a key that is passed to them."""
        return any(_is_keyed(s) and s.options.get("seed") is None for s in self.inside(nodes))

    def inside(self, nodes: Iterable[Node]) -> list[Statement]:
        """The statements in these nodes and in the regions that they call."""
        statements_inside: list[Statement] = []
        for node in walk(tuple(nodes)):
            if isinstance(node, Statement):
                statements_inside.append(node)
            elif isinstance(node, Again):
                statements_inside += self.inside(self.emitter.regions[node.region].body)
        return statements_inside


class Functions(Forward):
    """Functions that take and return the state that they change, and take a key to draw with."""

    body: Statements

    def given(self) -> list[str]:
        return [*super().given(), *([self.body.plan.key] if self.body.plan.random else [])]

    def write_pass(self) -> None:
        case, references_of = self.case, self.body.references
        with self.body.function(case.program, ()):
            references_of.write_references(case.names())
            self.body.write_nodes(case.program, "")
            state = ", ".join(f'"{name}": {name}' for name in self.body.plan.state)
            if state:
                self.code(f"return {self.body.tree(case.outputs)}, {{{state}}}")
            else:
                self.body.write_return(case.outputs)

    def serves_both(self, region: Region) -> bool:
        # JAX keeps the trace of a function as long as there is the function: a further run of the
        # program would find there what Python has drawn or noted in the first.
        by_python = any(s.op in BY_PYTHON for s in self.body.inside(region.body))
        return not by_python and super().serves_both(region)

    def write_function(self, region: Region) -> None:
        taken = (*leaves(region.takes), *leaves(region.kwargs))
        with self.body.function(region.body, taken):
            super().write_function(region)

    def extra(self, region: Region) -> list[str]:
        key = [self.body.plan.key] if self.body.draws(region.body) else []
        return [*self.body.threaded(region.body), *key]

    def extra_arguments(self, region: Region) -> list[str]:
        key = [self.body.next_key()] if self.body.draws(region.body) else []
        return [*self.body.threaded(region.body), *key]

    def argument(self, tree: Tree, formal: Tree, region: Region) -> str:
        handed = self.body.references.handed(tree, formal, region)
        with self.body.spelling({**self.body.spelled, **handed}):
            return self.body.tree(tree)

    def write_results(self, node: Region | Again, expression: str, region: Region) -> None:
        references_of, threaded = self.body.references, self.body.threaded(region.body)
        if isinstance(node.gives, Ref) and not node.returned and not threaded:
            expression = references_of.referred((node.gives.name,), expression)
            super().write_results(node, expression, region)
            return
        super().write_results(node, expression, region)
        references_of.write_references(leaves(node.gives))

    @contextmanager
    def passing(self, region: Region) -> Iterator[None]:
        with super().passing(region), self.body.references.hiding(leaves(region.takes)):
            yield

    def vectorized(self, function: str, arguments: Sequence[str]) -> str:
        return super().vectorized(self.passed_to(function), arguments)

    def received(self, tree: Tree, region: Region) -> Tree:
        """What the case says, and the state that the region changed."""
        threaded = self.body.threaded(region.body)
        return (tree, tuple(Ref(name) for name in threaded)) if threaded else tree


class Checkpoint(Recompute):
    """`jax.checkpoint` of each region's function, with its policy."""

    def write_helpers(self) -> None:
        for policy in filter(None, map(policies.helper, self.case.regions())):
            self.code(policy)

    def made_once(self, region: Region) -> bool:
        return bool(region.save) or super().made_once(region)  # a policy makes a line of its own

    def checkpoint(self, region: Region) -> str:
        static = self._static(region)
        words = [self.block(region), *([f"static_argnums={static}"] if static else [])]
        if self.variant.name in UNGUARDED:
            words.append("prevent_cse=False")
        misused, policy = self.misuse(region), policies.expression(region)
        words += misused or ([f"policy={policy}"] if policy else [])  # one takes the other's place
        return f"jax.checkpoint({', '.join(words)})"

    def _static(self, region: Region) -> tuple[int, ...]:
        """The positions of a region's arguments that are not arrays."""
        first = len(self.forward.extra(region)) if region.signature == "variadic" else 0
        return tuple(
            place
            for place, tree in enumerate(region.takes, start=first)
            if isinstance(tree, Ref) and tree.name in self._no_arrays
        )

    @cached_property
    def _no_arrays(self) -> set[str]:
        """The names of what is no array: of inputs, and of parameters of regions that are given one."""
        values = (value for value in self.case.inputs if isinstance(value, Value))
        found = {value.name for value in values if isinstance(value.value, bool | str | tuple)}
        calls = [node for node in walk(self.case.program) if isinstance(node, Again)]
        for call in reversed(calls):  # outer ones first
            pairs = zip(self.emitter.regions[call.region].takes, call.takes, strict=False)
            for name, given in pairs:
                if isinstance(name, Ref) and isinstance(given, Ref) and given.name in found:
                    found.add(name.name)
        return found

    def own_keywords(self, region: Region) -> list[str]:
        assert self.own is not None
        static = self._static(region) if "static" in self.own.options else ()
        own = [f"{self.own.options['static']}={static}"] if static else []
        return [*super().own_keywords(region), *own]

    def policy(self, region: Region) -> str:
        return policies.expression(region)


class Chains(Statements):
    """Calls that follow each other, each on what the last gave, as one `lax.scan`, with the region's
    function as its body."""

    def write_nodes(self, nodes: Iterable[Node], region: str) -> None:
        for chain in chains(nodes):
            first = chain[0]
            loop = len(chain) > 1 or (isinstance(first, Region) and first.round)
            if isinstance(first, Statement) or not loop:
                super().write_nodes(chain, region)
                continue
            if isinstance(first, Region):
                self.forward.write_region(first)
            called = first if isinstance(first, Region) else self.emitter.regions[first.region]
            plain = self.path == "plain"
            body = function(called.name) if plain else self.recompute.callable_of(called)
            rounds = f"length={len(chain)}"
            if self.draws(called.body):
                rounds = f"jax.random.split({self.next_key()}, {len(chain)})"
            scan = f"lax.scan({body}, {self.tree(first.takes[0])}, {rounds})"
            self.code(f"{self.tree(first.gives)}, _ = {scan}")


class Bodies(Functions):
    """The functions of regions, each from one carry to the next; a loop over the keys that it draws
    with, and over nothing else."""

    def write_function(self, region: Region) -> None:
        if self.body.threaded(region.body):
            raise AdapterError(f"not written for {self.variant.id}: state in a loop")
        super().write_function(region)

    def parameters(self, region: Region) -> str:
        item = self.body.plan.key if self.body.draws(region.body) else "_"
        return f"{self.formals(region)[0]}, {item}"

    def write_returned(self, region: Region) -> None:
        self.code(f"return {self.body.tree(region.gives)}, None")


class Inline(Checkpoint):
    """`jax.checkpoint` of a body, which is passed to the loop where it is made."""

    def made_once(self, region: Region) -> bool:
        return False


PARTS = Parts(
    WORDS,
    Arrays,
    Checkpoint,
    procedures.Procedures,
    body=Statements,
    forward=Functions,
    values=procedures.Values,
    transforms=procedures.ForwardMode,
)
SCAN = PARTS.but(recompute=Inline, body=Chains, forward=Bodies)


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for a variant."""
    parts = SCAN if variant.name == "scan" else PARTS
    called = [s for _, s in case.statements() if s.op == "custom_sin"]
    rules = {str(s.options.get("rule", "reverse")) for s in called}
    parts = parts.but(helpers={**operations.HELPERS, "custom_sin": operations.custom(rules)})
    if variant.name != "eager" and case.procedure.kind != "train":
        # A list is differentiated as a whole, and a compiled program keeps what that takes.
        parts = parts.but(lists="nothing")
    if case.ranks > 1:
        first = [ranks.text(line, case.ranks) for line in ranks.START]
        parts = parts.but(imports=(*first, *WORDS.imports, "from functools import wraps"))
    if case.split:
        parts = parts.but(tensors=partial(Arrays, devices=case.ranks))
        case = replace(case, ranks=1, parallel="")
    return Emitter(case, variant, parts)


def is_wide(case: Case) -> bool:
    """Whether a case has float64, for which 64 bits are switched on."""
    wide = {array.dtype for array in case.arrays}
    return "float64" in wide | {str(s.options.get("dtype")) for _, s in case.statements()}


def _is_keyed(statement: Statement) -> bool:
    """Whether an operation takes a key that the case does not name."""
    return statement.op in ("dropout", "uniform", "rrelu")


def _updated(statement: Statement) -> tuple[str, ...]:
    """The names of the arguments that an operation changes, and gives back as results."""
    if statement.op in procedures.REFERRING:
        return ()
    operation = OPERATIONS[statement.op]
    if not operation.updates:
        return ()
    pairs = zip(operation.tensors, statement.arguments, strict=True)
    return tuple(a.name for n, a in pairs if n in operation.updates and isinstance(a, Ref))
