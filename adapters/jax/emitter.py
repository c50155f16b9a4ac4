"""How JAX writes a case: pure functions, explicit keys, `jax.checkpoint` around a region's function.

Running statistics go into a function and come out of it; random operations take a key that is made
from the seed and folded for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import Call, Lists, Writer
from conformance.emit.expressions import function
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
    chains,
    leaves,
    walk,
)
from conformance.model.program import Site

from . import operations, policies, procedures, references

#: Variants with `prevent_cse=False`: no optimisation barrier keeps a rerun from being merged with the
#: forward by common-subexpression elimination.
UNGUARDED = ("jit-prevent-cse-false", "scan")

#: Operations with which Python does something itself while it traces a region.
BY_PYTHON = frozenset({*NOTED, "numpy_uniform", "python_uniform", "uniform_from"})


class Emitter(references.References, procedures.Procedures):
    """Writes one case for a variant; `Scan` does for `scan`."""

    helpers: Mapping[str, str] = operations.HELPERS
    vmap = "jax.vmap"
    wrong_option = 'policy="wrong"'
    operations: Mapping[str, Writer] = operations.OPERATIONS
    procedures_written = (
        *("backward", "part", "functional", "per_output", "second_backward"),
        *("second_order", "third_order", "inference", "train"),
    )
    shares = shares_nested = True
    loops = "calls"  # operations are told apart by the lines that led to them
    lists: Lists = "all"
    imports = (
        "import random",
        "from functools import partial",
        "import jax",
        "import jax.numpy as jnp",
        "import numpy as np",
        "from jax import lax",
        *policies.IMPORTS,
    )

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(Scan if variant.name == "scan" else cls)

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        self._folds = [0]  # random numbers asked for so far, in each function around this place
        wide = {array.dtype for array in case.arrays}
        wide |= {str(s.options.get("dtype")) for _, s in case.statements()}
        self._wide = "float64" in wide
        rules = {
            str(s.options.get("rule", "reverse"))
            for _, s in case.statements()
            if s.op == "custom_sin"
        }
        self.helpers = {**operations.HELPERS, "custom_sin": operations.custom(rules)}

    # -- inputs --------------------------------------------------------------------------------

    def write_helpers(self) -> None:
        if self._wide:
            self.code('jax.config.update("jax_enable_x64", True)')
            self.code("\n")
        super().write_helpers()
        for policy in filter(None, map(policies.helper, self.case.regions())):
            self.code(policy)
            self.code("\n")

    def tensor(self, array: Array, source: str) -> str:
        fill, dtype = array.fill, array.dtype
        if not self._wide:
            # What JAX has where 64 bits are not switched on.
            dtype = dtype.replace("int64", "int32")
        made = f"jnp.asarray({source}, jnp.{dtype})"
        if fill.kind == "full":
            shape = array.shape[0] if len(array.shape) == 1 else array.shape
            number: object = fill.numbers[0] if "float" in dtype else int(fill.numbers[0])
            made = f"jnp.full({shape}, {number}, jnp.{dtype})"
            if number in (0, 1):
                made = f"jnp.{'ones' if number else 'zeros'}({shape}, jnp.{dtype})"
        return f"jax.new_ref({made})" if array.name in self._references else made

    def framework_generator(self, seed: int) -> str:
        return f"jax.random.key({seed})"

    # -- forward -------------------------------------------------------------------------------

    def write_forward(self, path: str) -> None:
        self.path, self._temporary, self._folds = path, 0, [0]
        names = [*self.case.names(), *([self._key] if self._random else [])]
        body = self.function_of(self.case.program, ())
        with self.code.indent(f"def {path}({', '.join(names)}):"), body:
            self.write_references(self.case.names())
            self.write_nodes(self.case.program, "")
            state = ", ".join(f'"{name}": {name}' for name in self._state)
            if state:
                self.code(f"return {self.tree(self.case.outputs)}, {{{state}}}")
            else:
                self.write_return(self.case.outputs)
        self.code("\n")

    def write_statement(self, statement: Statement, region: str) -> None:
        site = Site("statement", self.path, region, statement.label, statement.op)
        if statement.op == references.WRITES:
            self.code(self._written_over_by(statement), site)
            return
        targets = (*statement.targets, *_updated(statement))
        made = self.referred(targets, self.expression(statement))
        self.code(f"{', '.join(targets)} = {made}", site)
        if len(targets) > 1:
            self.write_references(targets)

    def _written_over_by(self, statement: Statement) -> str:
        """The line of an operation in place."""
        added = self.call_of(statement).arguments["b"]
        held = self.write_over(statement)
        named = self._named(f"{held}[...] + {added}", statement)
        whole = named.startswith("checkpoint_name")
        return f"{held}[...] = {named}" if whole else f"{held}[...] += {added}"

    def expression(self, statement: Statement) -> str:
        return self._named(super().expression(statement), statement)

    def _named(self, expression: str, statement: Statement) -> str:
        """A result with a name, if the policy of the region around its statement keeps it by name."""
        if not self.within or not policies.is_named(self.region_named(self.within), statement):
            return expression
        return f'checkpoint_name({expression}, "{statement.label}")'

    def call_of(self, statement: Statement) -> Call:
        call: Call = super().call_of(statement)
        if not _is_keyed(statement):
            return call
        seed = statement.options.get("seed")
        key = self._next_key() if seed is None else f"jax.random.key({seed})"
        return replace(call, arguments={**call.arguments, "key": key})

    def _next_key(self) -> str:
        self._folds[-1] += 1
        return f"jax.random.fold_in({self._key}, {self._folds[-1] - 1})"

    # -- regions -------------------------------------------------------------------------------

    def _serves_both(self, region: Region) -> bool:
        # JAX keeps the trace of a function as long as there is the function: a further run of the
        # program would find there what Python has drawn or noted in the first.
        once = any(s.op in BY_PYTHON for s in self._inside(region.body))
        return super()._serves_both(region) and not once

    def write_function(self, region: Region) -> None:
        site = Site("region", self.path, region.name, region.name)
        name = function(region.name)
        self._folds.append(0)
        taken = (*leaves(region.takes), *leaves(region.kwargs))
        head = self.code.indent(f"def {name}({self.parameters(region)}):", site)
        with head, self.function_of(region.body, taken):
            self.write_unpacking(region)
            self.write_nodes(region.body, region.name)
            self.write_returned_by(region)
        self._folds.pop()
        self.code()

    def write_returned_by(self, region: Region) -> None:
        """The `return` of a region's function."""
        self.write_return(self.received(region.gives, region))

    def parameters(self, region: Region) -> str:
        extra = self._extra(region)
        if region.signature == "variadic":
            return ", ".join([*extra, super().parameters(region)])
        return ", ".join([*self.formals(region), *extra, *self.named_formals(region)])

    def _extra(self, region: Region) -> list[str]:
        """What a region's function takes beyond the case's arguments: state, and a key."""
        return [*self._threaded(region.body), *([self._key] if self._draws(region.body) else [])]

    def call_arguments(self, node: Region | Again) -> str:
        region = node if isinstance(node, Region) else self.region_named(node.region)
        words = [
            self.argument_of(*trees, region) for trees in zip(node.takes, region.takes, strict=True)
        ]
        extra = self._threaded(region.body)
        extra += [self._next_key()] if self._draws(region.body) else []
        words = [*extra, *words] if region.signature == "variadic" else [*words, *extra]
        return ", ".join([*words, *(f"{k}={self.tree(t)}" for k, t in node.kwargs.items())])

    def write_results(self, node: Region | Again, expression: str, region: Region) -> None:
        if isinstance(node.gives, Ref) and not node.returned and not self._threaded(region.body):
            super().write_results(node, self.referred((node.gives.name,), expression), region)
            return
        super().write_results(node, expression, region)
        self.write_references(leaves(node.gives))

    def vectorized(self, function: str, arguments: Sequence[str]) -> str:
        return super().vectorized(self.passed_to(function), arguments)

    def made_once(self, region: Region) -> bool:
        return bool(region.save) or super().made_once(region)  # a policy makes a line of its own

    def checkpoint(self, region: Region) -> str:
        block = self.block(region)
        if self.own is not None:
            return str(self.own_transform(block, region))
        static = self._static(region)
        words = [block, *([f"static_argnums={static}"] if static else [])]
        if self.variant.name in UNGUARDED:
            words.append("prevent_cse=False")
        if region.save:
            words.append(f"policy={policies.expression(region)}")
        words += self.misuse(region)
        return f"jax.checkpoint({', '.join(words)})"

    def _static(self, region: Region) -> tuple[int, ...]:
        """The positions of a region's arguments that are not arrays."""
        kinds = {v.name: v.value for v in self.case.inputs if isinstance(v, Value)}
        first = len(self._extra(region)) if region.signature == "variadic" else 0
        return tuple(
            place
            for place, tree in enumerate(region.takes, start=first)
            if isinstance(tree, Ref) and isinstance(kinds.get(tree.name), bool | str | tuple)
        )

    def own_keywords(self, region: Region) -> list[str]:
        assert self.own is not None
        static = self._static(region) if "static" in self.own.options else ()
        own = [f"{self.own.options['static']}={static}"] if static else []
        return [*super().own_keywords(region), *own]

    def policy(self, region: Region) -> str:
        return str(policies.expression(region))

    def received(self, tree: Tree, region: Region) -> Tree:
        """What the case says, and the state that the region changed."""
        threaded = self._threaded(region.body)
        return (tree, tuple(Ref(name) for name in threaded)) if threaded else tree

    def _threaded(self, nodes: Iterable[Node]) -> list[str]:
        """The state that these nodes change, in the order of the case."""
        if not self._state:
            return []
        changed = {n for s in self._inside(nodes) for n in _updated(s)}
        return [name for name in self._state if name in changed]

    def _draws(self, nodes: Iterable[Node]) -> bool:
        """Whether these nodes draw with a key that is handed over."""
        return any(_is_keyed(s) and s.options.get("seed") is None for s in self._inside(nodes))

    def _inside(self, nodes: Iterable[Node]) -> list[Statement]:
        statements_inside: list[Statement] = []
        for node in walk(tuple(nodes)):
            if isinstance(node, Statement):
                statements_inside.append(node)
            elif isinstance(node, Again):
                statements_inside += self._inside(self.region_named(node.region).body)
        return statements_inside


class Scan(Emitter):
    """Writes one case for `scan`: calls that follow each other, each on what the last gave, are one
    `lax.scan`, with the region's function as its body."""

    def write_nodes(self, nodes: Iterable[Node], region: str) -> None:
        for chain in chains(nodes):
            first = chain[0]
            loop = len(chain) > 1 or (isinstance(first, Region) and first.round)
            if isinstance(first, Statement) or not loop:
                super().write_nodes(chain, region)
                continue
            if isinstance(first, Region):
                self.write_region(first)
            called = first if isinstance(first, Region) else self.region_named(first.region)
            body = function(called.name) if self.path == "plain" else self.recompute(called)
            rounds = f"length={len(chain)}"
            if self._draws(called.body):
                rounds = f"jax.random.split({self._next_key()}, {len(chain)})"
            scan = f"lax.scan({body}, {self.tree(first.takes[0])}, {rounds})"
            self.code(f"{self.tree(first.gives)}, _ = {scan}")

    def made_once(self, region: Region) -> bool:
        return False  # a body is handed over to the loop where it is made

    def write_function(self, region: Region) -> None:
        """The function of a region, from one carry to the next; a loop over the keys that it draws
        with, and over nothing else."""
        if self._threaded(region.body):
            raise AdapterError(f"not written for {self.variant.id}: state in a loop")
        super().write_function(region)

    def parameters(self, region: Region) -> str:
        item = self._key if self._draws(region.body) else "_"
        return f"{self.formals(region)[0]}, {item}"

    def write_returned_by(self, region: Region) -> None:
        self.code(f"return {self.tree(region.gives)}, None")


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
