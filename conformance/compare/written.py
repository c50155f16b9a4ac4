"""Comparisons as text: for a terminal, or as Markdown."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from conformance.compare.beside import Row, SideBySide
from conformance.compare.model import Comparison
from conformance.judge.outcomes import SIGN, Outcome
from conformance.model.result import Results
from conformance.words import counted, escape, line

#: The most letters of an outcome's text in a terminal, and in Markdown.
_SHORT, _LONG = 200, 600


def agreement(comparison: Comparison, *, everything: bool, in_markdown: bool) -> Iterator[str]:
    """Who disagrees with whom, then how many comparisons ended how.

    With `everything`, also disagreements that variants' own checks have shown.
    """
    for verdict in comparison.verdicts:
        if verdict.new or (everything and verdict.disagreements):
            status = "disagree" if verdict.new else "disagree, as their own checks show"
            if in_markdown:
                yield f"- `{verdict.case}` {escape(f'{verdict.check}: {status}: {verdict.message}')}"
            else:
                yield f"{verdict.case} {verdict.check}\n  {status}: {verdict.message}"
    yield comparison.summary


def lines(
    found: SideBySide,
    *,
    in_markdown: bool = False,
    programs: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Iterator[str]:
    """What differs: a paragraph for each row, or a table of more than two columns.

    `programs` has both texts of two variants by case. Markdown shows how they differ.
    """
    plain = escape if in_markdown else str
    item = "- " if in_markdown else ""
    names = [f"`{name}`" if in_markdown else name for name in found.columns]
    if in_markdown:
        yield f"# {' and '.join(names)}\n"
    for version in found.versions:
        yield f"{item}{plain(version.what)} {' → '.join(map(plain, version.values))}"
    yield from [""] if found.versions else []
    rows = found.rows
    if found.of_runs:
        rows = tuple(row for change in ("worse", "better", "") for row in found.changed(change))
    if len(names) > 2:
        yield from _table(names, rows)
        rows = ()
    for row in rows:
        change = f"{row.change}: " if found.of_runs else ""
        yield f"## {change}{escape(row.title)}\n" if in_markdown else f"{change}{_title(row)}"
        for name, side in zip(names, row.sides, strict=True):
            text = line(side.text, _LONG if in_markdown else _SHORT)
            yield f"{'-' if in_markdown else ' '} {name}: {plain(text)}"
        if in_markdown:
            yield f"- seen in {', '.join(f'`{where}`' for where in row.where)}"
            if row.where[0] in programs:
                yield "\n".join(["\n```diff", *program_diff(*programs[row.where[0]]), "```"])
        yield ""
    for number in found.measured:
        of_variants = (" ".join(pair) for pair in zip(names, number.values, strict=True))
        values = " → ".join(number.values) if found.of_runs else ", ".join(of_variants)
        yield f"{item}{plain(number.what)}: {values}"
    yield f"\n{escape(summary(found))}" if in_markdown else summary(found)


def summary(found: SideBySide) -> str:
    differ = sum(len(row.where) for row in found.rows)
    parts = [f"{counted(differ, 'case')} differ"]
    if found.of_runs:
        worse, better = (
            sum(len(row.where) for row in found.changed(change)) for change in ("worse", "better")
        )
        parts = [f"{worse} worse", f"{better} better"]
        if len(found.columns) > 2:
            parts.append(f"{differ - worse - better} changed before")
        parts.append(f"{counted(len(found.measured), 'number')} changed")
    parts.append(f"{found.same} the same")
    parts += [f"{number} not run in {name}" for name, number in found.absent.items() if number]
    return f"{', '.join(parts)}."


def program_diff(left: str, right: str) -> Iterator[str]:
    """The lines of two programs, from their first function on: `-` is the left's, `+` the right's."""
    ours, theirs = (text[text.find("\ndef ") + 1 :].splitlines() for text in (left, right))
    for changed in difflib.unified_diff(ours, theirs, lineterm="", n=2):
        if not changed.startswith(("---", "+++")):
            yield changed.replace("```", "` ` `")


def read_programs(
    found: SideBySide, results: Sequence[Results], folder: Path
) -> dict[str, tuple[str, str]]:
    """Both programs of the first case of each row, as far as they are in the reports' folder."""
    paths = {(r.case, r.variant): r.program for run in results for r in run.results if r.program}
    texts: dict[str, tuple[str, str]] = {}
    for case in (row.where[0] for row in found.rows):
        left, right = (_text(folder, paths.get((case, name), "")) for name in found.columns)
        if left and right:
            texts[case] = left, right
    return texts


def _text(folder: Path, path: str) -> str:
    """The text of a file, unless its path leads out of the folder: results may come from an untrusted
    source. Empty where there is none."""
    try:
        file = (folder / path).resolve()
        inside = file.is_relative_to(folder.resolve()) and file.is_file()
    except (OSError, ValueError):
        return ""
    return file.read_text("utf-8", "replace") if inside else ""


def _table(names: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """A table in Markdown with a row for each place, and a cell for each column."""
    table = [("", *names)]
    for row in rows:
        outcomes = [side.outcome for side in row.sides]
        cells = ["" if o is Outcome.NOT_RUN else f"{SIGN[o]} {o.value}" for o in outcomes]
        table += [(escape(where), *cells) for where in row.where]
    widths = [max(3, *map(len, column)) for column in zip(*table, strict=True)]
    table.insert(1, tuple("-" * width for width in widths))
    for found in table:
        cells = [cell.ljust(width) for cell, width in zip(found, widths, strict=True)]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _title(row: Row) -> str:
    """What a row is about, where it is seen first, and how often elsewhere."""
    where = row.where[0] + (f" and {len(row.where) - 1} more" if len(row.where) > 1 else "")
    return where if row.title == row.where[0] else f"{row.title} ({where})"
