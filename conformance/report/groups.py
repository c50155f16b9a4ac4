"""Variants of a case grouped by what they have in common: outcomes, rows of values, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.compare.beside import Side, side_of
from conformance.judge.outcomes import Outcome, of_verdict
from conformance.report.tables import Cell, MemoryRow, Table
from conformance.results import Result


@dataclass(frozen=True)
class OutcomeGroup:
    """Variants with the same outcome and message on a case; `reason` and `url` if it is known."""

    side: Side
    variants: tuple[str, ...]
    reason: str = ""
    url: str = ""

    @property
    def outcome(self) -> Outcome:
        """Their common outcome."""
        return self.side.outcome


def outcome_groups(results: Mapping[str, Result]) -> tuple[OutcomeGroup, ...]:
    """The variants of a case grouped by outcome and message, the gravest outcome first."""
    by_outcome: dict[tuple[Side, str, str], list[str]] = {}
    for variant, result in results.items():
        side = side_of(result)
        message = "" if side.outcome in (Outcome.RIGHT, Outcome.NOT_RUN) else side.message
        key = (replace(side, message=message), *_why(result, side))
        by_outcome.setdefault(key, []).append(variant)
    unsorted = [
        OutcomeGroup(side, tuple(names), *why) for (side, *why), names in by_outcome.items()
    ]
    return tuple(sorted(unsorted, key=lambda part: (part.outcome.rank, -len(part.variants))))


def _why(result: Result, side: Side) -> tuple[str, str]:
    """Reason and URL of the known deviation that gives a side its outcome; both empty if none does."""
    for verdict in result.verdicts:
        note = verdict.known if verdict.status.deviates else None
        if note is not None and of_verdict(verdict, result) is side.outcome:
            return note.reason, note.url
    return "", ""


@dataclass(frozen=True)
class RowGroup:
    """Variants that share a row of cells; `all_right` where no cell of theirs is wrong."""

    variants: tuple[str, ...]
    cells: tuple[Cell, ...]
    all_right: bool = False


def row_groups(table: Table) -> tuple[RowGroup, ...]:
    """A table transposed: a row for each group of variants that are wrong in the same way, and last
    one for all variants that are right, whose cells show the largest difference among them.
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
        RowGroup(_names(table, numbers), tuple(row.cells[numbers[0]] for row in table.rows))
        for numbers in rows.values()
    ]
    if right:
        furthest = tuple(_furthest(row.cells[n] for n in right) for row in table.rows)
        groups.append(RowGroup(_names(table, right), furthest, all_right=True))
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


def memory_groups(rows: Iterable[MemoryRow]) -> tuple[tuple[tuple[str, ...], MemoryRow], ...]:
    """Rows of memory with equal numbers as one, each with the variants (full ids) that share it."""
    by_numbers: dict[MemoryRow, list[str]] = {}
    for row in rows:
        by_numbers.setdefault(replace(row, variant=""), []).append(row.variant)
    return tuple((tuple(variants), row) for row, variants in by_numbers.items())
