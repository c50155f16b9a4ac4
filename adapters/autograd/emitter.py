"""How autograd writes a case: NumPy functions, `autograd.checkpoint` around a region's function, and
`make_vjp` of the loss.

`checkpoint` differentiates with respect to the positional arguments of a function. `arguments` passes
over the parameters that a region reads, which is how functions are written for autograd; `closure`
leaves them to be read from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from conformance.drivers.adapter import Variant
from conformance.emit import functional
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter, Forward, Parts, Recompute, Tensors
from conformance.emit.expressions import like_numpy
from conformance.emit.functional import Pullback
from conformance.emit.part import FURTHER, PROCEDURES
from conformance.emit.transforms import Transforms
from conformance.language.containers import has_container
from conformance.model.case import Again, Array, Case, Literal, Ref, Region, Tree, leaves, walk
from conformance.model.containers import Listed

from . import operations

WORDS = replace(
    functional.WORDS,
    procedures_written=(*PROCEDURES, *FURTHER),
    imports=(
        "import random",
        "import autograd.numpy as np",
        "from autograd import checkpoint, grad, jacobian, make_jvp, make_vjp, value_and_grad",
        "from autograd.builtins import dict, tuple",
        "from autograd.extend import defvjp, primitive, vspace",
        "from autograd.scipy.signal import convolve",
        "from autograd.scipy.special import erf, expit",
        "from autograd.tracer import getval",
    ),
    helpers=operations.HELPERS,
    operations=operations.OPERATIONS,
    shares=True,
    lists="uncaptured",  # what a region captures is passed to it
    seeding="np.random.seed({seed})",
    drawing="np.random.uniform()",
    reduction="np.{kind}({x})",
)


class Arrays(Tensors):
    """NumPy's arrays."""

    def tensor(self, array: Array, source: str) -> str:
        return like_numpy("np", array, source, f"dtype=np.{array.dtype}")


class Checkpoint(Recompute):
    """`checkpoint` of each region's function."""

    def checkpoint(self, region: Region) -> str:
        return f"checkpoint({', '.join([self.block(region), *self.misuse(region)])})"


class Functions(Forward):
    """Functions of regions. Containers are passed as autograd's own: it does not follow what is
    inside Python's."""

    def handed(self, tree: Tree) -> str:
        if isinstance(tree, Ref | Literal):
            return self.body.tree(tree)
        if isinstance(tree, Mapping):
            entries = ", ".join(f"{k!r}: {self.handed(t)}" for k, t in tree.items())
            return f"dict({{{entries}}})"
        kind = "list" if isinstance(tree, Listed) else "tuple"
        return f"{kind}([{', '.join(self.handed(part) for part in tree)}])"


class Handed(Functions):
    """Functions that take the parameters that a region reads, or a region that it calls."""

    def extra(self, region: Region) -> list[str]:
        read = self._read(region)
        read -= {*leaves(region.takes), *leaves(region.kwargs)}
        return [array.name for array in self.case.parameters if array.name in read]

    def _read(self, region: Region) -> set[str]:
        read = set(region.captured())
        for node in walk(region.body):
            if isinstance(node, Again):
                read |= self._read(self.emitter.regions[node.region])
        return read


class Forwards(Transforms):
    """`make_jvp` in forward mode, and Jacobians."""

    def write(self) -> None:
        code, case, kind = self.code, self.case, self.case.procedure.kind
        code("seen = []")
        whole, of = kind == "jvp_of_gradient", f"wanted = {self.values.entries(case.wrt)}"
        code(of)
        with code.indent("def output_of(wanted):"):
            code("outputs = forward(**{**values, **wanted})", FORWARD)
            code("seen.append(outputs)")
            code(f"return {self.run.loss() if whole else self.place}", BACKWARD)
        if kind == "jacobian" and len(case.wrt) == 1:
            name = repr(case.wrt[0])
            code(f"of = jacobian(lambda x: output_of({{{name}: x}}))")
            code(f"gradients = {{{name}: of(wanted[{name}])}}")
        elif kind == "jacobian":  # as `jacobian`, which takes one tensor, and runs forward for each
            code("vjp, output = make_vjp(output_of)(wanted)")
            code("rows = [vjp(one) for one in vspace(output).standard_basis()]")
            code("gradients = {}")
            with code.indent("for name, value in wanted.items():"):
                code("whole = np.stack([row[name] for row in rows])")
                code("gradients[name] = np.reshape(whole, output.shape + value.shape)")
        elif whole:
            code("gradients, again = make_jvp(grad(output_of))(wanted)(wanted)")
        elif kind == "jvp":
            code("_, tangent = make_jvp(output_of)(wanted)(wanted)")
        else:
            code("tangents = []")
            with code.indent("def tangent_of(given):"):
                code("_, tangent = make_jvp(output_of)(given)(wanted)")
                code("tangents.append(tangent)")
                code(f"return {self.reduced('tangent')}")
            code("again = grad(tangent_of)(wanted)")
            code("tangent = tangents[0]")
        code("outputs = seen[0]")


RUN = partial(
    Pullback,
    pullback="vjp, {value} = make_vjp({function})({at})",
    value_and_grad="value_and_grad",
    ones="np.ones_like({x})",
    zeros="np.zeros_like({x})",
)
PARTS = Parts(WORDS, Arrays, Checkpoint, RUN, forward=Functions, transforms=Forwards)
VARIANTS = {"arguments": PARTS.but(forward=Handed), "closure": PARTS}


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for `arguments` or `closure`."""
    parts = VARIANTS[variant.name]
    if any(has_container(region, Listed) for region in case.regions()):
        parts = parts.but("from autograd.builtins import list")
    if case.procedure.kind == "train":  # what is trained is put back by its name
        parts = parts.but(lists="nothing")
    return Emitter(case, variant, parts)
