"""How the reference is observed: by its lines, and by what its graph keeps."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from conformance.model.observation import Array, Leaf
from conformance.model.program import Program
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.trace import Trace
from conformance.oracle import tape

# Programs import it by the name that their copy has beside them.
sys.modules["tape"] = tape


class Observer(Base):
    """Observes programs written against `tape`."""

    resolution = 0

    methods: Mapping[str, str] = {
        "executions": "Python line trace",
        "randomness": "values of the program's lines",
        "retained memory": "walk over the tape's graph",
        "release": "tensors that the garbage collector knows",
    }

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, tape.Tensor):
            return None
        return Leaf(np.array(value.data), value.dtype)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        return {"peak memory": "NumPy frees arrays as soon as it can, and keeps no account"}

    def generator(self) -> Array | None:
        return tape.uniform((4,)).data

    def held(self) -> int | None:
        """What the process holds says nothing: NumPy's small arrays come and go."""
        return None

    def alive(self) -> int | None:
        return sum(isinstance(thing, tape.Tensor) for thing in gc.get_objects())

    def retained(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> int | None:
        """Bytes, at the dtypes that tensors stand for, that the graph behind the loss keeps when
        the first backward pass starts, beyond the tensors that `run` holds itself."""
        nbytes: list[int] = []

        def on_phase(label: str, frame: FrameType) -> None:
            if label == "backward" and not nbytes:
                values = list(frame.f_locals.values())
                held = {id(tape.memory_of(t)) for t in tape.tensors_in(values)}
                kept = tape.retained(values)
                nbytes.append(sum(size for key, (_, size) in kept.items() if key not in held))

        with Trace(program, on_phase=on_phase).active():
            module.run(forward)
        return nbytes[0] if nbytes else None
