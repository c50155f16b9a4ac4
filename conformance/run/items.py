"""The items of a run as a pytest session: a check of a case on a variant; how its failure is printed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.drivers.adapter import Variant
from conformance.judge.triage import Triage, Triaged, triage
from conformance.model.case import Case
from conformance.model.verdict import Status, Verdict
from conformance.results import Result
from conformance.run.light import LightItem
from conformance.run.runner import ERROR, is_final
from conformance.run.shards import Pair

if TYPE_CHECKING:  # the session makes the items
    from conformance.run.session import Suite


class ConformanceWarning(UserWarning):
    """A SHOULD that does not hold."""


class UnexpectedError(Exception):
    """Carries unexpected verdicts from an item's run to its report; `program` is the path of the emitted
    program, `None` where none was written."""

    def __init__(self, verdicts: Sequence[Triaged], program: Path | None) -> None:
        self.verdicts, self.program = tuple(verdicts), program
        super().__init__("; ".join(triaged.verdict.message for triaged in verdicts))


class CaseFile(pytest.File):
    """A case file, which pytest collects the items of."""

    def __init__(self, *, suite: Suite, **pytest_arguments: Any) -> None:
        super().__init__(**pytest_arguments)
        self.suite = suite

    def collect(self) -> Iterable[CheckItem]:
        """The file's items."""
        return self.suite.items(self)


class CheckItem(LightItem):
    """One check of one case on one variant; `pair` are the ids of these two."""

    def __init__(
        self,
        *,
        suite: Suite,
        case: Case,
        variant: Variant,
        pair: Pair,
        check: str,
        **pytest_arguments: Any,
    ) -> None:
        super().__init__(**pytest_arguments)
        self.suite, self.case, self.variant, self.check = suite, case, variant, check
        self.pair = pair

    def runtest(self) -> None:
        """Judge. A known deviation is an expected failure; a missing feature is a skip."""
        try:
            self._judge(self.suite.result(self.case, self.variant))
        finally:
            self.suite.judged(self.case, self.variant, self.check)

    def _judge(self, result: Result) -> None:
        """Raise what pytest makes a failure, an expected failure or a skip of; nothing for a pass."""
        verdicts = [v for v in result.verdicts if v.check == self.check]
        if not verdicts:
            final = next(v for v in result.verdicts if is_final(result, v))
            if self.suite.has_item(self.case, self.variant, ERROR):
                error_item = f"{self.case.id}[{self.variant.id}] {ERROR}"
                pytest.skip(f"not judged ({final.status}): see {error_item}")
            verdicts = [final]
        program = self.suite.selection.paths.reports / result.program if result.program else None
        triaged = triage(self.suite.known(self.variant), self.case.id, self.variant.id, verdicts)
        self._record(verdicts, program)
        unexpected = [t for t in triaged if t.triage is Triage.UNEXPECTED]
        if unexpected:
            raise UnexpectedError(unexpected, program)
        reasons = [t.reason for t in triaged if t.triage is Triage.KNOWN]
        if reasons:
            pytest.xfail("; ".join(dict.fromkeys(reasons)))
        for verdict in verdicts:
            if verdict.status is Status.WARN:
                warnings.warn_explicit(
                    f"{self.name}: {verdict.message}",
                    ConformanceWarning,
                    str(self.path),
                    self.case.where.line,
                )
            elif verdict.status is Status.UNSUPPORTED:
                pytest.skip(verdict.message)

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

    def _record(self, verdicts: Sequence[Verdict], program: Path | None) -> None:
        """Put the status and the program's path among the properties that JUnit's XML shows."""
        status = next((v.status for v in verdicts if v.status is not Status.PASS), Status.PASS)
        self.user_properties.append(("status", status.value))
        if program is not None:
            self.user_properties.append(("program", str(program)))


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
        return Crash(self.path, self.line, headline(self.error.verdicts[0]))

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
    reason = f" [{triaged.reason}]" if triaged.reason else ""
    return f"{triaged.verdict.status}: {triaged.verdict.message}{reason}"
