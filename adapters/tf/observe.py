"""How TensorFlow is observed: op callbacks tell which line an operation comes from.

Eagerly, an operation runs when its callback is called. In a `tf.function` the callback tells of an
operation that is traced; whether it runs is then asked of the profiler, which names every node that
a kernel ran for, after the graph optimizer has taken out what nobody needs. In a compiled function
it is asked of the optimised HLO, whose instructions name the nodes that they come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import config

from conformance.model.observation import Array, Leaf, Observation, Phase, RandomSample, Run
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.observer import Growth, with_shared_counts
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.phases import announced
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.trace import Trace, executions

from . import buffers, compiled, following, hlo, lines, profiler, replicas, sampling

#: Executions of statements or regions by phase.
Counted = Counter[tuple[Site, Phase]]
_EXECUTIONS = {
    "eager": "op callbacks, operations by program line",
    "function": "profiler, graph nodes by the program line that traced them",
    "forward-function": "profiler, graph nodes by the program line that traced them",
    "loop": "not told by round",
    "xla": "optimised HLO, instructions by the program line that traced their node",
}
#: The variants whose forward and backward are one graph.
ONE_GRAPH = ("function", "loop", "xla")
#: What TensorFlow, and Keras in it, have set for the whole process.
SETTINGS: Mapping[str, Setting] = {
    "whether functions run eagerly": (
        tf.config.functions_run_eagerly,
        tf.config.run_functions_eagerly,
    ),
    "soft placement": (tf.config.get_soft_device_placement, tf.config.set_soft_device_placement),
    "determinism": (
        config.is_op_determinism_enabled,
        lambda on: config.enable_op_determinism() if on else config.disable_op_determinism(),
    ),
    "Keras's default dtype": (tf.keras.backend.floatx, tf.keras.backend.set_floatx),
    "Keras's dtype policy": (
        lambda: tf.keras.mixed_precision.global_policy().name,
        tf.keras.mixed_precision.set_global_policy,
    ),
    # A scope that was entered cannot be left from outside: the worker is replaced.
    "the default device": (lambda: context.context().device_name, lambda _: None),
}


class Observer(Base):
    """Observes TensorFlow on the CPU and on one thread."""

    settings = SETTINGS
    resolution = 0

    def __init__(self, variant: str) -> None:
        if variant == "mirrored":
            replicas.divide_cpu()
        variant = "eager" if variant in ("keras-model", "mirrored") else variant
        super().__init__(variant)
        self._forget()
        self.methods = {
            "executions": _EXECUTIONS[variant],
            "randomness": "values of the program's lines",
            "retained memory": "op callbacks, live tensor buffers",
            "peak memory": "profiler, allocations and deallocations of 256 KiB or more",
            "release": "live eager tensors and their buffers",
        }

    def _forget(self) -> None:
        """Drop what earlier passes of a run have kept for later ones."""
        #: The functions that the program has compiled.
        self._functions = compiled.Functions("")
        self._kept: int | None = None  # bytes that an eager run held when backward started
        #: The operations that made values or their graphs, and the bytes that they put out.
        self._operations: Any = None
        self._sizes: Any = None

    def warm_up(self) -> None:
        with profiler.no_rewrites():
            pass  # what it leaves behind is a configuration of its own, which functions are made for
        profiler.nodes_run(tf.function(lambda: tf.constant(1.0) + 1.0))
        value = tf.Variable(1.0)
        with tf.GradientTape() as tape:
            loss = tf.recompute_grad(lambda: tf.sin(value))()
        tape.gradient(loss, value)

    def leaf(self, value: object) -> Leaf | None:
        return buffers.leaf(value)

    def generator(self) -> Array | None:
        return np.array(tf.random.uniform([4]))

    def numbers(self, generator: object) -> Array | None:
        if not isinstance(generator, tf.random.Generator):
            return None
        return np.array(generator.uniform([4]))

    def unobserved(self, program: Program) -> Mapping[str, str]:
        unobserved: dict[str, str] = {}
        if program.procedure == "jacobian":
            unobserved["executions"] = "the rows are computed by a graph of their own"
        if program.ranks > 1:
            unobserved["peak memory"] = "the profiler sees the allocations of all ranks together"
        if self.variant not in ONE_GRAPH:
            return unobserved
        unobserved["retained memory"] = (
            "memory cannot be measured between forward and backward of a graph"
        )
        if self.variant == "xla" and program.text.count("@tf.function") > 1:
            reason = "the instructions of two compiled functions cannot be told apart"
            unobserved["executions"] = reason
        if self.variant == "loop":
            unobserved |= dict.fromkeys(
                ("executions", "randomness"), "rounds of a loop cannot be told apart"
            )
        return unobserved

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        try:
            run = super().run(loaded, unobserved)
            measured = "peak memory" not in unobserved
            if measured and run.error is None and loaded.program.procedure == "backward":
                run = replace(run, peak=self._highest(loaded))
            return run
        finally:
            self._forget()

    # -- values, executions and draws ----------------------------------------------------------

    def values(self, loaded: LoadedProgram) -> Run:
        self._forget()
        self._functions = compiled.Functions(loaded.program.file)
        if self.variant == "eager":
            return super().values(loaded)
        if self.variant == "xla" and loaded.program.random:
            # A compiled function draws new random numbers each time, whatever the seeds: the draws are
            # those of the run whose values they go with.
            with sampling.returning(loaded.program) as drawn:
                run = super().values(loaded)
            return replace(run, samples=tuple(drawn))
        with self._functions.active(), self._noting(loaded):
            return super().values(loaded)

    @contextmanager
    def _noting(self, loaded: LoadedProgram, *others: Any) -> Iterator[None]:
        """Note the operations that are run, or added to graphs, inside the `with`.

        A function that was traced before makes no new operations; what was noted at its tracing stays.
        `others` are further followers that are called for each operation.
        """
        operations = lines.Operations(loaded.program, loaded.called)
        sizes = buffers.Sizes(profiler.SEEN)
        with following.following(operations, sizes, *others):
            yield
        operations.close()
        if self._operations is None or operations.traced:
            self._operations, self._sizes = operations, sizes

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        if self.variant == "eager":
            return self._run_eagerly(loaded, run)
        if self.variant == "xla":
            regions, statements = self._compiled(loaded)
        else:
            regions, statements = self._profiled(loaded)
        statements |= self._while_tracing(loaded)
        run = replace(run, executions=executions(regions, statements))
        if loaded.program.random:
            drawn = run.samples if self.variant == "xla" else self._told(loaded)
            known = {(s.region, s.label) for s, _ in statements}
            ever = {(s.region, s.label, phase) for (s, phase), n in statements.items() if n}
            run = replace(
                run,
                samples=tuple(
                    d
                    for d in drawn or ()
                    if (d.region, d.statement, d.phase) in ever
                    or (d.region, d.statement) not in known
                ),
            )
        return run

    def _run_eagerly(self, loaded: LoadedProgram, run: Run) -> Run:
        """`run` with its executions, and where it has any, its draws; and the bytes for `retained`."""
        live = buffers.LiveBuffers()
        with self._reading(loaded, live) as (run_program, readings), self._noting(loaded, live):
            run_program(loaded.forward)
        self._kept = readings[0] if readings else None
        operations = self._operations
        counted = executions(operations.entered(), operations.eager_statements())
        silent = operations.without(loaded.path)
        if silent or loaded.program.random:
            # A line that makes no operation only the line trace sees, and what a line draws.
            followed = super().count(loaded, run)
            names = {(s.region, s.label if s.kind == "statement" else "") for s in silent}
            counted = (
                *(e for e in counted if (e.region, e.statement) not in names),
                *(e for e in followed.executions or () if (e.region, e.statement) in names),
            )
            run = replace(run, samples=followed.samples)
        return replace(run, executions=counted)

    def _trace(self, program: Program, **follow: Any) -> Trace:
        """The trace that follows a program's lines while graphs are traced."""
        kind = lines.Graphs if self.variant == "forward-function" else Trace
        trace: Trace = kind(program, **follow)
        return trace

    def _while_tracing(self, loaded: LoadedProgram) -> Counted:
        """Executions of statements that make no operation, as Python runs them while tracing."""
        ran = {run.site for run in self._operations.runs}
        silent = {
            site for site in self._operations.without(loaded.path) - ran if site.kind == "statement"
        }
        if not silent:
            return Counter()
        with self._trace(loaded.program).active() as trace:
            loaded.run()
        return Counter({key: n for key, n in trace.completed.items() if key[0] in silent})

    def _profiled(self, loaded: LoadedProgram) -> tuple[Counted, Counted]:
        """Executions of regions and statements, by the kernels that the profiler saw.

        Two graphs may have nodes of the same name: there is a session for each phase.
        """
        apart = self.variant == "forward-function"
        ran: dict[Phase, Counter[str]] = {"forward": Counter(), "rerun": Counter()}
        now: Phase = "forward"
        session = profiler.Session()

        def on_phase(label: str, frame: FrameType) -> None:
            nonlocal session, now
            ran[now] += profiler.kernels(session.stop())
            now = "rerun" if label == "backward" else "forward"
            session = profiler.Session()

        follow = Trace(loaded.program, on_phase=on_phase).active() if apart else nullcontext()
        with profiler.no_rewrites():
            try:
                with self._functions.active(), self._noting(loaded), follow:
                    loaded.run()
            finally:
                ran[now] += profiler.kernels(session.stop())
        if not apart:
            ran["rerun"] = ran["forward"]
        times = lines.Kernels(ran).times
        counted: tuple[Counted, Counted] = self._operations.graph_executions(times)
        return counted

    def _compiled(self, loaded: LoadedProgram) -> tuple[Counted, Counted]:
        """Executions of regions and statements, by the instructions that are left."""
        if self._operations is None:  # the values are those of functions that put out draws as well
            with self._functions.active(), self._noting(loaded):
                loaded.run()
        nodes = hlo.ran(self._functions)

        def traced(run: Any) -> list[tuple[str, str]]:
            return [(name, kind) for (_, name), kind in zip(run.nodes, run.types, strict=True)]

        def times(run: Any) -> int | None:
            count: int | None = hlo.runs(run.site.op, traced(run), nodes)
            merged = lines.merged(run.site.op, (name for name, _ in nodes))
            return None if not count and merged else count

        counted: tuple[Counted, Counted] = self._operations.graph_executions(
            times, lambda run: hlo.traces(traced(run), nodes)
        )
        return counted

    def _told(self, loaded: LoadedProgram) -> list[RandomSample]:
        def follow(drawn: Callable[[Site, Phase, Mapping[str, Any]], None]) -> Trace:
            return self._trace(loaded.program, on_statement=drawn)

        with sampling.passing(follow) as samples:
            loaded.run()
        return samples

    # -- memory --------------------------------------------------------------------------------

    def unseed(self) -> None:
        tf.random.set_seed(None)

    def observe(self, program: Program) -> Observation:
        if program.ranks > 1:  # by an observer of the rank's own
            return replicas.observe(
                program.ranks, lambda: Base.observe(Observer("mirrored"), program)
            )
        observation = super().observe(program)
        if self.variant == "eager":
            return observation
        return replace(
            observation, plain=with_shared_counts(observation.plain, observation.recomputed)
        )

    def retained(self, loaded: LoadedProgram) -> int | None:
        """Bytes of the buffers that are held when the first backward pass starts, without those that the
        variables of `run` hold; eagerly as `count` has read them in its own run."""
        if self.variant == "eager":
            return self._kept
        live = buffers.LiveBuffers()
        with (
            self._functions.active(),
            following.following(live),
            self._reading(loaded, live) as (run, readings),
        ):
            run(loaded.forward)
        return readings[0] if readings else None

    @contextmanager
    def _reading(
        self, loaded: LoadedProgram, live: buffers.LiveBuffers
    ) -> Iterator[tuple[Callable[..., Any], list[int]]]:
        """The program's `run`, and a list that holds, once that has run, the bytes for `retained`."""
        readings: list[int] = []

        def on_phase(label: str, frame: FrameType) -> None:
            if label == "backward" and not readings:
                self.settle()
                held = buffers.tensors(frame.f_locals)
                mine = {place for value in held for place in live.places_of(value)}
                readings.append(sum(size for _, size in live.places() - mine))

        with announced(loaded.program, loaded.module, on_phase) as run:
            yield run, readings

    def _highest(self, loaded: LoadedProgram) -> int | None:
        """The most bytes allocated from the start of forward on, as the profiler saw; `None` where
        too much is in blocks that it does not see."""
        if self._sizes.small * 16 > self._sizes.large:
            return None
        sessions: list[Any] = []

        def begin() -> None:
            if not sessions:
                self.settle()
                sessions.append(profiler.Session())

        def on_phase(label: str, frame: FrameType) -> None:
            if label == "forward":
                begin()

        try:
            if self.variant in ONE_GRAPH:  # its forward pass starts as the function is called
                with self._functions.active(begin):
                    loaded.run()
            else:
                phases = announced(loaded.program, loaded.module, on_phase)
                with self._functions.active(), phases as run:
                    run(loaded.forward)
        finally:
            planes = [plane for session in sessions for plane in session.stop()]
        return int(profiler.highest(planes))

    def leftovers(self, loaded: LoadedProgram) -> tuple[Growth, Growth]:
        # What earlier passes keep is no leftover, and each run traces again, as the program does.
        self._functions, self._operations = compiled.Functions(loaded.program.file), None
        return super().leftovers(loaded)

    def held(self) -> int | None:
        return int(buffers.held())

    def alive(self) -> int | None:
        return len(buffers.alive())
