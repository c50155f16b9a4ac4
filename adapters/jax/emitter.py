"""How JAX writes a case: pure functions, explicit keys, `jax.checkpoint` around a region's function.

Running statistics go into a function and come out of it; random operations take a key that is made
from the seed and folded for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import Call, Lists, Writer
from conformance.emit.expressions import function, numpy_fill
from conformance.language.operations import NOTED, OF_CALLABLES, OPERATIONS
from conformance.model.case import (
    Again,
    Array,
    Case,
    Generator,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    Value,
    leaves,
    walk,
)
from conformance.model.program import Site

from . import operations, policies, procedures, references, scans

WIDE = ("float64", "int64", "uint64", "complex128")
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
    shares = True
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
        self._wide = bool(wide & {"float64"})
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
        if dtype in WIDE and not self._wide:
            dtype = dtype.replace("64", "32")  # what JAX has where 64 bits are not switched on
        if fill.kind == "full":
            shape = f"({array.shape[0]},)" if len(array.shape) == 1 else str(array.shape)
            number: object = fill.numbers[0] if "float" in dtype else int(fill.numbers[0])
            return f"jnp.full({shape}, {number}, jnp.{dtype})"
        return f"jnp.asarray({source}, jnp.{dtype})"

    def write_array(self, array: Array) -> None:
        made = self.tensor(array, numpy_fill(array))
        if array.name in self._references:
            made = f"jax.new_ref({made})"
        self.code(f"{array.name} = {made}")

    def framework_generator(self, seed: int) -> str:
        return f"jax.random.key({seed})"

    # -- forward -------------------------------------------------------------------------------

    def write_forward(self, path: str) -> None:
        self.path, self._folds = path, [0]
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
        self._region = region
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
        named = self._region and policies.is_named(self.region_named(self._region), statement)
        if named:
            return f'{held}[...] = checkpoint_name({held}[...] + {added}, "{statement.label}")'
        return f"{held}[...] += {added}"

    def expression(self, statement: Statement) -> str:
        if statement.op in OF_CALLABLES:
            return self.of_callable(statement, "remat_")
        written: str = super().expression(statement)
        named = self._region and policies.is_named(self.region_named(self._region), statement)
        return f'checkpoint_name({written}, "{statement.label}")' if named else written

    def call_of(self, statement: Statement) -> Call:
        call: Call = super().call_of(statement)
        if statement.op == "uniform_from" and self._of_numpy(statement):
            numbers = "{generator}.uniform({low}, {high}, {shape})"
            arguments = {**call.arguments, **{k: str(v) for k, v in call.options.items()}}
            return Call(call.op, {"numbers": numbers.format(**arguments)}, call.options, statement)
        if not _is_keyed(statement):
            return call
        seed = statement.options.get("seed")
        key = self._next_key() if seed is None else f"jax.random.key({seed})"
        return Call(call.op, {**call.arguments, "key": key}, call.options, statement)

    def _of_numpy(self, statement: Statement) -> bool:
        """Whether a statement draws from a generator of NumPy's."""
        own = {i.name for i in self.case.inputs if isinstance(i, Generator)}
        own -= {i.name for i in self._generators() if i.library == "framework"}
        return not own.isdisjoint(statement.names())

    def _next_key(self) -> str:
        self._folds[-1] += 1
        return f"jax.random.fold_in({self._key}, {self._folds[-1] - 1})"

    # -- regions -------------------------------------------------------------------------------

    def _serves_both(self, region: Region) -> bool:
        # JAX keeps the trace of a function as long as there is the function: a further run of the
        # program would find there what Python has drawn or noted in the first.
        once = any(s.op in BY_PYTHON for s in self._inside(region.body))
        return super()._serves_both(region) and not once

    def write_region(self, region: Region) -> None:
        super().write_region(region)
        if self.path == "recomputed" and self.made_once(region):
            self.code(f"remat_{function(region.name)} = {self._checkpoint(region)}")

    def write_function(self, region: Region) -> None:
        site = Site("region", self.path, region.name, region.name)
        name = function(region.name)
        self._folds.append(0)
        taken = (*leaves(region.takes), *leaves(region.kwargs))
        head = self.code.indent(f"def {name}({self.parameters(region)}):", site)
        with head, self.function_of(region.body, taken):
            self.write_unpacking(region)
            self.write_nodes(region.body, region.name)
            self.write_return(self.received(region.gives, region))
        self._folds.pop()
        self.code()

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

    def recompute(self, region: Region) -> str:
        if self.made_once(region):
            return f"remat_{function(region.name)}"
        return self._checkpoint(region)

    def _checkpoint(self, region: Region) -> str:
        block = "None" if region.block == "invalid" else function(region.name)
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
        found: list[Statement] = []
        for node in walk(tuple(nodes)):
            if isinstance(node, Statement):
                found.append(node)
            elif isinstance(node, Again):
                found += self._inside(self.region_named(node.region).body)
        return found


class Scan(scans.Scans, Emitter):
    """Writes one case for `scan`."""


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
