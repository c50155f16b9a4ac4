"""Which line of a program an operation comes from, and how often a statement's operations ran.

Eagerly, an operation runs when its callback is called. In a graph the callback tells of an operation
that is traced; whether it runs is asked elsewhere, by the name of its node.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from conformance.observation import Phase
from conformance.program import Site
from conformance.worker.threads import entering
from conformance.worker.trace import Trace

#: For each operation of a case the node types of which one does its work in a graph; what else a
#: statement adds (reads of variables, layout) may run without it.
WORK: Mapping[str, tuple[str, ...]] = {
    "add": ("AddV2",),
    "subtract": ("Sub",),
    "multiply": ("Mul",),
    "divide": ("RealDiv",),
    "negative": ("Neg",),
    "matmul": ("MatMul", "BatchMatMulV2"),
    "solve": ("MatrixSolve",),
    "linear": ("MatMul", "BatchMatMulV2"),
    "conv2d": ("Conv2D",),
    "max_pool2d": ("MaxPool",),
    "avg_pool2d": ("AvgPool",),
    "batch_norm": ("SquaredDifference",),
    "layer_norm": ("SquaredDifference",),
    "embedding": ("ResourceGather", "GatherV2"),
    "relu": ("Relu",),
    "gelu": ("Erf", "Erfc"),
    "tanh": ("Tanh",),
    "sigmoid": ("Sigmoid",),
    "sin": ("Sin",),
    "cos": ("Cos",),
    "exp": ("Exp",),
    "log": ("Log",),
    "square": ("Square",),
    "sqrt": ("Sqrt",),
    "abs": ("Abs",),
    "maximum": ("Maximum",),
    "max": ("Max",),
    "cumulative_sum": ("Cumsum",),
    "softmax": ("Softmax",),
    "dropout": ("RandomUniform",),
    "sum": ("Sum",),
    "mean": ("Mean",),
    "reshape": ("Reshape",),
    "permute_dims": ("Transpose",),
    "concat": ("ConcatV2",),
    "split": ("Split",),
    "astype": ("Cast",),
    "stop_gradient": ("StopGradient",),
    "uniform": ("RandomUniform",),
    "uniform_from": ("StatelessRandomUniformV2",),
    "sin_or_cos": ("Sin", "Cos"),
    "branch_sin": ("If", "StatelessIf"),
    "loop_sin": ("While", "StatelessWhile"),
    "custom_sin": ("Sin",),
    "noted_sin": ("Sin",),
    "unsteady_sin": ("Sin",),
    "raise_in_rerun": ("Sin",),
    "accumulate_sin": ("Sin",),
}
#: Nodes that hand their input on, where its value is used: the optimizer takes them out, or their
#: kernel does so little that the profiler leaves it out.
HANDED_ON = frozenset(
    {"StopGradient", "Identity", "IdentityN", "Reshape", "Split", "Cast", "Transpose"}
)
#: Nodes that hold a conditional or a loop. The optimizer puts what is in them in their place, under
#: their name: a conditional's operations as `cond/then/_0/…`, a loop's as `while/body/_1/…`.
CONDITIONALS = frozenset({"If", "StatelessIf"})
LOOPS = frozenset({"While", "StatelessWhile"})
#: The operations that become such a node.
CONTROL = frozenset({"branch_sin", "loop_sin"})
#: Operations that read a variable: an argument in its place is a tensor in the rerun.
READS = frozenset({"ReadVariableOp"})


@dataclass
class Traced:
    """One execution of a statement, or its trace in a graph."""

    site: Site
    phase: Phase
    #: The calls of regions around it (`id` of their frames), the outermost first.
    around: tuple[int, ...]
    types: list[str] = field(default_factory=list)
    nodes: list[tuple[Any, str]] = field(default_factory=list)  # graph and node name


class Operations:
    """Notes every operation that the program's lines make, with its line and the regions around."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.paused = False
        self.runs: dict[tuple[Site, Phase, int], Traced] = {}
        self.calls: dict[int, tuple[Site, Phase]] = {}
        self._frames: list[FrameType] = []  # kept, so that no `id` comes twice

    @contextmanager
    def active(self) -> Iterator[Operations]:
        """Note operations until the `with` ends."""
        try:
            with self._listening(), entering(self._listening):
                yield self
        finally:
            self._frames.clear()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """A callback is on in one thread alone."""
        op_callbacks.add_op_callback(self._called)
        try:
            yield
        finally:
            op_callbacks.remove_op_callback(self._called)

    def _called(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        site, around = (None, ()) if self.paused else self._place(sys._getframe(1))
        if site is None:
            return
        phase = self.trace.phase
        key = site, phase, self.trace.begun[site, phase]
        run = self.runs.setdefault(key, Traced(site, phase, around))
        run.types.append(_text(op_type))
        if graph is not None:
            run.nodes.append((graph, _text(op_name)))

    def _place(self, frame: FrameType | None) -> tuple[Site | None, tuple[int, ...]]:
        """The statement that runs now, and the calls of regions around it.

        Helper functions of the program belong to the statement that calls them; operations of a
        gradient come from the line of `run` that starts the backward pass, and so from none.
        """
        program, found, around = self.trace.program, None, []
        while frame is not None:
            if frame.f_code.co_filename == program.file:
                site = program.lines.get(frame.f_lineno)
                if found is None and site is not None:
                    if site.kind != "statement":
                        return None, ()
                    found = site
                region = program.lines.get(frame.f_code.co_firstlineno)
                if region is not None and region.kind == "region":
                    if id(frame) not in self.calls:
                        self.calls[id(frame)] = region, self.trace.phase
                        self._frames.append(frame)
                    around.append(id(frame))
            frame = frame.f_back
        return found, tuple(reversed(around))

    def eager_statements(self) -> Counter[tuple[Site, Phase]]:
        """Executions of each statement: those that ran all operations that its first one did."""
        found: Counter[tuple[Site, Phase]] = Counter()
        for (site, phase), begun in self.trace.begun.items():
            first = self.runs.get((site, "forward", 1))
            if first is None:  # no operation comes from it: the line itself is all there is
                found[site, phase] = self.trace.completed[site, phase]
                continue
            for number in range(1, begun + 1):
                run = self.runs.get((site, phase, number))
                found[site, phase] += run is not None and _work(run) == _work(first)
        return found

    def graph_executions(
        self,
        times: Callable[[Traced], int | None],
        traces: Callable[[Traced], int] = lambda _: 0,
    ) -> tuple[Counter[tuple[Site, Phase]], Counter[tuple[Site, Phase]]]:
        """Executions of regions and of statements, from how often each trace of a statement ran.

        Where `times` cannot tell (`None`), the statement has no count in either phase, nor have
        others of its name, and its region is asked for what `traces` there are of it. In forward a
        region ran as often as anything in it; again it ran as often as the statement of its own
        that ran most.
        """
        untold: set[tuple[str, str]] = set()
        statements: Counter[tuple[Site, Phase]] = Counter()
        calls: Counter[int] = Counter()
        again: Counter[tuple[int, str]] = Counter()
        for run in self.runs.values():
            known = times(run)
            count = traces(run) if known is None else known
            if known is None:
                untold.add((run.site.region, run.site.label))
            else:
                statements[run.site, run.phase] += known
            if run.phase == "rerun" and run.around:
                again[run.around[-1], run.site.label] += count
                calls[run.around[-1]] = max(
                    calls[run.around[-1]], again[run.around[-1], run.site.label]
                )
            elif run.phase == "forward":
                for call in run.around:
                    calls[call] = max(calls[call], count)
        for (site, phase), completed in self.trace.completed.items():
            if not any(s is site for s, _, _ in self.runs):
                statements[site, phase] = completed  # no operation: it is done while tracing
        for site, phase in list(statements):
            if (site.region, site.label) in untold:
                del statements[site, phase]
        regions: Counter[tuple[Site, Phase]] = Counter()
        for call, place in self.calls.items():
            regions[place] += calls[call]
        return regions, statements


def _work(run: Traced) -> list[str]:
    """The operations of an execution, without reads of variables."""
    return [kind for kind in run.types if kind not in READS]


class Graphs(Trace):
    """Follows a program whose forward pass is a graph and whose backward pass is another one.

    Both are traced when the forward pass starts; which one is being made, the graph's name tells, or
    that of a graph around it.
    """

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        graph = tf.compat.v1.get_default_graph()
        if graph.building_function:
            self.phase = "forward"
            while graph is not None:
                if getattr(graph, "name", "").startswith("__backward_"):
                    self.phase = "rerun"
                graph = getattr(graph, "outer_graph", None)
        return super()._enter(frame, event, argument)


#: Gradients of sine and cosine compute each other, and a rerun may be merged with such a one.
MERGED = {"sin": "Sin", "cos": "Cos"}


def merged(op: str, names: Iterable[str]) -> bool:
    """Whether the work of an operation may have been merged with that of a gradient, which then
    stands for both: some node of a gradient has the operation's type."""
    kind = MERGED.get(op)
    return kind is not None and any(
        name.startswith("gradient_tape/") and name.rpartition("/")[2].startswith(kind)
        for name in names
    )


class Kernels:
    """How often statements ran, from how often a kernel ran for each node, by phase and name."""

    def __init__(self, ran: Mapping[Phase, Mapping[str, int]]) -> None:
        self.ran = ran
        #: A graph that is traced more than once has the same nodes each time.
        self._told: set[tuple[Phase, str]] = set()

    def times(self, run: Traced) -> int | None:
        """How often the node that does a statement's work ran.

        `None` where it is a constant, made while tracing, or where that cannot be told. Raises
        `RuntimeError` where no node of the statement can do its work.
        """
        nodes = zip(run.nodes, run.types, strict=True)
        found = [node for node, kind in nodes if kind in WORK.get(run.site.op, ())]
        if not found and set(run.types) == {"Const"}:
            return None
        if not found:
            raise RuntimeError(f"no node of {run.site.op} among {run.types}")
        # A conditional's or a loop's gradient may be made with it, and comes after it.
        graph, name = found[0 if run.site.op in CONTROL else -1]
        if (run.phase, name) in self._told:
            return 0
        self._told.add((run.phase, name))
        count = _ran(graph.get_operation_by_name(name), self.ran[run.phase])
        if not count and merged(run.site.op, self.ran[run.phase]):
            return None
        return count


def _ran(node: Any, ran: Mapping[str, int]) -> int:
    """How often a node ran, or what reads it where the optimizer hands its input on instead."""
    if node.type in CONDITIONALS:
        return _inside(f"{node.name}/then/", ran) + _inside(f"{node.name}/else/", ran)
    if node.type in LOOPS:  # its condition is asked once more than its body runs
        return _inside(f"{node.name}/cond/", ran) - _inside(f"{node.name}/body/", ran)
    found = ran.get(node.name, 0)
    if not found and not _has(node.graph, f"{node.name}_0"):
        found = ran.get(f"{node.name}_0", 0)  # as the optimizer calls a node that is an output
    if found or node.type not in HANDED_ON:
        return found
    readers = [reader for output in node.outputs for reader in output.consumers()]
    return max((_ran(reader, ran) for reader in readers), default=0)


def _inside(place: str, ran: Mapping[str, int]) -> int:
    """How often the nodes below a place ran, in a graph or in a function that it calls."""
    return max(
        (
            count
            for name, count in ran.items()
            if name.startswith(place) or f"PartitionedCall/{place}" in name
        ),
        default=0,
    )


def _has(graph: Any, name: str) -> bool:
    try:
        graph.get_operation_by_name(name)
    except KeyError:
        return False
    return True


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
