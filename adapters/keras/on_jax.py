"""Keras on JAX: what is dispatched, by program line, and the arrays that are alive.

Outside `jax.jit` each operation is dispatched by itself. A recomputed function is traced once, and
backward dispatches its equations: those of the rerun stand under `rematted_computation`, among what
the gradients of the same lines need (the cosine of a sine). So a statement ran again where an
equation of its line comes to the very numbers that the statement gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from types import FrameType
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import source_info_util
from jax._src.core import EvalTrace
from jax._src.interpreters import mlir

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.observation import (
    Array,
    Execution,
    Leaf,
    Observation,
    Phase,
    RandomSample,
    Run,
)
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.observe.worker.observer import Meter
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.phases import announced

RERUN = "rematted_computation"
#: Operations that draw, here, with NumPy or Python: JAX is given keys alone.
FOREIGN = frozenset({"numpy_uniform", "python_uniform", "uniform_from"})
#: What of an operation with a mask of its own (`conformance.language.operations`) makes that mask.
MASKS = frozenset({"_bernoulli", "_uniform", "_mean", "_var"})


@dataclass(frozen=True)
class Equation:
    """A primitive that was dispatched for a statement, and one of its results."""

    site: Site
    name: str
    phase: Phase
    array: Array

    @property
    def number(self) -> object:
        return number(self.array)


def number(array: Array) -> object:
    """A hashable key of an array: its dtype, shape and bytes."""
    return str(array.dtype), array.shape, array.tobytes()


def dispatched(program: Program, function: Callable[[], object]) -> list[Equation]:
    """The equations that `function` dispatches for statements of a program, without gradients'."""
    found: list[Equation] = []
    process, call = EvalTrace.process_primitive, EvalTrace.process_call
    #: What is being called: the forward of a loop is written anew in a call of its own, whose equations
    #: have no lines of the program any more.
    calls: list[Site | None] = []

    def note(self: Any, primitive: Any, args: Any, params: Any, /) -> Any:
        results = process(self, primitive, args, params)
        source = source_info_util.current()
        stack = str(source.name_stack)
        site = statement(program, source.traceback) or next(iter(calls[-1:]), None)
        phase: Phase = "rerun" if RERUN in stack else "forward"
        if site is None or (phase == "forward" and "transpose(" in stack):
            return results
        name = str(params.get("name", primitive.name))
        for value in results if primitive.multiple_results else [results]:
            if isinstance(value, jax.Array) and not _is_key(value):
                found.append(Equation(site, name, phase, np.array(value)))
        return results

    def enter(self: Any, primitive: Any, inner: Any, args: Any, params: Any, /) -> Any:
        calls.append(statement(program, source_info_util.current().traceback))
        try:
            return call(self, primitive, inner, args, params)
        finally:
            calls.pop()

    with mock.patch.multiple(EvalTrace, process_primitive=note, process_call=enter):
        function()
    return found


def statement(program: Program, traceback: Any) -> Site | None:
    """The site of the outermost line of the program on the way to an equation that is a statement's."""
    if traceback is None:
        return None
    for code, instruction in zip(*map(reversed, traceback.raw_frames()), strict=True):
        if code.co_filename == program.file:
            site = program.lines.get(traceback.code_addr2line(code, instruction))
            if site is not None and site.kind == "statement":
                return site
    return None


@dataclass
class Known:
    """The results of a statement in the plain run, where Python runs each execution."""

    executions: int = 0
    #: Numbers of its results, and how many equations came to one.
    results: set[object] = field(default_factory=set)
    equations: int = 0
    #: Numbers of parts of its mask: which part each is, and the result that was made with it.
    masks: dict[object, tuple[int, Array]] = field(default_factory=dict)
    _parts: list[object] = field(default_factory=list)

    def times(self, arrays: int) -> int:
        """The executions that `arrays` equations with the statement's result stand for, rounded up."""
        each = max(1, self.equations / max(1, self.executions))
        return ceil(arrays / each)

    def meet(self, result: Array) -> None:
        """Note an execution and its result."""
        self.executions += 1
        self.results.add(number(result))

    def drawn_by_others(self, site: Site) -> bool:
        """Whether a random statement draws without a primitive of JAX."""
        return site.op in RANDOM and self.executions > 0 and not self.masks

    def learn(self, equation: Equation) -> None:
        """Note an equation of the plain run."""
        needs = OPERATIONS[equation.site.op].needs.values()
        own = any("mask" in words for sets in needs for words in sets)
        if equation.name in MASKS and (own or equation.site.op in RANDOM):
            self._parts.append(equation.number)
        if equation.number in self.results:
            self.equations += 1
            for part, mask in enumerate(self._parts):
                self.masks[mask] = part, equation.array
            self._parts.clear()


class _EnoughSeen(BaseException):  # which no program catches
    """Raised to end a run once all that is read from it has been read."""


class Observer(Base):
    """JAX on the CPU, without `jax.jit`."""

    resolution = 0

    methods: Mapping[str, str] = {
        "executions": "primitives as they are dispatched, results by program line",
        "randomness": "results of primitives, by program line",
        "retained memory": "arrays alive when backward starts",
        "release": "arrays alive",
    }

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self._known: list[Known] = []

    def warm_up(self) -> None:
        # JAX lowers each operation in a context of its own, which takes twice as long to make as the
        # rest takes. One serves them all.
        mlir.make_ir_context = cache(mlir.make_ir_context)

    def observe(self, program: Program) -> Observation:
        jax.config.update("jax_enable_x64", False)  # a program before this one may have set it
        return super().observe(program)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        found: dict[str, str] = {}
        if program.procedure in ("second_order", "third_order"):
            reason = "what all orders keep lies in one pass, with no boundary between"
            found["retained memory"] = reason
        elif program.procedure == "functional":
            found["retained memory"] = "a transform gives gradients at once, with no boundary"
        # A forward that draws other numbers has none of the plain run's results.
        looks = self.variant.startswith("scope-larger")
        if looks and any(site.op in FOREIGN for site in program.lines.values()):
            found["executions"] = (
                "the forward draws other numbers than the plain run, which tells it"
            )
        return found

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
        return int(
            (jax.random.key_data(value) if _is_key(value) else value).unsafe_buffer_pointer()
        )

    def retained(self, loaded: LoadedProgram) -> int | None:
        """As the base class says, but in one run, which ends where backward would start: the values'
        pass has filled all caches, and no peak is read."""
        meter = Meter(self)

        def on_phase(label: str, frame: FrameType) -> None:
            meter.on_phase(label, frame)
            if label == "backward":
                raise _EnoughSeen

        with announced(loaded.program, loaded.module, on_phase) as run, suppress(_EnoughSeen):
            run(loaded.forward)
        return meter.retained

    # -- executions ----------------------------------------------------------------------------

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        # JAX keeps the graph of a function that it has traced: this pass has functions of its own.
        program = loaded.program
        anew = LoadedProgram.of(program, load_program(program), loaded.path)
        plain = loaded.path == "plain"
        order = statements(program, loaded.path)
        known = self._known = [Known() for _ in order] if plain else self._known
        samples: list[RandomSample] = []

        def ran(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
            value = names.get(site.label)
            while isinstance(value, jax.core.Tracer):  # what is differentiated, or mapped
                inner = getattr(value, "primal", getattr(value, "val", None))
                if inner is None:
                    break
                value = inner
            leaf = self.leaf(value)
            if plain and leaf is not None:
                known[order[id(site)]].meet(np.array(value))
                if site.op in RANDOM:
                    samples.append(RandomSample(site.region, site.label, phase, leaf.array))

        trace = self.tracing(program, on_statement=ran)
        with trace.active():
            equations = dispatched(program, anew.run)
        if plain:
            for equation in equations:
                known[order[id(equation.site)]].learn(equation)
            counts = [(site, phase, n) for (site, phase), n in trace.completed.items()]
        else:
            found, samples = counted(equations, known, order)
            counts = [count for count in found if count[0].region]
            seen = {site for site, _, _ in found}
            for (site, phase), n in trace.completed.items():
                # Python itself runs what lies outside; and a line without a primitive has no other.
                silent = site not in seen and not known[order[id(site)]].equations
                if silent or not site.region:
                    counts.append((site, phase, n))
        # NumPy and Python draw while a region is traced: a constant, which nothing dispatches.
        sites = {order[id(s)]: s for s in program.lines.values() if id(s) in order}
        hidden = {sites[place] for place, k in enumerate(known) if k.drawn_by_others(sites[place])}
        told = program.random and not hidden
        return replace(
            run,
            executions=_observed(counts, trace.entered, hidden),
            samples=tuple(samples) if told else None,
        )


def statements(program: Program, path: str) -> dict[int, int]:
    """The place of each statement of a path in program order, by the `id` of its site: the same in
    `plain` and in `recomputed`."""
    sites = [
        s for _, s in sorted(program.lines.items()) if s.kind == "statement" and s.serves(path)
    ]
    return {key: place for place, key in enumerate(dict.fromkeys(map(id, sites)))}


def counted(
    equations: Sequence[Equation], known: Sequence[Known], order: Mapping[int, int]
) -> tuple[list[tuple[Site, Phase, int]], list[RandomSample]]:
    """Executions of each statement of the recomputed run, and what the random ones drew.

    A statement ran as often as its result was made; again, also as often as its mask was.
    """
    sites = {id(equation.site): equation.site for equation in equations}
    made: Counter[tuple[int, Phase]] = Counter()
    parts: Counter[tuple[int, Phase, int]] = Counter()
    samples: list[RandomSample] = []
    for equation in equations:
        site, place = equation.site, (id(equation.site), equation.phase)
        statement = known[order[id(site)]]
        made[place] += equation.number in statement.results
        if equation.number in statement.masks:
            part, result = statement.masks[equation.number]
            parts[(*place, part)] += 1
            if site.op in RANDOM and part == 0:
                samples.append(RandomSample(site.region, site.label, equation.phase, result))
    counts = {place: known[order[place[0]]].times(n) for place, n in made.items()}
    for (key, phase, _), n in parts.items():
        if phase == "rerun":
            counts[key, phase] = max(counts[key, phase], n)
    return [(sites[key], phase, n) for (key, phase), n in counts.items() if n], samples


def _observed(
    counts: Sequence[tuple[Site, Phase, int]],
    entered: Mapping[tuple[Site, Phase], int],
    hidden: Collection[Site],
) -> tuple[Execution, ...]:
    """Counts as observation values.

    In forward a region ran as often as the line in it that ran most; Python enters it at least once, to
    trace it. It was rerun as often as the statement that was rerun most, over all of its lines.
    """
    labels: Counter[tuple[str, str, Phase]] = Counter()
    regions: Counter[tuple[str, Phase]] = Counter()
    for (site, _), times in entered.items():
        regions[site.region, "forward"] += times
    for site, phase, times in counts:
        if site not in hidden:
            labels[site.region, site.label, phase] += times
        ran = times if phase == "forward" else labels[site.region, site.label, phase]
        if site.region:
            regions[site.region, phase] = max(regions[site.region, phase], ran)
    return (
        *(Execution(region, "", phase, n) for (region, phase), n in regions.items()),
        *(Execution(region, label, phase, n) for (region, label, phase), n in labels.items()),
    )


def _is_key(value: Any) -> bool:
    return bool(jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key))
