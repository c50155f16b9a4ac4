"""How the class of a network is written, which holds tensors, layers and the modules of regions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from conformance.emit.emitter import Forward
from conformance.emit.expressions import function
from conformance.model.case import Region, Statement


@contextmanager
def network(
    forward: Forward,
    name: str,
    tensors: Iterable[str],
    layers: Iterable[Statement] = (),
    regions: Iterable[Region] = (),
) -> Iterator[None]:
    """Write the class of a network of all parameters, given what it holds. Its methods but for `forward`
    are written inside the `with`."""
    code, given = forward.code, (value.name for value in forward.case.inputs)
    names = [*tensors, *(function(region.name) for region in regions)]
    spelled = {held: f"self.{held}" for held in names}
    with code.indent(f"class {name}(nn.Module):"):
        with code.indent(f"def __init__({', '.join(['self', *forward.layers.held])}):"):
            code("super().__init__()")
            for tensor in tensors:
                code(f"self.{tensor} = {tensor}")
            for statement in layers:
                forward.layers.write_layer(statement)
            for region in regions:
                forward.write_held(region)
        head = f"def forward({', '.join(['self', *given])}):"
        with code.indent(head), forward.body.spelling(spelled):
            forward.write_pass()
        yield
