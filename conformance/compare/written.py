"""Comparisons as text for a terminal and as Markdown."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from conformance.compare.beside import Measured, Row, Side, SideBySide
from conformance.compare.model import Comparison
from conformance.judge.outcomes import SIGN, Outcome
from conformance.model.result import Results
from conformance.words import counted, escape, line

#: The most letters of an outcome's text in a terminal, and in Markdown.
_SHORT, _LONG = 200, 600


def agreement(
    comparison: Comparison, *, everything: bool, in_markdown: bool
) -> Iterator[str | Text]:
    """Who disagrees with whom, then how many comparisons ended how.

    With `everything`, also disagreements that variants' own checks have shown.
    """
    for verdict in comparison.verdicts:
        if verdict.new or (everything and verdict.disagreements):
            status = "disagree" if verdict.new else "disagree, as their own checks show"
            if in_markdown:
                yield f"- `{verdict.case}` {escape(f'{verdict.check}: {status}: {verdict.message}')}"
            else:
                text = Text(f"{verdict.case} {verdict.check}", style="bold")
                yield text.append(f"\n  {status}: {verdict.message}", style="not bold")
    yield comparison.summary


def lines(found: SideBySide) -> Iterator[str | Table]:
    """What differs, for a terminal: a paragraph for each row, or a table of more than two columns."""
    for version in found.versions:
        yield f"{version.what} {' → '.join(version.values)}"
    if len(found.columns) > 2:
        table = Table("", *found.columns, box=None, header_style="bold")
        for where, cells in _cells(found):
            table.add_row(where, *cells)
        yield table
    else:
        for row in _ordered(found):
            change = f"{row.change}: " if found.of_runs else ""
            yield f"{change}{row.title}{_more(row)}"
            for name, side in zip(found.columns, row.sides, strict=True):
                yield f"  {name}: {line(side.text, _SHORT)}"
            yield ""
    for number in found.measured:
        yield f"{number.what}: {_values(found, number)}"
    yield summary(found)


def summary(found: SideBySide) -> str:
    """How much differs, in a sentence."""
    differ = sum(len(row.where) for row in found.rows)
    if found.of_runs:
        worse, better = (
            sum(len(row.where) for row in found.changed(change)) for change in ("worse", "better")
        )
        parts = [f"{worse} worse", f"{better} better"]
        if len(found.columns) > 2:
            parts.append(f"{differ - worse - better} changed before")
        parts += [f"{counted(len(found.measured), 'number')} changed", f"{found.same} the same"]
    else:
        parts = [f"{counted(differ, 'case')} differ", f"{found.same} the same"]
    parts += [f"{number} not run in {name}" for name, number in found.absent.items() if number]
    return f"{', '.join(parts)}."


def markdown(found: SideBySide, programs: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """What differs, as Markdown. `programs` has both texts of two variants by case."""
    yield f"# {' and '.join(f'`{name}`' for name in found.columns)}"
    yield ""
    yield escape(summary(found))
    yield ""
    rows = _ordered(found)
    tables = [(number.what, number.values) for number in (*found.versions, *found.measured)]
    if len(found.columns) > 2:
        tables += _cells(found)
        rows = ()
    if tables:
        yield f"| | {' | '.join(f'`{name}`' for name in found.columns)} |"
        yield f"|---|{'---|' * len(found.columns)}"
        for what, values in tables:
            yield f"| {escape(what)} | {' | '.join(map(escape, values))} |"
        yield ""
    for row in rows:
        yield f"## {f'{row.change}: ' if found.of_runs else ''}{escape(row.title)}"
        yield ""
        for name, side in zip(found.columns, row.sides, strict=True):
            yield f"- `{name}`: {escape(line(side.text, _LONG))}"
        yield f"- seen in {', '.join(f'`{where}`' for where in row.where)}"
        yield ""
        if row.where[0] in programs:
            yield "```diff"
            yield from program_diff(*programs[row.where[0]])
            yield "```"
            yield ""


def program_diff(left: str, right: str) -> Iterator[str]:
    """The lines of two programs, from their first function on: `-` is the left's, `+` the right's."""
    ours, theirs = (text[text.find("\ndef ") + 1 :].splitlines() for text in (left, right))
    for changed in difflib.unified_diff(ours, theirs, lineterm="", n=2):
        if not changed.startswith(("---", "+++")):
            yield changed.replace("```", "` ` `")


def read_programs(
    found: SideBySide, results: Sequence[Results], folder: Path
) -> dict[str, tuple[str, str]]:
    """Both programs of the first case of each row, as far as they lie in the reports' folder."""
    paths = {(r.case, r.variant): r.program for run in results for r in run.results if r.program}
    texts: dict[str, tuple[str, str]] = {}
    for case in (row.where[0] for row in found.rows):
        files = [_inside(folder, paths.get((case, variant), "")) for variant in found.columns]
        left, right = (file and file.read_text("utf-8", "replace") for file in files)
        if left and right:
            texts[case] = left, right
    return texts


def _inside(folder: Path, path: str) -> Path | None:
    """The file, unless its path leads out of the folder: results may come from an untrusted source."""
    try:
        file = (folder / path).resolve()
        inside = file.is_relative_to(folder.resolve()) and file.is_file()
    except (OSError, ValueError):
        return None
    return file if inside else None


def _ordered(found: SideBySide) -> tuple[Row, ...]:
    """Rows by severity; of runs, those that are worse first."""
    if not found.of_runs:
        return found.rows
    return tuple(row for change in ("worse", "better", "") for row in found.changed(change))


def _cells(found: SideBySide) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A row of a table for each place, with a cell for each column."""
    for row in _ordered(found):
        for where in row.where:
            yield where, tuple(map(_cell, row.sides))


def _cell(side: Side) -> str:
    return "" if side.outcome is Outcome.NOT_RUN else f"{SIGN[side.outcome]} {side.outcome.value}"


def _more(row: Row) -> str:
    """Where else, and how often, a row is seen than its title says."""
    where = row.where if row.title != row.where[0] else row.where[1:]
    if not where:
        return ""
    shown = f"{where[0]} and {len(where) - 1} more" if len(where) > 1 else where[0]
    return f" ({shown})" if row.title != row.where[0] else f" and {len(where)} more"


def _values(found: SideBySide, number: Measured) -> str:
    if found.of_runs:
        return " → ".join(number.values)
    pairs = zip(found.columns, number.values, strict=True)
    return ", ".join(f"{name} {value}" for name, value in pairs)
