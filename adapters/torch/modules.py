"""How classes of modules are written, which hold tensors, layers and the modules of regions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from conformance.emit.emitter import Forward
from conformance.emit.expressions import function
from conformance.model.case import Region, Statement


class Modules(Forward):
    """Regions are modules or methods of one."""

    @contextmanager
    def write_network(
        self,
        name: str,
        tensors: Iterable[str],
        layers: Iterable[Statement] = (),
        regions: Iterable[Region] = (),
    ) -> Iterator[None]:
        """Write the class of a network of all parameters, given what it holds. Its methods but for
        `forward` are written inside the `with`."""
        code, given = self.code, (value.name for value in self.case.inputs)
        names = [*tensors, *(function(region.name) for region in regions)]
        spelled = {held: f"self.{held}" for held in names}
        with code.indent(f"class {name}(nn.Module):"):
            with code.indent(f"def __init__({', '.join(['self', *self.layers.held])}):"):
                code("super().__init__()")
                for tensor in tensors:
                    code(f"self.{tensor} = {tensor}")
                for statement in layers:
                    self.layers.write_layer(statement)
                for region in regions:
                    self.write_held(region)
            head = f"def forward({', '.join(['self', *given])}):"
            with code.indent(head), self.body.spelling(spelled):
                self.write_pass()
            yield
