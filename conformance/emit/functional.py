"""Programs of frameworks that differentiate a function of a dict of tensors.

`run` has all tensors in `values`. The function takes those that gradients are taken of: `wanted`, or
`values` itself where that is all of them. `Lazy` and `Pullback` are two kinds of such frameworks.
"""

from dataclasses import replace

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter
from conformance.emit.expressions import listed
from conformance.emit.part import PROCEDURES, Words
from conformance.emit.running import Run
from conformance.errors import NotOfferedError
from conformance.model.case import Array
from conformance.model.program import Site
from conformance.model.steps import asking, ever_asking

#: By procedure, the function that is differentiated last, where that is made of gradients itself.
HIGHER = {"second_order": "total_of", "third_order": "second_total_of"}
#: What `Words` of such frameworks begin with.
WORDS = Words(
    holds="values",
    changes={
        "freeze": "{apart} = wanted.pop({name!r})",
        "unfreeze": "wanted[{name!r}] = {apart}",
        "assign": "{place} = 0.5 * {place}",
        "replace": "{place} = 0.5 * {place}",
        "rows": "{place} = {place}[:{rows}]",
    },
    halving="for name in {names}:\n    values[name] *= 0.5",
    halving_one='values["{name}"] *= 0.5',
    procedures_written=PROCEDURES,
)
#: The same for `Lazy`, which goes through no graph twice.
LAZY_WORDS = replace(
    WORDS, procedures_written=[k for k in PROCEDURES if k not in ("second_backward", "per_output")]
)


class Functional(Run):
    """What `run` has in common in such frameworks: the dict, and a step of SGD."""

    #: The function that maps a function over trees of tensors; empty where there is none.
    tree_map = ""
    #: The two dicts in one, as keyword arguments.
    merged = "**values | wanted"

    def trained(self) -> list[str]:
        """The parameters that training updates."""
        asking = ever_asking(self.case)
        return [p.name for p in self.case.parameters if p.name in asking]

    def wanted(self) -> list[str]:
        """The keys of the dict that gradients are taken of: what is asked for, what is trained, and what
        asks for one in some step alone."""
        procedure = self.case.procedure
        trained = self.trained() if procedure.kind == "train" else []
        names = {*self.case.wrt, *trained}
        names |= {c.name for each in procedure.changes for c in each if "freeze" in c.kind}
        return self.values.given(name for name in self.case.names() if name in names)

    @property
    def of(self) -> str:
        """The name of the dict that gradients are taken of."""
        procedure = self.case.procedure
        kept = procedure.kind == "train" or procedure.between
        return "wanted" if kept or self.wanted() != self.values.value_names() else "values"

    def write_wanted(self) -> None:
        """The dict that gradients are taken of, where it is not `values`."""
        if self.of == "wanted":
            self.code(f"wanted = {self.values.entries(self.wanted_first())}")

    def wanted_first(self) -> list[str]:
        """The keys of that dict before anything changes between steps."""
        first = asking(self.case)
        return [n for n in self.wanted() if n in first or not self.case.procedure.changes]

    @property
    def callee(self) -> str:
        """What runs the forward pass."""
        return "model" if self.modelled else "forward"

    @property
    def inferring(self) -> str:
        changes = self.case.procedure.changes
        return f"{self.callee}({self.merged})" if changes else self.passed

    @property
    def everything(self) -> str:
        """The expression of all tensors after the last step."""
        return "values | wanted"

    #: The dict of what gradients are not taken of.
    apart = "values"

    def place_apart(self, array: Array) -> str:
        return f'{self.apart}["{array.name}"]'

    def place_of(self, array: Array) -> str:
        # `array` is as it was before; only what is wanted at some time is in that dict.
        asked = array.gradient and array.name in self.wanted()
        return f'{"wanted" if asked else self.apart}["{array.name}"]'

    def arguments_of_forward(self) -> str:
        """The arguments of `forward` where the function calls it."""
        whole = self.wanted() == self.values.value_names() and not self.case.procedure.changes
        if self.of == "values" or whole:
            return f"**{self.of}"
        return self.merged

    def write_losses(self) -> None:
        """What is differentiated: the loss as a function of a dict, and for higher orders the sum of
        all gradients as another one."""
        raise NotImplementedError

    def write_step(self) -> None:
        """A forward and a backward pass of training, with what happens in between."""
        raise NotImplementedError

    def write_training(self) -> None:
        code = self.code
        self.write_wanted()
        self.write_losses()
        code("losses = []")
        with code.indent(f"for {self.turn} in range({self.case.procedure.steps}):"):
            if self.case.procedure.changes:
                self.write_changes()
            self.write_step()
            self.write_update()
            code("losses.append(loss)")
        self.write_returned()

    def write_update(self) -> None:
        """One step of SGD."""
        rate = self.case.procedure.learning_rate
        if self.case.procedure.changes:
            with self.code.indent(
                f"for name in wanted.keys() & {{{listed(self.trained())[1:-1]}}}:"
            ):
                self.code(f"wanted[name] = wanted[name] - {rate} * gradients[name]")
            return
        if not self.tree_map:
            with self.code.indent(f"for name in {listed(self.trained())}:"):
                self.code(f"wanted[name] = wanted[name] - {rate} * gradients[name]")
            return
        step = f"lambda weight, gradient: weight - {rate} * gradient"
        trained = self.values.given(self.trained())
        places = [""] if trained == self.wanted() else [f'["{name}"]' for name in trained]
        for at in places:
            self.code(f"wanted{at} = {self.tree_map}({step}, wanted{at}, gradients{at})")

    def write_returned(self, *, again: bool = False) -> None:
        """What `run` returns."""
        training = self.case.procedure.kind == "train"
        results = [f'"outputs": {self.result}', f'"losses": {"losses" if training else "[loss]"}']
        changes = self.case.procedure.changes
        for made in ("gradients", "again") if again else ("gradients",):
            results.append(f'"{made}": {made}')
            if changes or {*self.wanted()} != {
                *self.case.wrt
            }:  # often those that the case asks for are all
                self.code(f"{made} = {self.values.entries(self.case.wrt, made)}")
        if training:
            parameters = [p.name for p in self.case.parameters]
            inside = set(self.values.given(parameters)) <= set(self.wanted()) and not changes
            source = "wanted" if inside else f"({self.everything})"
            whole = inside and self.wanted() == parameters
            held = source if whole else self.values.entries(parameters, source)
            results.append(f'"parameters": {held}')
        self.code(f"return {{{', '.join(results)}{self.state_entry()}}}")


class Lazy(Functional):
    """`run` of lazy frameworks, for all procedures but `second_backward` and `per_output`. One transform
    gives the graphs of a loss and of its gradients; a careful user evaluates the loss first.

    `value_and_grad` is the transform of a function of a dict that returns a loss, or a tuple of a loss
    and anything, into one that returns what the function returns, and the gradients of the loss in a
    dict; `evaluate` the function that computes arrays, or trees of them.
    """

    def __init__(
        self, emitter: Emitter, value_and_grad: str, evaluate: str, tree_map: str = ""
    ) -> None:
        super().__init__(emitter)
        self.value_and_grad, self.evaluate, self.tree_map = value_and_grad, evaluate, tree_map

    @property
    def inferring(self) -> str:
        return f"{self.evaluate}({super().inferring})"

    def write_inference(self) -> None:
        self.code("outputs = forward(**values)", FORWARD)
        self.code(f"{self.evaluate}(outputs)")
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_gradients(self) -> None:
        code, higher = self.code, HIGHER.get(self.case.procedure.kind, "")
        self.write_after()
        self.write_wanted()
        self.write_losses()
        if higher:
            of = f"{self.value_and_grad}({higher})({self.of})"
            code(f"(_, loss, outputs, gradients), again = {of}", FORWARD)
            code(f"{self.evaluate}(loss, outputs)")
        else:
            self._write_differentiated()
        self.write_between()
        self.write_backward(self.evaluate, "gradients", *(["again"] if higher else []))
        self.write_returned(again=bool(higher))

    def write_step(self) -> None:
        self._write_differentiated()
        self.write_between()
        self.code(f"{self.evaluate}(gradients)", BACKWARD)

    def _write_differentiated(self) -> None:
        """The graphs of the loss and of its gradients; what is evaluated is the loss alone."""
        if not self.wanted():
            raise NotOfferedError(self.variant.id, "gradients of nothing")
        both = self.result != "loss"
        value = "(loss, outputs)" if both else "loss"
        self.code(f"{value}, gradients = {self.value_and_grad}(loss_of)({self.of})", FORWARD)
        self.code(f"{self.evaluate}(loss{', outputs' if both else ''})")

    def write_losses(self) -> None:
        code, kind, of = self.code, self.case.procedure.kind, self.of
        alone = self.result == "loss"
        with code.indent(f"def loss_of({of}):"):
            code(
                f"{'return' if alone else 'outputs ='} {self.callee}({self.arguments_of_forward()})"
            )
            if not alone:
                code(f"return {self.loss()}, outputs")
        if kind not in HIGHER:
            return
        summed = self.words.reduction.format(x="gradient", kind="sum")
        total = f"sum({summed} for gradient in {{}}.values())"
        with code.indent(f"def total_of({of}):"):
            code(f"(loss, outputs), gradients = {self.value_and_grad}(loss_of)({of})")
            code(f"total = {total.format('gradients')}")
            code("return total, loss, outputs, gradients")
        if kind == "third_order":
            with code.indent(f"def second_total_of({of}):"):
                code(f"(_, *taken), second = {self.value_and_grad}(total_of)({of})")
                code(f"return {total.format('second')}, *taken")


class Pullback(Functional):
    """`run`, for all procedures, of frameworks in which differentiating a function gives its value and a
    pullback, from cotangents of the value to gradients, which may be called as often as one likes.

    `pullback` gives the pullback `vjp` and the `{value}` of a `{function}` at a dict `{at}`,
    `value_and_grad` value and gradients in one call; `ones` and `zeros` are cotangents in the form of
    `{x}`.
    """

    # A dict that is differentiated may be the framework's own, which Python's `|` does not know.
    merged = "**{**values, **wanted}"

    def __init__(
        self, emitter: Emitter, pullback: str, value_and_grad: str, ones: str, zeros: str
    ) -> None:
        super().__init__(emitter)
        self.pullback, self.value_and_grad = pullback, value_and_grad
        self.ones, self.zeros = ones, zeros

    def write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        self.write_after()
        self.write_wanted()
        self.write_losses()
        again = kind in ("per_output", "second_backward", *HIGHER)
        if kind == "functional":
            code(f"loss, gradients = {self.value_and_grad}(loss_of)({self.of})")
        elif kind in HIGHER:
            self._pulled("total", HIGHER[kind])
            code(f"again = vjp({self.ones.format(x='total')})")
            code("loss, gradients = taken[0]")
        else:
            self._pulled("loss", "loss_of", FORWARD)
        if self.result != "loss":
            code("outputs = seen[0]")
        if kind in ("functional", *HIGHER):
            self.write_returned(again=again)
            return
        self.write_between()
        if kind == "per_output":
            code("loss = loss[0]")
            code(f"one, none = {self.ones.format(x='loss')}, {self.zeros.format(x='loss')}")
            code("gradients = vjp((one, none))", BACKWARD)
            code("again = vjp((none, one))")
        else:
            self.write_backward("vjp", self.ones.format(x="loss"), into="gradients")
        if kind == "second_backward":
            code(f"again = vjp({self.ones.format(x='loss')})")
        self.write_returned(again=again)

    def write_step(self) -> None:
        self._pulled("loss", "loss_of", FORWARD)
        if self.result != "loss":
            self.code("outputs = seen.pop()")
        self.write_between()
        self.code(f"gradients = vjp({self.ones.format(x='loss')})", BACKWARD)

    def _pulled(self, value: str, function: str, site: Site | None = None) -> None:
        """The value of a function of the dict, and its pullback."""
        self.code(self.pullback.format(value=value, function=function, at=self.of), site)

    def write_losses(self) -> None:
        # What the functions find out beside their values is left in lists.
        code, kind, of = self.code, self.case.procedure.kind, self.of
        before, after = (FORWARD, BACKWARD) if kind == "functional" else (None, None)
        if self.result != "loss":
            code("seen = []")
        if kind in HIGHER:
            code("taken = []")
        with code.indent(f"def loss_of({of}):"):
            if self.result == "loss":
                code(f"return {self.callee}({self.arguments_of_forward()})")
            else:
                code(f"outputs = {self.callee}({self.arguments_of_forward()})", before)
                code("seen.append(outputs)")
                loss = self.loss()
                if kind == "per_output":
                    loss = f"tuple([{loss}, {self.loss(self.case.then)}])"
                # What follows is backward, for who recomputes there.
                code(f"return {loss}", after)
        if kind not in HIGHER:
            return
        key = '"{}"'.format(*self.case.wrt) if len(self.case.wrt) == 1 else "name"
        total = self.words.reduction.format(x=f"gradients[{key}]", kind="sum")
        if len(self.case.wrt) > 1:
            total = f"sum({total} for name in {listed(self.case.wrt)})"
        with code.indent(f"def total_of({of}):"):
            self._pulled("loss", "loss_of", FORWARD)
            code(f"gradients = vjp({self.ones.format(x='loss')})", BACKWARD)
            code("taken.append((loss, gradients))")
            code(f"return {total}")
        if kind == "third_order":
            with code.indent(f"def second_total_of({of}):"):
                self._pulled("total", "total_of")
                code(f"gradients = vjp({self.ones.format(x='total')})")
                code(f"return {total}")

    @property
    def result(self) -> str:
        """The loss that comes with a pullback is without its graph: what is kept is what `forward`
        gave."""
        return "outputs" if self.case.keeps else super().result

    def wanted(self) -> list[str]:
        """The keys of the dict that gradients are taken of: what asks for one, or where only a
        part of it is wanted, that part."""
        if self.case.procedure.kind == "part":
            return self.values.given(name for name in self.case.names() if name in self.case.wrt)
        return self.values.given(n for n in self.case.names() if n in ever_asking(self.case))
