"""How MindSpore writes `run`: gradients of the network's cell, as two lines or as one graph."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from conformance.drivers.adapter import Variant
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import FEW
from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import listed
from conformance.emit.helpers import LISTS
from conformance.model.case import (
    Array,
    Case,
    Generator,
    Literal,
    Ref,
    Statement,
    Tree,
    flat,
    leaves,
    node_reads,
    walk,
)
from conformance.model.program import Site

from .notes import STOPPED, compiles

#: A line that calls for value and gradients; forward and backward have lines of their own below it.
GRADIENT = Site("gradient", "run", "", "")


class Procedures(Base, ABC):
    """Writes `run` for the case's procedure, in the mode of the variant."""

    def __init__(self, case: Case, variant: Variant) -> None:
        self.jit = variant.name.startswith("jit")
        self.graph = compiles(variant.name)
        read = {name for node in walk(case.program) for name in node_reads(node)}
        if self.graph and not read.issuperset(array.name for array in case.parameters):
            self.lists = (
                "nothing"  # a list would make parameters of a graph that reads them nowhere
            )
        super().__init__(case, variant)
        procedure = case.procedure
        #: Whether forward and backward are two lines of `run`, because of what the case does in between.
        self.split = not self.graph and bool(procedure.between or procedure.order > 1)
        #: Whether gradients are taken of all that asks for one, and not only of what the case names.
        self.asks_all = not self.graph and procedure.kind not in ("part", "functional")
        #: Whether the network's layers have to be told that they are trained.
        self.trains = "layers" in variant.name or variant.name.startswith("model-")
        own = [value for value in case.inputs if isinstance(value, Generator)]
        captured = {name for region in case.regions() for name in region.captured()}
        #: Whether the network is a function, because no cell around its regions has anything to hold.
        self.plain_functions = (
            not (self.graph or self.trains or captured or case.state or case.hooks or case.autocast)
            and procedure.kind == "backward"
            and not procedure.between
            and all(region.granularity == "function" for region in case.regions())
        )
        # In graph mode a cell is made before the graph: it can hold an input as a parameter alone.
        self._fixed = [
            value
            for value in case.inputs
            if self.graph and isinstance(value, Array) and value.name in captured
        ]
        held: tuple[Array | Generator, ...]
        held = (*case.parameters, *case.state, *own, *self._fixed)
        self._held = {value.name for value in held}  # what a cell is given when it is made
        self._inputs = [value for value in case.inputs if value.name not in self._held]

    def write_seeding(self, seed: int) -> None:
        """Write the seeding. It sets the global seed for operations with a seed of their own too: their
        own seed tells operations apart, the global one sets where they start."""
        super().write_seeding(seed)
        seeded = any(s.options.get("seed") is not None for _, s in self.case.statements())
        if seeded and "implicit" not in self.case.sources():
            self.code(self.seeding.format(seed=seed))

    def write_run(self) -> None:
        case, code, kind = self.case, self.code, self.case.procedure.kind
        with code.indent(self.run_signature()):
            mode = "GRAPH" if self.graph and not self.jit else "PYNATIVE"
            code(f"ms.set_context(mode=ms.{mode}_MODE)")
            self.write_seeding(case.seed)
            used = {statement.op for _, statement in case.statements()}
            for op in (op for op in LISTS if op in used):
                code(f"{LISTS[op]}.clear()")
            code(f"values = {self.inputs_call()}")
            self.write_hooks()
            held = self.given(self._held_names())
            if held and len(held) <= FEW + 1 and not self.plain_functions:
                given = ", ".join(f'values["{name}"]' for name in held)
                code(f"network = forward({given})")
            elif held and not self.plain_functions:
                passed = [value.name for value in self._inputs]
                if passed:
                    one = f'!= "{passed[0]}"' if len(passed) == 1 else f"not in {listed(passed)}"
                    code(f"held = {{k: v for k, v in values.items() if k {one}}}")
                code(f"network = forward(**{'held' if passed else 'values'})")
            elif not held and not self.plain_functions:
                code("network = forward()")
            if self.trains:
                code("network.set_train()")
            if kind == "inference":
                self._write_inferring(FORWARD)
                code(f'return {{"outputs": outputs{self.state_entry()}}}')
            else:
                self.write_after()
                self._write_loss()
                self._write_gradients()
        code("\n")

    def write_inference_before(self) -> None:
        self._write_inferring(None)
        self.code("network.set_train(True)")

    def _write_inferring(self, site: Site | None) -> None:
        """The forward pass, with no gradient asked for; without a site what it gives is dropped."""
        code = self.code
        code("network.set_train(False)")
        given = ", ".join(f'values["{value.name}"]' for value in self._inputs)
        callee = "network"
        if self.jit:
            callee = "infer"
            code("infer = ms.jit(network)")
        into = "outputs = " if site else ""
        code(f"{into}{callee}({given})", site)

    def _passed(self) -> list[str]:
        """The inputs that are arguments of the function that is differentiated.

        In PyNative mode every argument asks for a gradient; in graph mode whatever is no argument
        is a constant of the graph.
        """
        asks = [v for v in self._inputs if isinstance(v, Array) and v.gradient]
        return [v.name for v in (self._inputs if self.graph else asks)]

    def _weights(self) -> list[str]:
        """The parameters that gradients are taken of."""
        asks = [p.name for p in (*self.case.parameters, *self._fixed) if p.gradient]
        every = self.asks_all or self.case.procedure.kind == "train"
        return [name for name in asks if every or name in self.case.wrt]

    def _sources(self) -> list[str]:
        """The inputs that gradients are taken of."""
        inputs = [value.name for value in self._inputs]
        return self._passed() if self.asks_all else [n for n in inputs if n in self.case.wrt]

    def _write_loss(self) -> None:
        code, loss = self.code, self.case.loss
        assert loss is not None
        if self._weights():
            code(f"weights = {self.items(self._weights())}")
        code()
        passed = self._passed()
        with code.indent(f"def forward_fn({', '.join(passed)}):"):
            inputs = [value.name for value in self._inputs]
            given = [name if name in passed else f'values["{name}"]' for name in inputs]
            callee = "network"
            if self.plain_functions:
                callee = "forward"
                given += [f'values["{name}"]' for name in self.given(self._held_names())]
            alone = not self.graph and not self.split  # `run` has one line for forward and backward
            call = f"{callee}({', '.join(given)})"
            if self.result == "loss":
                code(f"{'loss =' if alone else 'return'} {call}", FORWARD if alone else None)
                if alone:
                    code("return loss", BACKWARD)
                code()
                return
            code(f"outputs = {call}", FORWARD if alone else None)
            place = self.loss_place()
            value = place if loss.reduction == "none" else f"ops.{loss.reduction}({place})"
            if self._stops() or alone:
                code(f"loss = {value}")
            if self._stops():
                code("# has_aux knows tensors and tuples alone")
                code.notes.add(STOPPED)
                code(f"outputs = {self._stopped(self.case.outputs, 'outputs')}")
            named = self._stops() or alone
            code(f"return {'loss' if named else value}, outputs", BACKWARD if alone else None)
        code()

    @property
    def result(self) -> str:
        return "outputs" if self._stops() else super().result

    def _held_names(self) -> list[str]:
        """The names of what the network is given when it is made, in order."""
        return [name for name in self.case.names() if name in self._held]

    def _stops(self) -> bool:
        """Whether gradients through the outputs are stopped by hand: in graph mode `has_aux` does
        it for tensors and tuples, and raises at dicts and at what is no tensor."""
        kept = leaves(self.case.outputs)
        calls = [node for node in flat(self.case.program) if not isinstance(node, Statement)]
        whole = [node.gives for node in calls if node.returned in kept]
        return self.graph and any(map(_has_others, (self.case.outputs, *whole)))

    def _stopped(self, tree: Tree, place: str) -> str:
        """The outputs, at an expression, with gradients stopped leaf by leaf."""
        if isinstance(tree, Ref):
            return f"ops.stop_gradient({place})"
        if isinstance(tree, Literal):
            return repr(tree.value)
        if isinstance(tree, Mapping):
            pairs = (f"{k!r}: {self._stopped(t, f'{place}[{k!r}]')}" for k, t in tree.items())
            return f"{{{', '.join(pairs)}}}"
        parts = [self._stopped(t, f"{place}[{i}]") for i, t in enumerate(tree)]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"

    def _write_gradients(self) -> None:
        code, case, kind = self.code, self.case, self.case.procedure.kind
        results = {"outputs": self.result, "losses": "[loss]", "gradients": "gradients"}
        if self.case.procedure.order > 1:
            self._write_orders()
            results["again"] = "again"
        elif kind == "train":
            code(f"optimizer = nn.SGD(weights, learning_rate={case.procedure.learning_rate})")
            self._write_gradient_function("forward_fn")
            code("losses = []")
            with code.indent(f"for _ in range({case.procedure.steps}):"):
                self._write_differentiated("forward_fn", "loss", "outputs")
                code("optimizer(of_weights)")
                code("losses.append(loss)")
            results["losses"] = "losses"
            results["parameters"] = self.chosen(case.parameters)
        else:
            self._write_gradient_function("forward_fn")
            self._write_differentiated("forward_fn", "loss", "outputs")
        if self.case.procedure.order == 1:
            code(f"gradients = {self._gradients()}")
        pairs = ", ".join(f'"{key}": {value}' for key, value in results.items())
        code(f"return {{{pairs}{self.state_entry()}}}")

    def _write_orders(self) -> None:
        """The sum of all gradients is computed by a function, and differentiated as one; the third
        order does so with that function."""
        code, passed = self.code, self._passed()
        below, value, others = "forward_fn", "loss", "outputs"
        for name in ("total_fn", "second_total_fn")[: self.case.procedure.order - 1]:
            with code.indent(f"def {name}({', '.join(passed)}):"):
                self._write_gradient_function(below)
                self._write_differentiated(below, value, others, inner=True)
                places = self._gradient_places()
                found = [places[n] for n in self.case.wrt]
                total = " + ".join(f"ops.sum({gradient})" for gradient in found)
                one = "," if len(found) == 1 else ""
                if below == "forward_fn":
                    code(f"return {total}, (loss, outputs, ({', '.join(found)}{one}))")
                else:
                    code(f"return {total}, (loss, outputs, first)")
            code()
            below, others = name, "(loss, outputs, first)"
            value = "_" if self.graph else "total"
        self._write_gradient_function(below)
        self._write_differentiated(below, value, others)
        firsts = [f'"{name}": first[{i}]' for i, name in enumerate(self.case.wrt)]
        code(f"gradients = {{{', '.join(firsts)}}}")
        code(f"again = {self._gradients()}")

    def _outermost(self) -> str:
        """The function that `run` itself differentiates."""
        return ("forward_fn", "total_fn", "second_total_fn")[self.case.procedure.order - 1]

    def _write_gradient_function(self, name: str) -> None:
        if self.split:
            return
        positions = [self._passed().index(n) for n in self._sources()]
        position = f"grad_position={_position(positions)}"
        if positions == [0]:
            position = ""  # the default
        weights = "weights=weights" if self._weights() else ""
        alone = name == "forward_fn" and (self._stops() or self.result == "loss")
        aux = "" if alone else "has_aux=True"
        words = ", ".join(filter(None, [name, position, weights, aux]))
        function_of = f"ms.value_and_grad({words})"
        if self.jit and name == self._outermost():
            function_of = f"ms.jit({function_of})"
        self.code(f"{_gradient_function(name)} = {function_of}")

    def _write_differentiated(
        self, name: str, value: str, others: str, *, inner: bool = False
    ) -> None:
        """The value of a function and its gradients, `of_inputs` and `of_weights`.

        PyNative mode runs forward and backward in two lines; in graph mode they are one graph.
        """
        code = self.code
        inputs = "of_inputs" if set(self._sources()) & set(self.case.wrt) else "_"
        found = f"{inputs}, of_weights" if self._weights() else "of_inputs"
        passed = [n if inner else f'values["{n}"]' for n in self._passed()]
        if not self.split:
            if self._weights() and not self._sources():
                found = "of_weights"
            elif self._weights():
                found = f"({found})"
            call = f"{_gradient_function(name)}({', '.join(passed)})"
            both = value if self.result == "loss" else f"({value}, {others})"
            code(f"{both}, {found} = {call}", FORWARD if self.graph else GRADIENT)
            return
        weights = "weights=weights" if self._weights() else ""
        aux = "" if self.result == "loss" else "has_aux=True"
        words = ", ".join([name, *passed, *filter(None, [weights, aux])])
        site = None if self.case.procedure.order > 1 and name != "forward_fn" else FORWARD
        made = f"{value}, backward, {others}" if aux else f"{value}, backward"
        code(f"{made} = ms.vjp({words})", site)
        if site:
            self.write_between()
        self.write_backward(
            "backward", f"ops.ones_like({value})", into=found, site=site and BACKWARD
        )

    def _gradients(self) -> str:
        """A dict of the gradients asked for."""
        places = self._gradient_places()
        if len(places) > FEW and [*places] == [*self.case.wrt] == self._weights():
            return f"dict(zip({listed(places)}, of_weights))"
        return "{" + ", ".join(f'"{name}": {places[name]}' for name in self.case.wrt) + "}"

    def _gradient_places(self) -> dict[str, str]:
        """The expression of each gradient by name."""
        sources, weights = self._sources(), self._weights()
        places = {n: f"of_weights[{i}]" for i, n in enumerate(weights)}
        # A position that is a number gives the gradient itself, and not a tuple.
        alone = not self.split and len(sources) == 1
        places |= {n: "of_inputs" if alone else f"of_inputs[{i}]" for i, n in enumerate(sources)}
        return places


def _gradient_function(name: str) -> str:
    """The name of the function that gives the value and the gradients of a function."""
    return name.replace("forward_fn", "grad_fn").replace("total_fn", "total_grad_fn")


def _has_others(tree: Tree) -> bool:
    """Whether a tree has dicts, or leaves that are not tensors."""
    if isinstance(tree, tuple):
        return any(_has_others(part) for part in tree)
    return not isinstance(tree, Ref)


def _position(positions: Sequence[int]) -> str:
    """The value of `grad_position`: a number for one argument, `None` for none."""
    alone = positions[0] if len(positions) == 1 else None
    return str(tuple(positions) if len(positions) > 1 else alone)
