"""Checks, by evaluating a case on the reference, that its tensors fit the operations they are used in.

The suite's own cases are checked by its tests. Cases from another folder are checked when they are
selected for a run, shown or emitted, before any framework is started.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from conformance.errors import CaseError, ConformanceError
from conformance.language.operations import OPERATIONS
from conformance.model.case import Case
from conformance.oracle.expected import misfit
from conformance.paths import find_paths


def check_shapes(cases: Iterable[Case]) -> None:
    """Raise `CaseError` at the first statement whose arguments do not fit it, in any of the cases."""
    for case in cases:
        mistake = misfit(case)
        if mistake is None:
            continue
        statement, shapes, reason = mistake
        if statement is None:
            raise CaseError(
                f"what is differentiated is of shape {shapes[0]}, expected one number",
                where=case.where,
                hint="`sum(name)` or `mean(name)` of it is one",
            )
        given = " and ".join(map(str, shapes)) or "what it is given"
        operation = OPERATIONS[statement.op]
        raise CaseError(
            f"{statement.op} does not fit {given}: {reason}",
            where=statement.where,
            hint=f"{operation.signature()} gives: {operation.shape}",
        )


def is_own(folder: Path) -> bool:
    """Whether a folder of cases is the suite's own."""
    try:
        return folder.resolve() == find_paths().cases.resolve()
    except ConformanceError:  # an installation without cases of its own
        return False
