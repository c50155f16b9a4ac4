"""The observer of compiled variants whose backend runs one kernel per node: uses a dispatch mode.

Dynamo traces the program, and the backend runs the graph without fusing it. A dispatch mode with
`ignore_compile_internals` sees every operation that reaches a kernel. The program line comes from the
node that is running. That node is found from the line of the graph's generated code, or from the
`Interpreter` that runs a checkpointed part of the graph.
"""

from __future__ import annotations

import ast
import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch._dynamo.backends import common, registry
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.model.observation import Execution, Phase, Run
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.trace import Trace

from . import graphs
from .traced import Traced

_RUN_NODE = Interpreter.run_node.__code__
#: Operations that do not belong to the statement on whose line they run: checkpoint's hooks detach the
#: tensors they unpack, and autocast adds casts, whose results it caches.
_BESIDE = frozenset({torch.ops.aten.detach.default, torch.ops.aten.alias.default})
_CAST = torch.ops.aten._to_copy.default
#: A statement, and the program's lines on the stack, the outermost first.
Statement = graphs.Statement
#: The same, and whether the operation runs in a backward graph.
Place = tuple[Site, tuple[int, ...], bool]
#: A region, a phase, and the program's lines on the stack when the region was called.
Way = tuple[str, Phase, tuple[int, ...]]


@dataclass(eq=False)
class Graphs:
    """The graphs that backends are given, and for each line of their generated code its node."""

    #: For each file of generated code, the nodes by line number.
    nodes: dict[str, Mapping[int, Node]] = field(default_factory=dict)
    #: The files with the generated code of backward graphs.
    backward: set[str] = field(default_factory=set)
    #: The checkpointed parts of graphs, each with the node that runs it.
    bodies: dict[GraphModule, Node] = field(default_factory=dict)
    #: Calls of graphs, forward and backward together.
    calls: int = 0
    #: Calls of each region's forward graph; counted here since a policy may save all of its results, so
    #: that it dispatches nothing.
    ways: Counter[Way] = field(default_factory=Counter)
    trace: Trace | None = None
    _places: dict[Node, Statement | None] = field(default_factory=dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the graphs that are compiled inside the `with`, and count their calls."""
        eager, simplified = registry.lookup_backend("eager"), common.aot_module_simplified

        def called_eagerly(module: Any, inputs: Any, **options: Any) -> Any:
            return self._counted(module, eager(module, inputs, **options))

        def called(module: Any, inputs: Any, **options: Any) -> Any:
            for name, kind in graphs.COMPILERS.items():
                options[name] = self._noting(options[name], backward=kind == "backward")
            return simplified(module, inputs, **options)

        with (
            mock.patch.dict(registry._COMPILER_FNS, eager=called_eagerly),
            mock.patch.object(common, "aot_module_simplified", called),
        ):
            yield

    def _noting(self, compiler: Callable[..., Any], *, backward: bool) -> Callable[..., Any]:
        def compile_(module: Any, inputs: Any) -> Any:
            call = self._counted(module, compiler(module, inputs), backward=backward)
            call._boxed_call = True
            return call

        return compile_

    def _counted(self, module: Any, call: Callable[..., Any], *, backward: bool = False) -> Any:
        self._know(module, backward=backward)

        def run(*arguments: Any) -> Any:
            self.calls += 1
            if self.trace is not None and not backward:
                self.ways.update(_ways(module, self.trace))
            return call(*arguments)

        return run

    def _know(self, module: torch.nn.Module, *, backward: bool) -> None:
        for part in module.modules():
            if isinstance(part, GraphModule):
                if isinstance(part, torch.fx._lazy_graph_module._LazyGraphModule):
                    part.real_recompile()
                code, nodes = type(part).forward.__code__, list(part.graph.nodes)
                if backward:
                    self.backward.add(code.co_filename)
                self.nodes[code.co_filename] = {
                    code.co_firstlineno + line: nodes[number]
                    for line, number in part._lineno_map.items()
                    if number is not None
                }
                for node in nodes:
                    if node.target is torch.ops.higher_order.tag_activation_checkpoint:
                        self.bodies[getattr(part, str(node.args[0].target))] = node

    def forget(self) -> None:
        """Forget all graphs, and have everything compiled again."""
        graphs.forget_compiled()
        self.nodes.clear()
        self.backward.clear()
        self.bodies.clear()
        self._places.clear()

    @contextmanager
    def entries(self, trace: Trace) -> Iterator[Counter[tuple[str, Phase]]]:
        """Count the calls of each region that is a checkpointed part of a graph: an `Interpreter` runs
        it."""
        entered: Counter[tuple[str, Phase]] = Counter()
        own, regions = Interpreter.run, _regions(trace.program)

        def run(interpreter: Interpreter, *arguments: Any, **options: Any) -> Any:
            called_by = self.bodies.get(interpreter.module)
            if called_by is not None:
                depth = len(_lines(called_by, trace.program))
                inside = (_lines(n, trace.program)[depth:] for n in interpreter.module.graph.nodes)
                first = next((lines[0] for lines in inside if lines), 0)
                entered[regions.get(first, ""), trace.phase] += 1
            return own(interpreter, *arguments, **options)

        self.trace = trace
        self.ways.clear()
        with mock.patch.object(Interpreter, "run", run):
            yield entered
        self.trace = None

    def place(self, program: Program) -> Place | None:
        """The place of the operation that is running now; `None` for one of a gradient."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code is _RUN_NODE:
                return _placed(self._statement(frame.f_locals["n"], program), backward=False)
            if code.co_filename in self.nodes:
                node = self.nodes[code.co_filename].get(frame.f_lineno)
                statement = None if node is None else self._statement(node, program)
                return _placed(statement, backward=code.co_filename in self.backward)
            if code.co_filename == program.file:
                site = program.lines.get(frame.f_lineno)
                if site is not None:
                    own = (site, (frame.f_lineno,)) if site.kind == "statement" else None
                    return _placed(own, backward=False)
            frame = frame.f_back
        return None

    def _statement(self, node: Node, program: Program) -> Statement | None:
        if node not in self._places:
            self._places[node] = _statement(node, program)
        return self._places[node]


def _placed(statement: Statement | None, *, backward: bool) -> Place | None:
    return None if statement is None else (*statement, backward)


def _statement(node: Node, program: Program) -> Statement | None:
    """The statement whose work a node does."""
    if node.meta.get("partitioner_tag") == "is_backward":
        return None
    return graphs.statement(_lines(node, program), program)


def _lines(node: Node, program: Program) -> list[int]:
    """The program's lines on a node's stack, the outermost first. A node that saves random state has no
    stack of its own; it gets that of the node which uses its result."""
    told = (one.meta.get("stack_trace") for one in (node, *node.users))
    frames = graphs.frames(next(filter(None, told), ""))
    return [number for file, number in frames if file == program.file]


def _ways(module: Any, trace: Trace) -> set[Way]:
    """The regions whose statements are in a graph."""
    owners = _regions(trace.program)
    return {
        (owners.get(line, ""), trace.phase, tuple(lines[:depth]))
        for lines in (_lines(node, trace.program) for node in module.graph.nodes)
        for depth, line in enumerate(lines)
    }


def _regions(program: Program) -> Mapping[int, str]:
    """For each line of the program, the innermost region whose function contains it."""
    region_of: dict[int, str] = {}
    for node in ast.walk(ast.parse(program.text)):  # outer ones come first
        site = program.lines.get(node.lineno) if isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.FunctionDef) and site is not None and site.kind == "region":
            region_of |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), site.region)
    return region_of


class Dispatched(TorchDispatchMode):
    """Notes every operation that reaches a kernel, with its statement, and the storages of its
    outputs."""

    # What a compiler puts around operations that draw is an operator of its own.
    supports_higher_order_operators = True

    def __init__(self, trace: Trace | None, live: Any, known: Graphs) -> None:
        super().__init__()
        self.trace, self.live, self.known = trace, live, known
        self.seen: dict[tuple[Place, Phase], Counter[Any]] = defaultdict(Counter)
        #: What the first execution of a statement dispatched, and in which call of a graph.
        self.whole: dict[Statement, tuple[int, Counter[Any]]] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if self.trace is not None and func not in _BESIDE:
            wrapped = (one for one in args if isinstance(one, torch._ops.OpOverload))
            self._note(next(wrapped, func), self.trace)
        result = func(*args, **(kwargs or {}))
        self.live.know(result)
        return result

    def _note(self, func: Any, trace: Trace) -> None:
        place = self.known.place(trace.program)
        if place is None:
            return
        self.seen[place, trace.phase][func] += 1
        if trace.phase == "forward":
            call, operations = self.whole.setdefault(place[:2], (self.known.calls, Counter()))
            if call == self.known.calls:
                operations[func] += 1

    def counts(self) -> tuple[Mapping[tuple[Site, Phase], int], Counter[tuple[str, Phase]]]:
        """Executions of each statement and of each region.

        An execution counts if it dispatched all operations that the statement's first one did. A region
        counts as often as its forward graph was called or, on each stack that leads to it, as often as
        the statement in it that ran most.
        """
        executed: Counter[tuple[Site, Phase]] = Counter()
        ways: Counter[Way] = Counter(self.known.ways)
        owners = {} if self.trace is None else _regions(self.trace.program)
        phases: tuple[Phase, Phase] = ("forward", "rerun")
        for (site, lines), (_, operations) in self.whole.items():
            whole = {op: n for op, n in operations.items() if op is not _CAST} or operations
            for phase, backward in itertools.product(phases, (False, True)):
                seen = self.seen.get(((site, lines, backward), phase), Counter())
                count = min(seen[op] // n for op, n in whole.items())
                executed[site, phase] += count
                for depth, line in enumerate(() if backward else lines):
                    way = owners.get(line, ""), phase, lines[:depth]
                    ways[way] = max(ways[way], count)
        regions: Counter[tuple[str, Phase]] = Counter()
        for (region, phase, _), count in ways.items():
            regions[region, phase] += count
        return dict(executed), regions


class Kernels(Traced):
    """Observes programs that Dynamo traces and whose backend runs one kernel per node.

    After a graph break a region may run in Python or in parts, and no executions are reported for it.
    """

    methods: Mapping[str, str] = {
        "executions": "TorchDispatchMode, operations by the program line of the node that runs",
        "randomness": "gradients under one seed",
        "retained memory": "TorchDispatchMode, live storages",
        "peak memory": "TorchDispatchMode, live storages after each operation",
        "release": "TorchDispatchMode, live storages",
    }

    noted: Graphs = Graphs()
    broken = "parts of the program to Python"

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        """`run` with executions, from the operations that graph nodes dispatch. Random samples are not
        read: a compiled region has no Python variables that hold them."""
        program = loaded.program
        trace = Trace(program, on_phase=None if meter is None else meter.on_phase)
        watched = self.noted.entries(trace), self._dispatched(trace)
        with trace.active(), watched[0] as entered, watched[1] as mode:
            loaded.run()
            if meter is not None:
                meter.finish()
            self.settle()
            seen, regions = mode.counts()
        if not seen:
            raise RuntimeError(f"no statement of {program.case} reached a kernel")
        parts = {region for region, _ in entered}  # an interpreter tells more than what it runs
        regions = entered + Counter({k: n for k, n in regions.items() if k[0] not in parts})
        phases: tuple[Phase, Phase] = ("forward", "rerun")
        inner = program.inner_regions(loaded.path)
        executions = [Execution(name, "", p, regions[name, p]) for name in inner for p in phases]
        executions += [Execution(s.region, s.label, phase, n) for (s, phase), n in seen.items()]
        return replace(run, executions=tuple(executions))

    def _dispatched(self, trace: Trace | None) -> AbstractContextManager[Dispatched]:
        return self.dispatching(lambda live: Dispatched(trace, live, self.noted))

    @contextmanager
    def watching(self) -> Iterator[None]:
        with self._dispatched(None):
            yield
