"""The items of a run: a case on a variant; how its failure is printed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.drivers.adapter import Variant
from conformance.judge.outcomes import of_result
from conformance.judge.triage import Triage, Triaged
from conformance.model.case import Case
from conformance.model.result import Pair, Result
from conformance.model.verdict import Status
from conformance.run.programs import OwnProgram

#: What an item is about.
Subject = Case | OwnProgram
#: Gives the result of a subject on a variant, its verdicts triaged, and the path of its program, if any.
Judge = Callable[[Subject, Variant], tuple[Result, Sequence[Triaged], Path | None]]


class ConformanceWarning(UserWarning):
    """A SHOULD that does not hold."""


class UnexpectedError(Exception):
    """Unexpected verdicts, in the words that pytest prints."""


class CaseFile(pytest.File):
    """A file of cases, or a program; `items` makes what pytest collects of it."""

    def __init__(
        self, *, items: Callable[[CaseFile], Iterable[PairItem]], **pytest_arguments: Any
    ) -> None:
        super().__init__(**pytest_arguments)
        self._items = items

    def collect(self) -> Iterable[PairItem]:
        return self._items(self)


class PairItem(pytest.Item):
    """A case on a variant: `basics/conv-relu-gradient[torch/reentrant]`."""

    def __init__(
        self, *, judge: Judge, case: Subject, variant: Variant, **pytest_arguments: Any
    ) -> None:
        super().__init__(**pytest_arguments)
        self._judge, self.case, self.variant = judge, case, variant
        self.pair: Pair = (case.id, variant.id)

    def runtest(self) -> None:
        """Judge. What is unexpected fails, a known deviation is an expected failure, what the variant
        refuses is skipped."""
        result, triaged, program = self._judge(self.case, self.variant)
        self.user_properties.append(("outcome", of_result(result).value))
        if program is not None:
            self.user_properties.append(("program", str(program)))
        unexpected = [t for t in triaged if t.triage is Triage.UNEXPECTED]
        if unexpected:
            raise UnexpectedError(_in_words(unexpected, program))
        reasons = [t.reason for t in triaged if t.triage is Triage.KNOWN]
        if reasons:
            pytest.xfail("; ".join(dict.fromkeys(reasons)))
        if all(verdict.status is Status.UNSUPPORTED for verdict in result.verdicts):
            pytest.skip("; ".join(verdict.message for verdict in result.verdicts))
        for verdict in result.verdicts:
            if verdict.status is Status.WARN:
                words = f"{self.name} {verdict.check}: {verdict.message}"
                where = (str(self.path), self.case.where.line)
                warnings.warn_explicit(words, ConformanceWarning, *where)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The verdicts in words; a traceback only for a fault of the plugin itself."""
        if isinstance(excinfo.value, UnexpectedError | pytest.xfail.Exception):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case stands: file, line (from 0) and the item's name."""
        return self.path, self.case.where.line - 1, self.name


def _in_words(unexpected: Sequence[Triaged], program: Path | None) -> str:
    """A line for each verdict, with what was expected and observed below it; then the program's path."""
    lines = []
    for triaged in unexpected:
        verdict = triaged.verdict
        reason = f" [{triaged.reason}]" if triaged.reason else ""
        lines.append(f"{verdict.check}: {verdict.status}: {verdict.message}{reason}")
        sides = {"expected": verdict.expected, "observed": verdict.observed}
        for label, text in (sides | {"seen by": verdict.method}).items():
            lines += [f"  {label}: " + text.replace("\n", "\n    ")] if text else []
    return "\n".join([*lines, *([f"  program: {program}"] if program else [])])
