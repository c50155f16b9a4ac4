"""How `parallel` is written where ranks hold parts of parameters: regions are modules. `fully_shard`
shards each and the network, or `parallelize_module` splits their layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from conformance.emit.emitter import Values as Base
from conformance.emit.expressions import function
from conformance.errors import NotOfferedError
from conformance.model.case import Array, Node, Region, flat

from . import split
from .modules import network
from .notes import SHARDED, SPLIT
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


class Spread(Wrapped):
    """A class per path, whose objects hold a module for each region. Ranks hold parts of parameters."""

    makes_network = True

    def write_forward(self, path: str) -> None:
        code, program, held = self.code, self.case.program, ", ".join(self.layers.held)
        self._check()
        code.notes.add(SPLIT if self.case.split else SHARDED)
        self.body.temporary = 0
        for region in self._outermost():
            self._write_classes(region)
        name = f"{path.capitalize()}Net"
        layers, regions = self.layers.among(program), self._outermost()
        with network(self, name, self._own(), layers=layers, regions=regions):
            pass
        made = f"{name}({held})"
        with code.indent(f"def {path}({held}):"):
            code(f"return {self._split(made, program) if self.case.split else _sharded(made)}")

    def _module(self, region: Region) -> str:
        return self._split(super()._module(region), region.body)

    def _made(self, region: Region) -> str:
        made = super()._made(region)
        return made if self.case.split else _sharded(made)

    def _split(self, module: str, nodes: Sequence[Node]) -> str:
        """The expression of a module that does these nodes, its layers split."""
        plan = split.plan(self.layers, nodes)
        return f"parallelize_module({module}, mesh(), {plan})" if plan else module

    def held_parameters(self) -> str:
        """A dict of the network's parameters, of some of which each rank holds a part."""
        places = {name: f"network.{name}" for name in self._own()}
        places |= self._of_layers(self.case.program, "network")
        places |= self._places(self._outermost(), "network")
        names = [array.name for array in self.case.parameters]
        return "{" + ", ".join(f'"{name}": {places[name]}' for name in names) + "}"

    def _places(self, regions: Iterable[Region], holder: str) -> dict[str, str]:
        """The expressions of the tensors that the modules of regions hold."""
        places: dict[str, str] = {}
        for region in regions:
            place = f"{holder}.{function(region.name)}"
            places |= {name: f"{place}.{name}" for name in self._kept(region)}
            places |= self._of_layers(region.body, place)
            places |= self._places(self._within(region), place)
        return places

    def _of_layers(self, nodes: Iterable[Node], holder: str) -> dict[str, str]:
        """The expressions of the weights of a module's layers."""
        return {
            name: f"{holder}.{self.layers.attribute_of[id(statement)]}.{weight}"
            for statement in self.layers.among(nodes)
            for weight, name in self.layers.owned(statement).items()
        }

    def _outermost(self) -> list[Region]:
        return [node for node in flat(self.case.program) if isinstance(node, Region)]

    def _own(self) -> list[str]:
        """The tensors that the network itself holds, outside of layers."""
        inside = {name for region in self._outermost() for name in self._given(region)}
        inside |= {*self._of_layers(self.case.program, "")}
        return [name for name in self.layers.held if name not in inside]

    def _check(self) -> None:
        """Raise `NotOfferedError` unless modules that are made once can hold all that regions read by
        closure, each parameter in one of them."""
        inside = {name for region in self.case.regions() for name in self._given(region)}
        read = Counter({*self._read(self.case.program, self._outermost())})
        read.update(name for region in self.case.regions() for name in self._kept(region))
        layers = [s for _, s in self.case.statements() if id(s) in self.layers.attribute_of]
        owned = [name for s in layers for name in self.layers.owned(s).values()]
        read.update(owned)
        word = "split" if self.case.split else "sharded"
        procedure, what = self.case.procedure, ""
        if procedure.changes or procedure.between == "update" or self.case.hooks:
            what = f"{word} parameters that are changed, or have hooks"
        elif procedure.kind == "part":
            what = f"a backward pass to some of the {word} parameters"
        elif not inside <= {*self.layers.held}:
            what = f"a {word} module that reads an input or an intermediate tensor by closure"
        elif any(read[name] > 1 for name in self.layers.held):
            what = f"a parameter of several {word} modules"
        elif not self.case.split.keys() <= {*owned}:
            what = "a split layer whose weights are arguments"
        if what:
            raise NotOfferedError(self.variant.id, what)


def _sharded(module: str) -> str:
    return f"fully_shard({module})"
