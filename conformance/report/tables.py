"""Expected and observed of one case, side by side over the variants: arrays, executions, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from conformance.compare import drop_of, drop_range, region_count
from conformance.compare.numeric import (
    Missing,
    Subject,
    Value,
    close,
    comparable_gradient,
    largest_difference,
    summary,
    values_of,
)
from conformance.model.case import Tolerance
from conformance.model.observation import Allowed, Expected, Phase, Run
from conformance.results import Result
from conformance.results.parts import Furthest, Part


@dataclass(frozen=True)
class Cell:
    """A cell: its text, the text of its tooltip, and whether it deviates from the expectation."""

    text: str
    more: str = ""
    wrong: bool = False


@dataclass(frozen=True)
class Row:
    """A row: its name, what is expected (words, if variants differ), and a cell per variant."""

    name: str
    expected: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table with a column per variant (full ids)."""

    variants: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class CountRow:
    """How often a region or an operation ran, in forward and again: what is expected, and what each
    group of variants did."""

    name: str
    expected: tuple[str, str]
    cells: tuple[tuple[Cell, Cell], ...]


@dataclass(frozen=True)
class Counts:
    """Executions, with two columns for variants that did the same everywhere."""

    groups: tuple[tuple[str, ...], ...]
    rows: tuple[CountRow, ...]


@dataclass(frozen=True)
class MemoryRow:
    """Retained memory on one variant: bytes, and activations (`unit` bytes each).

    `units` is the drop in activations, `range` the least and the most bytes that may be retained with
    recompute; `most` is the largest number of bytes of a plain run in the table.
    """

    variant: str
    plain: int
    recomputed: int
    unit: int
    units: float | None
    expected: str
    wrong: bool
    range: tuple[int, int] | None = None
    most: int = 1

    def at(self, number: int) -> str:
        """The x coordinate of a number of bytes on a bar, where `most` is 140; at most 160."""
        return f"{min(160.0, max(0.0, 140 * number / self.most)):.1f}"

    @property
    def drop(self) -> int:
        return self.plain - self.recomputed


NOT_SEEN = Cell("–", "not observed")
_MISSING = Missing()


def values(results: Mapping[str, Result], tolerance: Tolerance) -> Table:
    """Largest differences of arrays of recomputed runs from what is expected, or else from plain."""
    ran = {v: r for v, r in results.items() if _ran(r)}
    recomputed = {v: _values(r.observation.recomputed) for v, r in ran.items() if r.observation}
    plain = {v: _values(r.observation.plain) for v, r in ran.items() if r.observation}
    expected = {v: _values(r.expected) if r.expected else {} for v, r in ran.items()}
    subjects = dict.fromkeys(
        s for arrays in (*expected.values(), *recomputed.values()) for s in arrays
    )
    rows = []
    for subject in subjects:
        expected_values = {
            v: arrays[subject] for v, arrays in expected.items() if subject in arrays
        }
        words = dict.fromkeys(summary(value) for value in _different(expected_values.values()))
        # Variants that have the same arrays share them.
        cell_of: dict[tuple[int, ...], Cell] = {}
        cells = []
        for v in ran:
            pair = (
                recomputed[v].get(subject, _MISSING),
                plain[v].get(subject, _MISSING),
            )
            against = expected_values.get(v, _MISSING)
            key = (id(pair[0]), id(pair[1]), id(against))
            if key not in cell_of:
                of_its_own = len(words) > 1
                kind, _ = subject
                cell_of[key] = _value_cell(kind, *pair, against, tolerance, of_its_own=of_its_own)
            cells.append(cell_of[key])
        various = "differs with the numbers drawn" if words else "what the plain run gives"
        name = next(iter(words)) if len(words) == 1 else various
        rows.append(Row(subject[1], name, tuple(cells)))
    return Table(tuple(ran), tuple(rows))


def executions(results: Mapping[str, Result], *, statements: bool) -> Table:
    """How often each region (or each statement) ran, with a row for forward and one for the rerun."""
    ran = {v: r for v, r in results.items() if _ran(r)}
    keys = dict.fromkeys(key for r in ran.values() for key in _execution_keys(r, statements))
    rows = []
    for region, statement, phase in keys:
        cells = []
        expected_words: dict[str, None] = {}
        for result in ran.values():
            allowed = _allowed(result, region, statement, phase)
            if allowed:
                expected_words.setdefault(str(allowed))
            count = _count(result, region, statement, phase)
            if count is None:
                cells.append(NOT_SEEN)
                continue
            words = f"expected {allowed}" if allowed else "nothing is expected"
            reason = f" ({allowed.reason})" if allowed and allowed.reason else ""
            cells.append(
                Cell(str(count), words + reason, allowed is not None and count not in allowed)
            )
        name = f"{region or 'outside'} · {statement}" if statement else region
        expected = (
            next(iter(expected_words))
            if len(expected_words) == 1
            else "by discipline"
            if expected_words
            else ""
        )
        rows.append(Row(f"{name}, {phase}", expected, tuple(cells)))
    return Table(tuple(ran), tuple(rows))


def counts(table: Table) -> Counts:
    """A table of executions with forward and rerun in one row, and equal variants in one column."""
    columns: dict[tuple[tuple[str, bool], ...], list[int]] = {}
    for number in range(len(table.variants)):
        column = tuple((row.cells[number].text, row.cells[number].wrong) for row in table.rows)
        columns.setdefault(column, []).append(number)
    by_name: dict[str, dict[str, Row]] = {}
    for row in table.rows:
        name, _, phase = row.name.rpartition(", ")
        by_name.setdefault(name, {})[phase] = row
    rows = []
    for name, phases in by_name.items():
        pair = phases.get("forward"), phases.get("rerun")
        expected = tuple("" if row is None else row.expected for row in pair)
        cells = [
            tuple(NOT_SEEN if row is None else row.cells[numbers[0]] for row in pair)
            for numbers in columns.values()
        ]
        rows.append(CountRow(name, (expected[0], expected[1]), tuple((a, b) for a, b in cells)))
    groups = tuple(tuple(table.variants[n] for n in numbers) for numbers in columns.values())
    return Counts(groups, tuple(rows))


def memory(results: Mapping[str, Result]) -> tuple[MemoryRow, ...]:
    """Bytes held between forward and backward, where both runs were observed."""
    rows = [row for v, r in results.items() if (row := _memory_row(v, r)) is not None]
    most = max((row.plain for row in rows), default=1)
    return tuple(replace(row, most=max(1, most)) for row in rows)


def _memory_row(variant: str, result: Result) -> MemoryRow | None:
    observation = result.observation
    if observation is None:
        return None
    plain, recomputed = observation.plain.retained, observation.recomputed.retained
    if plain is None or recomputed is None:
        return None
    drop = drop_of(result)
    if drop is None or result.expected is None or result.expected.memory is None:
        return MemoryRow(variant, plain, recomputed, 0, None, "", False)
    unit = result.expected.memory.unit
    least, most = drop_range(result.expected.memory)
    words = f"{least / unit:.2f}" if least == most else f"{least / unit:.2f} to {most / unit:.2f}"
    wrong = any(v.check == "retained memory" and v.status.deviates for v in result.verdicts)
    left = max(0, plain - most), max(0, plain - least)
    return MemoryRow(variant, plain, recomputed, unit, drop.units, words, wrong, left)


def _different(values: Iterable[Value]) -> Iterable[Value]:
    """Values, each object once."""
    return {id(value): value for value in values}.values()


def _ran(result: Result) -> bool:
    observation = result.observation
    return observation is not None and observation.recomputed.error is None


def _values(source: Run | Expected) -> dict[Subject, Value]:
    state = {("state", f"state {name}"): array for name, array in (source.state or {}).items()}
    return values_of(source) | state


def _value_cell(
    check: str,
    observed: Value,
    plain: Value,
    expected: Value,
    tolerance: Tolerance,
    *,
    of_its_own: bool,
) -> Cell:
    known = not isinstance(expected, Missing)
    against = expected if known else plain
    more = f"recomputed: {summary(observed)}\nplain: {summary(plain)}"
    if known and of_its_own:
        more += f"\nexpected: {summary(expected)}"
    from_plain, apart = largest_difference(observed, plain), largest_difference(observed, against)
    if isinstance(observed, Part):  # what was measured over all elements
        from_plain = _distance(observed.from_plain)
        apart = _distance(observed.from_expected) if known else from_plain
    if from_plain is not None:
        more += f"\nlargest difference from plain: {from_plain:.1e}"
    if apart is not None:
        text = "0" if apart == 0 else f"{apart:.1e}"
    elif not isinstance(observed, np.ndarray):
        text = summary(observed)
    else:
        text = "shape" if isinstance(against, np.ndarray) else "≠ None"
    if check == "gradient":
        observed = comparable_gradient(observed, plain, against)
    return Cell(text, more, not close(observed, against, tolerance))


def _distance(furthest: Furthest | None) -> float | None:
    return None if furthest is None else furthest.distance


def _allowed(result: Result, region: str, statement: str, phase: Phase) -> Allowed | None:
    if result.expected is None:
        return None
    return result.expected.executions.get((region, statement, phase))


def _execution_keys(result: Result, statements: bool) -> Iterator[tuple[str, str, Phase]]:
    keys: list[tuple[str, str, Phase]] = []
    if result.expected is not None:
        keys += result.expected.executions
    if result.observation is not None:
        observed = result.observation.recomputed.executions or ()
        keys += [(e.region, e.statement, e.phase) for e in observed]
    for region, statement, phase in keys:
        if bool(statement) == statements and (region or statement):
            yield region, statement, phase


def _count(result: Result, region: str, statement: str, phase: Phase) -> int | None:
    if result.observation is None or result.observation.recomputed.executions is None:
        return None
    run = result.observation.recomputed
    if not statement:
        return region_count(run, region, phase)
    key = (region, statement, phase)
    counts = run.executions or ()
    return sum(e.count for e in counts if (e.region, e.statement, e.phase) == key)
