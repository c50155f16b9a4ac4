"""How Keras writes a case: `keras.ops` on every backend, and one of three ways to recompute.

`remat-…` wraps the function of a region in `keras.remat`. `scope-…` makes each region a layer, and
constructs it inside `keras.RematScope`: what the scope says is read when a layer is constructed.
`scope-list-…` lists the layer by its name, `scope-larger-…` asks for all layers with an output.
`fit-…` makes the program a model of Keras' own layers, and trains it (`models.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import (
    PROCEDURES,
    Body,
    Call,
    Emitter,
    Forward,
    Parts,
    Recompute,
    Run,
    Tensors,
    Words,
)
from conformance.emit.expressions import class_name, elements, function, listed
from conformance.errors import NotOfferedError
from conformance.language.containers import has_container
from conformance.model.case import (
    Again,
    Array,
    Case,
    Region,
    Statement,
    Value,
    flat,
    leaves,
    node_makes,
    walk,
)
from conformance.model.containers import Object
from conformance.model.program import Site
from conformance.oracle.reached import reached

from . import gradients, models, operations

WORDS = Words(
    imports=("import os", "import random"),
    helpers=operations.HELPERS,
    operations=operations.OPERATIONS,
    loops="calls",  # operations are distinguished by the lines that led to them
    shares=True,
    procedures_written=PROCEDURES,
    reduction="ops.{kind}({x})",
    wrong_option='mode="wrong"',
    seeding="keras.utils.set_random_seed({seed})",
    drawing="keras.random.uniform((3,))",
    halving="""
        for name in {names}:
            values[name].assign(0.5 * values[name])
        """,
    halving_one='values["{name}"].assign(0.5 * values["{name}"])',
    holds="tensors",
    changes={
        "assign": "{place}.assign(0.5 * {place})",
        "replace": "{place} = keras.Variable(0.5 * {place})",
        "rows": "{place} = ops.stop_gradient({place})[:{rows}]",
    },
)


class Variables(Tensors):
    """Tensors for inputs, variables for all others."""

    def tensor(self, array: Array, source: str) -> str:
        if array in self.case.inputs:
            return f'ops.convert_to_tensor({elements(array, source)}, "{array.dtype}")'
        trainable = "" if array.gradient else ", trainable=False"
        made = elements(array, source)
        return f'keras.Variable({made}, dtype="{array.dtype}"{trainable})'

    def framework_generator(self, seed: int) -> str:
        return f"keras.random.SeedGenerator({seed})"


class Statements(Body):
    """Statements in `keras.ops`."""

    def write_helpers(self) -> None:
        if self.variant.name.endswith("jax") and "float64" in _dtypes(self.case):
            self.code('jax.config.update("jax_enable_x64", True)')
        super().write_helpers()

    def call_of(self, statement: Statement) -> Call:
        updated = self.case.procedure.between == "update"
        if statement.op == "custom_sin" and updated and self.variant.name.endswith("tensorflow"):
            # Its rule reads the variable itself, in backward: the gradient is that of the new value.
            raise NotOfferedError(self.variant.id, "custom_sin of what is updated before backward")
        # The arguments of a function with a rule of its own.
        with self.forward.of_values() if statement.op == "custom_sin" else nullcontext():
            return super().call_of(statement)


class Remat(Recompute):
    """`keras.remat` of each region's function."""

    def made_once(self, region: Region) -> bool:
        return True

    def checkpoint(self, region: Region) -> str:
        return f"keras.remat({', '.join([self.block(region), *self.misuse(region)])})"


class Scoped(Recompute):
    """Nothing at the call: a region is a layer, constructed in a scope; in `plain`, too."""

    def made_once(self, region: Region) -> bool:
        return False

    def called(self, node: Region | Again, region: Region) -> str:
        layer = "_layer" if region.granularity == "operation" else ""
        return f"{self.forward.place(region)}{layer}({self.forward.call_arguments(node)})"


class Regions(Forward):
    """Functions of regions, or layers that own the variables that they read."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.way, *mode, _ = self.variant.name.split("-")
        #: The mode in which every layer is recomputed, where it is not `full`.
        self._mode = models.MODES[mode[0]] if mode else ""
        #: Names that are a `keras.Variable` where the program is now.
        self._variables = {array.name for array in (*self.case.parameters, *self.case.state)}
        #: Layers cast what they are given to float32 by default.
        others = _dtypes(self.case) - {"float32"}
        self._casts = any("float" in dtype for dtype in others)

    def write_region(self, region: Region) -> None:
        name = function(region.name)
        if self.is_method(region):
            return
        if name in self.body.spelled:  # an attribute of the layer around it
            self.recompute.write_made(region)
            return
        if region.name not in self.emitter.shared:
            self.write_function(region)
        if self.is_layer(region):
            owned = map(self.body.name, self._variables_of(region))
            with self._scope("full", region):
                self.code(f"{name} = {class_name(name)}({', '.join(owned)})")
        elif self.way == "scope":
            given = f'{name}, name="{name}"' if self._listed else name
            with self._scope("activations", region):
                self.code(f"{name}_layer = keras.layers.Activation({given})")
        self.recompute.write_made(region)

    def place(self, region: Region) -> str:
        return self.body.spelled.get(function(region.name)) or super().place(region)

    def check_held(self, region: Region) -> None:
        if self.is_layer(region):
            if not {*region.captured()} <= self._variables:
                raise NotOfferedError(self.variant.id, "a layer that reads what is no variable")
            if any(isinstance(node, Region | Again) for node in walk(region.body)):
                raise NotOfferedError(self.variant.id, "a layer in a layer that is made once")
            if self.path == "plain":  # the first: layers of both paths are of one class
                self.emitter.path = "both"
                self._write_layer(region)
                self.emitter.path = "plain"
        elif self.way == "scope":
            raise NotOfferedError(self.variant.id, "an activation in an object that is made once")
        elif any(
            isinstance(node, Region)
            and self.is_layer(node)
            and {*node.captured()} - self._variables
            for node in walk(region.body)
        ):
            raise NotOfferedError(self.variant.id, "a layer that reads what is no variable")
        else:
            super().check_held(region)

    def write_held(self, region: Region) -> None:
        if self.is_layer(region):
            name = function(region.name)
            owned = map(self.body.name, self._variables_of(region))
            with self._scope("full", region):
                self.code(f"self.{name} = {class_name(name)}({', '.join(owned)})")
        super().write_held(region)

    def is_written(self, region: Region) -> bool:
        return not self.is_layer(region)

    def write_function(self, region: Region) -> None:
        if self.is_layer(region):
            self._write_layer(region)
            return
        with self._inside(region, self.body.spelled):
            super().write_function(region)

    def is_layer(self, region: Region) -> bool:
        """Whether a region is a layer, and not a function."""
        scoped = self.way == "scope" and region.granularity != "operation"
        return scoped or region.granularity == "module"

    def _variables_of(self, region: Region) -> list[str]:
        """The variables that a region's layer owns: those that its body reads."""
        return [name for name in region.captured() if name in self._variables]

    def _inner_layers(self, region: Region) -> list[Region]:
        """The regions in one whose layers its layer has as attributes: they capture nothing but
        variables, and are called nowhere else."""
        made = {name for node in walk(region.body) for name in node_makes(node)}
        made |= set(leaves(region.takes)) | set(leaves(region.kwargs))
        calls = [n.region for n in walk(self.case.program) if isinstance(n, Again)]
        here = [n.region for n in flat(region.body) if isinstance(n, Again)]
        return [
            node
            for node in region.body
            if isinstance(node, Region)
            and self.is_layer(node)
            and set(node.captured()) <= self._variables - made
            and calls.count(node.name) == here.count(node.name)
        ]

    def _write_layer(self, region: Region) -> None:
        """The class of a region's layer, after those of the layers that it has as attributes."""
        if region.signature == "variadic" and "training" in region.kwargs:  # Keras takes it away
            raise NotOfferedError(self.variant.id, "`training` in the `**kwargs` of a layer")
        code, name = self.code, function(region.name)
        inner = self._inner_layers(region)
        for part in inner:
            self._write_layer(part)
        given = self._variables_of(region)
        others = [n for part in inner for n in part.captured()]
        outside = replace(region, body=tuple(n for n in region.body if n not in inner))
        owned = [n for n in given if n not in others or n in outside.captured()]
        site = Site("region", self.path, region.name, region.name)
        with code.indent(f"class {class_name(name)}(keras.layers.Layer):"):
            words = [f'name="{name}"'] if self._listed else []
            words += ["autocast=False"] if self._casts else []
            if self.case.autocast:
                words.append(f'dtype="mixed_{self.case.autocast}"')
                self.code.wrote("autocast")
            if given or words or inner:
                with code.indent(f"def __init__({', '.join(['self', *given])}):"):
                    code(f"super().__init__({', '.join(words)})")
                    for variable in owned:
                        code(f"self.{variable} = {variable}")
                    for part in inner:
                        part_name = function(part.name)
                        made = f"{class_name(part_name)}({', '.join(self._variables_of(part))})"
                        with self._scope("full", part):
                            code(f"self.{part_name} = {made}")
            # Keras looks for a layer's first argument: one without any cannot be called.
            parameters = f"self, {self.parameters(region) or 'unused=None'}"
            held = [*owned, *(function(part.name) for part in inner)]
            inside = self._inside(region, {name: f"self.{name}" for name in held})
            with code.indent(f"def call({parameters}):", site), inside:
                self.write_unpacking(region)
                self.body.write_nodes(region.body, region.name)
                self.write_given(region)

    @property
    def _listed(self) -> bool:
        """Whether layers are recomputed by their names."""
        return self._mode == "list_of_layers"

    @contextmanager
    def _scope(self, mode: str, region: Region) -> Iterator[None]:
        """The scope in which the layer of a region, which is to be recomputed, is constructed."""
        if self.way != "scope" or self.path == "plain":
            yield
            return
        words = [] if region.option == "wrong" else [f'mode="{self._mode or mode}"']
        words += [f'layer_names=["{function(region.name)}"]'] if self._listed else []
        words += ["output_size_threshold=0"] if self._mode == "larger_than" else []
        words += self.recompute.misuse(region)
        with self.code.indent(f"with keras.RematScope({', '.join(words)}):"):
            yield

    @contextmanager
    def _inside(self, region: Region, read: Mapping[str, str]) -> Iterator[None]:
        """The body of a region, which reads some names from `self`: what it takes are tensors."""
        before = self._variables
        taken = {n for t in (region.takes, region.kwargs) for n in leaves(t)}
        self._variables = self._variables - taken
        with self.body.spelling({n: place for n, place in read.items() if n not in taken}):
            yield
        self._variables = before

    @contextmanager
    def of_values(self) -> Iterator[None]:
        """A context in which variables are read as their values: backends know no `keras.Variable`."""
        values = {name: f"{self.body.name(name)}.value" for name in self._variables}
        with self.body.spelling({**self.body.spelled, **values}):
            yield

    def write_call(self, node: Region | Again, region: Region) -> None:
        with self.of_values() if region.mapped else nullcontext():
            super().write_call(node, region)

    def call_arguments(self, node: Region | Again) -> str:
        region = node if isinstance(node, Region) else self.emitter.regions[node.region]
        # What is mapped is called by a lambda, whose arguments have the names of the variables.
        with self.body.spelling({}) if region.mapped else self.of_values():
            words = [self.body.tree(tree) for tree in node.takes]
            named = [f"{key}={self.body.tree(tree)}" for key, tree in node.kwargs.items()]
        if self.way == "scope" or self.is_layer(region):  # it takes only tensors by position
            formals = self.formals(region)
            plain = {value.name for value in self.case.inputs if isinstance(value, Value)}
            by_name = [
                bool({*leaves(tree)} & plain)
                or has_container(replace(region, takes=(tree,), kwargs={}, gives=()), Object)
                for tree in node.takes
            ]
            words = [
                f"{formal}={word}" if any(by_name[: number + 1]) else word
                for number, (formal, word) in enumerate(zip(formals, words, strict=True))
            ]
        return ", ".join([*words, *named])

    def vectorized(self, function: str, arguments: Sequence[str]) -> str:
        if len(arguments) == 1:
            return f"ops.vectorized_map({self.passed_to(function)}, {arguments[0]})"
        # The map hands several arguments over as one tuple.
        given = ", ".join(arguments)
        return f"ops.vectorized_map({self.tupled(function)}, ({given}))"


class Differentiated(Run):
    """`run` by the means of the backend."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.backend = gradients.BACKENDS[self.variant.name.rpartition("-")[2]](self)

    def write_gradients(self) -> None:
        if self.case.procedure.after != "backward":  # which the backend writes
            self.write_after()
        self.backend.write_before()
        self._write_step()
        self._write_return("[loss]")

    @property
    def result(self) -> str:
        return self.backend.result or super().result

    def write_copy(self) -> None:
        if any(map(self.forward.is_layer, self.case.regions())):
            what = "copies of layers, which ask for a `get_config`"
            raise NotOfferedError(self.variant.id, what)
        super().write_copy()

    def write_training(self) -> None:
        code, case = self.code, self.case
        trained = [p.name for p in case.parameters if p.gradient]
        code("losses = []")
        self.backend.write_before()
        assert case.loss is not None
        unused = self.copies or not set(trained) <= reached(case, case.loss)
        given = code.indent("if gradients[name] is not None:") if unused else nullcontext()
        looked_up = any(s.op == "embedding" for _, s in case.statements())
        gradient = self.backend.whole if looked_up else "gradients[name]"
        with code.indent(f"for {self.turn} in range({case.procedure.steps}):"):
            if case.procedure.changes:
                self.write_changes()
            self._write_step()
            with code.indent(f"for name in {listed(trained)}:"), given:
                code(f"values[name].assign_sub({case.procedure.learning_rate} * {gradient})")
            code("losses.append(loss)")
        self._write_return("losses")

    def _write_step(self) -> None:
        asking = self.backend.asking()
        inputs = [a.name for a in self.case.inputs if a.name in asking]
        asks, value = self.backend.asked
        entries = [f'"{name}": values["{name}"]{asks}' for name in inputs]
        variables = [a.name for a in self.case.parameters if a.name in asking]
        held = self.emitter.in_lists
        for name in dict.fromkeys(held[n].name for n in variables if n in held):
            entries.append(f'"{name}": [w.value for w in values["{name}"]]')
        variables = [name for name in variables if name not in held]
        named = self.values.entries(variables, part=value)
        loop = " for " in named and not named.startswith('{"') and not named.startswith("{**")
        entries.append(f"**{named}" if loop else named[1:-1])
        self.code(f"wanted = {{{', '.join(filter(None, entries))}}}")
        self.backend.write()

    def _write_return(self, losses: str) -> None:
        case, kind = self.case, self.case.procedure.kind
        asking = self.backend.asking()
        results = [f'"outputs": {self.result}', f'"losses": {losses}']
        for key in ("gradients", "again"):
            if key == "again" and kind not in gradients.TWICE:
                continue
            chosen = self.backend.chooses
            if self.emitter.in_lists and not chosen:
                self.code(f"{key} = {self.values.entries(case.wrt, key)}")
            whole = chosen or self.emitter.in_lists or asking == list(case.wrt)
            results.append(f'"{key}": {key if whole else self.values.entries(case.wrt, key)}')
        if kind == "train":
            results.append(f'"parameters": {self.values.chosen(case.parameters)}')
        self.code(f"return {{{', '.join(results)}{self.state_entry()}}}")


REMAT = Parts(WORDS, Variables, Remat, Differentiated, body=Statements, forward=Regions)
WAYS: Mapping[str, Parts] = {
    "remat": REMAT,
    "scope": REMAT.but(
        recompute=Scoped,  # a layer has its own variables
        changes={key: line for key, line in WORDS.changes.items() if key != "replace"},
    ),
    "fit": REMAT.but(
        procedures_written=("train",),
        holds="",
        changes={},
        shares=False,  # a model has no functions
        tensors=models.Fed,
        recompute=Recompute,
        run=models.Fitted,
        body=models.Constructed,
        forward=models.Models,
    ),
}


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for a variant."""
    way, name = variant.name.partition("-")[0], variant.name.rpartition("-")[2]
    backend, order = gradients.BACKENDS[name], case.procedure.order
    parts = WAYS[way].but(
        f'os.environ["KERAS_BACKEND"] = "{name}"',
        "import keras",
        "import numpy as np",
        *backend.imports,
        "from keras import ops",
        without_gradients=backend.without_gradients,
        default_dtype='keras.config.set_floatx("{dtype}")',
    )
    if name == "jax":
        parts = parts.but("import jax", registered="@jax.tree_util.register_dataclass")
    if name == "tensorflow" and way != "fit":
        # `ops.add` takes what may be a bias for one, and adds (4, 1) to (4, 4) along the other axis.
        parts = parts.but(operations={**WORDS.operations, "add": operations.tf_add})
    if name == "jax" and order > 1:
        nested = operations.CUSTOM_SIN_ORDERS.format(order=order)
        parts = parts.but(helpers={**WORDS.helpers, "custom_sin": nested})
    if case.procedure.kind == "backward":  # layers own what they capture
        parts = parts.but(lists="all" if way == "remat" else "uncaptured")
    return Emitter(case, variant, parts)


def _dtypes(case: Case) -> set[str]:
    """The dtypes in a case."""
    made = {str(s.options.get("dtype", "float32")) for _, s in case.statements()}
    return made | {array.dtype for array in case.arrays}
