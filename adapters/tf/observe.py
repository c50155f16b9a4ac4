"""How TensorFlow is observed: op callbacks tell which line an operation comes from.

Eagerly, an operation runs when its callback is called. In a `tf.function` the callback tells of an
operation that is traced; whether it runs is then asked of the profiler, which names every node that
a kernel ran for, after the graph optimizer has taken out what nobody needs.
"""

from __future__ import annotations

import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from conformance.observation import Array, Draw, Leaf, Phase, Run
from conformance.operations import RANDOM
from conformance.program import Program, Site
from conformance.worker.observer import Counts
from conformance.worker.observer import Observer as Base
from conformance.worker.trace import Trace, executions

#: For each operation of a case the node types of which one does its work in a graph; what else a
#: statement adds (reads of variables, layout) may run without it.
WORK: Mapping[str, tuple[str, ...]] = {
    "add": ("AddV2",),
    "subtract": ("Sub",),
    "multiply": ("Mul",),
    "divide": ("RealDiv",),
    "negative": ("Neg",),
    "matmul": ("MatMul", "BatchMatMulV2"),
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
}
#: Nodes that hand their input on, where its value is used: the optimizer takes them out, or their
#: kernel does so little that the profiler leaves it out.
HANDED_ON = frozenset(
    {"StopGradient", "Identity", "IdentityN", "Reshape", "Split", "Cast", "Transpose"}
)
#: Rewriting by the optimizer that renames and fuses nodes, and does not decide what is computed.
REWRITES = ("remapping", "arithmetic_optimization")


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
        op_callbacks.add_op_callback(self._called)
        try:
            yield self
        finally:
            op_callbacks.remove_op_callback(self._called)
            self._frames.clear()

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
                found[site, phase] += run is not None and run.types == first.types
        return found

    def graph_executions(
        self, ran: Mapping[str, int]
    ) -> tuple[Counter[tuple[Site, Phase]], Counter[tuple[Site, Phase]]]:
        """Executions of regions and of statements, from how often each node ran.

        A region ran in a call as often as the statement in it that ran most.
        """
        statements: Counter[tuple[Site, Phase]] = Counter()
        calls: Counter[int] = Counter()
        for run in self.runs.values():
            count = _times(run, ran)
            statements[run.site, run.phase] += count
            for call in run.around:
                calls[call] = max(calls[call], count)
        for (site, phase), completed in self.trace.completed.items():
            if not any(s is site for s, _, _ in self.runs):
                statements[site, phase] = completed  # no operation: it is done while tracing
        regions: Counter[tuple[Site, Phase]] = Counter()
        for call, count in calls.items():
            regions[self.calls[call]] += count
        return regions, statements


def _times(run: Traced, ran: Mapping[str, int]) -> int:
    """How often the node that does a statement's work ran."""
    work = [
        (graph, name)
        for (graph, name), kind in zip(run.nodes, run.types, strict=True)
        if kind in WORK.get(run.site.op, ())
    ]
    if not work:
        raise RuntimeError(f"no node of {run.site.op} among {run.types}")
    graph, name = work[-1]
    return _ran(graph.get_operation_by_name(name), ran)


def _ran(node: Any, ran: Mapping[str, int]) -> int:
    """How often a node ran, or what reads it where the optimizer hands its input on instead."""
    found = ran.get(node.name, 0)
    if found or node.type not in HANDED_ON:
        return found
    readers = [reader for output in node.outputs for reader in output.consumers()]
    return max((_ran(reader, ran) for reader in readers), default=0)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def nodes_run(function: Callable[[], object]) -> Counter[str]:
    """How often a kernel ran for each graph node, by the node's name, as the profiler tells."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            function()
        for file in Path(folder).rglob("*.xplane.pb"):
            space = xplane_pb2.XSpace.FromString(file.read_bytes())
            for plane in space.planes:
                names = {key: value.name for key, value in plane.event_metadata.items()}
                for line in plane.lines:
                    for event in line.events:
                        node, colon, kind = names[event.metadata_id].rpartition(":")
                        if colon and not kind.startswith(" ") and not node.endswith(":"):
                            found[node] += 1
    return found


@contextmanager
def no_rewrites() -> Iterator[None]:
    """Keep the graph optimizer from renaming and fusing nodes."""
    tf.config.optimizer.set_experimental_options(dict.fromkeys(REWRITES, False))
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options(dict.fromkeys(REWRITES, True))


class LiveBuffers:
    """Knows every buffer that an eager operation has put out and that a tensor still holds."""

    def __init__(self) -> None:
        self._live: dict[int, weakref.ref[Any]] = {}
        self._place: dict[int, tuple[int, int]] = {}

    @contextmanager
    def active(self) -> Iterator[LiveBuffers]:
        """Follow operations until the `with` ends."""
        op_callbacks.add_op_callback(self._called)
        try:
            yield self
        finally:
            op_callbacks.remove_op_callback(self._called)

    def _called(
        self,
        op_type: Any,
        inputs: Sequence[Any],
        attrs: Any,
        outputs: Sequence[Any],
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        around = [place for value in inputs for place in self._known(value)]
        for value in outputs:
            place = buffer(value)
            if place is None:
                continue
            start, size = place
            for begin, length in around:  # a slice or an alias keeps the whole buffer
                if begin <= start and start + size <= begin + length:
                    place = begin, length
            key = id(value)
            self._place[key] = place
            self._live[key] = weakref.ref(value, lambda _, key=key: self._forget(key))

    def _known(self, value: Any) -> Iterator[tuple[int, int]]:
        found = self._place.get(id(value)) or buffer(value)
        if found is not None:
            yield found

    def _forget(self, key: int) -> None:
        self._live.pop(key, None)
        self._place.pop(key, None)

    def place(self, value: Any) -> tuple[int, int] | None:
        """Address and bytes of the whole buffer that a tensor holds; `None` for anything else."""
        return self._place.get(id(value)) or buffer(value)

    def places(self) -> set[tuple[int, int]]:
        """Every buffer that is held."""
        return set(self._place.values())


def buffer(value: Any) -> tuple[int, int] | None:
    """Address and bytes of the elements of an eager tensor or variable; `None` for others."""
    if isinstance(value, tf.Variable):
        value = value.read_value()
    if not isinstance(value, tf.Tensor) or not hasattr(value, "_numpy"):
        return None
    if value.dtype in (tf.resource, tf.variant, tf.string):
        return None
    elements = value._numpy()  # the tensor's own memory, not a copy
    if not isinstance(elements, np.ndarray) or not elements.nbytes:
        return None
    return elements.__array_interface__["data"][0], elements.nbytes


class Observer(Base):
    """Observes TensorFlow on the CPU and on one thread."""

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.methods = {
            "executions": "op callbacks, operations by program line"
            if variant == "eager"
            else "profiler, graph nodes by the program line that traced them",
            "randomness": "values of the program's lines",
            "retained memory": "op callbacks, live tensor buffers",
        }

    def warm_up(self) -> None:
        nodes_run(tf.function(lambda: tf.constant(1.0) + 1.0))
        value = tf.Variable(1.0)
        with tf.GradientTape() as tape:
            loss = tf.recompute_grad(lambda: tf.sin(value))()
        tape.gradient(loss, value)

    def leaf(self, value: object) -> Leaf | None:
        if isinstance(value, tf.IndexedSlices):
            value = tf.convert_to_tensor(value)
        if not isinstance(value, tf.Tensor | tf.Variable):
            return None
        array, dtype = value.numpy(), value.dtype.name
        return Leaf(np.array(array, np.float32 if dtype == "bfloat16" else None), dtype)

    def generator(self) -> Array | None:
        return np.array(tf.random.uniform([4]))

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if self.variant == "function":
            return {"retained memory": "forward and backward are one graph, no moment lies between"}
        return {}

    # -- executions and draws ------------------------------------------------------------------

    def count(
        self, program: Program, module: ModuleType, forward: Callable[..., Any], run: Run
    ) -> Run:
        if self.variant == "eager":
            return super().count(program, module, forward, run)
        trace = Trace(program)
        operations = Operations(trace)

        def traced() -> None:
            with trace.active(), operations.active():
                module.run(forward)

        with no_rewrites():
            ran = nodes_run(traced)
        regions, statements = operations.graph_executions(ran)
        run = replace(run, executions=executions(regions, statements))
        if program.random:
            ever = {(s.region, s.label, phase) for (s, phase), n in statements.items() if n}
            drawn = self._draws_in_graph(program, module, forward)
            chosen = tuple(d for d in drawn if (d.region, d.statement, d.phase) in ever)
            run = replace(run, draws=chosen)
        return run

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        operations = Operations(trace)
        with operations.active():
            yield operations.eager_statements

    def _draws_in_graph(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> list[Draw]:
        """What random statements put out: a node beside each tells its value each time it runs.

        Seeds go by the number of random operations in the graph, so that the draws stay the same.
        """
        draws: list[Draw] = []

        def drawn(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
            tensor = names.get(site.label)
            if site.op not in RANDOM or not isinstance(tensor, tf.Tensor):
                return

            def tell(array: Any) -> None:
                draws.append(Draw(site.region, site.label, phase, np.array(array)))

            with tf.init_scope() if tf.executing_eagerly() else tensor.graph.as_default():
                tf.numpy_function(tell, [tensor], [])

        with Trace(program, on_statement=drawn).active():
            module.run(forward)
        return draws

    # -- memory --------------------------------------------------------------------------------

    def retained(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> int | None:
        found: list[int] = []

        def on_phase(label: str, frame: FrameType) -> None:
            if label == "backward" and not found:
                self.settle()
                mine = {live.place(value) for value in tensors(frame.f_locals)}
                found.append(sum(size for _, size in live.places() - mine))

        live = LiveBuffers()
        with live.active(), Trace(program, on_phase=on_phase).active():
            module.run(forward)
        return found[0] if found else None


def tensors(value: Any) -> Iterator[Any]:
    """The tensors and variables in a value, containers included."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, tf.Tensor | tf.Variable):
        yield value
