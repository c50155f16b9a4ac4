"""Reads what `mx.eval` computes, from the graph of its arguments as MLX exports it.

MLX is lazy: a program line adds a node to a graph, and the node is computed once, when an evaluated
array needs it. Each value that a statement made is kept. Before each evaluation it is checked whether
the primitive that makes the value is in the graph to be evaluated.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.observation import Phase
from conformance.model.program import Site

_PRIMITIVE = re.compile(r'^\{ (\d+) \[label ="([^"]*)"', re.M)
_MADE = re.compile(r'^(\d+) -> "(\w+)"$', re.M)
_READ = re.compile(r'^"(\w+)" -> (\d+)$', re.M)
#: Arrays that a function of MLX takes by name.
MOST = 1000
#: Primitives at which a region's arguments come in.
ENTRIES = frozenset({"Copy", "CustomTransforms", "Depends"})
#: Primitives that show what another one made in another form.
VIEWS = frozenset({"Reshape", "Squeeze", "Transpose"})
#: What, of an operation with a mask of its own (`conformance.language.operations`), makes that mask.
MASKS = frozenset({"RandomBits", "Sum"})


@dataclass(frozen=True)
class Graph:
    """Primitives by their numbers: the name of each, and what it reads; what makes each array; and what
    makes the arrays that were asked for, empty where no primitive does."""

    names: Mapping[str, str]
    reads: Mapping[str, list[str]]
    makers: Mapping[str, str]
    asked: list[str]

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> Graph:
        """The graph behind arrays."""
        names: dict[str, str] = {}
        reads: dict[str, list[str]] = {}
        makers: dict[str, str] = {}
        asked: list[str] = []
        for start in range(0, len(arrays), MOST):
            given = {f"asked{i}": array for i, array in enumerate(arrays[start : start + MOST])}
            written = io.StringIO()
            mx.export_to_dot(written, **given)
            text = written.getvalue()
            names |= _PRIMITIVE.findall(text)
            found = {array: primitive for primitive, array in _MADE.findall(text)}
            asked += [found.get(name, "") for name in given]
            # A primitive has the same number in each text, and an array another name.
            makers |= {f"{start} {array}": primitive for array, primitive in found.items()}
            inputs: dict[str, list[str]] = {}
            for array, primitive in _READ.findall(text):
                inputs.setdefault(primitive, []).append(f"{start} {array}")
            reads |= inputs
        return cls(names, reads, makers, asked)

    def before(self, primitive: str) -> list[str]:
        """The primitives that make what a primitive reads."""
        read = self.reads.get(primitive, ())
        return [self.makers[array] for array in read if array in self.makers]


@dataclass(eq=False)
class Made:
    """A value that a statement made: `probe` is a node behind it, which nobody computes."""

    site: Site
    phase: Phase
    probe: Any


@dataclass
class Evaluations:
    """Values that statements made: those that wait, and those that were computed; and statements that
    gave the value of another one back, and computed nothing."""

    waiting: list[Made] = field(default_factory=list)
    computed: list[Made] = field(default_factory=list)
    inert: set[tuple[str, str]] = field(default_factory=set)

    def made(self, site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
        """Note the value of a statement whose line has run."""
        value = names.get(site.label)
        if isinstance(value, mx.array):
            self.waiting.append(Made(site, phase, mx.stop_gradient(value)))
        else:
            self.computed.append(Made(site, phase, value))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what `mx.eval` is given, inside the `with`."""
        evaluate: Callable[..., None] = mx.eval

        def noted(*trees: Any) -> None:
            self.note(trees)
            evaluate(*trees)

        mx.eval = noted
        try:
            yield
        finally:
            mx.eval = evaluate

    def note(self, trees: Iterable[Any]) -> None:
        """Sort out which values an evaluation of these arrays computes."""
        evaluated = Graph.of(list(arrays(trees))).names.keys()
        graph = Graph.of([made.probe for made in self.waiting])
        results = [graph.before(probe) for probe in graph.asked]
        others = frozenset(primitive for found in results for primitive in found)
        seen: set[str] = set()
        left: list[Made] = []
        for made, result in zip(self.waiting, results, strict=True):
            if not seen.isdisjoint(result):
                self.inert.add((made.site.region, made.site.label))
            seen.update(result)
            # What no primitive makes is there already: Python has computed it.
            done = not result or not evaluated.isdisjoint(
                _primitives(graph, made.site.op, result[0], others)
            )
            (self.computed if done else left).append(made)
        self.waiting = left


def _primitives(graph: Graph, op: str, result: str, others: Set[str]) -> set[str]:
    """The primitives of a statement any of which tells that it ran: the one that makes its result, what
    that shows in another form, and what makes its mask."""
    found = {result}
    if graph.names[result] in VIEWS:
        found |= {p for p in graph.before(result) if p not in others}
    needs = OPERATIONS[op].needs.values()
    if op in RANDOM or any("mask" in words for sets in needs for words in sets):
        found |= {p for p in _own(graph, result, others) if graph.names[p] in MASKS}
    return {p for p in found if p == result or graph.names[p] not in ENTRIES}


def _own(graph: Graph, result: str, others: Set[str]) -> set[str]:
    """The primitives of one statement: back from its result to what others made, or drew."""
    own, todo = {result}, [result]
    while todo:
        for primitive in graph.before(todo.pop()):
            if primitive in own or primitive in others or graph.names[primitive] in ENTRIES:
                continue
            own.add(primitive)
            if graph.names[primitive] != "RandomBits":  # before it lie the keys of earlier draws
                todo.append(primitive)
    return own


def arrays(tree: Any) -> Iterator[Any]:
    """The arrays in a tree."""
    if isinstance(tree, mx.array):
        yield tree
    elif isinstance(tree, Mapping):
        for part in tree.values():
            yield from arrays(part)
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from arrays(part)


def is_computed(array: Any) -> bool:
    """Whether an array has been evaluated."""
    return not Graph.of([array]).names
