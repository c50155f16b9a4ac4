"""How MindSpore is observed: its CPU profiler in PyNative mode, its compiler's graphs in graph mode.

In PyNative mode the time at which a kernel started says which line of the program it belongs to. In
graph mode Python does not run the program's lines: the compiler writes its graph to a file, and values,
executions and peak all come from the same run.
"""

from __future__ import annotations

import bisect
import functools
import gc
import inspect
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType, MethodType
from typing import Any
from unittest import mock

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.common.api import _pynative_executor

from conformance.errors import LackingError
from conformance.model.case import FORWARD_MODE
from conformance.model.observation import Leaf, Observation, Phase, Run
from conformance.model.program import MAPPED, Program, Site
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.observer import Counts
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.trace import Trace

from . import dataflow, graphs, pool, profiler, ranks
from .notes import CAST, STOPPED, compiles

#: How often a kernel runs before MindSpore has chosen how to divide its elements among threads. Until
#: then the last bit of a logarithm differs from run to run.
TRIED = 40
#: A program is deep if its plain run executes more statements than this.
DEEP = 50


class Lines(Trace):
    """Follows a program and notes the time (ns) at which each statement starts. It waits for all
    kernels between statements."""

    def __init__(self, program: Program, **callbacks: Any) -> None:
        super().__init__(program, **callbacks)
        self._times: list[int] = []
        self._running: list[tuple[Site, Phase, int] | None] = []

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        tracer = super()._enter(frame, event, argument)
        if tracer is not None:
            self._note(frame)
        return tracer

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        profiler.synchronize()
        tracer = super()._step(frame, event, argument)
        profiler.synchronize()  # what a callback has read is no part of the program
        after = frame.f_back if event == "return" else frame
        self._note(None if event == "exception" else after)
        return tracer

    def _note(self, frame: FrameType | None) -> None:
        """Note that kernels from now on belong to the innermost statement of these frames."""
        site = None
        while frame is not None and site is None:
            if frame.f_code.co_filename == self.program.file:
                site = self.program.lines.get(frame.f_lineno)
            frame = frame.f_back
        running = None
        if site is not None and site.kind == "statement":
            running = site, self.phase, self.begun[site, self.phase]
        self._times.append(time.time_ns())
        self._running.append(running)

    @contextmanager
    def active(self) -> Iterator[Trace]:
        cell = ms.nn.Cell
        make = cell.__init__

        def made(own: Any, *args: Any, **options: Any) -> None:
            make(own, *args, **options)
            site = self.current("layer")
            if site is not None:
                watched = functools.partial(self._constructing, site, own.construct)
                # `recompute` takes the method of a cell, and no other function.
                method = MethodType(lambda _, *args, **options: watched(*args, **options), own)
                object.__setattr__(own, "construct", method)

        with mock.patch.object(cell, "__init__", made), super().active():
            yield self

    def _constructing(
        self, site: Site, construct: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """Call a layer that was constructed at a site: its kernels belong to that site's statement."""
        profiler.synchronize()
        with self.calling(site) as done:
            if site.label:
                self._times.append(time.time_ns())
                self._running.append((site, self.phase, self.begun[site, self.phase]))
            result = construct(*args, **options)
            profiler.synchronize()
            done(result)
        self._note(sys._getframe(1))
        return result

    def statements(self, kernels: list[Any]) -> Counter[tuple[Site, Phase]]:
        """Executions of each statement: those that ran all kernels that a forward execution did. A flag
        may have each of those do something else. As many as ran none in forward may run none again.

        A statement in which early stop raises may have run its kernels or not, so kernels decide.
        """
        seen: dict[tuple[Site, Phase, int], Counter[str]] = defaultdict(Counter)
        for kernel in kernels:
            running = self._running[bisect.bisect_right(self._times, kernel.start) - 1]
            if running is not None and self._times[0] <= kernel.start:
                seen[running][kernel.name] += 1
        counts: Counter[tuple[Site, Phase]] = Counter()
        for (site, phase), begun in self.begun.items():
            runs = range(1, self.begun[site, "forward"] + 1)
            whole = [one for n in runs if (one := seen.get((site, "forward", n)))]
            if not whole:  # no kernel runs for it: the line itself is all there is
                counts[site, phase] = self.completed[site, phase]
                continue
            ran = [one for n in range(1, begun + 1) if (one := seen.get((site, phase, n)))]
            counts[site, phase] += sum(any(one <= again for one in whole) for again in ran)
            # A cast to the dtype that a tensor has runs no kernel.
            without = self.begun[site, "forward"] - len(whole)
            counts[site, phase] += min(without, max(0, self.completed[site, phase] - len(ran)))
        return counts


#: What MindSpore has set for the whole process. Each program sets its mode itself.
SETTINGS: Mapping[str, Setting] = {
    "whether gradients are recorded": (
        _pynative_executor.enable_grad,
        _pynative_executor.set_enable_grad,
    ),
    "determinism": (
        lambda: ms.get_context("deterministic"),
        lambda before: ms.set_context(deterministic=before),
    ),
}


#: Options of `mindspore.recompute` that not every release has.
OPTIONS = {"context_fn", "early_stop"}


@functools.cache
def _forward_runs_again() -> bool:
    """Whether the function that `ms.vjp` returns runs forward again, as up to MindSpore 2.8."""
    calls: list[None] = []

    def noted(x: Tensor) -> Tensor:
        calls.append(None)
        return ops.sin(x)

    out, backward = ms.vjp(noted, ops.ones(1))
    backward(out)
    return len(calls) > 1


class Observer(Base):
    """Observes MindSpore on the CPU, in the mode of the variant."""

    settings = SETTINGS
    tracing = Lines
    state_readers = (("mindspore.common.recompute", "get_rng_state"),)
    rehearsals = 0  # those that looked at values and executions have filled the caches

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.graph = compiles(variant)
        self._pool: pool.Pool | None = None
        #: Whether the plain run has executed more than `DEEP` statements.
        self._deep = False
        #: What the compiler made of each forward pass, by its name.
        self._texts: dict[str, list[str]] = {}
        self.methods = {
            "executions": "nodes of the compiled graph, matched by what they read"
            if self.graph
            else "CPU profiler, kernels by program line",
            "randomness": "gradients under one seed"
            if self.graph
            else "values of the program's lines",
            "retained memory": "bytes that the memory pool has given",
            "peak memory": "the most bytes that the memory pool has given",
            "release": "bytes that the memory pool has given; tensors that Python tracks",
        }

    #: What observes programs of several ranks, made before the process runs its first operation.
    unused: ranks.Unused | None = None

    def warm_up(self) -> None:
        if Observer.unused is None:
            Observer.unused = ranks.Unused(_on_rank)
        self._warm_up()

    def _warm_up(self) -> None:
        profiler.begin()
        ms.set_context(mode=ms.PYNATIVE_MODE)
        profiler.touch()
        for _ in range(TRIED):
            ops.log(ops.ones(12)).asnumpy()
        with profiler.recorded_kernels() as kernels:
            pass
        if [kernel.name for kernel in kernels] != ["Exp"]:
            raise RuntimeError(f"the CPU profiler recorded {kernels}, but one Exp ran")
        self._pool = pool.find(profiler.touch)
        self.together = self._pool is not None

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, Tensor):
            return None
        dtype = str(value.dtype).lower()
        array = value.astype(ms.float32).asnumpy() if dtype == "bfloat16" else value.asnumpy()
        return Leaf(np.array(array), dtype)

    def nbytes(self, value: object) -> int:
        """Bytes of a tensor; 0 for a NumPy array, which is not in the memory pool."""
        return value.nbytes if isinstance(value, Tensor) else 0

    def unseed(self) -> None:
        # nothing public takes a seed back; by name, since functions are called the same
        sys.modules["mindspore.common.seed"]._GLOBAL_SEED = None  # type: ignore[attr-defined]
        ms.seed()

    def wait(self) -> None:
        profiler.synchronize()

    def alive(self) -> int | None:
        # Not `isinstance`, which asks a weak proxy for what may be gone.
        return sum(issubclass(type(value), Tensor) for value in gc.get_objects())

    def held(self) -> int | None:
        return None if self._pool is None else self._pool.allocated()

    def reset_peak(self) -> None:
        if self._pool is not None:
            self._pool.reset_peak()

    def peak(self) -> int | None:
        self.wait()
        return None if self._pool is None else self._pool.peak()

    def unobserved(self, program: Program) -> Mapping[str, str]:
        reasons: dict[str, str] = {}
        if self._pool is None:
            checks = ("retained memory", "peak memory", "release")
            reasons = dict.fromkeys(
                checks, "the memory pool does not report how many bytes are in use"
            )
        compiling = "vmap" if MAPPED in program.notes else ""
        compiling = "jacrev" if program.procedure == "jacobian" else compiling
        if not self.graph and compiling:
            reasons["executions"] = (
                f"{compiling} compiles regions, and a graph's kernels are no line's"
            )
        if self.graph:
            reasons["retained memory"] = (
                "memory cannot be measured between forward and backward of a graph"
            )
            if program.procedure in FORWARD_MODE:
                reasons["executions"] = "a tangent's nodes do not tell their statement"
            if STOPPED in program.notes:
                reasons["structure"] = "the gradient function returns no dict and no None"
        return reasons

    def observe(self, program: Program) -> Observation:
        for option in OPTIONS - {*inspect.signature(ms.recompute).parameters}:
            if f"{option}=" in program.text:
                raise LackingError(f"the option `{option}` of mindspore.recompute in this release")
        if "ms.vjp(" in program.text and not self.graph and _forward_runs_again():
            raise LackingError("a backward pass apart: ms.vjp of this release runs forward again")
        if program.ranks > 1 and Observer.unused is not None:
            return Observer.unused.observe(program)
        self._texts, self._deep = {}, False
        observation = super().observe(program)
        if not self._texts or "executions" in self.unobserved(program):
            return observation
        # Followed when all else is done: the network runs once more, and may draw.
        data, inputs = dataflow.follow(program, load_program(program))
        runs: dict[str, Run] = {}
        for path, texts in self._texts.items():
            run: Run = getattr(observation, path)
            # Each call gives a loss, in inference there is one; every graph was called.
            calls = max(1, len(run.losses), len(texts))
            casts = CAST in program.notes
            executions = graphs.executions(texts, data, inputs, calls, casts=casts)
            runs[path] = replace(run, executions=executions)
        return replace(observation, **runs)  # type: ignore[arg-type]

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        run = super().run(loaded, unobserved)
        if run.error is not None:
            profiler.forget_unfinished()
        return run

    def values(self, loaded: LoadedProgram) -> Run:
        """`run` with values, under PyNative mode's default asynchronous dispatch.

        The recomputed run of a deep program is synchronous instead: an asynchronous run busy-waits at
        each region, which took three times as long.
        """
        alone = self._deep
        profiler.synchronous(alone and not self.graph)
        try:
            if self.graph:
                return self._compiled(loaded)
            return super().values(loaded)
        finally:
            profiler.synchronous(True)

    def _compiled(self, loaded: LoadedProgram) -> Run:
        """The values of a run, and the peak and graphs of the same run: separate runs would have to
        compile it again."""
        peak: int | None = None

        def run() -> Any:
            nonlocal peak
            self.settle()
            with self.watching():
                self.reset_peak()
                before, result, highest = self.held(), loaded.run(), self.peak()
            if before is not None and highest is not None:
                peak = highest - before
            return result

        measured = replace(loaded, run=run) if loaded.program.procedure == "backward" else loaded
        with graphs.written() as texts:
            observed = super().values(measured)
        if observed.error is not None:
            return observed
        self._texts[loaded.path] = [t for t in texts if f"# In file {loaded.program.file}:" in t]
        return replace(observed, peak=peak)

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        # What a graph executes is read from it in the end.
        if self.graph:
            return run
        counted = super().count(loaded, run, meter)
        if loaded.path == "plain":
            ran = (
                e.count for e in counted.executions or () if e.statement and e.phase == "forward"
            )
            self._deep = sum(ran) > DEEP
        return counted

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        assert isinstance(trace, Lines)
        with profiler.recorded_kernels() as kernels:
            yield lambda: trace.statements(kernels)


def _on_rank(program: Program) -> Observation:
    """What a rank sees of a program, in a process that has run no operation."""
    Observer.unused = None  # its process is the rank's parent
    observer = Observer(program.variant)
    observer._warm_up()
    return observer.observe(program)
