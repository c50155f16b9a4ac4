"""How `parallel: sharded` is written: regions are modules, `fully_shard` shards each and the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from conformance.emit.emitter import Values as Base
from conformance.emit.expressions import function
from conformance.errors import NotOfferedError
from conformance.model.case import Array, Region, flat

from .notes import SHARDED
from .wrapper import Wrapped

IMPORTS = (
    "from torch.distributed.fsdp import fully_shard",
    "from torch.distributed.tensor import DTensor",
)
#: What puts together the parts of tensors that all ranks hold.
WHOLE = """
    def whole(tensors):
        return {
            name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            for name, tensor in tensors.items()
        }


    """


class Values(Base):
    """Gradients and parameters, put together from all ranks."""

    def gradients(self) -> str:
        return f"whole({super().gradients()})"

    def chosen(self, arrays: Iterable[Array]) -> str:
        return f"whole({super().chosen(arrays)})"


class Sharded(Wrapped):
    """A class per path, whose objects hold a sharded module for each region."""

    makes_network = True

    def write_forward(self, path: str) -> None:
        code, regions, held = self.code, self._outermost(), self.layers.held
        self._check()
        code.notes.add(SHARDED)
        self.body.temporary = 0
        for region in regions:
            self._write_classes(region)
        name = f"{path.capitalize()}Net"
        with self.write_network(name, self._own(), regions=regions):
            pass
        with code.indent(f"def {path}({', '.join(held)}):"):
            code(f"return fully_shard({name}({', '.join(held)}))")

    def sharded(self) -> str:
        """A dict of the network's parameters, of which each rank holds a part."""
        places = dict.fromkeys(self._own(), "network")
        places |= self._places(self._outermost(), "network")
        names = [array.name for array in self.case.parameters]
        return "{" + ", ".join(f'"{name}": {places[name]}.{name}' for name in names) + "}"

    def _places(self, regions: Iterable[Region], holder: str) -> dict[str, str]:
        """The expressions of the modules of regions, by the tensors that each of them holds."""
        places: dict[str, str] = {}
        for region in regions:
            place = f"{holder}.{function(region.name)}"
            places |= dict.fromkeys(self._kept(region), place)
            places |= self._places(self._within(region), place)
        return places

    def _made(self, region: Region) -> str:
        return f"fully_shard({super()._made(region)})"

    def _outermost(self) -> list[Region]:
        return [node for node in flat(self.case.program) if isinstance(node, Region)]

    def _own(self) -> list[str]:
        """The tensors that the network itself holds."""
        inside = {name for region in self._outermost() for name in self._given(region)}
        return [name for name in self.layers.held if name not in inside]

    def _check(self) -> None:
        """Raise `NotOfferedError` unless modules that are made once can hold all that regions read by
        closure, each parameter in one of them."""
        inside = {name for region in self.case.regions() for name in self._given(region)}
        read = Counter({*self._read(self.case.program, self._outermost())})
        read.update(name for region in self.case.regions() for name in self._kept(region))
        procedure, what = self.case.procedure, ""
        if procedure.changes or procedure.between == "update" or self.case.hooks:
            what = "sharded parameters that are changed, or have hooks"
        elif procedure.kind == "part":
            what = "a backward pass to some of the sharded parameters"
        elif not inside <= {*self.layers.held}:
            what = "a sharded module that reads an input or an intermediate tensor by closure"
        elif any(read[name] > 1 for name in inside):
            what = "a parameter of several sharded modules"
        if what:
            raise NotOfferedError(self.variant.id, what)
