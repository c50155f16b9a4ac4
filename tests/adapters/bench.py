"""An adapter in a test's own process: its programs are written and observed as in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from conformance.drivers.adapter import read_adapter
from conformance.emit.programs import write_programs
from conformance.model.case import Case
from conformance.model.observation import Leaf, Observation, Run
from conformance.model.program import Program
from conformance.observe.worker import entry
from conformance.observe.worker.loaded import load_program
from tests.operation_samples import SHARES, NumPy, differences

ROOT = Path(__file__).resolve().parents[2]


class Bench:
    """The adapter of this name."""

    def __init__(self, name: str) -> None:
        self.adapter = read_adapter(ROOT / "adapters" / name)

    def observer(self, variant: str) -> Any:
        """The observer of a variant, made once."""
        return entry.observer(str(self.adapter.folder), variant)

    def emitted(self, case: Case, variant: str, folder: Path) -> Program:
        """The program of a case, written below a folder."""
        (program,) = write_programs(
            self.adapter, [(case, self.adapter.variant(variant))], folder
        ).values()
        assert isinstance(program, Program), program
        return program

    def emitting(
        self, folder: Path, batch: Iterable[tuple[Case, str]]
    ) -> Callable[[Case, str], Program]:
        """Gives the program of a case on a variant; those of `batch` are written together."""
        pairs = [(case, self.adapter.variant(variant)) for case, variant in batch]
        ready = dict(write_programs(self.adapter, pairs, folder))

        def emit(case: Case, variant: str) -> Program:
            key = case.id, self.adapter.variant(variant).id
            if key not in ready:
                ready[key] = self.emitted(case, variant, folder)
            program = ready[key]
            assert isinstance(program, Program), program
            return program

        return emit

    def made(self, case: Case, variant: str, folder: Path) -> tuple[Program, ModuleType, Any]:
        """The program of a case, its module and the observer of its variant."""
        program = self.emitted(case, variant, folder)
        return program, load_program(program), self.observer(variant)

    def observe(self, program: Program) -> Observation:
        """What is observed of a program."""
        return entry.observe(str(self.adapter.folder), program)

    def observed(self, case: Case, variant: str, folder: Path) -> Observation:
        """What is observed of a case's program."""
        return self.observe(self.emitted(case, variant, folder))


def reruns(run: Run) -> dict[str, int]:
    """Reruns by `region.statement`, of those that ran again."""
    assert run.executions is not None
    again = [e for e in run.executions if e.phase == "rerun" and e.count]
    return {f"{e.region}.{e.statement}": e.count for e in again}


def assert_numpys(
    observation: Observation,
    row: tuple[str, list[str], dict[str, Any], NumPy],
    arrays: Mapping[str, Any],
) -> None:
    """What was observed of a sample is what NumPy comes to; `arrays` are its program's inputs."""
    operation, _, shapes, function = row
    read = {name: array for name, array in arrays.items() if name not in ("mean", "var")}
    for run in (observation.plain, observation.recomputed):
        assert run.error is None
        assert isinstance(run.outputs, Leaf)
        tolerance = 1e-6 if operation == "astype" else 1e-10
        np.testing.assert_allclose(run.outputs.array, function(**read) ** 2, rtol=tolerance)
        for name in shapes:
            if operation == "astype":  # differences do not survive the cast
                slope = 2 * arrays[name]
            else:
                slope = differences(function, read, name) * SHARES.get(operation, 1)
            np.testing.assert_allclose(run.gradients[name], slope, rtol=1e-6, atol=1e-7)
