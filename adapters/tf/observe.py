"""How TensorFlow is observed: op callbacks tell which line an operation comes from.

Eagerly, an operation runs when its callback is called. In a `tf.function` the callback tells of an
operation that is traced; whether it runs is then asked of the profiler, which names every node that
a kernel ran for, after the graph optimizer has taken out what nobody needs. In a compiled function
it is asked of the optimised HLO, whose instructions name the nodes that they come from.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from conformance.adapter import load_file
from conformance.observation import Array, Draw, Leaf, Observation, Phase, Run
from conformance.program import Program, Site
from conformance.worker.observer import Counts, told_apart
from conformance.worker.observer import Observer as Base
from conformance.worker.trace import Trace, executions

_here = Path(__file__).parent
buffers: Any = load_file(_here / "buffers.py", "conformance_adapter_tf_buffers")
draws: Any = load_file(_here / "draws.py", "conformance_adapter_tf_draws")
hlo: Any = load_file(_here / "hlo.py", "conformance_adapter_tf_hlo")
lines: Any = load_file(_here / "lines.py", "conformance_adapter_tf_lines")
profiler: Any = load_file(_here / "profiler.py", "conformance_adapter_tf_profiler")

_EXECUTIONS = {
    "eager": "op callbacks, operations by program line",
    "function": "profiler, graph nodes by the program line that traced them",
    "forward-function": "profiler, graph nodes by the program line that traced them",
    "xla": "optimised HLO, instructions by the program line that traced their node",
}


class Observer(Base):
    """Observes TensorFlow on the CPU and on one thread."""

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        #: What operations put out in the pass that counted them.
        self._sizes = buffers.Sizes(profiler.SEEN)
        self.methods = {
            "executions": _EXECUTIONS[variant],
            "randomness": "values of the program's lines",
            "retained memory": "op callbacks, live tensor buffers",
            "peak memory": "profiler, allocations and deallocations of 256 KiB or more",
            "release": "live eager tensors and their buffers",
        }

    def warm_up(self) -> None:
        profiler.nodes_run(tf.function(lambda: tf.constant(1.0) + 1.0))
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

    def numbers(self, generator: object) -> Array | None:
        if not isinstance(generator, tf.random.Generator):
            return None
        return np.array(generator.uniform([4]))

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if self.variant in ("function", "xla"):
            return {"retained memory": "forward and backward are one graph, no moment lies between"}
        return {}

    def run(
        self, program: Program, module: ModuleType, path: str, unobserved: dict[str, str]
    ) -> Run:
        run = super().run(program, module, path, unobserved)
        if run.error is None and program.procedure == "backward":
            run = replace(run, peak=self._highest(program, module, getattr(module, path)))
        return run

    # -- executions and draws ------------------------------------------------------------------

    def values(self, program: Program, module: ModuleType, forward: Callable[..., Any]) -> Run:
        if self.variant != "xla" or not program.random:
            return super().values(program, module, forward)
        # A compiled function draws anew each time, whatever the seeds: the draws are those of the
        # run whose values they go with.
        with draws.returning(program) as drawn:
            run = super().values(program, module, forward)
        return replace(run, draws=tuple(drawn))

    def count(
        self, program: Program, module: ModuleType, forward: Callable[..., Any], run: Run
    ) -> Run:
        self._sizes = buffers.Sizes(profiler.SEEN)
        with self._sizes.active():
            return self._count(program, module, forward, run)

    def _count(
        self, program: Program, module: ModuleType, forward: Callable[..., Any], run: Run
    ) -> Run:
        if self.variant == "eager":
            return super().count(program, module, forward, run)
        if self.variant == "xla":
            regions, statements = self._compiled(program, module, forward)
        else:
            regions, statements = self._profiled(program, module, forward)
        run = replace(run, executions=executions(regions, statements))
        if program.random:
            drawn = run.draws if self.variant == "xla" else self._told(program, module, forward)
            known = {(s.region, s.label) for s, _ in statements}
            ever = {(s.region, s.label, phase) for (s, phase), n in statements.items() if n}
            run = replace(
                run,
                draws=tuple(
                    d
                    for d in drawn or ()
                    if (d.region, d.statement, d.phase) in ever
                    or (d.region, d.statement) not in known
                ),
            )
        return run

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        operations = lines.Operations(trace)
        with operations.active():
            yield operations.eager_statements

    def _trace(self, program: Program, **follow: Any) -> Trace:
        """What follows a program in which graphs are traced."""
        kind = lines.Graphs if self.variant == "forward-function" else Trace
        trace: Trace = kind(program, **follow)
        return trace

    def _profiled(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> tuple[Counts, Counts]:
        """Executions of regions and statements, by the kernels that the profiler saw.

        Two graphs may have nodes of the same name: there is a session for each phase.
        """
        apart = self.variant == "forward-function"
        ran: dict[Phase, Counter[str]] = {"forward": Counter(), "rerun": Counter()}
        now: Phase = "forward"
        session = profiler.Session()

        def on_phase(label: str, frame: FrameType) -> None:
            nonlocal session, now
            if apart:
                ran[now] += profiler.kernels(session.stop())
                now = "rerun" if label == "backward" else "forward"
                session = profiler.Session()

        trace = self._trace(program, on_phase=on_phase)
        operations = lines.Operations(trace)
        with profiler.no_rewrites():
            try:
                with trace.active(), operations.active():
                    module.run(forward)
            finally:
                ran[now] += profiler.kernels(session.stop())
        if not apart:
            ran["rerun"] = ran["forward"]
        found: tuple[Counts, Counts] = operations.graph_executions(lines.Kernels(ran).times)
        return found

    def _compiled(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> tuple[Counts, Counts]:
        """Executions of regions and statements, by the instructions that are left."""
        trace = Trace(program)
        operations = lines.Operations(trace)
        compiled = hlo.Compiled()
        with trace.active(), operations.active(), compiled.active(program.file):
            module.run(forward)
        nodes = compiled.nodes()

        def traced(run: Any) -> list[tuple[str, str]]:
            return [(name, kind) for (_, name), kind in zip(run.nodes, run.types, strict=True)]

        def times(run: Any) -> int | None:
            count: int | None = hlo.runs(run.site.op, traced(run), nodes)
            merged = lines.merged(run.site.op, (name for name, _ in nodes))
            return None if not count and merged else count

        found: tuple[Counts, Counts] = operations.graph_executions(
            times, lambda run: hlo.traces(traced(run), nodes)
        )
        return found

    def _told(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> list[Draw]:
        def follow(drawn: Callable[[Site, Phase, Mapping[str, Any]], None]) -> Trace:
            return self._trace(program, on_statement=drawn)

        with draws.passing(follow) as found:
            module.run(forward)
        told: list[Draw] = found
        return told

    # -- memory --------------------------------------------------------------------------------

    def observe(self, program: Program) -> Observation:
        found = super().observe(program)
        if self.variant == "eager":
            return found
        return replace(found, plain=told_apart(found.plain, found.recomputed))

    def retained(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> int | None:
        found: list[int] = []

        def on_phase(label: str, frame: FrameType) -> None:
            if label == "backward" and not found:
                self.settle()
                held = buffers.tensors(frame.f_locals)
                mine = {place for value in held for place in live.places_of(value)}
                found.append(sum(size for _, size in live.places() - mine))

        live = buffers.LiveBuffers()
        with live.active(), Trace(program, on_phase=on_phase).active():
            module.run(forward)
        return found[0] if found else None

    def _highest(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> int | None:
        """The most bytes allocated from the start of forward on, as the profiler saw; `None` where
        too much lies in blocks that it does not see."""
        if self._sizes.small * 16 > self._sizes.large:
            return None
        sessions: list[Any] = []

        def on_phase(label: str, frame: FrameType) -> None:
            if label == "forward" and not sessions:
                self.settle()
                sessions.append(profiler.Session())
                # A frame that is traced holds on to what its variables no longer do.
                sys.settrace(None)
                threading.settrace(None)

        try:
            with Trace(program, on_phase=on_phase).active():
                module.run(forward)
        finally:
            events = [event for session in sessions for event in session.stop()]
        return int(profiler.highest(events))

    def held(self) -> int | None:
        return int(buffers.held())

    def alive(self) -> int | None:
        return len(buffers.alive())
