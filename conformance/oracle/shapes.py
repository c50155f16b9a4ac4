"""Checks, by evaluating a case on the reference, that its tensors fit the operations they are used in.

The suite's own cases are checked by its tests. Cases from another folder are checked when they are
selected for a run, shown or emitted, before any framework is started.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from conformance.errors import CaseError, ConformanceError
from conformance.language.operations import OPERATIONS
from conformance.model.case import Case
from conformance.oracle import tape
from conformance.oracle.dataflow import Step
from conformance.oracle.interpreter import Interpreter, ProgramValue, Results, make_inputs
from conformance.paths import find_paths

#: Operations whose purpose is to raise.
RAISING = ("raise_if", "raise_in_rerun")


class _Checking(Interpreter):
    """Evaluates a case until a statement fails, or one of `RAISING` raises."""

    def _apply(self, step: Step, arguments: list[ProgramValue]) -> Results:
        try:
            return super()._apply(step, arguments)
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            op = step.statement.op
            if op in RAISING:
                raise
            shapes = [str(t.shape) for t in tape.tensors_in(arguments)]
            given = " and ".join(shapes) or "what it is given"
            raise CaseError(
                f"{op} does not fit {given}: {error}",
                where=step.statement.where,
                hint=f"{OPERATIONS[op].signature()} gives: {OPERATIONS[op].shape}",
            ) from error


def check_shapes(cases: Iterable[Case]) -> None:
    """Raise `CaseError` at the first statement whose arguments do not fit it, in any of the cases. Of a
    case in which one of `RAISING` raises, only what comes before it is checked."""
    for case in cases:
        run = _Checking(case, None)
        with tape.quiet(), np.errstate(all="ignore"):
            try:
                _, loss = run.forward(make_inputs(case))
            except ValueError:
                continue
        for scalar in (loss, run.second_loss):
            if scalar is not None and scalar.data.size != 1:
                raise CaseError(
                    f"what is differentiated is of shape {scalar.shape}, expected one number",
                    where=case.where,
                    hint="`sum(name)` or `mean(name)` of it is one",
                )


def is_own(folder: Path) -> bool:
    """Whether a folder of cases is the suite's own."""
    try:
        return folder.resolve() == find_paths().cases.resolve()
    except ConformanceError:  # an installation without cases of its own
        return False
