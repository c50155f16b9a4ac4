"""What the cases cover: tests of the frameworks' own suites, and upstream defects.

`coverage.csv` lies beside the cases, a line per test or defect. A *test* is covered by the cases that
express its behaviour, a *defect* by the check of a case that shows it on a variant which has it. A line
without cases says why there are none. A defect *fails* where a MUST does not hold because of it, as a
known deviation says; what is only noted, or `unsupported`, fails nobody.
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
#: What scopes count towards: tests that any implementation could be put to, tests of what some offer,
#: defects that show in one process on a CPU.
SCOPES: Mapping[str, Sequence[str]] = {
    "test": ("portable", "capability"),
    "defect": ("one-process-cpu", "elsewhere"),
}

#: How the reason of a line begins whose defect a variant shows by the verdict `unsupported`.
UNSUPPORTED = "shown as unsupported: "


class CoverageError(ConformanceError):
    """The list of what is covered is malformed, or names what does not exist."""


@dataclass(frozen=True)
class Line:
    """A line of the list. `cases` are ids, without axes where all of a case's are meant; `variants`
    (full ids) and `check` say where a defect shows. `where` is file and line."""

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
    """How many of a yardstick's lines are covered."""

    title: str
    covered: int
    total: int

    def __str__(self) -> str:
        share = 100 * self.covered / self.total if self.total else 100.0
        return f"{self.covered} of {self.total} ({share:.1f} %)"


def read(file: Path) -> tuple[Line, ...]:
    """The lines of a list. Raises `CoverageError` with file and line for what is malformed."""
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
    words = {name: row.get(name) for name in COLUMNS}
    if None in row or None in words.values():
        raise CoverageError(f"found a line without {len(COLUMNS)} fields", where=where)
    text = {name: (word or "").strip() for name, word in words.items()}
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
        named = [case for case in cases if name in (case.id, case.id.partition("[")[0])]
        if not named:
            known = {case.id.partition("[")[0] for case in cases}
            raise CoverageError(f"no case {name!r}", where=line.where, hint=nearest(name, known))
        covering += named
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

    `known` are the entries by adapter. A check that warns at most, and a case that asks for the error,
    need no entry; nor does what is shown as unsupported, which the
    line then says.
    """
    messages: list[str] = []
    for line in lines:
        if line.yardstick != "defect" or not line.cases:
            continue
        if CHECKS[line.check].level is not Level.MUST or line.why.startswith(UNSUPPORTED):
            continue
        chosen = cases_of(line, cases)
        if any(case.error is not None and line.check == "error" for case in chosen):
            continue
        entries = [
            entry
            for variant in line.variants
            for entry in known.get(variant.partition("/")[0], ())
            for case in chosen
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
    """Whether a defect shows as a failed MUST: a known deviation names it, and is no mere warning.

    `lines` are all that are listed, `known` the entries by adapter.
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
    """Whether an entry names a defect, or the one that it is said to be the same as."""
    urls = {line.url} | {
        other.url for other in lines if other.url and line.why == f"as {other.subject}"
    }
    return any(url == entry.url or url in entry.reason for url in urls)


def fractions(
    lines: Sequence[Line], cases: Sequence[Case], known: Mapping[str, Sequence[Entry]]
) -> tuple[Fraction, ...]:
    """What the cases cover, by yardstick. `known` are the known deviations by adapter."""
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
