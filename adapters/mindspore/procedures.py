"""How MindSpore writes `run`: gradients of the network's cell, as two lines or as one graph."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.drivers.adapter import Variant
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter, Run
from conformance.emit.expressions import listed
from conformance.emit.transforms import Transforms
from conformance.emit.values import FEW
from conformance.errors import NotOfferedError
from conformance.language.operations import RANDOM
from conformance.model.case import (
    Array,
    Case,
    Change,
    Generator,
    Loss,
    Ref,
    Statement,
    Tree,
    flat,
    leaves,
)
from conformance.model.program import Site
from conformance.model.steps import asking, ever_asking, stepped

from .notes import STOPPED, compiles

#: A line that calls for value and gradients; forward and backward have lines of their own below it.
GRADIENT = Site("gradient", "run", "", "")
#: What is differentiated: the loss, and for higher orders the sum of all gradients of the one before.
FUNCTIONS = ("forward_fn", "total_fn", "second_total_fn")


class Plan:
    """What the parts of a program have to agree on: what the network is given, and what gradients are
    taken of."""

    def __init__(self, case: Case, variant: Variant) -> None:
        self.jit = variant.name.startswith("jit")
        self.graph = compiles(variant.name)
        kind = case.procedure.kind
        #: Whether forward and backward are two lines of `run`, because of what the case does in between.
        self.split = not self.graph and bool(case.procedure.between or case.procedure.order > 1)
        #: Whether the network's layers have to be told that they are trained.
        self.trains = "layers" in variant.name or variant.name.startswith("model-")
        captured = {name for region in case.regions() for name in region.captured()}
        #: Whether the network is a function, because no cell around its regions has anything to hold.
        self.plain_functions = (
            not (self.graph or self.trains or captured or case.state or case.hooks or case.autocast)
            and kind == "backward"
            and not case.procedure.after
            and all(region.granularity == "function" for region in case.regions())
        )
        arrays = [value for value in case.inputs if isinstance(value, Array)]
        # In graph mode a cell is made before the graph: it can hold an input as a parameter alone.
        fixed = [array for array in arrays if self.graph and array.name in captured]
        held = {array.name for array in (*case.parameters, *case.state, *fixed)}
        held |= {value.name for value in case.inputs if isinstance(value, Generator)}
        #: What the network is given when it is made, and what it is called on.
        self.held = [name for name in case.names() if name in held]
        self.inputs = [value.name for value in case.inputs if value.name not in held]
        #: The inputs that are arguments of the function that is differentiated. In PyNative mode every
        #: argument requires a gradient; in graph mode what is no argument is a constant of the graph.
        asking = [array.name for array in arrays if array.gradient]
        self.passed = self.inputs if self.graph else [n for n in self.inputs if n in asking]
        # In PyNative mode gradients are taken of all that asks for one, and not only of what the case
        # names.
        asks_all = not self.graph and kind not in ("part", "functional")
        #: The inputs, and the parameters, that gradients are taken of.
        self.sources = self.passed if asks_all else [n for n in self.inputs if n in case.wrt]
        every = asks_all or kind == "train"
        asking_ever = ever_asking(case)
        weights = [a.name for a in (*case.parameters, *fixed) if a.name in asking_ever]
        self.weights = [name for name in weights if every or name in case.wrt]


class Procedures(Run):
    """Writes `run` for the case's procedure, in the mode of the variant."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.plan = Plan(self.case, self.variant)
        #: Whether gradients through the outputs are stopped by hand.
        self.stops = self.plan.graph and self._gives_others()

    def _gives_others(self) -> bool:
        """Whether the outputs have dicts, or leaves that are not tensors."""
        kept = leaves(self.case.outputs)
        calls = [node for node in flat(self.case.program) if not isinstance(node, Statement)]
        whole = [node.gives for node in calls if node.returned in kept]
        return any(map(_has_others, (self.case.outputs, *whole)))

    # -- the network -----------------------------------------------------------------------------

    def write_beginning(self) -> None:
        mode = "GRAPH" if self.plan.graph and not self.plan.jit else "PYNATIVE"
        self.code(f"ms.set_context(mode=ms.{mode}_MODE)")
        if self.case.parallel:
            self.code(
                'ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)'
            )
        super().write_beginning()
        if not self.plan.plain_functions:
            self._write_network()
            self.code.wrote("made")

    def _write_network(self) -> None:
        code, held, inputs = self.code, self.values.given(self.plan.held), self.plan.inputs
        if len(held) <= FEW + 1:
            code(f"network = forward({', '.join(map(_value, held))})")
        elif inputs:
            one = f'!= "{inputs[0]}"' if len(inputs) == 1 else f"not in {listed(inputs)}"
            code(f"held = {{k: v for k, v in values.items() if k {one}}}")
            code("network = forward(**held)")
        else:
            code("network = forward(**values)")
        if self.plan.trains:
            code("network.set_train()")

    @property
    def passed(self) -> str:
        return f"network({', '.join(map(_value, self.plan.inputs))})"

    def write_inference(self) -> None:
        self._write_inferring(FORWARD)
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_inference_before(self) -> None:
        self._write_inferring(None)
        self.code("network.set_train(True)")

    def _write_inferring(self, site: Site | None) -> None:
        """The forward pass, with no gradient asked for; without a site what it gives is dropped."""
        self.code("network.set_train(False)")
        callee = "network"
        if self.plan.jit:
            callee = "infer"
            self.code("infer = ms.jit(network)")
        given = ", ".join(map(_value, self.plan.inputs))
        self.code(f"{'outputs = ' if site else ''}{callee}({given})", site)

    # -- what is differentiated --------------------------------------------------------------------

    def write_loss_function(self) -> None:
        """The loss as a function of the inputs, and the parameters that gradients are taken of."""
        code = self.code
        if self.plan.weights and self.case.procedure.changes:
            every = listed(self.plan.weights)
            code(f"weights = [values[n] for n in {every} if values[n].requires_grad]")
        elif self.plan.weights:
            code(f"weights = {self.values.items(self.plan.weights)}")
        callee, names = "network", self.plan.inputs
        if self.plan.plain_functions:
            callee, names = "forward", self.values.value_names()
        given = [name if name in self.plan.passed else _value(name) for name in names]
        # Where `run` has one line for forward and backward, each has a line here.
        lines = not self.plan.graph and not self.plan.split
        before, after = (FORWARD, BACKWARD) if lines else (None, None)
        # A copy gives names anew. No argument of a graph is a cell, so that another function has it.
        anew = [callee, *["values"] * any(n not in self.plan.passed for n in names)]
        if self.copies:
            with code.indent(f"def forward_of({', '.join(anew)}):"):
                self._write_function("loss_of", callee, given, before, after)
                code("return loss_of")
            code(f"forward_fn = forward_of({', '.join(anew)})")
        else:
            self._write_function("forward_fn", callee, given, before, after)

    def _write_function(
        self, name: str, callee: str, given: Sequence[str], before: Site | None, after: Site | None
    ) -> None:
        code, lines = self.code, after is not None
        with code.indent(f"def {name}({', '.join(self.plan.passed)}):"):
            code(f"{self.result} = {callee}({', '.join(given)})", before)
            if self.result != "loss":
                self._write_loss_of_outputs(after)
            elif lines:
                code("return loss", after)
            else:
                code.leave("loss")

    def _write_loss_of_outputs(self, site: Site | None) -> None:
        """Return the loss, and the outputs beside it; with a site, and where more stands in between, the
        loss has a line of its own."""
        loss = self.loss()
        if site or self.stops:
            self.code(f"loss = {loss}")
            loss = "loss"
        if self.stops:
            self._write_stopping()
        self.code(f"return {loss}, outputs", site)

    def _write_stopping(self) -> None:
        """Stop gradients through the outputs, as `has_aux` does for tensors and tuples. It raises at
        dicts and at what is no tensor."""
        code, outputs = self.code, self.case.outputs
        code("# has_aux knows tensors and tuples alone")
        code.notes.add(STOPPED)
        places = {name: self.loss_place(loss=Loss("none", name)) for name in leaves(outputs)}
        with self.body.spelling({n: f"ops.stop_gradient({p})" for n, p in places.items()}):
            code(f"outputs = {self.body.tree(outputs)}")

    # -- gradients -------------------------------------------------------------------------------

    def write_gradients(self) -> None:
        self.write_after()
        if not (self.plan.sources or self.plan.weights):
            raise NotOfferedError(self.variant.id, "gradients of nothing")
        self.write_loss_function()
        if self.case.procedure.order > 1:
            self._write_orders()
            self._write_returned(again="again")
            return
        self._write_gradient_function("forward_fn")
        self._write_differentiated("forward_fn")
        self.code(f"gradients = {self._gradients()}")
        self._write_returned()

    def write_training(self) -> None:
        code, procedure = self.code, self.case.procedure
        if not (self.plan.sources or self.plan.weights):
            raise NotOfferedError(self.variant.id, "gradients of nothing")
        weights = set(self.plan.weights)
        if weights and any(weights.isdisjoint(asking(step)) for step in stepped(self.case)):
            raise NotOfferedError(self.variant.id, "a step that trains no parameter")
        if not procedure.changes:
            self._write_differentiable()
        code("losses = []")
        with code.indent(f"for {self.turn} in range({procedure.steps}):"):
            if procedure.changes:
                self.write_changes()
                self._write_differentiable()
            self._write_differentiated("forward_fn")
            if self.plan.weights:
                code("optimizer(of_weights)")
            code("losses.append(loss)")
        code(f"gradients = {self._gradients()}")
        self._write_returned(losses="losses", parameters=self.values.chosen(self.case.parameters))

    def _write_differentiable(self) -> None:
        """What a step needs: the loss as a function, its gradients, and the optimizer."""
        self.write_loss_function()
        if self.plan.weights:  # an optimizer of nothing raises
            rate = self.case.procedure.learning_rate
            self.code(f"optimizer = nn.SGD(weights, learning_rate={rate})")
        self._write_gradient_function("forward_fn")

    def write_change(self, case: Case, change: Change) -> None:
        if self.plan.graph and change.kind not in ("assign", "rows", "copy"):
            raise NotOfferedError(self.variant.id, f"`{change.kind}` between steps in graph mode")
        if change.kind == "run":
            self._write_inferring(FORWARD)
            self.code("network.set_train(True)")
        else:
            super().write_change(case, change)

    def write_changed(self, array: Array, change: Change) -> None:
        if change.kind in ("freeze", "unfreeze") and array not in self.case.parameters:
            raise NotOfferedError(self.variant.id, "an input that is frozen between steps")
        super().write_changed(array, change)

    def _write_returned(self, **others: str) -> None:
        results = {"outputs": self.result, "losses": "[loss]", "gradients": "gradients"} | others
        pairs = ", ".join(f'"{key}": {value}' for key, value in results.items())
        self.code(f"return {{{pairs}{self.state_entry()}}}")

    def _write_orders(self) -> None:
        """The sum of all gradients is computed by a function, and differentiated as one; the third
        order does so with that function."""
        lacking = ["avg_pool2d", "layer_norm", "softmax"]
        # What comes through their results is missing where a gradient reads them, without recompute too.
        lacking += ["broadcast_to", "concat", "permute_dims", "reshape"]
        if self.case.procedure.order > 2:
            lacking.append("max_pool2d")
        for op in () if self.plan.graph else lacking:
            if self.case.uses(frozenset({op})):
                raise NotOfferedError(self.variant.id, f"gradients of gradients of {op}")
        code, wrt = self.code, self.case.wrt
        places = self._gradient_places()
        gradients = [places[name] for name in wrt]
        total = " + ".join(f"ops.sum({gradient})" for gradient in gradients)
        first = f"({', '.join(gradients)}{',' * (len(gradients) == 1)})"
        *inner, outermost = FUNCTIONS[: self.case.procedure.order]
        for below, name in zip(inner, FUNCTIONS[1:], strict=False):
            with code.indent(f"def {name}({', '.join(self.plan.passed)}):"):
                self._write_gradient_function(below)
                self._write_differentiated(below, self.plan.passed)
                code(f"return {total}, (loss, outputs, {first})")
            first = "first"
        self._write_gradient_function(outermost)
        self._write_differentiated(outermost)
        firsts = [f'"{name}": first[{i}]' for i, name in enumerate(wrt)]
        code(f"gradients = {{{', '.join(firsts)}}}")
        code(f"again = {self._gradients()}")

    def _keywords(self, name: str) -> list[str]:
        """The keywords with which a function is differentiated, in either mode."""
        alone = name == "forward_fn" and (self.stops or self.result == "loss")
        return [
            *(["weights=weights"] * bool(self.plan.weights)),
            *([] if alone else ["has_aux=True"]),
        ]

    def _write_gradient_function(self, name: str) -> None:
        """The function that gives the value and the gradients of a function, where that is one line."""
        if self.plan.split:
            return
        positions = tuple(self.plan.passed.index(source) for source in self.plan.sources)
        position: object = positions
        if len(positions) < 2:
            position = positions[0] if positions else None  # one gives the gradient, and no tuple
        words = [name, *([] if positions == (0,) else [f"grad_position={position}"])]
        made = f"ms.value_and_grad({', '.join([*words, *self._keywords(name)])})"
        if self.plan.jit and name == FUNCTIONS[self.case.procedure.order - 1]:
            made = f"ms.jit({made})"
        self.code(f"{_gradient_function(name)} = {made}")

    def _write_differentiated(self, name: str, passed: Sequence[str] = ()) -> None:
        """The value of a function and its gradients, `of_inputs` and `of_weights`, at the program's
        inputs or at the arguments `passed` of a function around it.

        PyNative mode runs forward and backward in two lines; in graph mode they are one graph.
        """
        code, innermost = self.code, name == "forward_fn"
        value = "loss" if innermost else "_" if self.plan.graph else "total"
        others = "outputs" if innermost else "(loss, outputs, first)"
        alone = innermost and self.result == "loss"
        arguments = [*passed] or [*map(_value, self.plan.passed)]
        gradients = "of_inputs" if set(self.plan.sources) & set(self.case.wrt) else "_"
        if self.plan.weights:
            gradients += ", of_weights"
        if self.plan.split:
            site = FORWARD if innermost else None
            made = ", ".join([value, "backward", *([] if alone else [others])])
            code(f"{made} = ms.vjp({', '.join([name, *arguments, *self._keywords(name)])})", site)
            if innermost:
                self.write_between()
            one = f"ops.ones_like({value})"
            self.write_backward("backward", one, into=gradients, site=site and BACKWARD)
        else:
            if self.plan.weights:
                gradients = f"({gradients})" if self.plan.sources else "of_weights"
            made = value if alone else f"({value}, {others})"
            call = f"{_gradient_function(name)}({', '.join(arguments)})"
            site = FORWARD if self.plan.graph else GRADIENT
            code(f"{made}, {gradients} = {call}", site)
        if self.case.parallel and self.plan.weights:
            code("of_weights = nn.DistributedGradReducer(weights)(of_weights)")

    def _gradients(self) -> str:
        """A dict of the gradients asked for."""
        places = self._gradient_places()
        if len(places) > FEW and [*places] == [*self.case.wrt] == self.plan.weights:
            return f"dict(zip({listed(places)}, of_weights))"
        return "{" + ", ".join(f'"{name}": {places[name]}' for name in self.case.wrt) + "}"

    def _gradient_places(self) -> dict[str, str]:
        """The expression of each gradient by name."""
        # A position that is a number gives the gradient itself, and not a tuple.
        alone = not self.plan.split and len(self.plan.sources) == 1
        asked = asking(stepped(self.case)[-1])  # gradients are those of the last step
        weights = [name for name in self.plan.weights if name in asked]
        places = {name: f"of_weights[{i}]" for i, name in enumerate(weights)}
        inputs = enumerate(self.plan.sources)
        return places | {name: "of_inputs" if alone else f"of_inputs[{i}]" for i, name in inputs}


def _value(name: str) -> str:
    return f'values["{name}"]'


def _gradient_function(name: str) -> str:
    """The name of the function that gives the value and the gradients of a function."""
    return name.replace("forward_fn", "grad_fn").replace("total_fn", "total_grad_fn")


def _has_others(tree: Tree) -> bool:
    """Whether a tree has dicts, or leaves that are not tensors."""
    if isinstance(tree, tuple):
        return any(map(_has_others, tree))
    return not isinstance(tree, Ref)


class OfInputs(Transforms):
    """`ms.jvp`, and `ms.jacrev`."""

    def write(self) -> None:
        """Tangents or Jacobians with respect to what the network is called on: MindSpore's functions
        differentiate nothing else."""
        code, wrt = self.code, self.case.wrt
        if not {*wrt} <= {*self.run.plan.passed} or self.run.stops:
            what = "tangents of parameters" if not self.run.stops else "tangents beside dicts"
            raise NotOfferedError(self.variant.id, what)
        if self.case.procedure.kind == "jvp" and self.case.uses(RANDOM):
            # `ms.jvp` compiles the function, and runs it again for its value
            raise NotOfferedError(self.variant.id, "tangents of what draws random numbers")
        if self.case.procedure.kind == "jvp" and self.case.uses(frozenset({"layer_norm"})):
            # of the backward pass of a normalization, which is differentiated, it leaves out `eps`
            raise NotOfferedError(self.variant.id, "tangents of layer_norm")
        given = [name if name in wrt else _value(name) for name in self.run.plan.inputs]
        with code.indent(f"def output_of({', '.join(wrt)}):"):
            code(f"outputs = network({', '.join(given)})", FORWARD)
            code(f"return {self.place}, outputs", BACKWARD)
        at = ", ".join(map(_value, wrt))
        step = "output_of"
        if self.case.procedure.kind == "jvp":
            primals = f"({at})" if len(wrt) > 1 else at
            call = f"ms.jvp({step}, {primals}, {primals}, has_aux=True)"
            code(f"_, tangent, outputs = {call}")
        else:
            position: object = tuple(range(len(wrt))) if len(wrt) > 1 else 0
            code(f"rows, outputs = ms.jacrev({step}, {position}, has_aux=True)({at})")
            rows = "rows" if len(wrt) > 1 else "[rows]"
            code(f"gradients = dict(zip({listed(wrt)}, {rows}))")
