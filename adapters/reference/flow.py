"""A case run once in the reference: its values, and the flow of values through its statements.

`Flow` unrolls the program: each call of a region is a `Call`, each statement in it a `Step`, each
tensor a number. What disciplines count and memory adds up is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from conformance.language.operations import OF_CALLABLES, OPERATIONS, RANDOM
from conformance.model.case import (
    Again,
    Array,
    Case,
    Generator,
    Literal,
    Loss,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    Value,
)
from conformance.model.observation import Draw

from . import tape

#: Operations whose result may be the same memory as their argument.
VIEWS = ("reshape", "permute_dims", "split", "stop_gradient", "raise_if", "astype")


@dataclass(frozen=True)
class Made:
    """A tensor of the program: its length in elements, dtype, and the statement that made it."""

    size: int
    dtype: str
    step: Step | None

    @cached_property
    def nbytes(self) -> int:
        """Bytes at its own dtype."""
        return self.size * int(tape.itemsize(self.dtype))

    @cached_property
    def floating(self) -> bool:
        """Whether a gradient can flow through it."""
        return bool(tape.is_float(self.dtype))


@dataclass(eq=False)
class Call:
    """One call of a region. `taken` and `gives` are numbers of tensors, `saves_on_entry` those of
    `taken` that stand at the top of its positional arguments."""

    region: Region
    parent: Call | None
    taken: tuple[int, ...]
    saves_on_entry: tuple[int, ...]
    gives: tuple[int, ...] = ()
    body: list[Step | Call] = field(default_factory=list)

    @property
    def chain(self) -> tuple[Call, ...]:
        """This call and those around it, the outermost first."""
        return (*(self.parent.chain if self.parent else ()), self)

    def steps(self) -> Iterator[Step]:
        """Every statement in it, inner regions included."""
        for item in self.body:
            if isinstance(item, Step):
                yield item
            else:
                yield from item.steps()


@dataclass(eq=False)
class Step:
    """One execution of a statement: tensors by argument name, and the tensors that it made."""

    statement: Statement
    call: Call | None
    arguments: Mapping[str, tuple[int, ...]]
    results: tuple[int, ...] = ()

    @property
    def chain(self) -> tuple[Call, ...]:
        """The calls of regions around it, the outermost first."""
        return self.call.chain if self.call else ()

    @property
    def key(self) -> tuple[str, str]:
        """Region and label, as results name it."""
        return (self.call.region.name if self.call else "", self.statement.label)

    def reads(self) -> tuple[int, ...]:
        """All tensors among its arguments."""
        return tuple(n for numbers in self.arguments.values() for n in numbers)


class Flow:
    """What one forward pass of a case did."""

    def __init__(self) -> None:
        self.body: list[Step | Call] = []
        self.tensors: list[Made] = []
        self.leaves: dict[str, int] = {}
        self.outputs: tuple[int, ...] = ()
        self.loss: int | None = None
        self.then: int | None = None

    def steps(self) -> Iterator[Step]:
        """Every statement, in the order of the forward pass."""
        for item in self.body:
            if isinstance(item, Step):
                yield item
            else:
                yield from item.steps()

    def calls(self, items: Iterable[Step | Call] | None = None) -> Iterator[Call]:
        """Every call of a region, an outer one before those in it."""
        for item in self.body if items is None else items:
            if isinstance(item, Call):
                yield item
                yield from self.calls(item.body)

    def active(self, names: Iterable[str]) -> frozenset[int]:
        """The tensors that depend differentiably on the named ones."""
        found = {self.leaves[name] for name in names}
        for step in self.steps():
            if self.differentiable(step, found):
                found |= {n for n in step.results if self.tensors[n].floating}
        return frozenset(found)

    def differentiable(self, step: Step, active: Iterable[int]) -> list[str]:
        """The arguments of a statement that a gradient flows to."""
        chosen = active if isinstance(active, set | frozenset) else frozenset(active)
        found: list[str] = []
        for name in OPERATIONS[step.statement.op].needs:
            for number in step.arguments.get(name, ()):
                if number in chosen and self.tensors[number].floating:
                    found.append(name)
                    break
        return found

    def reached(self, active: frozenset[int], ends: Iterable[int]) -> frozenset[Step]:
        """The statements that a gradient passes on its way from `ends` to what is active."""
        wanted = {n for n in ends if n in active}
        found: set[Step] = set()
        for step in reversed(list(self.steps())):
            if wanted.isdisjoint(step.results):
                continue
            names = self.differentiable(step, active)
            if names:
                found.add(step)
                wanted |= {n for name in names for n in step.arguments[name] if n in active}
        return frozenset(found)


def make_inputs(case: Case) -> dict[str, Any]:
    """What the program starts from: tensors drawn in the order of the case, each rounded."""
    rng = np.random.default_rng(case.seed)
    found: dict[str, Any] = {}
    for value in (*case.inputs, *case.parameters, *case.state):
        if isinstance(value, Value):
            found[value.name] = value.value
        elif isinstance(value, Generator):
            found[value.name] = tape.generator(value.seed)
        else:
            found[value.name] = tape.tensor(_fill(value, rng), value.dtype, value.gradient)
    return found


def _fill(array: Array, rng: np.random.Generator) -> Any:
    kind, numbers, shape = array.fill.kind, array.fill.numbers, array.shape
    if kind == "full":
        return np.full(shape, numbers[0])
    if kind == "values":
        return np.array(array.fill.values)
    if kind == "arange":
        return (numbers[0] + numbers[1] * np.arange(int(np.prod(shape)))).reshape(shape)
    if kind == "normal":
        return numbers[0] * rng.standard_normal(shape)
    if kind == "uniform":
        return rng.uniform(numbers[0], numbers[1], shape)
    return rng.integers(int(numbers[0]), int(numbers[1]), shape)


class Draws:
    """The random numbers that a framework drew, handed out again in order.

    Raises `ValueError` where there are fewer than the program draws, or of another shape.
    """

    def __init__(self, draws: Sequence[Draw]) -> None:
        self._waiting: dict[tuple[str, str], list[Any]] = {}
        for draw in draws:
            if draw.phase == "forward":
                self._waiting.setdefault((draw.region, draw.statement), []).append(draw.array)

    def take(self, region: str, label: str, shape: tuple[int, ...]) -> Any:
        """The next one of a statement."""
        waiting = self._waiting.get((region, label), [])
        place = f"{label!r} of region {region!r}" if region else repr(label)
        if not waiting:
            raise ValueError(f"no draw is left for statement {place}")
        array = np.asarray(waiting.pop(0))
        if array.shape != shape:
            raise ValueError(f"the draw of {place} has shape {array.shape}, should be {shape}")
        return array


class Interpreter:
    """Evaluates the program of a case with the tape, every region called directly."""

    def __init__(self, case: Case, draws: Draws | None) -> None:
        self.case, self.draws = case, draws
        self.regions = {region.name: region for region in case.regions()}
        self.flow = Flow()
        self.numbers: dict[int, int] = {}
        self.generators: Mapping[str, Any] = {}
        self.then: Any = None  # what a second backward pass differentiates
        self.keep: list[Any] = []  # keeps ids in `numbers` from being used again

    def forward(self, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Outputs and loss (`None` where the case has none)."""
        for name, value in values.items():
            if isinstance(value, tape.Tensor):
                self.flow.leaves[name] = self._number(value, None)
        names = dict(values)
        self.generators = values
        self._nodes(self.case.program, names, None, self.flow.body)
        outputs = build(self.case.outputs, names)
        self.flow.outputs = tuple(self.numbers[id(t)] for t in tape.tensors_in(outputs))
        loss, self.flow.loss = self._loss(self.case.loss, names)
        self.then, self.flow.then = self._loss(self.case.then, names)
        return outputs, loss

    def _loss(self, loss: Loss | None, names: Mapping[str, Any]) -> tuple[Any, int | None]:
        """The scalar that is differentiated, and the number of the tensor that it is made of."""
        if loss is None:
            return None, None
        made = names[loss.name]
        number = self.numbers[id(made)]
        return made if loss.reduction == "none" else getattr(tape, loss.reduction)(made), number

    def _number(self, tensor: Any, step: Step | None) -> int:
        self.keep.append(tensor)
        self.numbers[id(tensor)] = len(self.flow.tensors)
        self.flow.tensors.append(Made(tensor.data.size, tensor.dtype, step))
        return len(self.flow.tensors) - 1

    def _nodes(
        self,
        nodes: Iterable[Node],
        names: dict[str, Any],
        call: Call | None,
        body: list[Step | Call],
    ) -> None:
        for node in nodes:
            if isinstance(node, Statement):
                self._statement(node, names, call, body)
            elif isinstance(node, Again) or node.called:
                region = node if isinstance(node, Region) else self.regions[node.region]
                self._call(node, region, names, call, body)

    def _call(
        self,
        node: Region | Again,
        region: Region,
        names: dict[str, Any],
        parent: Call | None,
        body: list[Step | Call],
    ) -> None:
        positional = [build(tree, names) for tree in node.takes]
        named = {key: build(tree, names) for key, tree in node.kwargs.items()}
        numbers = self._numbers((positional, named))
        top = [value for value in positional if isinstance(value, tape.Tensor)]
        call = Call(region, parent, numbers, self._numbers(top))
        inner = dict(names)
        for tree, value in zip(region.takes, positional, strict=True):
            bind(tree, value, inner)
        for key, tree in region.kwargs.items():
            bind(tree, named[key], inner)
        body.append(call)
        self._nodes(region.body, inner, call, call.body)
        result = build(region.gives, inner)
        call.gives = self._numbers(result)
        bind(node.gives, result, names)
        if node.returned:
            names[node.returned] = result

    def _numbers(self, tree: Any) -> tuple[int, ...]:
        return tuple(self.numbers[id(t)] for t in tape.tensors_in(tree))

    def _statement(
        self,
        statement: Statement,
        names: dict[str, Any],
        call: Call | None,
        body: list[Step | Call],
    ) -> None:
        operation = OPERATIONS[statement.op]
        arguments: list[Any] = []
        numbers: dict[str, tuple[int, ...]] = {}
        for name, argument in zip(operation.tensors, statement.arguments, strict=True):
            if name in ("region?", "generator?"):
                continue
            value = _argument(argument, names)
            arguments.append(value)
            numbers[name.removesuffix("...").rstrip("?")] = self._numbers(value)
        step = Step(statement, call, numbers)
        body.append(step)
        result = self._apply(step, arguments)
        results = result if len(statement.targets) > 1 or operation.results == 0 else (result,)
        step.results = tuple(self._number(t, step) for t in results if isinstance(t, tape.Tensor))
        names.update(zip(statement.targets, results, strict=True))

    def _apply(self, step: Step, arguments: list[Any]) -> Any:
        statement = step.statement
        options = dict(statement.options)
        if statement.op in OF_CALLABLES:
            return True
        if statement.op in RANDOM and self.draws is not None:
            dropped = statement.op == "dropout"
            given = bool(arguments)
            shape = arguments[0].shape if given else options.get("shape", ())
            drawn = self.draws.take(*step.key, tuple(shape))  # type: ignore[arg-type]
            if statement.op == "rrelu":
                x = arguments[0].data
                return tape.leaky(arguments[0], np.where(x > 0, 1.0, drawn / x))
            if not dropped:
                return tape.tensor(drawn)
            p = options.get("p", OPERATIONS["dropout"].options["p"].default)
            return tape.masked(arguments[0], drawn != 0, p)
        function: Callable[..., Any] = getattr(tape, statement.op)
        if statement.op == "uniform_from":
            arguments = [self.generators[name] for name in statement.names()]
        result = function(*arguments, **options)
        if any(result is argument for argument in arguments):
            raise AssertionError(f"{statement.op} gave its argument back")
        return result


def _argument(argument: object, names: Mapping[str, Any]) -> Any:
    if isinstance(argument, tuple):
        return [_argument(part, names) for part in argument]
    if isinstance(argument, Ref):
        return names[argument.name]
    assert isinstance(argument, Literal)
    return argument.value


def build(tree: Tree, names: Mapping[str, Any]) -> Any:
    """The value of a tree."""
    if isinstance(tree, Ref):
        return names[tree.name]
    if isinstance(tree, Literal):
        return tree.value
    if isinstance(tree, Mapping):
        return {key: build(part, names) for key, part in tree.items()}
    return tuple(build(part, names) for part in tree)


def bind(tree: Tree, value: Any, names: dict[str, Any]) -> None:
    """Give the names in a tree the parts of a value."""
    if isinstance(tree, Ref):
        names[tree.name] = value
    elif isinstance(tree, Mapping):
        for key, part in tree.items():
            bind(part, value[key], names)
    elif isinstance(tree, tuple):
        for part, inner in zip(tree, value, strict=True):
            bind(part, inner, names)
