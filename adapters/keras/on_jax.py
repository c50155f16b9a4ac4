"""Keras on JAX, without `jax.jit`: JAX's own reading of jaxprs, and the arrays that are alive.

Outside `jax.jit` each operation is dispatched by itself, and a recomputed function is traced once. The
jaxpr of all of `run` has the same operations: of a program's regions it tells what was computed, and
what was computed again. Python itself runs the plain program, and what lies outside regions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cache
from types import FrameType
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir
from jax.extend.core import set_current_trace, take_current_trace
from keras.src.backend.common import global_state
from keras.src.utils import jax_utils

from conformance.language.operations import CASTS
from conformance.model.observation import Execution, Leaf, Observation, Phase, RandomSample, Run
from conformance.model.program import SET, Program, Site
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.phases import announced
from conformance.observe.worker.threads import entering
from conformance.observe.worker.trace import executions

from ..jax import counting, executables, hosts, jaxprs


class _EnoughSeen(BaseException):  # which no program catches
    """Raised to end a run once all that is read from it has been read."""


class Observer(Base):
    """JAX on the CPU, without `jax.jit`."""

    resolution = 0

    methods: Mapping[str, str] = {
        "executions": "jaxpr of the whole run, values by program line",
        "randomness": "values of the jaxpr's random equations",
        "retained memory": "arrays alive when backward starts",
        "release": "arrays alive",
    }

    def warm_up(self) -> None:
        # JAX lowers each operation in a context of its own, which takes twice as long to make as the
        # rest takes. One serves them all.
        mlir.make_ir_context = cache(mlir.make_ir_context)

    def observe(self, program: Program) -> Observation:
        jax.config.update("jax_enable_x64", False)  # a program before this one may have set it
        return super().observe(program)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        reasons: dict[str, str] = {}
        if SET in program.notes:
            reason = "statements are told by what they compute, which changes from step to step"
            reasons["executions"] = reason
        if program.procedure in ("second_order", "third_order"):
            reason = "one pass computes all orders, so memory between them cannot be measured"
            reasons["retained memory"] = reason
        elif program.procedure == "functional":
            reasons["retained memory"] = (
                "forward and backward are one transform, so memory between them cannot be measured"
            )
        return reasons

    def leaf(self, value: object) -> Leaf | None:
        # A constant that a traced function gives comes as an array of NumPy's.
        if not isinstance(value, jax.Array | np.ndarray) or isinstance(value, jax.core.Tracer):
            return None
        dtype = str(value.dtype)
        return Leaf(np.array(value.astype(jnp.float32) if dtype == "bfloat16" else value), dtype)

    # -- memory --------------------------------------------------------------------------------

    def wait(self) -> None:
        for array in jax.live_arrays():
            array.block_until_ready()

    def held(self) -> int | None:
        """Bytes of the distinct buffers of all arrays that are alive."""
        return sum({self.identity(a): self.nbytes(a) for a in jax.live_arrays()}.values())

    def alive(self) -> int | None:
        return len(jax.live_arrays())

    def nbytes(self, value: object) -> int:
        known = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
        return int(value.nbytes) if known else 0  # type: ignore[attr-defined]

    def identity(self, value: object) -> int:
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return id(value)
        return executables.buffer(value)

    def retained(self, loaded: LoadedProgram) -> int | None:
        """As the base class says, but in one run, which ends where backward would start: the values'
        pass has filled all caches, and no peak is read."""
        meter = self.meter()

        def on_phase(label: str, frame: FrameType) -> None:
            meter.on_phase(label, frame)
            if label == "backward":
                raise _EnoughSeen

        with announced(loaded.program, loaded.module, on_phase) as run, suppress(_EnoughSeen):
            run(loaded.forward)
        return meter.retained

    # -- executions ----------------------------------------------------------------------------

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        program = loaded.program
        walk, trace = jaxprs.Walk(program), self.tracing(program)
        # JAX keeps the graph of a function that it has traced: each pass has functions of its own.
        alone, whole = (
            LoadedProgram.of(program, load_program(program), loaded.path) for _ in range(2)
        )
        for one in (alone, whole):
            vars(one.module)["inputs"] = _computed(one.module.inputs)
        _seed(alone)
        closed = _jaxpr(lambda: alone.alone())
        events = walk.run(closed)
        known = walk.known = jaxprs.signatures(walk, events)
        with trace.active():
            closed = _jaxpr(whole.run)
        higher = program.procedure in ("second_order", "third_order")
        counts = counting.count(walk.run(closed), known, higher=higher, alone=events)
        # Python itself runs what lies outside regions, and a line in one that makes no equation.
        inside = [site for site in known if site.region]
        completed = Counter({key: n for key, n in trace.completed.items() if key[0] not in inside})
        completed += Counter({(site, "forward"): counts.forward[site] for site in inside})
        completed += Counter({(site, "rerun"): counts.rerun[site] for site in inside})
        # NumPy and Python draw while a region is traced: a constant, which no equation draws.
        # A cast to the dtype that a tensor has is no equation either.
        unseen = {site for site, _ in completed if site not in known}
        hidden = {site for site in unseen if site.op in hosts.SOURCES}
        casts = {site for site in unseen if site.region and site.op in CASTS}
        shown = {key: n for key, n in completed.items() if key[0] not in hidden | casts}
        told = program.random and not hidden
        return replace(
            run,
            executions=_executions(trace.entered, counts, shown),
            samples=self._samples(walk, counts) if told else None,
        )

    def _samples(self, walk: jaxprs.Walk, counts: counting.Counts) -> tuple[RandomSample, ...]:
        """What random statements drew. A draw from a generator gives the generator's next state, too,
        which is no number of the case's."""
        drawn = ((site, again, self.leaf(walk.value(n))) for site, again, n in counts.drawn)
        return tuple(
            RandomSample(site.region, site.label, "rerun" if again else "forward", leaf.array)
            for site, again, leaf in drawn
            if leaf is not None and "float" in leaf.dtype
        )


def _computed(inputs: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The inputs of a program, where those without axes are results of an operation, and not constants,
    which what is computed from them would be told by."""

    def given() -> dict[str, Any]:
        arrays = inputs().items()
        return {
            n: a[None].reshape(()) if isinstance(a, jax.Array) and not a.shape else a
            for n, a in arrays
        }

    return given


def _seed(loaded: LoadedProgram) -> None:
    """Seed all generators as `run` of a program does before its forward pass."""

    def reached(*_: Any, **values: Any) -> None:
        raise _EnoughSeen

    with suppress(_EnoughSeen):
        loaded.module.run(reached)


def _jaxpr(function: Callable[[], Any]) -> Any:
    """The jaxpr of what a function does, in other threads, too. Keras draws from its global generator
    although JAX traces; afterwards that is as before."""
    name = "global_seed_generator"
    generator = global_state.get_global_attribute(name)
    state = None if generator is None else generator.state.value

    def arrays() -> list[Any]:  # a traced function can return nothing else
        return [leaf for leaf in jax.tree.leaves(function()) if isinstance(leaf, jax.Array)]

    eager = mock.patch.object(jax_utils, "is_in_jax_tracing_scope", return_value=False)
    with eager, entering(_same_trace):
        closed = jax.make_jaxpr(arrays)()
    global_state.set_global_attribute(name, generator)
    if generator is not None:
        generator.state.assign(state)
    return closed


def _same_trace() -> AbstractContextManager[object]:
    """A context for another thread that makes it trace into this thread's trace."""
    with take_current_trace() as trace:
        same: AbstractContextManager[object] = set_current_trace(trace)
        return same


def _executions(
    entered: Mapping[tuple[Site, Phase], int],
    counts: counting.Counts,
    statements: Mapping[tuple[Site, Phase], int],
) -> tuple[Execution, ...]:
    """Counts as observation values.

    In forward a region ran as often as the line in it that ran most; Python enters it at least once, to
    trace it. It was rerun as often as the statement that was rerun most, over all of its lines.
    """
    observed = executions({}, statements)
    regions: Counter[tuple[str, Phase]] = Counter()
    for (site, _), n in entered.items():
        regions[site.region, "forward"] += n
    regions |= Counter({(region, "forward"): n for region, n in counts.entered.items() if region})
    for (site, phase), n in statements.items():  # several operations may make one name
        if site.region and phase == "rerun":
            regions[site.region, phase] = max(regions[site.region, phase], n)
    return (*(Execution(region, "", phase, n) for (region, phase), n in regions.items()), *observed)
