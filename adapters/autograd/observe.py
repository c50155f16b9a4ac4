"""How autograd is observed: by the program's lines, and by what NumPy asks Python's allocator for."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from autograd.tracer import getval, trace_stack
from numpy.lib import tracemalloc_domain

from conformance.model.observation import Array, Leaf, Phase, Tree
from conformance.model.program import Program, Site
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.trace import Trace


class Lines(Trace):
    """Follows the lines. `checkpoint` calls its function a second time in forward, to differentiate it.
    Those executions count as forward, but the random samples drawn in them as a rerun's. A rerun is
    recognised by the depth of autograd's open traces, which it raises by one. So does a forward pass
    that is differentiated, after one that is not."""

    def __init__(
        self,
        program: Program,
        *,
        on_phase: Callable[[str, FrameType], None] | None = None,
        on_statement: Callable[[Site, Phase, Mapping[str, Any]], None] | None = None,
    ) -> None:
        open_at_first: list[int] = []

        def told(site: Site, phase: Phase, names: Mapping[str, Any]) -> None:
            open_at_first.append(trace_stack.top)
            again = trace_stack.top > open_at_first[0]
            if on_statement is not None:
                on_statement(site, "rerun" if again else phase, names)

        def started(label: str, frame: FrameType) -> None:
            if label == "forward":
                open_at_first.clear()
            if on_phase is not None:
                on_phase(label, frame)

        super().__init__(program, on_phase=started, on_statement=told)


class Observer(Base):
    """Observes autograd."""

    tracing = Lines
    at_once = True  # NumPy does not know of lines
    resolution = 0

    methods: Mapping[str, str] = {
        "executions": "Python line trace",
        "randomness": "values of the program's lines",
        "retained memory": "tracemalloc, which NumPy tells of its arrays",
        "release": "tracemalloc, which NumPy tells of its arrays",
    }
    rehearsals = 0  # NumPy keeps nothing from run to run

    def leaf(self, value: object) -> Leaf | None:
        array = getval(value)
        if not isinstance(array, np.ndarray | np.generic):
            return None
        return Leaf(np.array(array), str(array.dtype))

    def to_tree(self, value: object) -> Tree:
        # While gradients are taken, a container is in a box of autograd's, as an array is. NumPy's
        # float64 is a float of Python's, too.
        value = getval(value)
        leaf = self.leaf(value) if isinstance(value, np.generic) else None
        return super().to_tree(value) if leaf is None else leaf

    def generator(self) -> Array | None:
        return np.random.uniform(size=4)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        return {
            "peak memory": "tracemalloc measures the peak of all Python objects, and not of arrays alone"
        }

    # -- memory --------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count allocations inside the `with`. Earlier ones do not matter: only differences are used."""
        tracemalloc.start()
        try:
            yield
        finally:
            tracemalloc.stop()

    def held(self) -> int | None:
        """Bytes of NumPy arrays only: those of Python objects grow with the graph."""
        traces = tracemalloc.take_snapshot().traces
        return sum(trace.size for trace in traces if trace.domain == tracemalloc_domain)

    def nbytes(self, value: object) -> int:
        array = _owner(getval(value))
        return array.nbytes if isinstance(array, np.ndarray) else 0

    def identity(self, value: object) -> int:
        return id(_owner(getval(value)))


def _owner(value: Any) -> Any:
    """The array whose memory an array is a view of; anything else as it is."""
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    return value
