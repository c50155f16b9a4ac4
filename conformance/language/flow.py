"""Where the values of a case come from and go to: what features are derived from.

Nothing is computed. Each name of a program stands for a `Tensor`; each time that a region is called is a
`Call` with the tensors that it is given, reads by closure, makes and returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from conformance.language.operations import BOOLS, CASTS, OPERATIONS, RANDOM
from conformance.model.case import (
    Again,
    Array,
    Case,
    Generator,
    Literal,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    Value,
    flat,
    leaves,
    walk,
)

#: Beginnings of the names of dtypes that have a gradient.
_REAL = ("float", "bfloat", "complex")
#: Operations whose result may have elements where one of their arguments has none.
_FILLING = frozenset({"sum", "mean", "max", "concat", "matmul", "linear", "embedding", "conv2d"})


@dataclass(eq=False)
class Tensor:
    """A value of a program. `asks`: it requires a gradient. `of` is the role of a tensor that the
    program starts from (`input`, `parameter`, `state`), `value` for what is no tensor, else `computed`.
    `maker` is the statement that computed it, `reads` are those that read it, in order."""

    of: str
    asks: bool = False
    #: That of a tensor that the program starts from, and `bool` where one is computed from bools alone.
    dtype: str = field(default="", kw_only=True)
    floating: bool = True
    maker: Statement | None = None
    reads: list[tuple[int, Statement | Call]] = field(default_factory=list)
    #: When it is changed in place.
    changed: list[int] = field(default_factory=list)
    #: When it was computed.
    moment: int = 0
    #: The calls that have returned it.
    returned_by: list[Call] = field(default_factory=list)
    #: The tensor that it is, where a statement has returned its argument as it is.
    same: Tensor | None = None
    #: The tensor that it is a handle of.
    handles: Tensor | None = None

    @property
    def itself(self) -> Tensor:
        """The same for all tensors that are one."""
        return self.same or self

    @property
    def handled(self) -> Tensor:
        """The tensor, where this is a handle of one: what a name stands for, which is another one for
        an argument of a region, and for what a region has not made and returns as it is."""
        return self if self.handles is None else self.handles.handled


@dataclass(eq=False)
class Step:
    """A statement as it runs once: the handles that it reads, by the operation's arguments, and the
    tensors that it makes. `call` is the innermost call of a region around it."""

    statement: Statement
    call: Call | None
    handles: Mapping[str, tuple[Tensor, ...]]
    makes: tuple[Tensor, ...]
    moment: int

    @cached_property
    def reads(self) -> Mapping[str, tuple[Tensor, ...]]:
        """The tensors that it reads."""
        return {name: tuple(t.handled for t in some) for name, some in self.handles.items()}

    def read(self) -> Iterator[Tensor]:
        """All tensors among its arguments."""
        for tensors in self.reads.values():
            yield from tensors

    def differentiable(self, *, handles: bool = False) -> Iterator[Tensor]:
        """The tensors among its arguments that the operation has a gradient for."""
        reads = self.handles if handles else self.reads
        for name in OPERATIONS[self.statement.op].needs:
            yield from (tensor for tensor in reads.get(name, ()) if tensor.floating)


@dataclass(eq=False)
class Call:
    """A call of a region, at a moment of the program. `around` is the call whose body it is in."""

    region: Region
    moment: int
    around: Call | None
    #: What it is given, as handles around it and inside.
    handles: tuple[Tensor, ...] = ()
    inside: tuple[Tensor, ...] = ()
    captured: tuple[Tensor, ...] = ()
    #: The names inside of arguments that the program does not pass, but the function has by default.
    left_out: frozenset[str] = frozenset()
    #: What it returns, as handles.
    returns: tuple[Tensor, ...] = ()
    #: Statements of the body, as they ran, and calls in it, in order.
    items: list[Step | Call] = field(default_factory=list)
    #: The last moment of the body.
    end: int = 0

    @cached_property
    def given(self) -> tuple[Tensor, ...]:
        """The tensors that it is given."""
        return tuple(tensor.handled for tensor in self.handles)

    @property
    def results(self) -> tuple[Tensor, ...]:
        """The tensors that it returns."""
        return tuple(tensor.handled for tensor in self.returns)

    def within(self) -> Iterator[Call]:
        """This call and the calls in its body, at any depth."""
        yield self
        for item in self.items:
            if isinstance(item, Call):
                yield from item.within()

    def statements(self) -> Iterator[Statement]:
        """The statements of the body, those of inner calls included."""
        for item in self.items:
            if isinstance(item, Call):
                yield from item.statements()
            else:
                yield item.statement

    @property
    def depth(self) -> int:
        """How many calls are around this one."""
        return 0 if self.around is None else self.around.depth + 1


class Flow:
    """The tensors and calls of a case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.calls: list[Call] = []
        self.of_region: dict[str, list[Call]] = {}
        self.given: dict[str, Tensor] = {}
        #: Statements outside of regions, as they ran, and the outermost calls, in order.
        self.items: list[Step | Call] = []
        self._moment = 0
        self._regions: dict[str, Region] = {}
        for role, values in (
            ("input", case.inputs),
            ("parameter", case.parameters),
            ("state", case.state),
        ):
            for value in values:
                self.given[value.name] = _given(role, value)
        #: The tensors in the whole return values of regions, by the names for these.
        self.returned: dict[str, tuple[Tensor, ...]] = {}
        self.handles = dict(self.given)
        self._run(case.program, self.handles, None)
        self.names = {name: tensor.handled for name, tensor in self.handles.items()}

    def _run(self, nodes: Iterable[Node], names: dict[str, Tensor], call: Call | None) -> None:
        for node in flat(nodes):
            self._moment += 1
            if isinstance(node, Statement):
                self._statement(node, names, call)
            else:
                self._region(node, names, call)

    def _statement(self, node: Statement, names: dict[str, Tensor], call: Call | None) -> None:
        read = [names[name] for name in node.names() if name in names]
        for tensor in read:
            tensor.reads.append((self._moment, node))
        changed = _changed(node)
        for tensor in (names[name] for name in changed if name in names):
            tensor.changed.append(self._moment)
        step = Step(node, call, _by_argument(node, names), (), self._moment)
        asks = any(tensor.asks for tensor in step.differentiable())
        if node.op in CASTS:
            floating = str(node.options["dtype"]).startswith(_REAL)
        else:
            tensors = [tensor.floating for tensor in read if tensor.of != "value"]
            floating = node.op not in BOOLS and (not tensors or any(tensors))
        kinds = {str(node.options.get("dtype", tensor.dtype)) for tensor in read}
        dtype = "bool" if kinds == {"bool"} else ""
        if node.op == "to_complex" or ("complex" in kinds and node.op not in ("real", "imag")):
            dtype = "complex"
        made = tuple(
            Tensor(
                "computed",
                asks and floating,
                dtype=dtype,
                floating=floating,
                maker=node,
                moment=self._moment,
            )
            for _ in node.targets
        )
        operation = OPERATIONS[node.op]
        if operation.raises or operation.hooks:  # it returns its argument as it is
            given = (tensor.handled for tensor in read[:1])
            made = tuple(replace(tensor, same=tensor.itself) for tensor in given)
        names.update(zip(node.targets, made, strict=True))
        step.makes = made
        (self.items if call is None else call.items).append(step)

    def _region(self, node: Region | Again, names: dict[str, Tensor], around: Call | None) -> None:
        region = node if isinstance(node, Region) else self._regions[node.region]
        self._regions[region.name] = region
        if isinstance(node, Region) and not node.called:
            return
        given = [*in_order(node.takes, region.takes), *in_order(node.kwargs, region.kwargs)]
        own = [*leaves(region.takes), *leaves(region.kwargs)]
        call = Call(region, self._moment, around)
        if isinstance(node, Again):
            call.left_out = frozenset(
                n for key in node.left_out for n in leaves(region.kwargs[key])
            )
        call.handles = tuple(names[name] for name in given if name in names)
        captured = [name for name in region.captured() if name in names]
        call.captured = tuple(names[name].handled for name in captured)
        for tensor in (*call.given, *call.captured):
            tensor.reads.append((self._moment, call))
        inner = dict(names)
        call.inside = tuple(map(_handle, call.handles))
        inside = iter(call.inside)
        inner.update(
            (name, next(inside) if outer in names else Tensor("value"))
            for name, outer in zip(own, given, strict=False)
        )
        before = set(inner.values())
        self.calls.append(call)
        self.of_region.setdefault(region.name, []).append(call)
        (self.items if around is None else around.items).append(call)
        self._run(region.body, inner, call)
        call.end = self._moment
        results = (inner[name] for name in leaves(region.gives) if name in inner)
        call.returns = tuple(_handle(t) if t in before else t for t in results)
        for tensor in call.returns:
            tensor.returned_by.append(call)
        names.update(zip(in_order(node.gives, region.gives), call.returns, strict=False))
        if node.returned:
            names[node.returned] = Tensor("value")
            self.returned[node.returned] = call.results

    @property
    def outside(self) -> tuple[Statement, ...]:
        """The statements outside of regions."""
        return tuple(item.statement for item in self.items if isinstance(item, Step))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that the program returns."""
        found: list[Tensor] = []
        for name in leaves(self.case.outputs):
            found += self.returned.get(name, (self.names[name],) if name in self.names else ())
        return tuple(found)


def _handle(tensor: Tensor) -> Tensor:
    """Another handle of a tensor, which is no parameter under this name."""
    if tensor.of == "value":
        return tensor
    return replace(tensor, of="computed", same=None, handles=tensor)


def _given(role: str, value: Array | Value | Generator) -> Tensor:
    """A value that the program starts from."""
    if not isinstance(value, Array):
        return Tensor("value", floating=False)
    return Tensor(role, value.gradient, value.dtype.startswith(_REAL), dtype=value.dtype)


def _by_argument(node: Statement, names: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, ...]]:
    """The tensors that a statement reads, by the operation's arguments."""
    arguments = [name.rstrip(".?") for name in OPERATIONS[node.op].tensors]
    return {
        argument: tuple(names[name] for name in leaves(tree) if name in names)
        for argument, tree in zip(arguments, node.arguments, strict=False)
    }


def _changed(node: Statement) -> tuple[str, ...]:
    """The names that a statement changes in place."""
    operation = OPERATIONS[node.op]
    updated = [name for name in operation.updates if name in operation.tensors]
    places = [operation.tensors.index(name) for name in updated]
    if operation.capability == "in-place":
        places.append(0)
    arguments = (node.arguments[place] for place in places if place < len(node.arguments))
    return tuple(argument.name for argument in arguments if isinstance(argument, Ref))


def returned(case: Case) -> Iterator[Tree]:
    """What a program returns, and what regions have returned whose return value it returns."""
    yield case.outputs
    kept = leaves(case.outputs)
    calls = (node for node in walk(case.program) if isinstance(node, Region | Again))
    yield from (node.gives for node in calls if node.returned in kept)


def without_elements(statement: Statement, arguments: Iterable[bool]) -> bool:
    """Whether the results of a statement have no elements, where this is known of its arguments."""
    shape = statement.options.get("shape", ())
    lasting = statement.op not in _FILLING and any(arguments)
    return lasting or (isinstance(shape, tuple) and 0 in shape)


def redrawing(case: Case) -> frozenset[str]:
    """The regions that draw new random numbers when they run again: those that need not preserve the
    random state, and those inside of them."""
    regions = {region.name: region for region in case.regions()}
    found: set[str] = set()
    left = [name for name, region in regions.items() if not region.preserve_rng]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            for node in walk(regions[name].body):
                if isinstance(node, Again | Region):
                    left.append(node.region if isinstance(node, Again) else node.name)
    return frozenset(found)


def draws_anew(case: Case) -> bool:
    """Whether a region that need not preserve the random state draws, so that gradients may be those of
    other numbers."""
    free = redrawing(case)
    return any(region in free and s.op in RANDOM for region, s in case.statements())


def in_order(tree: Tree, formal: Tree) -> Iterator[str]:
    """The names in what a call takes or gives, in the order in which the region itself has its own."""
    if isinstance(formal, Ref):
        yield from leaves(tree)
    elif isinstance(formal, Mapping) and isinstance(tree, Mapping):
        for key, part in formal.items():
            yield from in_order(tree[key], part)
    elif isinstance(formal, tuple) and isinstance(tree, tuple):
        for part, own in zip(tree, formal, strict=True):
            yield from in_order(part, own)


def themselves(tensors: Iterable[Tensor]) -> set[Tensor]:
    """The tensors, each once where several are one."""
    return {tensor.itself for tensor in tensors}


def parts(tree: Tree) -> tuple[Tree, ...]:
    """The parts of a tree at its top level; the tree itself where it is no container."""
    if isinstance(tree, Ref | Literal):
        return (tree,)
    return tuple(tree.values()) if isinstance(tree, Mapping) else tree
