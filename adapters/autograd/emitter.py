"""How autograd writes a case: NumPy functions, `autograd.checkpoint` around a region's function, and
`make_vjp` of the loss.

`checkpoint` differentiates with respect to the positional arguments of a function. `arguments` hands
over the parameters that a region reads, which is how functions are written for autograd; `closure`
leaves them to be read from outside.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import BACKWARD, FORWARD, Lists, Writer, function, listed
from conformance.emit.functional import HIGHER, Functional
from conformance.model.case import Again, Array, Case, Literal, Ref, Region, Tree, walk
from conformance.model.program import Site

from . import operations


class Emitter(Functional):
    """Writes one case for `arguments` or `closure`."""

    procedures_written = (
        *("backward", "part", "functional", "per_output", "second_backward"),
        *("second_order", "third_order", "inference", "train"),
    )
    imports = (
        "import random",
        "import autograd.numpy as np",
        "from autograd import checkpoint, grad, make_vjp, value_and_grad",
        "from autograd.builtins import dict, tuple",
        "from autograd.extend import defvjp, primitive",
        "from autograd.scipy.signal import convolve",
        "from autograd.scipy.special import erf, expit",
        "from autograd.tracer import getval",
    )
    helpers: Mapping[str, str] = operations.HELPERS
    operations: Mapping[str, Writer] = operations.OPERATIONS
    shares = True
    lists: Lists = "uncaptured"  # what a region captures is handed over to it
    seeding = "np.random.seed({seed})"
    drawing = "np.random.uniform()"
    reduction = "np.{kind}({x})"
    halving = "for name in {names}:\n    values[name] *= 0.5"

    def tensor(self, array: Array, source: str) -> str:
        return f"np.array({source}, dtype=np.{array.dtype})"

    def __init__(self, case: Case, variant: Variant) -> None:
        if case.procedure.kind == "train":
            self.lists = "nothing"  # what is trained is put back by its name
        super().__init__(case, variant)

    # -- regions ---------------------------------------------------------------------------------

    def parameters(self, region: Region) -> str:
        handed = self._handed(region)
        if region.signature == "variadic":
            return ", ".join([*handed, super().parameters(region)])
        return ", ".join([*self.formals(region), *handed, *self.named_formals(region)])

    def call_arguments(self, node: Region | Again) -> str:
        region = node if isinstance(node, Region) else self.region_named(node.region)
        words, handed = [self._traced(tree) for tree in node.takes], self._handed(region)
        words = [*handed, *words] if region.signature == "variadic" else [*words, *handed]
        return ", ".join([*words, *(f"{k}={self._traced(t)}" for k, t in node.kwargs.items())])

    def write_region(self, region: Region) -> None:
        super().write_region(region)
        if self.path == "recomputed" and self._is_named(region):
            self.code(f"remat_{function(region.name)} = {self._checkpoint(region)}")

    def _serves_both(self, region: Region) -> bool:
        return super()._serves_both(region) and isinstance(region.gives, Ref)

    def write_function(self, region: Region) -> None:
        site = Site("region", self.path, region.name, region.name)
        with self.code.indent(f"def {function(region.name)}({self.parameters(region)}):", site):
            self.write_unpacking(region)
            self.write_nodes(region.body, region.name)
            if self._traced(region.gives) == self.tree(region.gives):
                self.write_return(region.gives)
            else:
                self.code(f"return {self._traced(region.gives)}")
        self.code()

    def recompute(self, region: Region) -> str:
        named = self._is_named(region)
        return f"remat_{function(region.name)}" if named else self._checkpoint(region)

    def _checkpoint(self, region: Region) -> str:
        block = "None" if region.block == "invalid" else function(region.name)
        return f"checkpoint({block})" if self.own is None else self.own_transform(block, region)

    def _is_named(self, region: Region) -> bool:
        """Whether the recomputed callable is made once, and has a name of its own."""
        return any(
            isinstance(n, Again) and n.region == region.name for n in walk(self.case.program)
        )

    def _handed(self, region: Region) -> list[str]:
        """The parameters that a region reads, or a region that it calls, and does not take."""
        if self.variant.name == "closure":
            return []
        read = self._read(region)
        return [array.name for array in self.case.parameters if array.name in read]

    def _read(self, region: Region) -> set[str]:
        read = set(region.captured())
        for node in walk(region.body):
            if isinstance(node, Again):
                read |= self._read(self.region_named(node.region))
        return read

    def _traced(self, tree: Tree) -> str:
        """A tree that is handed to a recomputed callable or given by it, in containers of autograd's: it
        does not follow what is inside Python's own."""
        if self.path == "plain" or isinstance(tree, Ref | Literal):
            return self.tree(tree)
        if isinstance(tree, Mapping):
            entries = ", ".join(f"{k!r}: {self._traced(t)}" for k, t in tree.items())
            return f"dict({{{entries}}})"
        return f"tuple([{', '.join(self._traced(part) for part in tree)}])"

    # -- run -------------------------------------------------------------------------------------

    def write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        self.write_after()
        self.write_wanted()
        self._write_losses()
        again = kind in ("per_output", "second_backward", *HIGHER)
        if kind == "functional":
            code(f"loss, gradients = value_and_grad(loss_of)({self.of})")
        elif kind in HIGHER:
            code(f"vjp, total = make_vjp({HIGHER[kind]})({self.of})")
            code("again = vjp(np.ones_like(total))")
            code("loss, gradients = taken[0]")
        else:
            code(f"vjp, loss = make_vjp(loss_of)({self.of})", FORWARD)
        if self.result != "loss":
            code("outputs = seen[0]")
        if kind in ("functional", *HIGHER):
            self.write_returned(again=again)
            return
        self.write_between()
        if kind == "per_output":
            code("loss = loss[0]")
            code("one, none = np.ones_like(loss), np.zeros_like(loss)")
            code("gradients = vjp((one, none))", BACKWARD)
            code("again = vjp((none, one))")
        else:
            self.write_backward("vjp", "np.ones_like(loss)", into="gradients")
        if kind == "second_backward":
            code("again = vjp(np.ones_like(loss))")
        self.write_returned(again=again)

    def write_training(self) -> None:
        code = self.code
        self.write_wanted()
        self._write_losses()
        code("losses = []")
        with code.indent(f"for _ in range({self.case.procedure.steps}):"):
            code("vjp, loss = make_vjp(loss_of)(wanted)", FORWARD)
            if self.result != "loss":
                code("outputs = seen.pop()")
            self.write_between()
            code("gradients = vjp(np.ones_like(loss))", BACKWARD)
            with code.indent(f"for name in {listed(self.trained())}:"):
                rate = self.case.procedure.learning_rate
                code(f"wanted[name] = wanted[name] - {rate} * gradients[name]")
            code("losses.append(loss)")
        self.write_returned()

    def _write_losses(self) -> None:
        """What is differentiated: the loss as a function of a dict, and for higher orders the sum of
        all gradients as another one. What they find out beside is left in lists."""
        code, kind, of = self.code, self.case.procedure.kind, self.of
        before, after = (FORWARD, BACKWARD) if kind == "functional" else (None, None)
        if self.result != "loss":
            code("seen = []")
        if kind in HIGHER:
            code("taken = []")
        code()
        with code.indent(f"def loss_of({of}):"):
            if self.result == "loss":
                code(f"return forward({self.arguments_of_forward()})")
            else:
                code(f"outputs = forward({self.arguments_of_forward()})", before)
                code("seen.append(outputs)")
                loss = self.loss()
                if kind == "per_output":
                    loss = f"tuple([{loss}, {self.loss(self.case.then)}])"
                # What follows is backward, for who recomputes there.
                code(f"return {loss}", after)
        code()
        if kind not in HIGHER:
            return
        total = f"return sum(np.sum(gradients[name]) for name in {listed(self.case.wrt)})"
        with code.indent(f"def total_of({of}):"):
            code(f"vjp, loss = make_vjp(loss_of)({of})", FORWARD)
            code("gradients = vjp(np.ones_like(loss))", BACKWARD)
            code("taken.append((loss, gradients))")
            code(total)
        code()
        if kind == "third_order":
            with code.indent(f"def second_total_of({of}):"):
                code(f"vjp, total = make_vjp(total_of)({of})")
                code("gradients = vjp(np.ones_like(total))")
                code(total)
            code()

    @property
    def result(self) -> str:
        """The loss that `make_vjp` gives is without its graph: what is kept is what `forward` gave."""
        return "outputs" if self.case.keeps else super().result

    def arguments_of_forward(self) -> str:
        """A dict that is differentiated is autograd's own, which Python's `|` does not know."""
        return "**{**values, **wanted}" if self.of == "wanted" else "**values"

    def wanted(self) -> list[str]:
        """The keys of the dict that gradients are taken of: what asks for one, or where only a
        part of it is wanted, that part."""
        if self.case.procedure.kind == "part":
            return self.given(name for name in self.case.names() if name in self.case.wrt)
        return self.given(array.name for array in self.case.arrays if array.gradient)
