"""The dataflow of a case: which statement made each tensor, which statements read it, and where.

`Dataflow` is the program unrolled, as one forward pass ran it: each call of a region is a `Call`, each
execution of a statement a `Step`, and each tensor has a number, its index in `Dataflow.tensors`.
How often a statement runs again in backward and how many bytes are kept are computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from conformance.language.operations import OPERATIONS
from conformance.model.case import Region, Statement
from conformance.oracle import tape

#: The name of a region (empty outside of regions), and the label of a statement (empty for the region).
Key = tuple[str, str]


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of the program: its number of elements, its dtype by name, and the step that made it
    (`None` for one that the program starts from)."""

    size: int
    dtype: str
    producer: Step | None

    @cached_property
    def nbytes(self) -> int:
        """Bytes at its own dtype."""
        return self.size * tape.itemsize(self.dtype)

    @cached_property
    def floating(self) -> bool:
        """Whether its dtype is a floating one, so that a gradient can flow through it."""
        return tape.is_float(self.dtype)


@dataclass(eq=False)
class Call:
    """One call of a region, `parent` the call that it is inside of.

    By their numbers: `taken` are all tensors in its arguments, `saved_on_entry` those that are
    positional arguments themselves, not in a container, and `gives` those that it returned. `body` is
    what ran in it, in order; it is not changed any more once the forward pass is over.
    """

    region: Region
    parent: Call | None
    taken: tuple[int, ...]
    saved_on_entry: tuple[int, ...]
    gives: tuple[int, ...] = ()
    body: list[Step | Call] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """The region's name, and no label."""
        return (self.region.name, "")

    @property
    def chain(self) -> tuple[Call, ...]:
        """The calls around it and itself, the outermost first."""
        return (*(self.parent.chain if self.parent else ()), self)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step in it, those of inner regions included."""
        return _steps(self.body)

    @cached_property
    def made(self) -> frozenset[int]:
        """The tensors that its steps made."""
        return frozenset(n for step in self.steps for n in step.results)

    @cached_property
    def kept(self) -> frozenset[int]:
        """The tensors made in it, outside of inner regions, that the policy of its region keeps."""
        kept = (item for item in self.body if isinstance(item, Step) and item.kept)
        return frozenset(n for step in kept for n in step.results)

    @cached_property
    def read(self) -> frozenset[int]:
        """The tensors among the arguments of its steps."""
        return frozenset(n for step in self.steps for n in step.reads)


@dataclass(eq=False)
class Step:
    """One execution of a statement in the forward pass.

    `call` is the innermost call of a region around it, `arguments` are the numbers of its tensors by
    the operation's argument names, and `results` those of the tensors that it made.
    """

    statement: Statement
    call: Call | None
    arguments: Mapping[str, tuple[int, ...]]
    results: tuple[int, ...] = ()

    @property
    def chain(self) -> tuple[Call, ...]:
        """The calls of regions around it, the outermost first."""
        return self.call.chain if self.call else ()

    @property
    def key(self) -> Key:
        """The region's name and the statement's label."""
        return (self.call.region.name if self.call else "", self.statement.label)

    @property
    def kept(self) -> bool:
        """Whether the policy of the region around it keeps its results."""
        return self.call is not None and self.call.region.saves(self.statement)

    def named(self, word: str) -> tuple[int, ...]:
        """The numbers of the tensors that a residual's word stands for; none for a mask."""
        return self.results if word == "out" else self.arguments.get(word, ())

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """The numbers of all tensors among its arguments."""
        return tuple(n for numbers in self.arguments.values() for n in numbers)


class Dataflow:
    """One forward pass of a case, unrolled.

    `body` is what ran outside of regions, and the calls of regions, in order. `leaves` are the tensors
    that the program starts from, by name; `outputs`, `loss` and `second_loss` are the tensors that
    it returns and those that are differentiated (before they are summed), by number.
    """

    def __init__(self) -> None:
        self.body: list[Step | Call] = []
        self.tensors: list[TensorInfo] = []
        self.leaves: dict[str, int] = {}
        self.outputs: tuple[int, ...] = ()
        self.loss: int | None = None
        self.second_loss: int | None = None

    # What follows is to be asked for once the forward pass is over.

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step, in the order of the forward pass."""
        return _steps(self.body)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a region, an outer one before its inner ones."""
        return tuple(item for item in walk(self.body) if isinstance(item, Call))

    @cached_property
    def items(self) -> tuple[Step | Call, ...]:
        """Every step, then every call."""
        return (*self.steps, *self.calls)

    @cached_property
    def passed(self) -> frozenset[int]:
        """The tensors made in one outermost region that a statement in another one reads."""
        home = {n: step.chain[0] for step in self.steps if step.chain for n in step.results}
        inside = ((step.chain[0], n) for step in self.steps if step.chain for n in step.reads)
        return frozenset(n for call, n in inside if home.get(n, call) is not call)

    def merged_into(self, call: Call) -> list[Call]:
        """The calls that take the results of a call with `merge_adjacent`: these are not kept."""
        if not call.region.merge_adjacent:
            return []
        made = set(call.gives)
        return [c for c in self.calls if c.parent is call.parent and made & set(c.taken)]

    def active(self, names: Iterable[str]) -> frozenset[int]:
        """The tensors that depend differentiably on the named leaves, these included."""
        active = {self.leaves[name] for name in names}
        for step in self.steps:
            if self.differentiable(step, active):
                active |= {n for n in step.results if self.tensors[n].floating}
        return frozenset(active)

    def differentiable(self, step: Step, active: set[int] | frozenset[int]) -> list[str]:
        """The names of a step's arguments that a gradient flows to, given the active tensors."""
        names: list[str] = []
        for name in OPERATIONS[step.statement.op].needs:
            for number in step.arguments.get(name, ()):  # `any` takes twice as long
                if number in active and self.tensors[number].floating:
                    names.append(name)
                    break
        return names

    def differentiated(self, active: frozenset[int], ends: Iterable[int | None]) -> frozenset[Step]:
        """The steps whose gradients are taken when `ends` are differentiated with respect to what
        `active` depends on. `None` among the ends is passed over."""
        wanted = {n for n in ends if n in active}
        steps: set[Step] = set()
        for step in reversed(self.steps):
            if wanted.isdisjoint(step.results):
                continue
            names = self.differentiable(step, active)
            if names:
                steps.add(step)
                wanted |= {n for name in names for n in step.arguments[name] if n in active}
        return frozenset(steps)


def walk(items: Iterable[Step | Call]) -> Iterator[Step | Call]:
    """The items and what is in them, in order, a call before what is in it."""
    for item in items:
        yield item
        if isinstance(item, Call):
            yield from walk(item.body)


def _steps(items: Iterable[Step | Call]) -> tuple[Step, ...]:
    return tuple(item for item in walk(items) if isinstance(item, Step))
