"""Which line of a program an operation comes from, and how often a statement's operations ran.

Eagerly, an operation runs when its callback is called. In a graph the callback tells of an operation
that is traced; whether it runs is asked elsewhere, by the name of its node.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import tensorflow as tf

from conformance.model.observation import Phase
from conformance.model.program import Program, Site
from conformance.observe.worker.trace import Trace

from . import following

#: For each operation of a case, the types of the graph nodes that may do its work; other nodes of the
#: statement (reads of variables, changes of layout) may run without it.
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
    "where": ("SelectV2",),
    "broadcast_to": ("BroadcastTo",),
    "slice": ("StridedSlice",),
    "astype": ("Cast",),
    "to_complex": ("Complex",),
    "real": ("Real",),
    "imag": ("Imag",),
    "stop_gradient": ("StopGradient",),
    "uniform": ("RandomUniform",),
    "uniform_from": ("StatelessRandomUniformV2",),
    "sin_or_cos": ("Sin", "Cos"),
    "branch_sin": ("If", "StatelessIf"),
    "loop_sin": ("While", "StatelessWhile"),
    "custom_sin": ("Sin",),
    "noted_sin": ("Sin",),
    "slope_of_sin": ("Cos",),
    "unsteady_sin": ("Sin",),
    "counted_sin": ("Sin",),
    "switched_sin": ("Sin", "Cos"),
    "raise_in_rerun": ("Sin",),
    "accumulate_sin": ("Sin",),
}
#: Nodes that may only pass their input on: the graph optimizer removes them, or their kernel is so short
#: that the profiler leaves it out.
HANDED_ON = frozenset(
    {"StopGradient", "Identity", "IdentityN", "Reshape", "Split", "Cast", "Transpose"}
)
#: Nodes that hold a conditional or a loop. The optimizer inlines their bodies under their name: a
#: conditional's operations as `cond/then/_0/…`, a loop's as `while/body/_1/…`.
CONDITIONALS = frozenset({"If", "StatelessIf"})
LOOPS = frozenset({"While", "StatelessWhile"})
#: The operations that become such a node.
CONTROL = frozenset({"branch_sin", "loop_sin"})
#: Operations that read a variable. A rerun may lack them: an argument that was a variable is a tensor
#: there.
READS = frozenset({"ReadVariableOp"})


class Call:
    """A call of one of the program's functions, or of a region's: what is known of its frame.

    `regions` are the calls of regions around an operation of this frame, the outermost first.
    `forward` says whether it came from the program's forward pass: a region that runs again is called
    by the gradient instead.
    """

    __slots__ = ("at", "forward", "regions", "run")

    def __init__(self, forward: bool, regions: tuple[Call, ...], is_region: bool) -> None:
        self.forward = forward
        self.regions: tuple[Call, ...] = (*regions, self) if is_region else regions
        #: The statement that runs in it now, and how far in the code its last operation was.
        self.run: Traced | None = None
        self.at = -1


@dataclass
class Traced:
    """One execution of a statement, or its trace in a graph."""

    site: Site
    phase: Phase
    #: The calls of regions around it, the outermost first.
    around: tuple[Call, ...]
    types: list[str] = field(default_factory=list)
    nodes: list[tuple[Any, str]] = field(default_factory=list)  # graph and node name


class Operations(following.Follower):
    """Notes every operation that the program's lines make, with its line and the regions around it.

    There is no line trace: the line is read from the stack when an operation is made.
    """

    def __init__(self, program: Program, forward: Callable[..., Any]) -> None:
        self.program = program
        self.runs: list[Traced] = []
        #: Calls of regions that made an operation.
        self.calls: dict[Call, tuple[Site, Phase]] = {}
        self._forward = forward.__code__
        #: Whether forward and backward are two graphs, traced together.
        self._two_graphs = program.variant == "forward-function"
        #: Whether to keep the graphs of operations; in eager mode that would keep tensors alive.
        self._keeps_graphs = program.variant != "eager"
        self._sites: dict[CodeType, list[Site | None]] = {}
        #: Calls whose frame is followed by something else; until `close`.
        self._followed: dict[FrameType, Call] = {}

    def put_out(
        self, inputs: Sequence[Any], outputs: Sequence[Any], op_type: Any, op_name: Any, graph: Any
    ) -> None:
        frame, file = sys._getframe(2), self.program.file
        while frame is not None:
            if frame.f_code.co_filename == file:
                site = self._site(frame)
                if site is not None:
                    break
            frame = frame.f_back  # type: ignore[assignment]
        # Helper functions of the program belong to the statement that calls them; operations of a
        # gradient come from the line of `run` that starts the backward pass, and so from none.
        if frame is None or site is None or site.kind != "statement":
            return
        call = self._call(frame, graph)
        phase = self._phase(call, graph)
        run, at = call.run, frame.f_lasti
        if run is None or run.site is not site or run.phase != phase or at < call.at:
            run = Traced(site, phase, call.regions)
            self.runs.append(run)
            call.run = run
        call.at = at
        run.types.append(_text(op_type))
        if graph is not None and self._keeps_graphs:
            run.nodes.append((graph, _text(op_name)))

    def _site(self, frame: FrameType) -> Site | None:
        """The site of the line that a frame is at. Finding one line takes time in proportion to its
        function's length, so the lines of a function are all found at once and kept."""
        code = frame.f_code
        sites = self._sites.get(code)
        if sites is None:
            sites = [None] * (len(code.co_code) // 2)
            for start, end, line in code.co_lines():
                site = None if line is None else self.program.lines.get(line)
                sites[start // 2 : end // 2] = [site] * (end // 2 - start // 2)
            self._sites[code] = sites
        return sites[frame.f_lasti // 2]

    def _call(self, frame: FrameType, graph: Any) -> Call:
        """The `Call` of a frame of the program.

        It is stored in the frame's own `f_trace` where that is free. A dict of frames would keep them
        alive, with all tensors in their variables; one of their ids could confuse two frames.
        """
        known: object = frame.f_trace
        if known is not None and not isinstance(known, Call):
            known = self._followed.get(frame)
        if isinstance(known, Call):
            return known
        around = frame.f_back
        while around is not None and around.f_code.co_filename != self.program.file:
            around = around.f_back
        outer = None if around is None else self._call(around, graph)
        region = self.program.lines.get(frame.f_code.co_firstlineno)
        is_region = region is not None and region.kind == "region"
        forward = frame.f_code is self._forward or (outer is not None and outer.forward)
        call = Call(forward, () if outer is None else outer.regions, is_region)
        if region is not None and is_region:
            self.calls[call] = region, self._phase(call, graph)
        if frame.f_trace is None:
            frame.f_trace = call  # type: ignore[assignment]
        else:
            self._followed[frame] = call
        return call

    def _phase(self, call: Call, graph: Any) -> Phase:
        if self._two_graphs and graph is not None:
            return _phase_of(graph)
        return "forward" if call.forward else "rerun"

    def close(self) -> None:
        """Drop references to frames; call it when no more operations come."""
        self._followed.clear()

    @property
    def traced(self) -> bool:
        """Whether an operation became the node of a graph."""
        return any(run.nodes for run in self.runs)

    def without(self, path: str) -> set[Site]:
        """The statements and regions of a forward pass that made no operation in forward."""
        ran = {run.site for run in self.runs if run.phase == "forward"}
        ran |= {site for site, phase in self.calls.values() if phase == "forward"}
        sites = {site for site in self.program.lines.values() if site.serves(path)}
        return {site for site in sites - ran if site.kind != "phase"}

    def entered(self) -> Counter[tuple[Site, Phase]]:
        """How often each region was called."""
        return Counter(self.calls.values())

    def eager_statements(self) -> Counter[tuple[Site, Phase]]:
        """Executions of each statement: in forward all, again those that ran all operations that one in
        forward did. A statement that branches runs other operations in another call."""
        whole: defaultdict[Site, list[list[str]]] = defaultdict(list)
        counts: Counter[tuple[Site, Phase]] = Counter()
        for run in self.runs:
            if run.phase == "forward":
                whole[run.site].append(_work(run))
            counts[run.site, run.phase] += _work(run) in whole[run.site]
        return counts

    def graph_executions(
        self,
        times: Callable[[Traced], int | None],
        traces: Callable[[Traced], int] = lambda _: 0,
    ) -> tuple[Counter[tuple[Site, Phase]], Counter[tuple[Site, Phase]]]:
        """Executions of regions and of statements, from how often each traced statement ran.

        Where `times` gives `None`, the statement and others of its name have no count in either phase,
        and its region counts it with `traces`. In forward a region ran as often as whatever ran most in
        it; it was rerun as often as the statement directly in it that was rerun most.
        """
        untold: set[tuple[str, str]] = set()
        statements: Counter[tuple[Site, Phase]] = Counter()
        calls: Counter[Call] = Counter()
        again: Counter[tuple[Call, Site]] = Counter()
        for run in self.runs:
            known = times(run)
            count = traces(run) if known is None else known
            if known is None:
                untold.add((run.site.region, run.site.label))
            else:
                statements[run.site, run.phase] += known
            if run.phase == "rerun" and run.around:
                again[run.around[-1], run.site] += count
                calls[run.around[-1]] = max(calls[run.around[-1]], again[run.around[-1], run.site])
            elif run.phase == "forward":
                for call in run.around:
                    calls[call] = max(calls[call], count)
        for site, phase in list(statements):
            if (site.region, site.label) in untold:
                del statements[site, phase]
        regions: Counter[tuple[Site, Phase]] = Counter()
        for call, place in self.calls.items():
            regions[place] += calls[call]
        return regions, statements


def _work(run: Traced) -> list[str]:
    """The operations of an execution, without reads of variables. Those that may do the statement's
    work are alike: a flag may choose among them."""
    work = WORK.get(run.site.op, ())
    return ["work" if kind in work else kind for kind in run.types if kind not in READS]


class Graphs(Trace):
    """Follows a program whose forward pass is a graph and whose backward pass is another one.

    Both are traced when the forward pass starts; the name of the graph being built, or of one around it,
    says which of the two it is.
    """

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        graph = tf.compat.v1.get_default_graph()
        if graph.building_function:
            self.phase = _phase_of(graph)
        return super()._enter(frame, event, argument)


def _phase_of(graph: Any) -> Phase:
    """Whether a graph that is being built belongs to a forward or to a backward pass, by its name or the
    name of one around it."""
    while graph is not None:
        if getattr(graph, "name", "").startswith("__backward_"):
            return "rerun"
        graph = getattr(graph, "outer_graph", None)
    return "forward"


#: Gradients of sine and cosine compute each other, and a rerun may be merged with such a one.
MERGED = {"sin": "Sin", "cos": "Cos"}


def merged(op: str, names: Iterable[str]) -> bool:
    """Whether a node of an operation may have been merged with an equal node of a gradient: some node of
    a gradient has the operation's type."""
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

        `None` where the statement became a constant while tracing, or where the count is not known.
        Raises `RuntimeError` where no node of the statement can do its work.
        """
        nodes = zip(run.nodes, run.types, strict=True)
        working = [node for node, kind in nodes if kind in WORK.get(run.site.op, ())]
        if not working and set(run.types) == {"Const"}:
            return None
        if not working:
            raise RuntimeError(f"no node of {run.site.op} among {run.types}")
        # A conditional's or a loop's gradient may be made with it, and comes after it.
        graph, name = working[0 if run.site.op in CONTROL else -1]
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
    runs = ran.get(node.name, 0)
    if not runs and not _has(node.graph, f"{node.name}_0"):
        runs = ran.get(f"{node.name}_0", 0)  # as the optimizer calls a node that is an output
    if runs or node.type not in HANDED_ON:
        return runs
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
