"""The items of a run: a case on a variant; how its failure is printed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from conformance.drivers.adapter import Variant
from conformance.judge.outcomes import of_result
from conformance.judge.triage import Triage, Triaged
from conformance.model.case import Case
from conformance.model.result import Pair, Result
from conformance.model.verdict import Status


class ConformanceWarning(UserWarning):
    """A SHOULD that does not hold."""


class UnexpectedError(Exception):
    """Carries unexpected verdicts from an item's run to its report; `program` is the path of the emitted
    program, `None` where none was written."""

    def __init__(self, verdicts: Sequence[Triaged], program: Path | None) -> None:
        self.verdicts, self.program = tuple(verdicts), program
        super().__init__("; ".join(triaged.verdict.message for triaged in verdicts))


class Judge(Protocol):
    """What items ask of the run that they belong to."""

    def judge(self, case: Case, variant: Variant) -> tuple[Result, tuple[Triaged, ...]]:
        """The result of a case on a variant, and its verdicts triaged."""

    def program(self, result: Result) -> Path | None:
        """The path of the program that was emitted, if one was."""


class CaseFile(pytest.File):
    """A case file; `items` makes what pytest collects of it."""

    def __init__(
        self, *, items: Callable[[CaseFile], Iterable[PairItem]], **pytest_arguments: Any
    ) -> None:
        super().__init__(**pytest_arguments)
        self._items = items

    def collect(self) -> Iterable[PairItem]:
        """The file's items."""
        return self._items(self)


class PairItem(pytest.Item):
    """A case on a variant: `basics/conv-relu-gradient[torch/reentrant]`."""

    def __init__(
        self, *, judge: Judge, case: Case, variant: Variant, **pytest_arguments: Any
    ) -> None:
        super().__init__(**pytest_arguments)
        self._judge, self.case, self.variant = judge, case, variant
        self.pair: Pair = (case.id, variant.id)

    def runtest(self) -> None:
        """Judge. What is unexpected fails, a known deviation is an expected failure, what the variant
        refuses is skipped."""
        result, triaged = self._judge.judge(self.case, self.variant)
        program = self._judge.program(result)
        self.user_properties.append(("outcome", of_result(result).value))
        if program is not None:
            self.user_properties.append(("program", str(program)))
        unexpected = [t for t in triaged if t.triage is Triage.UNEXPECTED]
        if unexpected:
            raise UnexpectedError(unexpected, program)
        reasons = [t.reason for t in triaged if t.triage is Triage.KNOWN]
        if reasons:
            pytest.xfail("; ".join(dict.fromkeys(reasons)))
        verdicts = result.verdicts
        if all(verdict.status is Status.UNSUPPORTED for verdict in verdicts):
            pytest.skip("; ".join(verdict.message for verdict in verdicts))
        for verdict in verdicts:
            if verdict.status is Status.WARN:
                words = f"{self.name} {verdict.check}: {verdict.message}"
                where = (str(self.path), self.case.where.line)
                warnings.warn_explicit(words, ConformanceWarning, *where)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The verdicts in words; a traceback only for a fault of the plugin itself."""
        if isinstance(excinfo.value, UnexpectedError):
            return VerdictText(excinfo.value, str(self.path), self.case.where.line)
        if isinstance(excinfo.value, pytest.xfail.Exception):
            return str(excinfo.value)  # pytest would print the lines that led here, read from files
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case stands: file, line (from 0) and the item's name."""
        return self.path, self.case.where.line - 1, self.name


@dataclass(frozen=True)
class Crash:
    """What pytest's short summary and JUnit say of a failure: where the case stands, and the verdict.
    The names of the fields are pytest's."""

    path: str
    lineno: int
    message: str


@dataclass(frozen=True)
class VerdictText:
    """Unexpected verdicts as pytest prints a failure: it asks for `reprcrash` and `toterminal`."""

    error: UnexpectedError
    path: str
    line: int

    @property
    def reprcrash(self) -> Crash:
        """What the short summary says."""
        return Crash(self.path, self.line, "; ".join(map(headline, self.error.verdicts)))

    def toterminal(self, tw: Any) -> None:
        """Write it with pytest's terminal writer, the headlines in red."""
        for line, is_headline in self._lines():
            tw.line(line, red=is_headline)

    def __str__(self) -> str:
        return "\n".join(line for line, _ in self._lines())

    def _lines(self) -> Iterator[tuple[str, bool]]:
        """The lines of each verdict (message, expected, observed, method), then the program's path; each
        with whether it is a headline."""
        for triaged in self.error.verdicts:
            yield headline(triaged), True
            for label, text in (
                ("expected", triaged.verdict.expected),
                ("observed", triaged.verdict.observed),
                ("seen by", triaged.verdict.method),
            ):
                if text:
                    yield f"  {label}: " + text.replace("\n", "\n    "), False
        if self.error.program is not None:
            yield f"  program: {self.error.program}", False


def headline(triaged: Triaged) -> str:
    """A verdict in one line, and why it is unexpected where that needs words."""
    verdict = triaged.verdict
    reason = f" [{triaged.reason}]" if triaged.reason else ""
    return f"{verdict.check}: {verdict.status}: {verdict.message}{reason}"
