"""Observing lazy frameworks, in which a line of a program only adds to a graph.

A node of the graph is computed once, when an array that is evaluated needs it. So each value that a
statement made is kept, and before each evaluation it is looked up whether the primitive that makes the
value is in the graph to be evaluated. What is built once the forward pass has returned is a rerun.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import numpy as np

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.observation import Array, Execution, Phase, RandomSample, Run
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.observer import Meter
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.trace import Trace


@dataclass(frozen=True)
class Graph:
    """Primitives by their numbers: the name of each, and what it reads; what makes each array; and what
    makes the arrays that were asked for, empty where no primitive does."""

    names: Mapping[str, str]
    reads: Mapping[str, Sequence[str]]
    makers: Mapping[str, str]
    asked: Sequence[str]

    def before(self, primitive: str) -> list[str]:
        """The primitives that make what a primitive reads."""
        read = self.reads.get(primitive, ())
        return [self.makers[array] for array in read if array in self.makers]


@dataclass(eq=False)
class Made:
    """A value that a statement made: of an array, the node behind it that `Lazy.same` gives."""

    site: Site
    phase: Phase
    value: Any


@dataclass
class Values:
    """Values that statements made: those that wait, and those that were computed; and statements that
    gave the value of another one back, and computed nothing."""

    waiting: list[Made] = field(default_factory=list)
    computed: list[Made] = field(default_factory=list)
    inert: set[tuple[str, str]] = field(default_factory=set)


class Building(Trace):
    """Follows the building of graphs: what is built once the forward pass has returned is a rerun."""

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        step = super()._enter(frame, event, argument)
        if step is not None and frame.f_code.co_name in ("plain", "recomputed"):
            self.phase = "forward"
        return step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        step = super()._step(frame, event, argument)
        if event == "return" and frame.f_code.co_name in ("plain", "recomputed"):
            self.phase = "rerun"
        return step


class Lazy(Base):
    """Observes programs of a lazy framework; a subclass says what an array is, and reads its graph."""

    #: The type of an array.
    array: type = object
    #: The module and the name in it of the function that evaluates arrays, or trees of them.
    evaluates: tuple[Any, str]
    #: Names of primitives at which a region's arguments come in.
    entries: Collection[str] = ()
    #: Names of primitives that show what another one made in another form.
    views: Collection[str] = ()
    #: Names of primitives of which an operation with a mask of its own makes that mask; and of those
    #: that draw, behind which lies nothing but what was drawn earlier.
    masks: Collection[str] = ()
    draws: Collection[str] = ()

    @abstractmethod
    def graph(self, arrays: Sequence[Any]) -> Graph:
        """What is still to be computed for these arrays."""

    @abstractmethod
    def same(self, array: Any) -> Any:
        """An array with the elements of another one, which is one more node of the graph: nobody
        evaluates it, and nobody writes to it."""

    def is_computed(self, array: Any) -> bool:
        """Whether an array has been evaluated."""
        return not self.graph([array]).names

    def arrays(self, tree: Any) -> Iterator[Any]:
        """The arrays in a tree."""
        if isinstance(tree, self.array):
            yield tree
        elif isinstance(tree, Mapping | list | tuple):
            for part in tree.values() if isinstance(tree, Mapping) else tree:
                yield from self.arrays(part)

    def nbytes(self, value: object) -> int:
        """Bytes of an array that is there; what is only asked for takes none."""
        if not isinstance(value, self.array) or not self.is_computed(value):
            return 0
        return int(value.nbytes)  # type: ignore[attr-defined]

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        values = Values()

        def made(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
            value = names.get(site.label)
            if isinstance(value, self.array):
                values.waiting.append(Made(site, phase, self.same(value)))
            else:
                values.computed.append(Made(site, phase, value))

        program = loaded.program
        trace = Building(program, on_statement=made)
        with trace.active(), self._evaluating(values):
            loaded.run()
        samples = tuple(
            RandomSample(made.site.region, made.site.label, made.phase, self._numbers(made.value))
            for made in values.computed
            if made.site.op in RANDOM
        )
        found = _executions(program, loaded.path, trace, values)
        return replace(run, executions=found, samples=samples if program.random else None)

    def _numbers(self, value: Any) -> Array:
        leaf = self.leaf(value)
        return np.array(value) if leaf is None else leaf.array

    @contextmanager
    def _evaluating(self, values: Values) -> Iterator[None]:
        """Look at what is evaluated, inside the `with`."""
        module, name = self.evaluates
        evaluate: Callable[..., None] = getattr(module, name)

        def noted(*trees: Any) -> None:
            self._note(values, trees)
            evaluate(*trees)

        setattr(module, name, noted)
        try:
            yield
        finally:
            setattr(module, name, evaluate)

    def _note(self, values: Values, trees: Iterable[Any]) -> None:
        """Sort out which values an evaluation of these arrays computes."""
        evaluated = self.graph(list(self.arrays(trees))).names.keys()
        graph = self.graph([made.value for made in values.waiting])
        results = [graph.before(probe) for probe in graph.asked]
        others = frozenset(primitive for found in results for primitive in found)
        seen: set[str] = set()
        left: list[Made] = []
        for made, result in zip(values.waiting, results, strict=True):
            if not seen.isdisjoint(result):
                values.inert.add((made.site.region, made.site.label))
            seen.update(result)
            # What no primitive makes is there already: Python has computed it.
            done = not result or not evaluated.isdisjoint(
                self._telling(graph, made.site.op, result[0], others)
            )
            (values.computed if done else left).append(made)
        values.waiting = left

    def _telling(self, graph: Graph, op: str, result: str, others: Set[str]) -> set[str]:
        """The primitives of a statement any of which tells that it ran: the one that makes its result,
        what that shows in another form, and what makes its mask."""
        found = {result}
        if graph.names[result] in self.views:
            found |= {p for p in graph.before(result) if p not in others}
        needs = OPERATIONS[op].needs.values()
        if op in RANDOM or any("mask" in words for sets in needs for words in sets):
            own = self._own(graph, result, others)
            found |= {p for p in own if graph.names[p] in {*self.masks, *self.draws}}
        return {p for p in found if p == result or graph.names[p] not in self.entries}

    def _own(self, graph: Graph, result: str, others: Set[str]) -> set[str]:
        """The primitives of one statement: back from its result to what others made, or drew."""
        own, todo = {result}, [result]
        while todo:
            for primitive in graph.before(todo.pop()):
                if primitive in own | others or graph.names[primitive] in self.entries:
                    continue
                own.add(primitive)
                if graph.names[primitive] not in self.draws:
                    todo.append(primitive)
        return own


def _executions(program: Program, path: str, trace: Trace, values: Values) -> tuple[Execution, ...]:
    """Counts as observation values. A region runs forward as often as it is called, and again as often
    as its busiest statement is computed."""
    counts = Counter((m.site.region, m.site.label, m.phase) for m in values.computed)
    entered = Counter({(site.region, phase): n for (site, phase), n in trace.entered.items()})
    found: list[Execution] = []
    phases: tuple[Phase, ...] = ("forward", "rerun")
    sites = [(site.region, site.label) for site in program.sites("statement", path)]
    labels = [label for label in dict.fromkeys(sites) if label not in values.inert]
    for phase in phases:
        for name in program.inner_regions(path):
            busiest = max((counts[r, label, phase] for r, label in labels if r == name), default=0)
            number = entered[name, phase] if phase == "forward" else busiest
            found.append(Execution(name, "", phase, number))
        found += [Execution(r, label, phase, counts[r, label, phase]) for r, label in labels]
    return tuple(found)
