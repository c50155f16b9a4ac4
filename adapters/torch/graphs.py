"""How `torch.compile` is observed: by the graphs that AOTAutograd hands to the backend.

For every backend, AOTAutograd partitions the traced program into a forward and a backward graph,
which the backend compiles. A node's metadata has the program lines that it comes from
(`stack_trace`), and whether it belongs to the forward pass (`partitioner_tag`). A node of the forward
pass that is in the backward graph is recomputed. Graphs are noted when they are compiled, and counted
each time they run.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
#: Nodes that autograd adds to save a result; they do none of the statement's work.
_BESIDE = frozenset({"detach", "alias"})
#: Nodes that take one of several results, or give a view of a result.
_FORMS = frozenset({"getitem", "view", "_unsafe_view"})
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
#: Operations whose gradient reads more than arguments and result, such as a mask: they count as run
#: again where any of their nodes is.
_MASKED = RANDOM | {
    name
    for name, operation in OPERATIONS.items()
    if any("mask" in words for sets in operation.needs.values() for words in sets)
}


@dataclass(frozen=True)
class Noted:
    """A node of a graph: its name, its operation's name, and the stack (file, line) that made it, the
    outermost first. `again` says whether the node is recomputed in backward."""

    name: str
    target: str
    lines: tuple[tuple[str, int], ...]
    again: bool


@dataclass(eq=False)
class Graph:
    """A compiled graph, and how often it has run since `Graphs.restart`."""

    kind: Kind
    nodes: tuple[Noted, ...]
    #: Of a backward graph, the forward graph that belongs to it.
    forward: Graph | None = None
    runs: int = 0


@dataclass(eq=False)
class Graphs:
    """All graphs that AOTAutograd hands to compilers, and the storages of their outputs."""

    compiled: list[Graph] = field(default_factory=list)
    live: Any = field(default_factory=storages.Storages)

    @contextmanager
    def watched(self) -> Iterator[Graphs]:
        """Note the graphs that are compiled inside the `with`; their runs are counted outside it too."""
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
                # An input may be freed inside the graph, and a result may then have its address.
                self.live.know(results, {k for k, r in given.items() if r() is not None})
                return results

            run._boxed_call = True  # type: ignore[attr-defined]
            return run

        return compile_

    def forget(self) -> None:
        """Forget all graphs, and have everything compiled again."""
        forget_compiled()
        self.compiled.clear()
        self.live.forget()

    def restart(self) -> None:
        """Set the count of runs of each graph to 0."""
        for graph in self.compiled:
            graph.runs = 0


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def frames(stack: str) -> tuple[tuple[str, int], ...]:
    """The files and lines of a stack as PyTorch writes it, the outermost first."""
    return tuple((file, int(number)) for file, number in _FRAME.findall(stack))


def _noted(graph: torch.fx.Graph, kind: Kind) -> tuple[Noted, ...]:
    """The nodes of a graph that belong to the forward pass."""
    noted: list[Noted] = []
    for node in graph.nodes:
        if node.op != "call_function" or node.meta.get("partitioner_tag") == "is_backward":
            continue
        lines = frames(node.meta.get("stack_trace") or "")
        target = node.target
        name = str(getattr(target, "_opname", "") or getattr(target, "__name__", target))
        noted.append(Noted(node.name, name, lines, kind == "backward"))
    return tuple(noted)


# -- executions --------------------------------------------------------------------------------

#: What tells executions of a statement apart: the program's lines on the stack, the outermost first.
Place = tuple[int, ...]
#: A statement, and where it ran.
Statement = tuple[Site, Place]


def statement(lines: Sequence[int], program: Program) -> Statement | None:
    """The statement that runs on a stack of the program's lines. A function that the program defines for
    itself belongs to the statement that calls it."""
    for depth in range(len(lines), 0, -1):
        site = program.lines.get(lines[depth - 1])
        if site is not None and site.kind == "statement":
            return site, tuple(lines[:depth])
    return None


def statements_in(graph: Graph, program: Program) -> Mapping[Statement, tuple[str, ...]]:
    """The names of the nodes that do a statement's work, for each of its executions in a graph."""
    nodes_of: dict[Statement, list[Noted]] = defaultdict(list)
    for node in graph.nodes:
        lines = [number for file, number in node.lines if file == program.file]
        if (place := statement(lines, program)) is not None:
            nodes_of[place].append(node)
    return {key: work for key, nodes in nodes_of.items() if (work := _work(nodes))}


def _work(nodes: Iterable[Noted]) -> tuple[str, ...]:
    """The names of the nodes that compute something; views and parts of results only where there are
    no others."""
    nodes = [node for node in nodes if node.target not in _BESIDE]
    own = [node.name for node in nodes if node.target not in _FORMS]
    return tuple(own or [node.name for node in nodes])


Counted = dict[tuple[Site, Phase], int]


def counts(graphs: Iterable[Graph], program: Program, path: str) -> tuple[Counted, Counter[str]]:
    """Executions of the statements of a forward pass in the graphs that have run, and how often each
    region was called.

    A statement ran where the node that makes its result ran. In backward it also counts where any of
    its nodes ran, if its gradient reads more than its result (`_MASKED`).
    """
    executed: Counter[tuple[Site, Phase]] = Counter()
    calls: Counter[str] = Counter()
    for graph in graphs:
        if not graph.runs:
            continue
        if graph.kind != "backward":
            entered: set[tuple[str, Place]] = set()
            for site, place in statements_in(graph, program):
                if site.path == path:
                    executed[site, "forward"] += graph.runs
                    executed[site, "rerun"] += 0
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
                    executed[site, "rerun"] += graph.runs
    return dict(executed), calls


def executions(
    program: Program, path: str, seen: Counted, calls: Mapping[str, int]
) -> tuple[Execution, ...]:
    """The counts as `Execution` values. A region was rerun as often as the statement in it that was
    rerun most. One that holds only other regions was entered as often as they were, with no rerun."""
    inner = program.inner_regions(path)
    rerun: Counter[str] = Counter()
    for (site, phase), count in seen.items():
        if phase == "rerun":
            rerun[site.region] = max(rerun[site.region], count)

    def entered(name: str) -> int:
        return calls.get(name, 0) or max(map(entered, inner[name]), default=0)

    observed = [Execution(name, "", "forward", entered(name)) for name in inner]
    observed += [Execution(name, "", "rerun", rerun[name]) for name in inner]
    observed += [Execution(s.region, s.label, phase, n) for (s, phase), n in seen.items()]
    return tuple(observed)


def forget_compiled() -> None:
    """Drop all that Dynamo has compiled, and its counters of graph breaks."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # This cache would take the code of an equal function of another program, with that one's file name.
    bytecode_transformation._cached_cleaned_instructions.cache_clear()


def breaks() -> tuple[str, ...]:
    """The first line of each reason for a graph break since `forget_compiled`."""
    reasons = torch._dynamo.utils.counters["graph_break"]
    return tuple(str(reason).splitlines()[0] for reason in reasons)
