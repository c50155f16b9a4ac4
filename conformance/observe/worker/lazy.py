"""Observing lazy frameworks, in which a line of a program only adds to a graph.

A node of the graph is computed once, when an array that is evaluated needs it. So the result of each
statement is kept, and before each evaluation it is looked up whether the primitive that makes the
result is in the graph to be evaluated. A statement that adds to the graph after the forward pass has
returned is a rerun.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any
from unittest.mock import patch

from conformance.language.operations import BOOLS, OPERATIONS, RANDOM, VIEWS
from conformance.model.observation import Execution, Observation, Phase, RandomSample, Run
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.observer import with_shared_counts
from conformance.observe.worker.trace import Trace


@dataclass(frozen=True)
class Graph:
    """The primitives that some arrays still need.

    `names` has the name of each primitive, by its number, `reads` the arrays that it reads, and `makers`
    the primitive that makes an array. `requested` are the primitives that make the arrays for which the
    graph was read, in their order, and empty for an array that no primitive makes.
    """

    names: Mapping[str, str]
    reads: Mapping[str, Sequence[str]]
    makers: Mapping[str, str]
    requested: Sequence[str]

    def before(self, primitive: str) -> list[str]:
        read = self.reads.get(primitive, ())
        return [self.makers[array] for array in read if array in self.makers]


@dataclass(eq=False)
class Result:
    """The result of a statement; for an array, `value` is the copy of it that `Lazy.same` returns."""

    site: Site
    phase: Phase
    value: Any


@dataclass
class Results:
    """The results of statements that are still to be computed, and those that have been computed.
    `drawn` are those of random statements, in the order of the program, and `inert` the region and label
    of statements that returned another one's result."""

    drawn: list[Result] = field(default_factory=list)
    waiting: list[Result] = field(default_factory=list)
    computed: list[Result] = field(default_factory=list)
    inert: set[tuple[str, str]] = field(default_factory=set)


#: The functions that are a program's forward pass; two are of what holds regions made once.
_PASSES = ("plain", "recomputed", "Plain.__call__", "Recomputed.__call__")


class Building(Trace):
    """Follows how graphs are built: once the forward pass has returned, the phase is `rerun`."""

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        step = super()._enter(frame, event, argument)
        if step is not None and frame.f_code.co_qualname in _PASSES:
            self.phase = "forward"
        return step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        step = super()._step(frame, event, argument)
        if event == "return" and frame.f_code.co_qualname in _PASSES:
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
    #: Those of them that no statement makes: one that returns such an array returns its argument.
    copies: Collection[str] = ()
    #: Names of primitives that only change the form (shape, strides) of another one's result.
    views: Collection[str] = ()
    #: Names of the primitives by which an operation makes a mask of its own, and of those that draw
    #: random numbers. What a drawing primitive reads belongs to earlier draws.
    masks: Collection[str] = ()
    draws: Collection[str] = ()

    @abstractmethod
    def graph(self, arrays: Sequence[Any]) -> Graph:
        """What is still to be computed for these arrays."""

    @abstractmethod
    def same(self, array: Any) -> Any:
        """A copy of an array that is a node of its own in the graph. The program cannot evaluate it or
        write to it, since it does not have it."""

    def is_computed(self, array: Any) -> bool:
        return not self.graph([array]).names

    def observe(self, program: Program) -> Observation:
        observation = super().observe(program)  # in plain, a region's argument need not be a copy
        shared = with_shared_counts(observation.plain, observation.recomputed)
        return replace(observation, plain=shared)

    def arrays(self, tree: Any) -> Iterator[Any]:
        if isinstance(tree, self.array):
            yield tree
        elif isinstance(tree, Mapping | list | tuple):
            for part in tree.values() if isinstance(tree, Mapping) else tree:
                yield from self.arrays(part)

    def nbytes(self, value: object) -> int:
        """Bytes of an array; 0 for one that is not computed yet."""
        if not isinstance(value, self.array) or not self.is_computed(value):
            return 0
        return int(value.nbytes)  # type: ignore[attr-defined]

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        program, results = loaded.program, Results()

        def add_result(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
            value = names.get(site.label)
            waits = isinstance(value, self.array)
            result = Result(site, phase, self.same(value) if waits else value)
            (results.waiting if waits else results.computed).append(result)
            if site.op in RANDOM:
                results.drawn.append(result)

        module, name = self.evaluates
        evaluate: Callable[..., None] = getattr(module, name)

        def evaluate_noted(*trees: Any) -> None:
            self._note(results, trees)
            evaluate(*trees)

        trace = Building(program, on_statement=add_result)
        with trace.active(), patch.object(module, name, evaluate_noted):
            loaded.run()
        # What forward has drawn and nothing needs is computed here, so that each draw has its sample.
        samples = tuple(
            RandomSample(r.site.region, r.site.label, r.phase, self._array(r.value))
            for r in results.drawn
            if r.phase == "forward" or r in results.computed
        )
        executions = _executions(program, loaded.path, trace, results)
        return replace(run, executions=executions, samples=samples if program.random else None)

    def _note(self, results: Results, trees: Iterable[Any]) -> None:
        """Move the results that an evaluation of these arrays computes from waiting to computed."""
        evaluated = self.graph(list(self.arrays(trees))).names.keys()
        graph = self.graph([result.value for result in results.waiting])
        # Each copy of a result is made by a primitive that reads the result.
        makers = [graph.before(copy) for copy in graph.requested]
        all_makers = frozenset(primitive for maker in makers for primitive in maker)
        seen: set[str] = set()
        waiting: list[Result] = []
        for result, maker in zip(results.waiting, makers, strict=True):
            given = not maker and result.site.op in VIEWS  # a view of nothing but an input
            given |= any(graph.names[p] in self.copies for p in maker)
            if given or not seen.isdisjoint(maker):
                results.inert.add((result.site.region, result.site.label))
            seen.update(maker)
            # A result that no primitive makes is there already: Python has computed it.
            is_computed = not maker or not evaluated.isdisjoint(
                self._primitives_that_tell(graph, result.site.op, maker[0], all_makers)
            )
            (results.computed if is_computed else waiting).append(result)
        results.waiting = waiting

    def _primitives_that_tell(
        self, graph: Graph, op: str, maker: str, all_makers: Set[str]
    ) -> set[str]:
        """The primitives of a statement that show, each by itself, that it ran: the `maker` of its
        result, what that one changes the form of, and what makes its mask."""
        telling = {maker}
        if graph.names[maker] in self.views:
            telling |= {p for p in graph.before(maker) if p not in all_makers}
        needs = OPERATIONS[op].needs.values()
        if op in RANDOM or any("mask" in words for sets in needs for words in sets):
            own = self._own(graph, maker, all_makers)
            # Of a loop, each iteration tells: its last one is not needed for its gradient.
            again = {graph.names[maker]} if "times" in OPERATIONS[op].options else set()
            telling |= {p for p in own if graph.names[p] in {*self.masks, *self.draws, *again}}
        return {p for p in telling if p == maker or graph.names[p] not in self.entries}

    def _own(self, graph: Graph, maker: str, all_makers: Set[str]) -> set[str]:
        """The primitives of one statement: back from the maker of its result to those that make the
        results of other statements, or draw."""
        own, todo = {maker}, [maker]
        while todo:
            for primitive in graph.before(todo.pop()):
                if primitive in own | all_makers or graph.names[primitive] in self.entries:
                    continue
                own.add(primitive)
                if graph.names[primitive] not in self.draws:
                    todo.append(primitive)
        return own


def _executions(
    program: Program, path: str, trace: Trace, results: Results
) -> tuple[Execution, ...]:
    """Counts as observation values. A region runs forward as often as it is called, and again as often
    as that of its statements which is computed most often; several operations may make one name."""
    counts = Counter((r.site.region, r.site.label, r.phase) for r in results.computed)
    by_site = Counter((r.site, r.phase) for r in results.computed)
    entered = Counter({(site.region, phase): n for (site, phase), n in trace.entered.items()})
    executions: list[Execution] = []
    phases: tuple[Phase, ...] = ("forward", "rerun")
    every = (site for site in program.sites("statement", path) if site.op not in BOOLS)
    sites = dict.fromkeys((site.region, site.label) for site in every)
    labels = [label for label in sites if label not in results.inert]

    def shown(site: Site) -> bool:
        return (site.region, site.label) in labels

    for phase in phases:
        for name in program.inner_regions(path):
            own = (
                n for (s, p), n in by_site.items() if (s.region, p) == (name, phase) and shown(s)
            )
            busiest = max(own, default=0)
            number = entered[name, phase] if phase == "forward" else busiest
            executions.append(Execution(name, "", phase, number))
        executions += [Execution(r, label, phase, counts[r, label, phase]) for r, label in labels]
    return tuple(executions)
