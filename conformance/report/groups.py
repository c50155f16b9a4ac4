"""What variants do alike in a case, together: outcomes, values, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.report.outcomes import Outcome, of_verdict
from conformance.report.tables import Cell, MemoryRow, Table
from conformance.report.versus import Side, side_of
from conformance.results import Result


@dataclass(frozen=True)
class Told:
    """Variants that come out alike in a case, for one reason: what was observed, and why, if known."""

    side: Side
    variants: tuple[str, ...]
    reason: str = ""
    url: str = ""

    @property
    def outcome(self) -> Outcome:
        """How they come out."""
        return self.side.outcome


def told(results: Mapping[str, Result]) -> tuple[Told, ...]:
    """The variants of a case by what they do, the gravest first."""
    by_outcome: dict[tuple[Side, str, str], list[str]] = {}
    for variant, result in results.items():
        side = side_of(result)
        message = "" if side.outcome in (Outcome.RIGHT, Outcome.NOT_RUN) else side.message
        key = (replace(side, message=message), *_why(result, side))
        by_outcome.setdefault(key, []).append(variant)
    parts = [Told(side, tuple(names), *why) for (side, *why), names in by_outcome.items()]
    return tuple(sorted(parts, key=lambda part: (part.outcome.rank, -len(part.variants))))


def _why(result: Result, side: Side) -> tuple[str, str]:
    """The reason of the known deviation behind what a side says, and its address."""
    for verdict in result.verdicts:
        note = verdict.known if verdict.status.deviates else None
        if note is not None and of_verdict(verdict, result) is side.outcome:
            return note.reason, note.url
    return "", ""


@dataclass(frozen=True)
class Alike:
    """Variants with a row of cells in common; `within` are those that are all right."""

    variants: tuple[str, ...]
    cells: tuple[Cell, ...]
    within: bool = False


def alike(table: Table) -> tuple[Alike, ...]:
    """A table turned round, with a row for all variants that are right, and one for each group of
    variants that are wrong in the same way.

    Of those that are right, each cell is the one furthest from what is expected.
    """
    rows: dict[tuple[tuple[str, bool], ...], list[int]] = {}
    right: list[int] = []
    for number in range(len(table.variants)):
        cells = [row.cells[number] for row in table.rows]
        if any(cell.wrong for cell in cells):
            rows.setdefault(tuple((cell.text, cell.wrong) for cell in cells), []).append(number)
        else:
            right.append(number)
    groups = [
        Alike(_names(table, numbers), tuple(row.cells[numbers[0]] for row in table.rows))
        for numbers in rows.values()
    ]
    if right:
        furthest = tuple(_furthest(row.cells[n] for n in right) for row in table.rows)
        groups.append(Alike(_names(table, right), furthest, within=True))
    return tuple(groups)


def _names(table: Table, numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(table.variants[number] for number in numbers)


def _furthest(cells: Iterable[Cell]) -> Cell:
    return max(cells, key=_distance)


def _distance(cell: Cell) -> float:
    try:
        return float(cell.text)
    except ValueError:
        return -1.0


def memory_alike(rows: Iterable[MemoryRow]) -> tuple[tuple[tuple[str, ...], MemoryRow], ...]:
    """Rows of memory that have the same numbers, together with the variants that they are of."""
    by_numbers: dict[MemoryRow, list[str]] = {}
    for row in rows:
        by_numbers.setdefault(replace(row, variant=""), []).append(row.variant)
    return tuple((tuple(variants), row) for row, variants in by_numbers.items())
