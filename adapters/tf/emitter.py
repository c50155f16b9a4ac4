"""How TensorFlow writes a case: `tf.GradientTape`, and `tf.recompute_grad` around each region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from conformance.drivers.adapter import Variant
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter, Forward, Parts, Recompute, Run, Tensors, Words
from conformance.emit.expressions import class_name, function, listed
from conformance.emit.transforms import Transforms
from conformance.errors import NotOfferedError
from conformance.model.case import (
    Again,
    Array,
    Case,
    Loss,
    Region,
    Statement,
    leaves,
    walk,
)
from conformance.model.program import Site
from conformance.model.steps import asking, ever_asking
from conformance.oracle.reached import reached

from . import loops, operations, ranks

#: The procedures that take gradients a second time.
AGAIN = ("second_backward", "per_output", "second_order", "third_order")


WORDS = Words(
    procedures_written=(
        *("backward", "part", "per_output", "second_backward", "second_order"),
        *("third_order", "inference", "train"),
        *("jvp", "jvp_of_gradient", "gradient_of_jvp", "jacobian"),
    ),
    reverse_only=("custom_sin",),
    loops="calls",  # operations are distinguished by the lines that led to them
    shares=True,
    lists="all",
    imports=("import random", "import numpy as np", "import tensorflow as tf"),
    helpers=operations.HELPERS,
    operations=operations.OPERATIONS,
    reduction="tf.reduce_{kind}({x})",
    seeding="tf.random.set_seed({seed})",
    drawing="tf.random.uniform([3])",
    halving="""
        for name in {names}:
            values[name].assign(0.5 * values[name])
        """,
    rank="rank()",
    start=ranks.START,
    holds="tensors",
    changes={
        "freeze": 'asked = [name for name in asked if name != "{name}"]',
        "unfreeze": 'asked = [*asked, "{name}"]',
        "assign": "{place}.assign(0.5 * {place})",
        "replace": "{place} = tf.Variable(0.5 * {place}, trainable={place}.trainable)",
        "rows": "{place} = {place}[:{rows}]",
    },
)


class Variables(Tensors):
    """Constants for inputs, variables for all others."""

    def tensor(self, array: Array, source: str) -> str:
        if array in self.case.inputs:
            return f"tf.constant({source}, dtype=tf.{array.dtype})"
        options = f"dtype=tf.{array.dtype}" + ("" if array.gradient else ", trainable=False")
        if array.by_rank:
            return f"variable_of_rank({source}, {options})"
        if self.case.parallel:
            options += ", aggregation=tf.VariableAggregation.MEAN"
        return f"tf.Variable({source}, {options})"

    def write_inputs(self) -> None:
        if self.case.ranks > 1:
            self.code(ranks.RANK)
        if any(array.by_rank for array in (*self.case.parameters, *self.case.state)):
            self.code(ranks.OF_RANK)
        super().write_inputs()

    def framework_generator(self, seed: int) -> str:
        return f"tf.random.Generator.from_seed({seed})"


class KerasVariables(Variables):
    """The same with Keras' variables."""

    def tensor(self, array: Array, source: str) -> str:
        if array in self.case.inputs:
            return super().tensor(array, source)
        trainable = "" if array.gradient else ", trainable=False"
        return f'keras.Variable({source}, dtype="{array.dtype}"{trainable})'


class Regions(Forward):
    """Functions of regions, or modules that own the variables that they read."""

    #: What a module is, what it is called by, and how it is made one.
    module, method, made = "tf.Module", "__call__", "super().__init__()"

    def write_region(self, region: Region) -> None:
        if self.is_method(region):
            return
        if region.name not in self.emitter.shared:
            self.write_function(region)
        if region.granularity == "module":
            owned = ", ".join(map(self.body.name, self._variables_of(region)))
            self.code(f"{function(region.name)} = {class_name(region.name)}({owned})")
        self.recompute.write_made(region)

    def write_function(self, region: Region) -> None:
        if region.granularity != "module":
            super().write_function(region)
            return
        code, owned = self.code, self._variables_of(region)
        with code.indent(f"class {class_name(region.name)}({self.module}):"):
            with code.indent(f"def __init__({', '.join(['self', *owned])}):"):
                code(self.made)
                for variable in owned:
                    code(f"self.{variable} = {variable}")
            self.write_method(self.method, region, owned)

    def _variables_of(self, region: Region) -> list[str]:
        """What a module owns: the variables that it reads, and all that an object around it holds."""
        held = {*self.layers.held, *self.body.spelled}
        return [name for name in region.captured() if name in held]

    def vectorized(self, function: str, arguments: Sequence[str]) -> str:
        if len(arguments) == 1:
            return f"tf.vectorized_map({function}, {arguments[0]})"
        # The map hands several arguments over as one tuple.
        return f"tf.vectorized_map({self.tupled(function)}, ({', '.join(arguments)}))"


class KerasModels(Regions):
    """The same with models of Keras."""

    module, method = "keras.Model", "call"
    made = "super().__init__(autocast=False)"  # else the model casts what it reads, too


class RecomputeGrad(Recompute):
    """`tf.recompute_grad` of each region's function."""

    prefix = "recomputed_"

    def made_once(self, region: Region) -> bool:
        return True

    def checkpoint(self, region: Region) -> str:
        return f"tf.recompute_grad({', '.join([self.block(region), *self.misuse(region)])})"


class Taped(Run):
    """`tf.GradientTape`. `function`, `loop` and `xla` put forward and backward into one graph;
    `forward-function` makes a graph of the forward pass, with the tape outside; `eager` makes none."""

    @property
    def one_graph(self) -> bool:
        return self.variant.name in ("function", "loop", "xla")

    @property
    def decorator(self) -> str:
        compiled = ", jit_compile=True" if self.variant.name == "xla" else ""
        return f"@tf.function(autograph=False{compiled})"

    def write_gradients(self) -> None:
        self.write_after()
        if self.one_graph:
            self._write_function()
        else:
            self._write_taped_run()

    def write_training(self) -> None:
        if self.case.procedure.changes and self.variant.name != "eager":
            raise NotOfferedError(self.variant.id, "changes between steps of a compiled function")
        self.write_gradients()

    def write_inference(self) -> None:
        self._write_inferring(FORWARD)
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_inference_before(self) -> None:
        self._write_inferring(None)

    def _write_inferring(self, site: Site | None) -> None:
        """The forward pass, with no gradient asked for; without a site what it gives is dropped."""
        code = self.code
        into = "outputs = " if site else ""
        if self.variant.name == "eager":
            code(f"{into}{self.passed}", site)
        elif self.variant.name == "forward-function":
            self.write_forward_function()
            code(f"{into}step(values)", site)
        else:
            with code.indent(f"{self.decorator}\ndef infer(values):"):
                code("outputs = forward(**values)", site)
                code("return outputs")
            code(f"{into}infer(values)")

    def write_forward_function(self) -> None:
        code = self.code
        with code.indent(f"{self.decorator}\ndef step(values):"):
            code("return forward(**values)")

    def _write_taped_run(self) -> None:
        """Forward under a tape, and backward, outside any graph."""
        code, case = self.code, self.case
        if self.variant.name == "forward-function":
            self.write_forward_function()
        if case.procedure.kind == "train":
            code("losses = []")
            if case.procedure.changes:
                code(f"asked = [{listed(asking(case))[1:-1].rstrip(',')}]")
            with code.indent(f"for {self.turn} in range({case.procedure.steps}):"):
                if case.procedure.changes:
                    self.write_changes()
                self._write_gradients()
                self._write_update()
                code("losses.append(loss)")
        else:
            self._write_gradients()
        self._write_return()

    def _write_function(self) -> None:
        code, case, kind = self.code, self.case, self.case.procedure.kind
        second = kind in ("second_backward", "per_output")
        results = list(dict.fromkeys([self.result, "loss", "gradients"]))
        results += ["again"] if kind in AGAIN else []
        code("# A constant cotangent would let the optimizer make one of forward and rerun.")
        head = "cotangent, cotangent2" if second else "cotangent"
        with code.indent(f"{self.decorator}\ndef step(values, {head}):"):
            self._write_gradients()
            code(f"return {', '.join(results)}")
        ones = [self._one(case.loss)]
        ones += [self._one(case.then or case.loss)] if second else []
        call = f"{', '.join(results)} = step(values, {', '.join(ones)})"
        if kind == "train":
            code("losses = []")
            with code.indent(f"for _ in range({case.procedure.steps}):"):
                code(call)
                # Not inside the function: there TensorFlow 2.21's dependency optimizer drops the
                # control dependency between a rerun's read of a variable and the variable's update,
                # and in every fourth run of some programs the rerun reads updated parameters.
                self._write_update()
                code("losses.append(loss)")
        else:
            code(call)
        self._write_return()

    def _one(self, loss: Loss | None) -> str:
        """A one of the dtype of a loss."""
        dtype = self._loss_dtype(loss)
        return "tf.constant(1.0)" if dtype == "float32" else f"tf.constant(1.0, dtype=tf.{dtype})"

    def _loss_dtype(self, loss: Loss | None) -> str:
        """The dtype of a loss, by following dtypes through the program."""
        known = {array.name: array.dtype for array in self.case.arrays}
        for node in walk(self.case.program):
            if isinstance(node, Statement):
                dtypes = [known[name] for name in node.names() if name in known]
                made = str(node.options["dtype"]) if node.op == "astype" else None
                floats = [dtype for dtype in dtypes if "float" in dtype]
                known |= dict.fromkeys(node.targets, made or (floats or dtypes or ["float32"])[0])
            elif isinstance(node, Again):
                first = leaves(self.emitter.regions[node.region].gives)
                known |= {n: known[f] for n, f in zip(leaves(node.gives), first, strict=True)}
        assert loss is not None
        return known[loss.name]

    def _write_gradients(self) -> None:
        """Forward, loss, and the gradients of the procedure."""
        code, case, kind = self.code, self.case, self.case.procedure.kind
        cotangent = ", output_gradients=cotangent" if self.one_graph else ""
        if case.procedure.changes:
            code("sources = {name: values[name] for name in asked}")
        else:
            code(f"sources = {self.values.entries(self._sources())}")
        if self.case.procedure.order > 1:
            self._write_order(self.case.procedure.order, cotangent)
        elif kind in ("second_backward", "per_output"):
            self._write_taped("tf.GradientTape(persistent=True)")
            code(f"gradients = tape.gradient(loss, sources{cotangent})", BACKWARD)
            loss = "then" if self.case.then else "loss"
            again = cotangent.replace("=cotangent", "=cotangent2")
            code(f"again = tape.gradient({loss}, sources{again})", BACKWARD)
        else:
            self._write_taped(f"tf.GradientTape({self._watching})")
            arguments = ["loss", f"sources{cotangent}"]
            self.write_backward("tape.gradient", *arguments, into="gradients")
            if self.case.parallel:
                self._write_mean()

    def _write_mean(self) -> None:
        """The gradients of parameters, averaged over the ranks; those that are `None` have no mean."""
        assert self.case.loss is not None
        sources, there = self._sources(), reached(self.case, self.case.loss)
        shared = [name for name in self._trained() if name in there]
        averaged = 'tf.distribute.get_replica_context().all_reduce("mean", {})'
        if sources == shared:
            self.code(f"gradients = {averaged.format('gradients')}")
        else:
            self.code(f"shared = {self.values.entries(shared, 'gradients', flat=True)}")
            self.code(f"gradients |= {averaged.format('shared')}")

    def _write_order(self, order: int, cotangent: str) -> None:
        """Gradients up to an order, a tape around the tapes of the order before."""
        code = self.code
        if order == 1:
            self._write_taped("tf.GradientTape()")
            code(f"gradients = tape.gradient(loss, sources{cotangent})", BACKWARD)
            return
        tape = "outer" if order == 2 else "outermost"
        with code.indent(f"with tf.GradientTape() as {tape}:"):
            self.write_watch(tape)
            self._write_order(order - 1, cotangent)
            before, given = "gradients" if order == 2 else "again", self.given(order - 1)
            one = "tf.reduce_sum(gradient)"
            if len({array.dtype for array in self.case.arrays if array.name in self.case.wrt}) > 1:
                one = f"tf.cast({one}, tf.float32)"
            made = f"{one} for gradient in {before}.values(){given}"
            zero = self.constant(order - 1)
            code("total = tf.constant(0.0)" if zero else f"total = tf.add_n([{made}])")
        code(f"again = {tape}.gradient(total, sources)")

    def _write_taped(self, tape: str) -> None:
        with self.code.indent(f"with {tape} as tape:"):
            self.write_watch("tape")
            step = self.variant.name == "forward-function"
            self.write_loss("step(values)" if step else self.passed)
            if self.case.then is not None:
                self.code(f"then = {self.loss(self.case.then)}")
        if not self.one_graph or self.case.procedure.between == "update":
            self.write_between()

    @property
    def _watching(self) -> str:
        """The argument of a tape of which tensors are watched that some step freezes or unfreezes."""
        changes = self.case.procedure.changes
        freezing = any("freeze" in change.kind for each in changes for change in each)
        return "watch_accessed_variables=False" if freezing else ""

    def write_watch(self, tape: str) -> None:
        """Variables are watched by themselves, tensors are not."""
        if self._watching:
            self.code(f"{tape}.watch(sources)")
            return
        inputs = [v for v in self.case.inputs if v.name in ever_asking(self.case)]
        watched = ", ".join(f'values["{v.name}"]' for v in inputs)
        if len(inputs) == 1:
            self.code(f"{tape}.watch({watched})")
        elif inputs:
            self.code(f"{tape}.watch([{watched}])")

    def _trained(self) -> list[str]:
        return [p.name for p in self.case.parameters if p.name in ever_asking(self.case)]

    def _sources(self) -> list[str]:
        """What gradients are taken of: those asked for, and in training every parameter."""
        training = self.case.procedure.kind == "train"
        return list(dict.fromkeys([*self.case.wrt, *(self._trained() if training else [])]))

    def _write_update(self) -> None:
        rate = self.case.procedure.learning_rate
        # The gradient of a lookup comes as its rows alone, and a map may look its rows up.
        looked_up = any(s.op == "embedding" for _, s in self.case.statements())
        looked_up |= any(region.mapped for region in self.case.regions())
        gradient = "tf.convert_to_tensor(gradients[name])" if looked_up else "gradients[name]"
        trained = self._trained()
        if self.case.procedure.changes:
            every, variable = f"for name in {listed(trained)}:", "values[name]"
        elif self._sources() == trained and not self.one_graph:
            every, variable = "for name, variable in sources.items():", "variable"
        elif self.emitter.in_lists:
            self.code(f"trained = {self.values.entries(trained)}")
            every, variable = "for name, variable in trained.items():", "variable"
        else:
            every, variable = f"for name in {listed(trained)}:", "values[name]"
        assert self.case.loss is not None
        unused = not set(trained) <= reached(self.case, self.case.loss)
        given = self.code.indent("if gradients[name] is not None:") if unused else nullcontext()
        if self.case.procedure.changes:
            given = self.code.indent("if gradients.get(name) is not None:")
        with self.code.indent(every), given:
            self.code(f"{variable}.assign_sub({rate} * {gradient})")

    def _write_return(self) -> None:
        case, kind = self.case, self.case.procedure.kind
        whole = self._sources() == list(case.wrt) and not case.procedure.changes
        gradients = "gradients" if whole else self.values.entries(case.wrt, "gradients", flat=True)
        losses = "losses" if kind == "train" else "[loss]"
        results = [f'"outputs": {self.result}', f'"losses": {losses}', f'"gradients": {gradients}']
        if kind in AGAIN:
            results.append('"again": again')
        if kind == "train":
            results.append(f'"parameters": {self.values.chosen(case.parameters)}')
        self.code(f"return {{{', '.join(results)}{self.state_entry()}}}")


class ForwardMode(Transforms):
    """An accumulator, around or inside of a tape, or a tape's Jacobian."""

    def write(self) -> None:
        code, kind, sources = self.code, self.case.procedure.kind, self.case.wrt
        forward = "forward(**values)"
        if self.variant.name == "forward-function":
            self.run.write_forward_function()
            forward = "step(values)"
        found = ["gradients" if kind in ("jacobian", "jvp_of_gradient") else "tangent"]
        found += ["again"] if self.case.procedure.order > 1 else []
        step = self.code.indent(f"{self.run.decorator}\ndef step(values):")
        with step if self.run.one_graph else nullcontext():
            code(f"sources = {self.values.entries(sources)}")
            if kind != "jacobian":
                code("tangents = [tf.identity(source) for source in sources.values()]")
            accumulate = "tf.autodiff.ForwardAccumulator([*sources.values()], tangents)"
            accumulator, tape = (
                f"with {accumulate} as accumulator:",
                "with tf.GradientTape() as tape:",
            )
            given = " if g is not None" if self.run.given(1) else ""
            forwarded = f"outputs = {forward}", FORWARD
            if kind == "jvp":
                with code.indent(accumulator):
                    code(*forwarded)
                code(f"tangent = accumulator.jvp({self.place})")
            elif kind == "jvp_of_gradient":
                with code.indent(accumulator):
                    with code.indent(tape):
                        self.run.write_watch("tape")
                        code(*forwarded)
                        code(f"loss = {self.run.loss()}")
                    code("gradients = tape.gradient(loss, sources)", BACKWARD)
                code(
                    f"again = {{name: accumulator.jvp(g) for name, g in gradients.items(){given}}}"
                )
            elif kind == "gradient_of_jvp":
                with code.indent(tape):
                    self.run.write_watch("tape")
                    with code.indent(accumulator):
                        code(*forwarded)
                    code(f"tangent = accumulator.jvp({self.place})")
                    code(f"total = {self.reduced('tangent')}")
                code("again = tape.gradient(total, sources)", BACKWARD)
            else:
                with code.indent(tape):
                    self.run.write_watch("tape")
                    code(*forwarded)
                    code(f"y = {self.place}")
                code("gradients = tape.jacobian(y, sources)", BACKWARD)
            if self.run.one_graph:
                code(f"return outputs, {', '.join(found)}")
        if self.run.one_graph:
            code(f"outputs, {', '.join(found)} = step(values)")


PARTS = Parts(WORDS, Variables, RecomputeGrad, Taped, forward=Regions, transforms=ForwardMode)
#: What is compiled is a function.
COMPILED = PARTS.but(holds="", changes={})
VARIANTS: Mapping[str, Parts] = {
    **dict.fromkeys(("function", "forward-function", "xla"), COMPILED),
    "loop": COMPILED.but(body=loops.Loops),
    "keras-model": PARTS.but("import keras", tensors=KerasVariables, forward=KerasModels),
}


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for a variant."""
    return Emitter(case, variant, VARIANTS.get(variant.name, PARTS))
