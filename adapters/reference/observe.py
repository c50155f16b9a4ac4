"""How the reference is observed: by its lines, and by what its graph keeps."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import FrameType

import numpy as np

from conformance.model.observation import Array, Leaf, Observation
from conformance.model.program import Program
from conformance.observe.worker.meter import Reading
from conformance.observe.worker.observer import Observer as Base
from conformance.oracle import tape

# Programs import it by the name that their copy has beside them.
sys.modules["tape"] = tape


class Observer(Base):
    """Observes programs written against `tape`."""

    together = True
    at_once = True  # NumPy does not know of lines
    resolution = 0

    methods: Mapping[str, str] = {
        "executions": "Python line trace",
        "randomness": "values of the program's lines",
        "retained memory": "walk over the tape's graph",
        "release": "tensors that the garbage collector knows",
    }

    def observe(self, program: Program) -> Observation:
        if program.ranks == 1:
            return super().observe(program)

        def seen() -> Observation:  # by an observer of the rank's own
            return Base.observe(type(self)(self.variant), program)

        first, *others = tape.spawn(seen, program.ranks)
        return replace(first, others=tuple(others))

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, tape.Tensor):
            return None
        return Leaf(np.array(value.data), value.dtype)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        return {"peak memory": "NumPy frees arrays at once, and reports no peak"}

    def generator(self) -> Array | None:
        return tape.uniform((4,)).data

    def held(self) -> int | None:
        """Not read: in the process, small NumPy arrays are allocated and freed all the time."""
        return None

    def alive(self) -> int | None:
        return sum(isinstance(thing, tape.Tensor) for thing in gc.get_objects())

    def counts_and_reads(self, program: Program, unobserved: Mapping[str, str]) -> bool:
        """Copies of samples are not in the graph, so that they disturb no reading."""
        return self.keeps(program, unobserved)

    def reading(self, frame: FrameType) -> Reading:
        """The bytes, at the dtypes that tensors stand for, that the graph keeps behind the tensors of
        `run`, beyond these themselves."""
        values = list(frame.f_locals.values())
        held = {id(tape.memory_of(t)) for t in tape.tensors_in(values)}
        kept = tape.retained(values)
        return Reading(sum(size for key, (_, size) in kept.items() if key not in held), 0, None)
