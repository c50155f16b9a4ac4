"""How MLX is observed: the graphs that `mx.eval` is given, and the allocator's own count of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType, ModuleType
from typing import Any

import mlx.core as mx
import numpy as np

from conformance.language.operations import RANDOM
from conformance.model.observation import Array, Execution, Leaf, Phase, RandomSample, Run
from conformance.model.program import MAPPED, Program
from conformance.observe.worker.observer import Meter
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.trace import Trace

from . import graphs


class Building(Trace):
    """Follows the building of graphs: what is built once the forward pass has returned is a rerun."""

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        step = super()._enter(frame, event, argument)
        if step is not None and frame.f_code.co_name in ("plain", "recomputed"):
            self.phase = "forward"
        return step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        step = super()._step(frame, event, argument)
        if event == "return" and frame.f_code.co_name in ("plain", "recomputed"):
            self.phase = "rerun"
        return step


class Observer(Base):
    """Observes MLX on the CPU."""

    settings: Mapping[str, Setting] = {
        "the default device": (mx.default_device, mx.set_default_device)
    }
    resolution = 1024  # numbers between the operations are arrays, too

    methods: Mapping[str, str] = {
        "executions": "primitives in the graphs that are evaluated, by program line",
        "randomness": "values of the program's lines",
        "retained memory": "get_active_memory, with the loss evaluated and the gradients not",
        "peak memory": "get_peak_memory",
        "release": "get_active_memory",
    }
    rehearsals = 0  # the values' pass has filled all caches

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, mx.array):
            return None
        dtype = str(value.dtype).removeprefix("mlx.core.")
        array = np.array(value.astype(mx.float32) if dtype == "bfloat16" else value)
        return Leaf(array, dtype)

    def generator(self) -> Array | None:
        return np.array(mx.random.uniform(shape=(4,)))

    def numbers(self, generator: object) -> Array | None:
        """A key has no state: it gives the same numbers as long as it is the same key."""
        if not isinstance(generator, mx.array):
            return None
        return np.array(mx.random.uniform(shape=(4,), key=generator))

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if MAPPED not in program.notes:
            return {}
        reason = "mx.vmap builds the graph anew, and nothing in it is what a line has made"
        return {"executions": reason}

    # -- memory --------------------------------------------------------------------------------

    def wait(self) -> None:
        mx.synchronize()

    def held(self) -> int | None:
        return int(mx.get_active_memory())

    def reset_peak(self) -> None:
        mx.reset_peak_memory()

    def peak(self) -> int | None:
        return int(mx.get_peak_memory())

    def nbytes(self, value: object) -> int:
        """Bytes of an array that is there; what is only asked for takes none."""
        if not isinstance(value, mx.array) or not graphs.is_computed(value):
            return 0
        return int(value.nbytes)

    def identity(self, value: object) -> int:
        if not isinstance(value, mx.array) or not graphs.is_computed(value):
            return id(value)
        if value.dtype == mx.bfloat16:  # NumPy has none, and so no view of it
            return id(value)
        pointer: int = np.array(value, copy=False).__array_interface__["data"][0]
        return pointer

    # -- executions ----------------------------------------------------------------------------

    def count(
        self,
        program: Program,
        module: ModuleType,
        forward: Callable[..., Any],
        run: Run,
        meter: Meter | None = None,
    ) -> Run:
        seen = graphs.Evaluations()
        trace = Building(program, on_statement=seen.made)
        with trace.active(), seen.watched():
            module.run(forward)
        samples = tuple(
            RandomSample(made.site.region, made.site.label, made.phase, np.array(made.probe))
            for made in seen.computed
            if made.site.op in RANDOM
        )
        found = _executions(program, forward.__name__, trace, seen)
        return replace(run, executions=found, samples=samples if program.random else None)


def _executions(program: Program, path: str, trace: Trace, seen: Any) -> tuple[Execution, ...]:
    """Counts as observation values. A region runs forward as often as it is called, and again as often
    as its busiest statement is computed."""
    counts = Counter((m.site.region, m.site.label, m.phase) for m in seen.computed)
    entered = Counter({(site.region, phase): n for (site, phase), n in trace.entered.items()})
    found: list[Execution] = []
    phases: tuple[Phase, ...] = ("forward", "rerun")
    sites = [(site.region, site.label) for site in program.sites("statement", path)]
    labels = [label for label in dict.fromkeys(sites) if label not in seen.inert]
    for phase in phases:
        for name in program.inner_regions(path):
            busiest = max((counts[r, label, phase] for r, label in labels if r == name), default=0)
            number = entered[name, phase] if phase == "forward" else busiest
            found.append(Execution(name, "", phase, number))
        found += [Execution(r, label, phase, counts[r, label, phase]) for r, label in labels]
    return tuple(found)
