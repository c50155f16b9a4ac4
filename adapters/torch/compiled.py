"""The observer of variants under `torch.compile`: notes which graphs were compiled and which ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch

from conformance.model.observation import RandomState, Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.meter import Meter
from conformance.observe.worker.random_state import RandomStates

from . import graphs
from .traced import Traced

#: One for the process: what is compiled is noted from the first observer on.
GRAPHS = graphs.Graphs()


class Compiled(Traced):
    """Observes programs that `torch.compile` compiles.

    No dispatch mode is used, because under one Dynamo runs everything eagerly. Where a graph break
    leaves regions to Python, no executions are reported for them.
    """

    methods: Mapping[str, str] = {
        "executions": "AOTAutograd's graphs, nodes by program line, and how often each graph ran",
        "randomness": "gradients under one seed",
        "retained memory": "live storages that compiled graphs have put out",
        "release": "live storages that compiled graphs have put out",
    }
    together = False
    holds_states = True
    noted = GRAPHS
    broken = "regions to Python, and they ran eagerly"
    unseen_when_broken = ("executions", "retained memory", "release")

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.states = _InGraphs()

    def unobserved(self, program: Program) -> Mapping[str, str]:
        return {
            "peak memory": "the memory that a compiled graph uses while it runs is not reported"
        }

    def count(self, loaded: LoadedProgram, run: Run, meter: Meter | None = None) -> Run:
        """`run` with its executions, counted in the graphs that the values pass compiled."""
        GRAPHS.restart()
        loaded.run()
        program, path = loaded.program, loaded.path
        seen, calls = graphs.counts(GRAPHS.compiled, program, path)
        if not seen:
            raise RuntimeError(f"no statement of {program.case} is in a graph that has run")
        return replace(run, executions=graphs.executions(program, path, seen, calls))

    @contextmanager
    def watching(self) -> Iterator[None]:
        yield  # graphs are noted for as long as a program is observed

    def held(self) -> int | None:
        return int(GRAPHS.live.nbytes)

    def alive(self) -> int | None:
        return len(GRAPHS.live)

    def reset_peak(self) -> None:
        pass

    def peak(self) -> int | None:
        return None

    def nbytes(self, value: object) -> int:
        return GRAPHS.live.size(value) if isinstance(value, torch.Tensor) else 0


class _InGraphs(RandomStates):
    """Counts no reads of the generator's state: a compiled graph returns the state as a tensor."""

    def __init__(self) -> None:
        super().__init__((), lambda _: 0)

    def now(self) -> RandomState:
        state: RandomState = GRAPHS.live.random_state()
        return state
