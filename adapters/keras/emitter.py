"""How Keras writes a case: `keras.ops` on every backend, and one of three ways to recompute.

`remat-…` wraps the function of a region in `keras.remat`. `scope-…` makes each region a layer, and
constructs it inside `keras.RematScope`: what the scope says is read when a layer is constructed.
`scope-list-…` lists the layer by its name, `scope-larger-…` asks for all layers with an output.
`fit-…` makes the program a model of Keras' own layers, and trains it (`models.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import Emitter as Base
from conformance.emit.emitter import Writer
from conformance.emit.expressions import class_name, elements, function, listed
from conformance.language.operations import OF_CALLABLES
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
from conformance.model.program import Site

from . import gradients, models, operations

#: The mode of the scope, by the word in the variant's name.
MODES: Mapping[str, str] = {
    "activations": "activations",
    "larger": "larger_than",
    "list": "list_of_layers",
}


class Emitter(Base):
    """Writes one case for `remat-…` or `scope-…`; `Fit` does for `fit-…`."""

    helpers = operations.HELPERS
    loops = "calls"  # operations are told apart by the lines that led to them
    shares = True
    procedures_written = (
        *("backward", "part", "functional", "per_output", "second_backward"),
        *("second_order", "third_order", "inference", "train"),
    )
    reduction = "ops.{kind}({x})"
    wrong_option = 'mode="wrong"'
    seeding = "keras.utils.set_random_seed({seed})"
    drawing = "keras.random.uniform((3,))"
    halving = """
        for name in {names}:
            values[name].assign(0.5 * values[name])
        """
    operations: Mapping[str, Writer] = operations.OPERATIONS

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(Fit if variant.name.startswith("fit-") else cls)

    def __init__(self, case: Case, variant: Variant) -> None:
        self.way, *mode, name = variant.name.split("-")
        if case.procedure.kind == "backward":
            # Layers own what they capture.
            self.lists = "all" if self.way == "remat" else "uncaptured"
        super().__init__(case, variant)
        #: The mode in which every layer is recomputed, where it is not `full`.
        self._mode = MODES[mode[0]] if mode else ""
        self.backend = gradients.BACKENDS[name](self)
        self.imports = (
            "import os",
            "import random",
            f'os.environ["KERAS_BACKEND"] = "{name}"',
            "import keras",
            "import numpy as np",
            *self.backend.imports,
            "from keras import ops",
        )
        order = case.procedure.order
        if name == "jax" and order > 1:
            nested = operations.CUSTOM_SIN_ORDERS.format(order=order)
            self.helpers = {**self.helpers, "custom_sin": nested}
        self.without_gradients = self.backend.without_gradients
        variables = {array.name for array in (*case.parameters, *case.state)}
        #: Names that are a `keras.Variable` where the program is now, and those read from `self`.
        self._variables, self._owned = variables, frozenset[str]()
        self._handing = False
        if len(case.parameters) == 1:
            name = f'values["{case.parameters[0].name}"]'
            self.halving = f"{name}.assign(0.5 * {name})"
        #: The regions whose layers are attributes of the layer around them.
        self._held: frozenset[str] = frozenset()
        dtypes = {array.dtype for array in case.arrays}
        dtypes |= {str(s.options.get("dtype", "float32")) for _, s in case.statements()}
        self._wide = name == "jax" and "float64" in dtypes
        #: Layers cast what they are given to float32 by default.
        self._casts = any("float" in dtype and dtype != "float32" for dtype in dtypes)

    # -- inputs --------------------------------------------------------------------------------

    def write_helpers(self) -> None:
        if self._wide:
            self.code('jax.config.update("jax_enable_x64", True)')
            self.code("\n")
        super().write_helpers()

    def tensor(self, array: Array, source: str) -> str:
        if array in self.case.inputs:
            return f'ops.convert_to_tensor({elements(array, source)}, "{array.dtype}")'
        trainable = "" if array.gradient else ", trainable=False"
        made = elements(array, source)
        return f'keras.Variable({made}, dtype="{array.dtype}"{trainable})'

    def framework_generator(self, seed: int) -> str:
        return f"keras.random.SeedGenerator({seed})"

    def expression(self, statement: Statement) -> str:
        if statement.op in OF_CALLABLES:
            return self.of_callable(statement, "remat_")
        return super().expression(statement)

    # -- regions -------------------------------------------------------------------------------

    def write_region(self, region: Region) -> None:
        name = function(region.name)
        if region.name in self._held:
            return
        super().write_region(region)
        if self._is_layer(region):
            owned = [self.name(n) for n in self._variables_of(region)]
            with self._scope("full", region):
                self.code(f"{name} = {class_name(name)}({', '.join(owned)})")
        elif self.way == "scope":
            given = f'{name}, name="{name}"' if self._listed else name
            with self._scope("activations", region):
                self.code(f"{name}_layer = keras.layers.Activation({given})")
        if self.way == "remat" and self.path == "recomputed":
            given = ", ".join([self.block(region), *self.misuse(region)])
            self.code(f"remat_{name} = keras.remat({given})")

    def recompute(self, region: Region) -> str:
        name = function(region.name)
        if region.name in self._held:
            return f"self.{name}"
        if self.way == "remat":
            return f"remat_{name}"
        return f"{name}_layer" if region.granularity == "operation" else name

    def write_function(self, region: Region) -> None:
        if self._is_layer(region):
            self._write_layer(region)
            return
        with self._inside(region, frozenset(self._owned)):
            super().write_function(region)

    def _is_layer(self, region: Region) -> bool:
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
            and self._is_layer(node)
            and set(node.captured()) <= self._variables - made
            and calls.count(node.name) == here.count(node.name)
        ]

    def _write_layer(self, region: Region) -> None:
        """The class of a region's layer, after those of the layers that it has as attributes."""
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
                self.wrote("autocast")
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
                code()
            # Keras looks for a layer's first argument: one without any cannot be called.
            parameters = f"self, {self.parameters(region) or 'unused=None'}"
            self._held |= {part.name for part in inner}
            inside = self._inside(region, frozenset(owned))
            with code.indent(f"def call({parameters}):", site), inside:
                self.write_unpacking(region)
                self.write_nodes(region.body, region.name)
                self.write_return(region.gives)
        code()

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
        words += self.misuse(region)
        with self.code.indent(f"with keras.RematScope({', '.join(words)}):"):
            yield

    @contextmanager
    def _inside(self, region: Region, owned: frozenset[str]) -> Iterator[None]:
        """The body of a region: what it takes are tensors."""
        before = self._variables, self._owned
        taken = {n for t in (region.takes, region.kwargs) for n in leaves(t)}
        self._variables, self._owned = self._variables - taken, owned - taken
        yield
        self._variables, self._owned = before

    def name(self, name: str) -> str:
        place = f"self.{name}" if name in self._owned else name
        # A variable is handed to a region as its value: backends know no `keras.Variable`.
        return f"{place}.value" if self._handing and name in self._variables else place

    def call_arguments(self, node: Region | Again) -> str:
        self._handing = True
        words = [self.tree(tree) for tree in node.takes]
        if self.way == "scope":  # a layer takes only tensors by position
            formals = self.formals(
                self.region_named(node.region) if isinstance(node, Again) else node
            )
            plain = {value.name for value in self.case.inputs if isinstance(value, Value)}
            words = [
                f"{formal}={word}" if word in plain else word
                for formal, word in zip(formals, words, strict=True)
            ]
        words += [f"{key}={self.tree(tree)}" for key, tree in node.kwargs.items()]
        self._handing = False
        return ", ".join(words)

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        if self.way == "remat":
            return super().called(node, callee, region)
        return f"{callee}({self.call_arguments(node)})"  # plain, too: a layer constructed outside

    def vectorized(self, function: str, arguments: Sequence[str]) -> str:
        if len(arguments) == 1:
            return f"ops.vectorized_map({self.passed_to(function)}, {arguments[0]})"
        # The map hands several arguments over as one tuple.
        given = ", ".join(arguments)
        return f"ops.vectorized_map({self.tupled(function)}, ({given}))"

    # -- run -----------------------------------------------------------------------------------

    def write_gradients(self) -> None:
        if self.case.procedure.after != "backward":  # which the backend writes
            self.write_after()
        self.backend.write_before()
        self._write_step()
        self._write_return("[loss]")

    @property
    def result(self) -> str:
        return self.backend.result or super().result

    def write_training(self) -> None:
        code, case = self.code, self.case
        trained = [p.name for p in case.parameters if p.gradient]
        code("losses = []")
        self.backend.write_before()
        with code.indent(f"for _ in range({case.procedure.steps}):"):
            self._write_step()
            with code.indent(f"for name in {listed(trained)}:"):
                code(f"values[name].assign_sub({case.procedure.learning_rate} * gradients[name])")
            code("losses.append(loss)")
        self._write_return("losses")

    def _write_step(self) -> None:
        inputs = [a.name for a in self.case.inputs if isinstance(a, Array) and a.gradient]
        asks, value = self.backend.asked
        entries = [f'"{name}": values["{name}"]{asks}' for name in inputs]
        variables = [a.name for a in self.case.parameters if a.gradient]
        for name in dict.fromkeys(self.in_lists[n].name for n in variables if n in self.in_lists):
            entries.append(f'"{name}": [w.value for w in values["{name}"]]')
        variables = [name for name in variables if name not in self.in_lists]
        named = self.entries(variables, part=value)
        loop = " for " in named and not named.startswith('{"') and not named.startswith("{**")
        entries.append(f"**{named}" if loop else named[1:-1])
        self.code(f"wanted = {{{', '.join(filter(None, entries))}}}")
        self.backend.write()

    def _write_return(self, losses: str) -> None:
        case, kind = self.case, self.case.procedure.kind
        asking = [array.name for array in case.arrays if array.gradient]
        results = [f'"outputs": {self.result}', f'"losses": {losses}']
        for key in ("gradients", "again"):
            if key == "again" and kind not in gradients.TWICE:
                continue
            chosen = self.backend.chooses
            if self.in_lists and not chosen:
                self.code(f"{key} = {self.entries(case.wrt, key)}")
            whole = chosen or self.in_lists or asking == list(case.wrt)
            results.append(f'"{key}": {key if whole else self.entries(case.wrt, key)}')
        if kind == "train":
            results.append(f'"parameters": {self.chosen(case.parameters)}')
        self.code(f"return {{{', '.join(results)}{self.state_entry()}}}")


class Fit(models.Models, Emitter):  # type: ignore[misc]
    """Writes one case for `fit-…`."""

    shares = False  # a model has no functions
