"""What observers of programs that Dynamo traces have in common."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from conformance.model.observation import Observation, Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram

from .eager import Observer as Eager
from .graphs import breaks


class Noting(Protocol):
    """Notes the graphs of a process that are compiled and run."""

    def watched(self) -> AbstractContextManager[Any]:
        """A context in which the graphs that are compiled are noted."""

    def forget(self) -> None:
        """Forget all graphs, and have everything compiled again."""


class Traced(Eager):
    """Observes programs of which Dynamo makes graphs.

    A function is compiled once, in the pass that reads values; later passes run the same code.
    """

    #: One for the process: what is compiled is noted from the first observer on.
    noted: Noting
    #: What is said where a graph break leaves a part of the program to Python, and the checks for which
    #: nothing is then observed.
    broken = ""
    unseen_when_broken: tuple[str, ...] = ("executions",)

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self._unobserved: dict[str, str] = {}

    def observe(self, program: Program) -> Observation:
        self.noted.forget()
        # what a program has set is not left to the next one
        settings: Mapping[str, Any] = {"activation_memory_budget": 1.0, "donated_buffer": True}
        with torch._functorch.config.patch(**settings), self.noted.watched():
            observation = super().observe(program)
        self.noted.forget()
        return observation

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        self._unobserved = unobserved
        return super().run(loaded, unobserved)

    def values(self, loaded: LoadedProgram) -> Run:
        run = super().values(loaded)
        for reason in breaks()[:1]:
            told = f"a graph break left {self.broken}: {reason}"
            self._unobserved |= dict.fromkeys(self.unseen_when_broken, told)
        return run
