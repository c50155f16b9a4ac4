"""How JAX is observed: jaxprs with source lines, optimised HLO, and the arrays that are alive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cache, partial
from types import FrameType
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import set_current_trace, take_current_trace
from jax._src.interpreters import mlir

from conformance.model.case import FORWARD_MODE
from conformance.model.observation import (
    Array,
    Execution,
    Leaf,
    Observation,
    RandomSample,
    RandomState,
    Run,
    Tree,
)
from conformance.model.program import SET, Program, Site
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.observer import Growth, with_shared_counts
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.phases import announced
from conformance.observe.worker.random_state import RandomStates
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.threads import entering

from . import counting, executables, flags, hlo, hosts, jaxprs, layouts, ranks

flags.drop_unknown()


class _EnoughSeen(BaseException):  # which no program catches
    """Raised to end a run once all that is read from it has been read."""


class _UntraceableError(Exception):
    """A program raises an error while it is traced."""


#: Options of the whole process that change what programs compute.
_OPTIONS = (
    *("enable_x64", "default_device", "disable_jit", "default_matmul_precision", "debug_nans"),
    *("debug_infs", "numpy_dtype_promotion", "numpy_rank_promotion", "default_prng_impl"),
    *("threefry_partitionable", "check_tracer_leaks", "enable_checks", "transfer_guard"),
)


class Observer(Base):
    """Observes JAX on the CPU.

    An eager program dispatches one operation after the other; executions are counted in the jaxpr of
    all of `run`, which has the same operations. For a jitted program those count that are left in the
    optimised HLO modules.
    """

    settings: Mapping[str, Setting] = {
        f"jax_{name}": (
            partial(getattr, jax.config, f"jax_{name}"),
            partial(jax.config.update, f"jax_{name}"),
        )
        for name in _OPTIONS
    }
    resolution = 0
    holds_states = True

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.states = _Keys()
        self._jitted = variant not in ("eager", "shard-map")
        self._two_phase = variant == "jit-two-phase"
        self.methods = {
            "executions": "jaxpr of the whole run, values by program line",
            "randomness": "values of the jaxpr's random equations, and of the program's lines",
            "retained memory": "arrays alive when backward starts",
            "peak memory": "memory_analysis of the executables, temporary and output bytes",
            "release": "live arrays",
        }
        if self._jitted:
            self.methods["executions"] = "optimised HLO against plain's, values by program line"
        if self._two_phase:
            self.methods["retained memory"] += ", copies of inputs and outputs left out"
        self._has_lines = self._tells_gradients = True
        self._executables: Any = None
        #: What the optimised modules of the plain run compute: the control of the recomputed one.
        self._control = hlo.Computed()

    def warm_up(self) -> None:
        # JAX lowers each function in a context of its own, which takes longer to make than a small
        # function takes to lower. One serves them all.
        mlir.make_ir_context = cache(mlir.make_ir_context)
        self._has_lines = _reruns_have_lines()
        self._tells_gradients = _names_tell_gradients()

    def observe(self, program: Program) -> Observation:
        jax.config.update("jax_enable_x64", False)  # a program before this one may have set it
        split = layouts.SPLIT in program.notes
        observation = super().observe(replace(program, ranks=1) if split else program)
        self._executables = None
        if split:
            observation = replace(observation, others=(observation,) * (program.ranks - 1))
        elif program.ranks > 1:
            observation = ranks.divided(observation, program)
        return replace(
            observation, plain=with_shared_counts(observation.plain, observation.recomputed)
        )

    def further_passes(self, loaded: LoadedProgram, run: Run, unobserved: dict[str, str]) -> Run:
        """As in the base class, unless the program, which has run, cannot be traced: Python reads a bool
        that a recomputed function returns, say."""
        try:
            return super().further_passes(loaded, run, unobserved)
        except _UntraceableError as error:
            unobserved["executions"] = f"what is counted is traced, which raises {error}"
            return super().further_passes(loaded, run, unobserved)

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        self._executables = executables.Executables(loaded.program)
        observed = super().run(loaded, unobserved)
        one_backward = loaded.program.procedure in ("backward", "part")
        if observed.error is None and self._jitted and one_backward:
            observed = replace(observed, peak=self._peak())
        return observed

    def unobserved(self, program: Program) -> Mapping[str, str]:
        reasons: dict[str, str] = {}
        if program.procedure in FORWARD_MODE:
            reasons["executions"] = "statements and their tangents are one computation"
        if SET in program.notes:
            reason = "statements are told by what they compute, which changes from step to step"
            reasons["executions"] = reason
        if self._jitted and not self._has_lines:
            reason = "the optimised HLO of this release does not say which lines are recomputed"
            reasons["executions"] = reason
        if not self._tells_gradients and any(program.inner_regions("recomputed").values()):
            reason = "jaxprs of this release do not tell a nested region's gradient from its rerun"
            reasons["executions"] = reason
        if not self._jitted:
            reasons["peak memory"] = (
                "XLA's allocator on the CPU reports no peak, and frees memory late"
            )
        if self._jitted and not self._two_phase:
            reason = (
                "forward and backward are one executable, so memory between them cannot be measured"
            )
            reasons["retained memory"] = reason
        elif program.procedure in ("second_order", "third_order"):
            reason = "one pass computes all orders, so memory between them cannot be measured"
            reasons["retained memory"] = reason
        elif program.procedure == "functional":
            reasons["retained memory"] = (
                "forward and backward are one transform, so memory between them cannot be measured"
            )
        return reasons

    def leaf(self, value: object) -> Leaf | None:
        if isinstance(value, np.ndarray):  # what a traced region gives that is a constant
            return Leaf(np.array(value), str(value.dtype))
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return None
        if jaxprs.is_key(value):
            return Leaf(np.array(jax.random.key_data(value)), str(value.dtype))
        dtype = str(value.dtype)
        array = np.array(value.astype(jnp.float32) if dtype == "bfloat16" else value)
        return Leaf(array, dtype)

    def to_tree(self, value: object) -> Tree:
        """As in the base class; a traced region gives a number as one of a subclass, with a dtype."""
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
        return float(value) if isinstance(value, float) else super().to_tree(value)

    def numbers(self, generator: object) -> Array | None:
        """A key has no state: it gives the same numbers as long as it is the same key."""
        if not isinstance(generator, jax.Array):
            return None
        return np.array(jax.random.uniform(generator, (4,)))

    def read(self, result: Mapping[str, Any], run: Run | None = None) -> Run:
        """As in the base class; a loss of several ranks has one number for each."""
        each = [jnp.atleast_1d(loss) for loss in result.get("losses", ())]
        return super().read({**result, "losses": [one for losses in each for one in losses]}, run)

    def values(self, loaded: LoadedProgram) -> Run:
        with self._executables.active(keep=self._jitted):
            return super().values(loaded)

    # -- memory --------------------------------------------------------------------------------

    def wait(self) -> None:
        for array in jax.live_arrays():
            array.block_until_ready()

    def held(self) -> int | None:
        """Bytes of the distinct buffers of all arrays that are alive."""
        buffers: dict[int, int] = {}
        for array in jax.live_arrays():
            buffers |= executables.parts(array)
        return sum(buffers.values())

    def alive(self) -> int | None:
        return len(jax.live_arrays())

    def nbytes(self, value: object) -> int:
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return 0
        return executables.nbytes(value)

    def identity(self, value: object) -> int:
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return id(value)
        return int(executables.buffer(value))

    def retained(self, loaded: LoadedProgram) -> int | None:
        """Retained bytes as in the base class, but from one run: the values pass has filled all caches.
        An eager run ends where backward would start, since no peak is read from it.

        Where forward and backward are two jitted functions, the first returns copies of the inputs and
        outputs that backward reads. These have no part in recompute, and are subtracted.
        """
        meter = self.meter()
        calls: list[int] = []

        def on_phase(label: str, frame: FrameType) -> None:
            if label == "backward":
                calls.append(len(self._executables.calls))
            meter.on_phase(label, frame)
            if label == "backward" and not self._jitted:
                raise _EnoughSeen

        phases = announced(loaded.program, loaded.module, on_phase)
        with phases as run, self._executables.active(), suppress(_EnoughSeen):
            run(loaded.forward)
        self.random_state = meter.random_state
        if meter.retained is None or not self._two_phase:
            return meter.retained
        start = self._executables.calls[calls[0] - 1]  # the last before backward
        return meter.retained - int(sum(start.copies.values()))

    def leftovers(self, loaded: LoadedProgram) -> tuple[Growth, Growth]:
        with executables.compiled_once():
            return super().leftovers(loaded)

    def _peak(self) -> int:
        """The peak in bytes, beyond the arguments: a running executable holds its temporaries and
        outputs, beside the outputs of those that ran before."""
        before = most = 0
        for called in self._executables.calls:
            one = called.executable
            most = max(most, before + one.temporary + one.output)
            before += one.output
        return most

    # -- executions ----------------------------------------------------------------------------

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        program = loaded.program
        walk = jaxprs.Walk(program)
        alone = walk.run(*_traced(loaded, lambda: _forward(loaded)))
        known = walk.known = jaxprs.signatures(walk, alone)
        drawn: list[RandomSample] = []
        if self._jitted and not hosts.samples_on_host(program):  # what was compiled says all
            events = walk.calls(self._executables.taken())
        else:
            with hosts.drawing(program) as drawn, entering(_same_trace):
                forward = executables.scoped(loaded.forward)
                traced = _traced(loaded, partial(loaded.module.run, forward))
            events = walk.run(*traced)
        higher = program.procedure in ("second_order", "third_order")
        counts = counting.count(events, known, higher=higher, alone=alone)
        rerun, shown = counts.rerun, list(known)
        if self._jitted:
            held = hlo.Computed()
            for called in self._executables.calls:
                held.add(called.executable.computed(program))
            if loaded.path == "plain":
                self._control = held
            hidden = {
                _name(s) for s in known if not any(map(held.instructions.get, _keys(s, known)))
            }
            shown = [site for site in known if _name(site) not in hidden]
            rerun = Counter({site: self._again(site, known, held) for site in known})
            rerun &= counts.rerun
        # An optimised module tells a rule's statements by their lines alone.
        told = not (self._jitted and walk.without_line)
        executed = None
        if told and {s.region for s in walk.differing} <= {s.region for s in known}:
            executed = _executions(program, loaded.path, counts, rerun, shown)
        if program.ranks > 1:  # a value in the jaxpr is that of no rank
            return replace(run, executions=executed)
        samples = tuple(
            RandomSample(
                site.region, site.label, "rerun" if again else "forward", np.array(walk.value(n))
            )
            for site, again, n in counts.drawn
        )
        return replace(
            run, executions=executed, samples=(*samples, *drawn) if program.random else None
        )

    def _again(self, site: Site, known: Mapping[Site, jaxprs.Signature], held: hlo.Computed) -> int:
        """How often a statement is computed more often than in the plain run.

        Where the compiler has merged a rerun with its forward, all counts are equal to those of the
        plain run. Where it has simplified the forward's value away, the barrier shows the rerun's.
        Rerun values that stand under another statement count too, if that has no such primitive itself:
        the derivative of a cosine is a sine, and may be merged with another statement's sine.
        """
        others = [o for o in known if o.region == site.region and o != site]
        merged = [
            held.behind[hlo.key_of(other, primitive)]
            for primitive in known[site].primitives
            for other in others
            if primitive not in known[other].primitives
        ]
        return max(0, *merged, *(held.beyond(self._control, key) for key in _keys(site, known)))


def _same_trace() -> AbstractContextManager[object]:
    """A context for another thread that makes it trace into this thread's trace; without it, the other
    thread would evaluate eagerly."""
    with take_current_trace() as trace:
        same: AbstractContextManager[object] = set_current_trace(trace)
        return same


def _reruns_have_lines() -> bool:
    """Whether optimised HLO says which lines a rerun is of; up to JAX 0.8 it does not."""

    def region(x: Any) -> Any:
        return jnp.sin(jnp.tanh(x))

    result, pull = jax.vjp(jax.checkpoint(region), jnp.ones(2))
    backward = jax.jit(lambda pull, cotangent: pull(cotangent)).lower(pull, result).compile()
    module, line = hlo.parse(backward.as_text()), region.__code__.co_firstlineno + 1
    again = [i for part in module.computations.values() for i in part if jaxprs.RERUN in i.op_name]
    return any(line in module.lines(one.stack_frame, __file__) for one in again)


def _names_tell_gradients() -> bool:
    """Whether name stacks show transformations without a name, too; up to JAX 0.6 they do not."""
    sine = jax.make_jaxpr(lambda x: jax.vjp(jnp.sin, x)[1](x))(jnp.ones(2))
    return any("jvp" in str(one.source_info.name_stack) for one in sine.jaxpr.eqns)


def _traced(loaded: LoadedProgram, function: Callable[[], Any]) -> tuple[Any, list[jax.Array]]:
    """The jaxpr of a function that starts from the program's inputs, and those that are its arguments:
    arrays without axes. Of constants, JAX computes casts before the function runs."""
    inputs = loaded.module.inputs
    arrays = {n: v for n, v in inputs().items() if isinstance(v, jax.Array) and v.shape == ()}
    given = {n: v for n, v in arrays.items() if not jaxprs.is_key(v)}

    def run(given: Mapping[str, Any]) -> list[Any]:
        with mock.patch.object(loaded.module, "inputs", return_value=inputs() | given):
            return _arrays(function())

    try:
        return jax.make_jaxpr(executables.scoped(run))(given), jax.tree.leaves(given)
    except Exception as error:
        raise _UntraceableError(
            f"{type(error).__name__}: {str(error).split(chr(10))[0]}"
        ) from error


def _forward(loaded: LoadedProgram) -> Any:
    """The forward pass alone; the argument other than the inputs is the key."""
    ranks = loaded.program.ranks
    if ranks == 1:
        return loaded.alone(lambda: jax.random.key(0))
    on_all = replace(loaded, forward=loaded.module.on_ranks(loaded.forward))
    return on_all.alone(lambda: jax.random.split(jax.random.key(0), ranks))


def _name(site: Site) -> tuple[str, str]:
    """By which executions are told: statements of one name are counted together."""
    return site.region, site.label


def _keys(site: Site, known: Mapping[Site, jaxprs.Signature]) -> list[hlo.Key]:
    """What the counts of a module call the primitives that make a statement's results."""
    return [hlo.key_of(site, primitive) for primitive in known[site].primitives]


def _executions(
    program: Program,
    path: str,
    counts: counting.Counts,
    rerun: Mapping[Site, int],
    shown: Collection[Site],
) -> tuple[Execution, ...]:
    """Counts as observation values, of all regions and of the statements that are shown.

    A region counts as often as the statement in it that ran most; in forward, and where an eager
    rule runs it again, as often as the line that did. One that holds only other regions is entered as
    often as they are; a rule has run it again as often as they ran again beyond that.
    """
    inner = program.inner_regions(path)
    again: Counter[str] = Counter()
    for site, number in rerun.items():
        again[site.region] = max(again[site.region], number)
    if rerun is counts.rerun:  # not compiled
        again = Counter({**again, **counts.again})

    own = {site.region for site in program.lines.values() if site.kind == "statement"}

    def entered(name: str) -> int:
        inside = [] if name in own else inner[name]
        return counts.entered[name] or max(map(entered, inside), default=0)

    def ruled(name: str) -> int:
        if name in own:
            return counts.again[name]
        return max((ruled(one) - entered(one) for one in inner[name]), default=0)

    return (
        *(Execution(name, "", "forward", entered(name)) for name in inner),
        *(Execution(name, "", "rerun", max(again[name], ruled(name))) for name in inner),
        *(Execution(s.region, s.label, "forward", counts.forward[s]) for s in shown),
        *(Execution(s.region, s.label, "rerun", rerun.get(s, 0)) for s in shown),
    )


class _Keys(RandomStates):
    """Keys are arguments, and nothing reads them out of a generator: they are arrays of two words."""

    def __init__(self) -> None:
        super().__init__((), lambda _: 0)

    def now(self) -> RandomState:
        live = {executables.buffer(array): array for array in jax.live_arrays()}.values()
        keys = [a for a in live if a.dtype == np.uint32 and a.ndim and a.shape[-1] == 2]
        return RandomState(sum(a.nbytes for a in keys), sum(a.size // 2 for a in keys))


def _arrays(result: Any) -> list[Any]:
    """The arrays in a result: a traced function can return nothing else."""
    return [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, jax.Array)]
