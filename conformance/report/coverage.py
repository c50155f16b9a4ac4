"""What the cases cover: tests of the frameworks' own suites, and upstream defects.

`coverage.csv` lies beside the cases, a line per test or defect. A *test* is covered by the cases that
express its behaviour, a *defect* by the check of a case that deviates on a variant which has the defect.
A line without cases says why there are none. A defect *fails* where a known deviation of a MUST names
it; one that is only reported, or `unsupported`, does not.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import ConformanceError, nearest
from conformance.judge.checks import CHECKS
from conformance.judge.known import Entry
from conformance.model.case import Case
from conformance.model.verdict import Level, Status

FILE = "coverage.csv"
COLUMNS = ("yardstick", "framework", "subject", "scope", "cases", "variants", "check", "url", "why")
YARDSTICKS = ("test", "defect")
#: The scopes of a line: of tests, those that apply to any implementation, and those of a capability
#: that only some offer; of defects, those that show in one process on a CPU, and others.
SCOPES: Mapping[str, Sequence[str]] = {
    "test": ("portable", "capability"),
    "defect": ("one-process-cpu", "elsewhere"),
}

#: The beginning of a line's `why` where the verdict that shows the defect is `unsupported`.
UNSUPPORTED = "shown as unsupported: "


class CoverageError(ConformanceError):
    """The list of what is covered is malformed, or names what does not exist."""


@dataclass(frozen=True)
class Line:
    """A line of the list.

    `cases` are ids; an id without axes means all expansions of the case. `variants` (full ids) and
    `check` say which verdicts show a defect. `where` is `file:line`.
    """

    yardstick: str
    framework: str
    subject: str
    scope: str
    cases: tuple[str, ...]
    variants: tuple[str, ...]
    check: str
    url: str
    why: str
    where: str


@dataclass(frozen=True)
class Fraction:
    """How many of some lines are covered; as text `3 of 4 (75.0 %)`."""

    title: str
    covered: int
    total: int

    def __str__(self) -> str:
        share = 100 * self.covered / self.total if self.total else 100.0
        return f"{self.covered} of {self.total} ({share:.1f} %)"


def read(file: Path) -> tuple[Line, ...]:
    """The lines of the file. Raises `CoverageError` with file and line if malformed."""
    try:
        with file.open(encoding="utf-8", newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise CoverageError(
                    f"found columns {', '.join(reader.fieldnames or ())}",
                    where=f"{file}:1",
                    hint=f"expected {','.join(COLUMNS)}",
                )
            return tuple(_line(row, f"{file}:{reader.line_num}") for row in reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CoverageError(f"cannot be read: {error}", where=file) from error


def _line(row: Mapping[str | None, str | None], where: str) -> Line:
    values = {name: row.get(name) for name in COLUMNS}
    if None in row or None in values.values():
        raise CoverageError(f"found a line without {len(COLUMNS)} fields", where=where)
    text = {name: (word or "").strip() for name, word in values.items()}
    if text["yardstick"] not in YARDSTICKS:
        raise CoverageError(
            f"unknown yardstick {text['yardstick']!r}",
            where=where,
            hint=nearest(text["yardstick"], YARDSTICKS),
        )
    scopes = SCOPES[text["yardstick"]]
    if text["scope"] not in scopes:
        raise CoverageError(
            f"unknown scope {text['scope']!r}", where=where, hint=nearest(text["scope"], scopes)
        )
    cases, variants = tuple(text.pop("cases").split()), tuple(text.pop("variants").split())
    if not cases and not text["why"]:
        raise CoverageError(
            f"{text['subject']} has neither cases nor a reason why it has none",
            where=where,
            hint="fill in `cases`, or `why`",
        )
    if cases and text["yardstick"] == "defect" and not (variants and text["check"]):
        raise CoverageError(
            f"{text['subject']} has cases, but no variant and check that flag it", where=where
        )
    return Line(cases=cases, variants=variants, where=where, **text)


def cases_of(line: Line, cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases that a line names, axes expanded. Raises `CoverageError` for an unknown one."""
    covering: list[Case] = []
    for name in line.cases:
        matching = [case for case in cases if name in (case.id, case.id.partition("[")[0])]
        if not matching:
            known = {case.id.partition("[")[0] for case in cases}
            raise CoverageError(f"no case {name!r}", where=line.where, hint=nearest(name, known))
        covering += matching
    return tuple(covering)


def validate(lines: Sequence[Line], cases: Sequence[Case], variants: Sequence[str]) -> None:
    """Raise `CoverageError` for a case, variant or check that does not exist, and for a subject that
    is listed twice."""
    first: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        cases_of(line, cases)
        key = (line.yardstick, line.framework, line.subject)
        if first.setdefault(key, line) is not line:
            raise CoverageError(
                f"{line.subject} is listed twice, first at {first[key].where}", where=line.where
            )
        for name in line.variants:
            if name not in variants:
                raise CoverageError(
                    f"no variant {name!r}", where=line.where, hint=nearest(name, variants)
                )
        if line.check and line.check not in CHECKS:
            raise CoverageError(
                f"no check {line.check!r}", where=line.where, hint=nearest(line.check, CHECKS)
            )


def unexplained(
    lines: Sequence[Line], cases: Sequence[Case], known: Mapping[str, Sequence[Entry]]
) -> tuple[str, ...]:
    """Defects that no known deviation names: a sentence for each.

    `known` are the entries of `known.yaml` by adapter. A defect needs no entry where its check is no
    MUST, where its case expects the error, or where its line says that it shows as `unsupported`.
    """
    messages: list[str] = []
    for line in lines:
        if line.yardstick != "defect" or not line.cases:
            continue
        if CHECKS[line.check].level is not Level.MUST or line.why.startswith(UNSUPPORTED):
            continue
        covering = cases_of(line, cases)
        if any(case.error is not None and line.check == "error" for case in covering):
            continue
        entries = [
            entry
            for variant in line.variants
            for entry in known.get(variant.partition("/")[0], ())
            for case in covering
            if entry.covers(case.id, variant, line.check)
        ]
        if not entries:
            messages.append(f"{line.where}: no known deviation is of {line.subject}")
        elif line.url and not any(_names(entry, line, lines) for entry in entries):
            messages.append(f"{line.where}: no known deviation names {line.url}")
    return tuple(messages)


def fails(
    line: Line,
    lines: Sequence[Line],
    cases: Sequence[Case],
    known: Mapping[str, Sequence[Entry]],
) -> bool:
    """Whether a defect makes a MUST fail: a known deviation names it, and is more than a warning.

    `lines` is the whole list, `known` the entries of `known.yaml` by adapter.
    """
    if not line.cases or CHECKS[line.check].level is not Level.MUST:
        return False
    return any(
        entry.covers(case.id, variant, line.check)
        and not entry.observed.startswith(f"{Status.WARN}:")
        and (not line.url or _names(entry, line, lines))
        for variant in line.variants
        for entry in known.get(variant.partition("/")[0], ())
        for case in cases_of(line, cases)
    )


def _names(entry: Entry, line: Line, lines: Sequence[Line]) -> bool:
    """Whether an entry names the URL of a defect, or of the defect that its line says it equals."""
    urls = {line.url} | {
        other.url for other in lines if other.url and line.why == f"as {other.subject}"
    }
    return any(url == entry.url or url in entry.reason for url in urls)


def fractions(
    lines: Sequence[Line], cases: Sequence[Case], known: Mapping[str, Sequence[Entry]]
) -> tuple[Fraction, ...]:
    """The fractions that `conformance coverage` prints. `known` are the known deviations by adapter."""
    portable = [line for line in lines if line.scope == "portable"]
    tests = [line for line in lines if line.yardstick == "test"]
    defects = [line for line in lines if line.scope == "one-process-cpu"]
    failed = sum(fails(line, lines, cases, known) for line in defects)
    return (
        _fraction("tests that any implementation could be put to", portable),
        _fraction("those, and tests of what some implementations offer", tests),
        Fraction("upstream defects on one CPU that fail a MUST", failed, len(defects)),
        _fraction("those, and defects that are noted, refused or unsupported", defects),
    )


def _fraction(title: str, lines: Sequence[Line]) -> Fraction:
    return Fraction(title, sum(bool(line.cases) for line in lines), len(lines))
