"""How `torch.compile` is observed: by the graphs that AOTAutograd hands to the backend.

Whatever the backend, AOTAutograd cuts the traced program into a forward and a backward graph, which
the backend compiles as they are. A node knows the lines of the program that it comes from, and
whether it belongs to the forward pass; one that does and stands in the backward graph is run again.
Graphs are noted while they are compiled, and counted each time they run.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf
from unittest import mock

import torch
from torch._dynamo import bytecode_transformation
from torch._dynamo.backends import common

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.observation import Execution, Phase
from conformance.model.program import Program, Site

from . import storages

Kind = OneOf["forward", "backward", "inference"]
COMPILERS: Mapping[str, Kind] = {
    "fw_compiler": "forward",
    "bw_compiler": "backward",
    "inference_compiler": "inference",
}
#: What autograd puts beside an operation to keep its result: no work of the statement.
_BESIDE = frozenset({"detach", "alias"})
#: What gives a part of a result, or the same elements in another form.
_FORMS = frozenset({"getitem", "view", "_unsafe_view"})
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
#: Operations whose gradient keeps something besides arguments and result: making any part of them
#: again makes that.
_MASKED = RANDOM | {
    name
    for name, operation in OPERATIONS.items()
    if any("mask" in words for sets in operation.needs.values() for words in sets)
}


@dataclass(frozen=True)
class Noted:
    """A node of a graph: its name, the operation's, and the lines of files that led to it, the
    outermost first. `again` says whether it is run again in backward."""

    name: str
    target: str
    lines: tuple[tuple[str, int], ...]
    again: bool


@dataclass(eq=False)
class Graph:
    """A graph that was compiled, and how often it has run since counting began."""

    kind: Kind
    nodes: tuple[Noted, ...]
    #: The forward graph of a backward one.
    forward: Graph | None = None
    runs: int = 0


@dataclass(eq=False)
class Graphs:
    """All graphs that AOTAutograd hands to compilers, and the storages that they put out."""

    compiled: list[Graph] = field(default_factory=list)
    live: Any = field(default_factory=storages.Storages)

    @contextmanager
    def watched(self) -> Iterator[Graphs]:
        """Note what is compiled inside the `with`; what was, is counted wherever it runs."""
        original = common.aot_module_simplified

        def simplified(module: Any, inputs: Any, **options: Any) -> Any:
            pair: dict[Kind, Graph] = {}
            for name, kind in COMPILERS.items():
                options[name] = self._noting(options[name], kind, pair)
            return original(module, inputs, **options)

        with mock.patch.object(common, "aot_module_simplified", simplified):
            yield self

    def _noting(
        self, compiler: Callable[..., Any], kind: Kind, pair: dict[Kind, Graph]
    ) -> Callable[..., Any]:
        def compile_(module: Any, inputs: Any) -> Any:
            graph = pair[kind] = Graph(kind, _noted(module.graph, kind), pair.get("forward"))
            self.compiled.append(graph)
            call = compiler(module, inputs)

            def run(arguments: list[Any]) -> Any:
                graph.runs += 1
                tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
                given = {_storage(t): weakref.ref(t.untyped_storage()) for t in tensors}
                del tensors
                results = call(arguments)
                # What was given may be freed in there, and its address be that of a result.
                self.live.know(results, {k for k, r in given.items() if r() is not None})
                return results

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compile_

    def forget(self) -> None:
        """Forget all graphs, and have everything compiled anew."""
        forget_compiled()
        self.compiled.clear()
        self.live.forget()

    def restart(self) -> None:
        """Begin to count from nothing."""
        for graph in self.compiled:
            graph.runs = 0


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _noted(graph: torch.fx.Graph, kind: Kind) -> tuple[Noted, ...]:
    """The nodes of a graph that belong to the forward pass."""
    found: list[Noted] = []
    for node in graph.nodes:
        if node.op != "call_function" or node.meta.get("partitioner_tag") == "is_backward":
            continue
        frames = _FRAME.findall(node.meta.get("stack_trace") or "")
        lines = tuple((file, int(number)) for file, number in frames)
        target = node.target
        name = str(getattr(target, "_opname", "") or getattr(target, "__name__", target))
        found.append(Noted(node.name, name, lines, kind == "backward"))
    return tuple(found)


# -- executions --------------------------------------------------------------------------------

#: One execution of a statement: the lines of the program that led to it, the outermost first.
Place = tuple[int, ...]


def statements_in(graph: Graph, program: Program) -> Mapping[tuple[Site, Place], tuple[str, ...]]:
    """For each execution of a statement in a graph the names of the nodes that do its work."""
    found: dict[tuple[Site, Place], list[Noted]] = defaultdict(list)
    for node in graph.nodes:
        lines = [number for file, number in node.lines if file == program.file]
        while lines:
            site = program.lines.get(lines[-1])
            if site is not None and site.kind == "statement":
                found[site, tuple(lines)].append(node)
                break
            lines.pop()  # a helper function belongs to the statement that calls it
    return {key: work for key, nodes in found.items() if (work := _work(nodes))}


def _work(nodes: Iterable[Noted]) -> tuple[str, ...]:
    """The nodes that do work; other forms of a result, and its parts, where there is nothing else."""
    nodes = [node for node in nodes if node.target not in _BESIDE]
    own = [node.name for node in nodes if node.target not in _FORMS]
    return tuple(own or [node.name for node in nodes])


Counted = dict[tuple[Site, Phase], int]


def counts(graphs: Iterable[Graph], program: Program, path: str) -> tuple[Counted, Counter[str]]:
    """Executions of the statements of a forward pass in the graphs that have run, and how often each
    region was called.

    A statement has run when what makes its result has; run again, it has also when any part of it
    has and its gradient needs more of it than its result.
    """
    found: Counter[tuple[Site, Phase]] = Counter()
    calls: Counter[str] = Counter()
    for graph in graphs:
        if not graph.runs:
            continue
        if graph.kind != "backward":
            entered: set[tuple[str, Place]] = set()
            for site, place in statements_in(graph, program):
                if site.path == path:
                    found[site, "forward"] += graph.runs
                    found[site, "rerun"] += 0
                    entered.add((site.region, place[:-1]))
            for region, _ in entered:
                calls[region] += graph.runs
        elif graph.forward is not None:
            again = statements_in(graph, program)
            for (site, place), work in statements_in(graph.forward, program).items():
                names = set(again.get((site, place), ()))
                if site.path != path:
                    continue
                if names if site.op in _MASKED else work[-1] in names:
                    found[site, "rerun"] += graph.runs
    return dict(found), calls


def executions(
    program: Program, path: str, seen: Counted, calls: Mapping[str, int]
) -> tuple[Execution, ...]:
    """Counts as observation values. A region is rerun as often as its busiest statement is; one of
    nothing but regions is entered as often as they are, and has nothing of its own to rerun."""
    inner = program.inner_regions(path)
    rerun: Counter[str] = Counter()
    for (site, phase), count in seen.items():
        if phase == "rerun":
            rerun[site.region] = max(rerun[site.region], count)

    def entered(name: str) -> int:
        return calls.get(name, 0) or max(map(entered, inner[name]), default=0)

    found = [Execution(name, "", "forward", entered(name)) for name in inner]
    found += [Execution(name, "", "rerun", rerun[name]) for name in inner]
    found += [Execution(s.region, s.label, phase, n) for (s, phase), n in seen.items()]
    return tuple(found)


def forget_compiled() -> None:
    """Have Dynamo forget all that it has compiled, and why it could not."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # it takes the code of another program that has a function of the same code, and its file
    bytecode_transformation._cached_cleaned_instructions.cache_clear()


def breaks() -> tuple[str, ...]:
    """Why Dynamo has left parts of what it was given to Python since graphs were forgotten."""
    reasons = torch._dynamo.utils.counters["graph_break"]
    return tuple(str(reason).splitlines()[0] for reason in reasons)
