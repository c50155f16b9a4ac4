"""How autograd writes a case: NumPy functions, `autograd.checkpoint` around a region's function, and
`make_vjp` of the loss.

`checkpoint` differentiates with respect to the positional arguments of a function. `arguments` hands
over the parameters that a region reads, which is how functions are written for autograd; `closure`
leaves them to be read from outside.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit.emitter import Lists, Writer
from conformance.emit.expressions import like_numpy
from conformance.emit.pullback import Pullback
from conformance.model.case import Again, Array, Literal, Ref, Region, Tree, walk

from . import operations


class Emitter(Pullback):
    """Writes one case for `arguments` or `closure`."""

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
    pullback, value_and_grad = "vjp, {value} = make_vjp({function})({at})", "value_and_grad"
    ones, zeros = "np.ones_like({x})", "np.zeros_like({x})"

    def tensor(self, array: Array, source: str) -> str:
        return like_numpy("np", array, source, f"dtype=np.{array.dtype}")

    # -- regions ---------------------------------------------------------------------------------

    def parameters(self, region: Region) -> str:
        handed = self._handed(region)
        if region.signature == "variadic":
            return ", ".join([*handed, super().parameters(region)])
        return ", ".join([*self.formals(region), *handed, *self.named_formals(region)])

    def call_arguments(self, node: Region | Again) -> str:
        region = node if isinstance(node, Region) else self.region_named(node.region)
        words, handed = [self.handed(tree) for tree in node.takes], self._handed(region)
        words = [*handed, *words] if region.signature == "variadic" else [*words, *handed]
        return ", ".join([*words, *(f"{k}={self.handed(t)}" for k, t in node.kwargs.items())])

    def checkpoint(self, region: Region) -> str:
        block = self.block(region)
        return f"checkpoint({block})" if self.own is None else self.own_transform(block, region)

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

    def handed(self, tree: Tree) -> str:
        """In containers of autograd's: it does not follow what is inside Python's own."""
        if isinstance(tree, Ref | Literal):
            return self.tree(tree)
        if isinstance(tree, Mapping):
            entries = ", ".join(f"{k!r}: {self.handed(t)}" for k, t in tree.items())
            return f"dict({{{entries}}})"
        return f"tuple([{', '.join(self.handed(part) for part in tree)}])"
