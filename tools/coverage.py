"""What the cases cover: tests of the frameworks' own suites, and upstream defects.

    python tools/coverage.py             # how many of both are covered
    python tools/coverage.py --lines     # every test and defect, with the cases that cover it

`cases/coverage.csv` has a line per test or defect. A *test* is covered by the cases that express its
behaviour, a *defect* by the check of a case that deviates on a variant which has the defect. A line
without cases says why there are none. A defect *fails* where a known deviation of a MUST names it; one
that is only reported, or `unsupported`, does not.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.drivers.adapter import all_adapters
from conformance.errors import ConformanceError, nearest
from conformance.judge.checks import CHECKS
from conformance.judge.known import Catalog, Entry, bound
from conformance.judge.known import read as read_known
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.verdict import Level, Status
from tools.shared import (
    ADAPTERS,
    ROOT,
    RegisterError,
    cases_named,
    check_name,
    leaving,
    variants,
)

FILE = ROOT / "cases" / "coverage.csv"
COLUMNS = ("yardstick", "framework", "subject", "scope", "cases", "variants", "check", "url", "why")
#: The scopes of a line: of tests, those that apply to any implementation, and those of a capability
#: that only some offer; of defects, those that show in one process on a CPU, and others.
SCOPES: Mapping[str, Sequence[str]] = {
    "test": ("portable", "capability"),
    "defect": ("one-process-cpu", "elsewhere"),
}
#: The beginning of a line's `why` where the verdict that shows the defect is `unsupported`.
UNSUPPORTED = "shown as unsupported: "

#: The entries of `known.yaml` by adapter.
Known = Mapping[str, Sequence[Entry]]


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
    """The lines of the file. Raises `RegisterError` with file and line if malformed."""
    try:
        with file.open(encoding="utf-8", newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise RegisterError(
                    f"found columns {', '.join(reader.fieldnames or ())}",
                    where=f"{file}:1",
                    hint=f"expected {','.join(COLUMNS)}",
                )
            return tuple(_line(row, f"{file}:{reader.line_num}") for row in reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RegisterError(f"cannot be read: {error}", where=file) from error


def _line(row: Mapping[str | None, str | None], where: str) -> Line:
    values = {name: row.get(name) for name in COLUMNS}
    if None in row or None in values.values():
        raise RegisterError(f"found a line without {len(COLUMNS)} fields", where=where)
    text = {name: (word or "").strip() for name, word in values.items()}
    for key, known in (("yardstick", SCOPES), ("scope", SCOPES.get(text["yardstick"], ()))):
        if text[key] not in known:
            hint = nearest(text[key], known)
            raise RegisterError(f"unknown {key} {text[key]!r}", where=where, hint=hint)
    cases, variants = tuple(text.pop("cases").split()), tuple(text.pop("variants").split())
    if not cases and not text["why"]:
        message = f"{text['subject']} has neither cases nor a reason why it has none"
        raise RegisterError(message, where=where, hint="fill in `cases`, or `why`")
    if cases and text["yardstick"] == "defect" and not (variants and text["check"]):
        message = f"{text['subject']} has cases, but no variant and check that flag it"
        raise RegisterError(message, where=where)
    return Line(cases=cases, variants=variants, where=where, **text)


def cases_of(line: Line, cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases that a line names, axes expanded. Raises `RegisterError` for an unknown one."""
    return tuple(case for name in line.cases for case in cases_named(name, cases, line.where))


def validate(lines: Sequence[Line], cases: Sequence[Case], variants: Sequence[str]) -> None:
    """Raise `RegisterError` for a case, variant or check that does not exist, and for a subject that is
    listed twice."""
    first: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        cases_of(line, cases)
        key = (line.yardstick, line.framework, line.subject)
        if first.setdefault(key, line) is not line:
            message = f"{line.subject} is listed twice, first at {first[key].where}"
            raise RegisterError(message, where=line.where)
        for name in line.variants:
            check_name("variant", name, variants, line.where)
        if line.check:
            check_name("check", line.check, CHECKS, line.where)


def unexplained(lines: Sequence[Line], cases: Sequence[Case], known: Known) -> tuple[str, ...]:
    """Defects that no known deviation names: a sentence for each.

    A defect needs no entry where its check is no MUST, where its case expects the error, or where its
    line says that it shows as `unsupported`.
    """
    messages: list[str] = []
    for line in lines:
        if not _of_a_must(line) or line.why.startswith(UNSUPPORTED):
            continue
        if line.check == "error" and any(case.error for case in cases_of(line, cases)):
            continue
        entries = list(_entries(line, cases, known))
        if not entries:
            messages.append(f"{line.where}: no known deviation is of {line.subject}")
        elif not any(_names(entry, line, lines) for entry in entries):
            messages.append(f"{line.where}: no known deviation names {line.url}")
    return tuple(messages)


def fails(line: Line, lines: Sequence[Line], cases: Sequence[Case], known: Known) -> bool:
    """Whether a defect makes a MUST fail: a known deviation names it, and is more than a warning.

    `lines` is the whole list.
    """
    return _of_a_must(line) and any(
        _names(entry, line, lines) and not entry.observed[0].startswith(f"{Status.WARN}:")
        for entry in _entries(line, cases, known)
    )


def _of_a_must(line: Line) -> bool:
    """Whether a line is a defect that the check of a MUST shows."""
    shown = line.yardstick == "defect" and line.cases
    return bool(shown) and CHECKS[line.check].level is Level.MUST


def _entries(line: Line, cases: Sequence[Case], known: Known) -> Iterator[Entry]:
    """The known deviations of a line's check, of its cases on its variants."""
    covering = cases_of(line, cases)
    for variant in line.variants:
        for entry in known.get(variant.partition("/")[0], ()):
            if any(entry.covers(case.id, variant, line.check) for case in covering):
                yield entry


def _names(entry: Entry, line: Line, lines: Sequence[Line]) -> bool:
    """Whether an entry names the URL of a defect, if it has one, or of the defect that it equals."""
    urls = {line.url} | {
        other.url for other in lines if other.url and line.why == f"as {other.subject}"
    }
    return not line.url or not urls.isdisjoint(entry.urls)


def fractions(lines: Sequence[Line], cases: Sequence[Case], known: Known) -> tuple[Fraction, ...]:
    """The fractions that the tool prints."""
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


def main() -> None:
    """Check the list and print what is covered."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", action="store_true", help="every test and defect")
    in_lines = parser.parse_args().lines
    leaving(lambda: print("\n".join(_told(in_lines))))


def _told(in_lines: bool) -> Iterator[str]:
    listed, cases = read(FILE), load_folder(FILE.parent)
    validate(listed, cases, variants())
    catalog = Catalog(cases)
    known = {a.name: bound(read_known(a.known), catalog) for a in all_adapters(ADAPTERS)}
    lacking = unexplained(listed, cases, known)
    if lacking:
        raise ConformanceError("\n".join(lacking), hint="add it to the adapter's known.yaml")
    for line in listed if in_lines else ():
        covering = ", ".join(line.cases) or "not covered"
        where = f" [{', '.join(line.variants)}] {line.check}" if line.variants else ""
        failed = ", fails" if fails(line, listed, cases, known) else ""
        why = f" ({line.why})" if line.why else ""
        yield f"{line.framework} {line.subject}\n  {covering}{where}{failed}{why}"
    for fraction in () if in_lines else fractions(listed, cases, known):
        yield f"{fraction.title:60}{fraction}"


if __name__ == "__main__":
    main()
