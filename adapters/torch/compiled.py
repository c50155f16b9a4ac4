"""The observer of variants under `torch.compile`: notes which graphs were compiled and which ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch

from conformance.model.observation import Observation, RandomState, Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram
from conformance.observe.worker.observer import Meter
from conformance.observe.worker.random_state import RandomStates

from . import graphs
from .observe import Observer as Eager

#: One for the process: what is compiled is noted from the first observer on.
GRAPHS = graphs.Graphs()


class Compiled(Eager):
    """Observes programs that `torch.compile` compiles.

    A function is compiled once, in the pass that reads values; later passes run the same code. No
    dispatch mode is used, because under one Dynamo runs everything eagerly. Where a graph break
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

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.states = _InGraphs()
        self._unobserved: dict[str, str] = {}

    def unobserved(self, program: Program) -> Mapping[str, str]:
        return {"peak memory": "what a graph holds while it runs is its own"}

    def observe(self, program: Program) -> Observation:
        GRAPHS.forget()
        # what a program has set is not left to the next one
        settings = torch._functorch.config.patch(activation_memory_budget=1.0)
        with settings, torch._functorch.config.patch(donated_buffer=True), GRAPHS.watched():
            found = super().observe(program)
        GRAPHS.forget()
        return found

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        self._unobserved = unobserved
        return super().run(loaded, unobserved)

    def values(self, loaded: LoadedProgram) -> Run:
        run = super().values(loaded)
        for reason in graphs.breaks()[:1]:
            told = f"a graph break left regions to Python, and they ran eagerly: {reason}"
            self._unobserved |= dict.fromkeys(("executions", "retained memory", "release"), told)
        return run

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
        found: RandomState = GRAPHS.live.random_state()
        return found
