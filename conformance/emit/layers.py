"""Programs with modules: a framework's own layers, which own their weights, and classes of a user's own.

A module is what PyTorch calls one, a layer of Paddle's or Keras', or a cell of MindSpore's.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from conformance.emit import usual
from conformance.emit.code import Code
from conformance.emit.expressions import function
from conformance.emit.forward import Forward
from conformance.emit.part import Part
from conformance.model.case import Again, Node, Option, Ref, Region, Statement, flat, leaves, walk

#: The arguments of a layer's constructor: a format string over the shape of its first weight (`{0}`,
#: `{1}`, …) and the options of the operation (`{eps}`), or a function of the two.
Constructor = str | Callable[[Sequence[int], Mapping[str, Option]], str]


@dataclass(frozen=True)
class Layer:
    """A layer with weights: its class's `name`, the argument of the operation that it `takes` when
    called, and for each other argument the attribute of the layer that holds it, in order; `buffers`
    are those that a framework sets in another way than by assigning them."""

    name: str
    takes: str
    weights: Mapping[str, str]
    constructor: Constructor = ""
    buffers: Mapping[str, str] = field(default_factory=dict)


def convolution(*more: str) -> Constructor:
    """The constructor's arguments of a convolution: channels in and out, the size of the kernel, stride
    and padding, and `more` (`bias=False`)."""

    def arguments(shape: Sequence[int], options: Mapping[str, Option]) -> str:
        given, taken, height, width = shape
        kernel = height if height == width else (height, width)
        words = (taken, given, kernel, *usual.stride_and_padding(options), *more)
        return ", ".join(map(str, words))

    return arguments


def taken(nodes: Iterable[Node]) -> frozenset[str]:
    """The names passed as arguments to the regions called among these nodes. Such a tensor cannot be a
    weight of a layer, since a layer gets its weights when it is made."""
    calls = [node for node in flat(nodes) if isinstance(node, Region | Again)]
    return frozenset(n for call in calls for n in leaves(call.takes) + leaves(call.kwargs))


def attributes(statements: Iterable[Statement]) -> dict[int, str]:
    """For each statement that a layer computes, by `id(statement)`, the attribute that holds the layer:
    the statement's label, with a number appended from the second of the same label on."""
    seen: Counter[str] = Counter()
    named: dict[int, str] = {}
    for statement in statements:
        label = statement.label
        seen[label] += 1
        named[id(statement)] = label if seen[label] == 1 else f"{label}_{seen[label]}"
    return named


@contextmanager
def module_class(code: Code, name: str, base: str, attributes: Sequence[str]) -> Iterator[None]:
    """Write a class of modules, made of tensors that become attributes of the same names. Its other
    methods are written inside the `with`."""
    with code.indent(f"class {name}({base}):"):
        if attributes:
            with code.indent(f"def __init__({', '.join(['self', *attributes])}):"):
                code("super().__init__()")
                for attribute in attributes:
                    code(f"self.{attribute} = {attribute}")
        yield


class Layers(Part):
    """Statements that are calls of the framework's own layers, where it has one for the operation and
    the layer can own the parameters that the statement reads; here there are none."""

    #: By operation, the layers with weights, and the constructors of those without: format strings over
    #: the operation's options.
    layers_with_weights: Mapping[str, Layer] = {}
    weightless: Mapping[str, str] = {}

    def __init__(self, emitter: Any) -> None:
        super().__init__(emitter)
        #: What a network is made of: parameters and state, by name.
        self.held = {array.name: array for array in (*self.case.parameters, *self.case.state)}
        self.taken = taken(walk(self.case.program))
        #: For each statement that a layer does, by `id(statement)`, the attribute that is the layer.
        self.attribute_of: Mapping[int, str] = {}

    def among(self, nodes: Iterable[Node]) -> list[Statement]:
        """The statements directly among these nodes that layers do."""
        found = (node for node in flat(nodes) if isinstance(node, Statement))
        return [statement for statement in found if id(statement) in self.attribute_of]

    def can_own(self, name: str) -> bool:
        """Whether a layer can own a tensor: a parameter or state that no region takes as an argument."""
        return name in self.held and name not in self.taken

    def is_layer(self, statement: Statement) -> bool:
        """Whether a statement can be written as a layer that owns the parameters it reads."""
        call = self.body.call_of(statement)
        if statement.op in self.weightless:
            return call.options.get("seed") is None and isinstance(statement.arguments[0], Ref)
        layer = self.layers_with_weights.get(statement.op)
        return layer is not None and all(
            self.can_own(call.arguments[name]) for name in (*layer.weights, *layer.buffers)
        )

    def called_on(self, statement: Statement) -> str:
        """The argument of a statement that its layer is called on."""
        layer = self.layers_with_weights.get(statement.op)
        return self.body.call_of(statement).arguments[layer.takes if layer else "x"]

    def called(self, statement: Statement) -> str:
        """The call of a statement's layer."""
        return f"self.{self.attribute_of[id(statement)]}({self.called_on(statement)})"

    def constructed(self, statement: Statement) -> str:
        """The construction of the layer that does a statement."""
        call = self.body.call_of(statement)
        if statement.op in self.weightless:
            return f"nn.{self.weightless[statement.op].format(**call.options)}"
        layer = self.layers_with_weights[statement.op]
        shape, made = self.held[call.arguments[next(iter(layer.weights))]].shape, layer.constructor
        given = made(shape, call.options) if callable(made) else made.format(*shape, **call.options)
        return f"nn.{layer.name}({given})"

    def write_weights(self, place: str, statement: Statement) -> None:
        """Give the layer at `place` its weights."""
        for weight, tensor in self.owned(statement).items():
            self.code(f"{place}.{weight} = {tensor}")

    def owned(self, statement: Statement) -> dict[str, str]:
        """The expressions of the weights of a statement's layer, by the attributes that hold them."""
        layer = self.layers_with_weights.get(statement.op)
        given = self.body.call_of(statement).arguments
        weights = {} if layer is None else layer.weights
        return {weight: given[argument] for argument, weight in weights.items()}

    def write_layer(self, statement: Statement) -> None:
        """Write the attribute that is a statement's layer."""
        place = f"self.{self.attribute_of[id(statement)]}"
        self.code(f"{place} = {self.constructed(statement)}")
        self.write_weights(place, statement)


class Networks(Forward):
    """Writes `plain` and `recomputed` as functions that make a network of its parameters. Regions are
    layers or methods of the network."""

    makes_network = True

    def write_region(self, region: Region) -> None:
        """Nothing: a region is part of the network's class."""

    def place(self, region: Region) -> str:
        return f"self.{function(region.name)}"

    def write_maker(self, path: str, network: str) -> None:
        """Write `plain` or `recomputed`, given the name of the network's class."""
        held = ", ".join(self.layers.held)
        with self.code.indent(f"def {path}({held}):"):
            self.code(f"return {network}({held})")
