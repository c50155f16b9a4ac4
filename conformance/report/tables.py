"""Tables of one case: what variants do, and expected and observed arrays, executions and bytes.

Variants that do the same share a row or a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from conformance.judge.outcomes import Outcome, of_result, of_verdict, unoffered
from conformance.model.case import Tolerance
from conformance.model.observation import Expected, Phase, Run
from conformance.model.result import Result
from conformance.model.verdict import KnownNote
from conformance.report.findings import is_unexpected

#: A variant's results on a case, by full id.
ResultsOfCase = Mapping[str, Result]


# -- outcomes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """What a verdict says, and the known deviation that explains it."""

    message: str
    known: KnownNote | None = None
    unexpected: bool = False


@dataclass(frozen=True)
class OutcomeGroup:
    """Variants with the same outcome on a case, whose verdicts say the same."""

    outcome: Outcome
    statements: tuple[Statement, ...]
    variants: tuple[str, ...]


def outcome_groups(results: ResultsOfCase) -> tuple[OutcomeGroup, ...]:
    """The variants of a case grouped by outcome and what is said, the gravest outcome first."""
    groups: dict[tuple[Outcome, tuple[Statement, ...]], list[str]] = {}
    for variant, result in results.items():
        outcome = of_result(result)
        groups.setdefault((outcome, statements(result, outcome)), []).append(variant)
    unsorted = [OutcomeGroup(*key, tuple(variants)) for key, variants in groups.items()]
    return tuple(sorted(unsorted, key=lambda part: (part.outcome.rank, -len(part.variants))))


def statements(result: Result, outcome: Outcome) -> tuple[Statement, ...]:
    """What the verdicts with the outcome of a result say: for each known deviation the first of them,
    and the first that no known deviation explains."""
    if outcome in (Outcome.RIGHT, Outcome.NOT_RUN):
        return ()
    by_note: dict[KnownNote | None, Statement] = {}
    for verdict in result.verdicts:
        if outcome is Outcome.NOT_OFFERED or of_verdict(verdict, result) is outcome:
            note = verdict.known if verdict.status.deviates else None
            # Without the variant's name, so that all variants say it in the same words.
            reason = unoffered(verdict)
            words = reason.words if reason else verdict.message
            by_note.setdefault(note, Statement(words, note, is_unexpected(verdict)))
    return tuple(by_note.values())


# -- arrays ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A cell: its text, the text of its tooltip, and whether it deviates from the expectation."""

    text: str
    more: str = ""
    wrong: bool = False


NOT_SEEN = Cell("–", "not observed")
_MISSING = Missing()


@dataclass(frozen=True)
class ValueRow:
    """Variants that are wrong in the same way, or (`all_right`) all that are right. Cells of the latter
    show the largest difference among them."""

    variants: tuple[str, ...]
    cells: tuple[Cell, ...]
    all_right: bool


@dataclass(frozen=True)
class Values:
    """Arrays (name, and what is expected in words), and a row for each group of variants."""

    arrays: tuple[tuple[str, str], ...]
    rows: tuple[ValueRow, ...]


@dataclass(frozen=True)
class _Sides:
    """The arrays of one variant."""

    recomputed: Mapping[Subject, Value]
    plain: Mapping[Subject, Value]
    expected: Mapping[Subject, Value]


def values(results: ResultsOfCase, tolerance: Tolerance) -> Values:
    """Largest differences of arrays of recomputed runs from what is expected, or else from plain."""
    sides = {
        variant: _Sides(
            _values(result.observation.recomputed),
            _values(result.observation.plain),
            _values(result.expected) if result.expected else {},
        )
        for variant, result in results.items()
        if result.observation is not None and result.observation.recomputed.error is None
    }
    subjects = dict.fromkeys(s for side in sides.values() for s in side.expected)
    subjects |= dict.fromkeys(s for side in sides.values() for s in side.recomputed)
    arrays: list[tuple[str, str]] = []
    columns: list[list[Cell]] = []
    for subject in subjects:
        expected = [side.expected[subject] for side in sides.values() if subject in side.expected]
        # Variants share arrays; each is looked at once.
        words = list(dict.fromkeys(map(summary, {id(value): value for value in expected}.values())))
        various = "differs with the numbers drawn" if words else "what the plain run gives"
        arrays.append((subject[1], words[0] if len(words) == 1 else various))
        cells: dict[tuple[int, ...], Cell] = {}
        column = []
        for side in sides.values():
            observed = side.recomputed.get(subject, _MISSING)
            plain = side.plain.get(subject, _MISSING)
            against = side.expected.get(subject, _MISSING)
            key = id(observed), id(plain), id(against)
            if key not in cells:
                own = len(words) > 1
                cells[key] = _value_cell(subject, observed, plain, against, tolerance, own)
            column.append(cells[key])
        columns.append(column)
    rows = [tuple(column[n] for column in columns) for n in range(len(sides))]
    return Values(tuple(arrays), _grouped(tuple(sides), rows) if arrays else ())


def _grouped(variants: Sequence[str], rows: Sequence[tuple[Cell, ...]]) -> tuple[ValueRow, ...]:
    wrong: dict[tuple[tuple[str, bool], ...], list[int]] = {}
    right: list[int] = []
    for number, cells in enumerate(rows):
        if any(cell.wrong for cell in cells):
            wrong.setdefault(tuple((c.text, c.wrong) for c in cells), []).append(number)
        else:
            right.append(number)
    groups = [ValueRow(tuple(variants[n] for n in ns), rows[ns[0]], False) for ns in wrong.values()]
    if right:
        furthest = tuple(
            max(cells, key=_distance) for cells in zip(*(rows[n] for n in right), strict=True)
        )
        groups.append(ValueRow(tuple(variants[n] for n in right), furthest, True))
    return tuple(groups)


def _distance(cell: Cell) -> float:
    try:
        return float(cell.text)
    except ValueError:
        return -1.0


def _values(source: Run | Expected) -> dict[Subject, Value]:
    state = {("state", f"state {name}"): array for name, array in (source.state or {}).items()}
    return values_of(source) | state


def _value_cell(
    subject: Subject,
    observed: Value,
    plain: Value,
    expected: Value,
    tolerance: Tolerance,
    expected_is_own: bool,
) -> Cell:
    known = not isinstance(expected, Missing)
    against = expected if known else plain
    more = f"recomputed: {summary(observed)}\nplain: {summary(plain)}"
    if known and expected_is_own:
        more += f"\nexpected: {summary(expected)}"
    from_plain, apart = largest_difference(observed, plain), largest_difference(observed, against)
    if from_plain is not None:
        more += f"\nlargest difference from plain: {from_plain:.1e}"
    if apart is not None:
        text = "0" if apart == 0 else f"{apart:.1e}"
    elif not isinstance(observed, np.ndarray):
        text = summary(observed)
    else:
        text = "shape" if isinstance(against, np.ndarray) else "≠ None"
    if subject[0] == "gradient":
        observed = comparable_gradient(observed, plain, against)
    return Cell(text, more, not close(observed, against, tolerance))


# -- executions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountRow:
    """How often a region or an operation ran, in forward and again: what is expected (in words), and
    what each group of variants did."""

    name: str
    expected: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Counts:
    """Executions, with two columns for variants that did the same everywhere."""

    groups: tuple[tuple[str, ...], ...]
    rows: tuple[CountRow, ...]


_PHASES: tuple[Phase, ...] = ("forward", "rerun")


def executions(results: ResultsOfCase, *, statements: bool) -> Counts:
    """How often each region (or each statement) ran, in forward and again in backward."""
    ran = {v: r for v, r in results.items() if r.observation and not r.observation.recomputed.error}
    keys: dict[tuple[str, str], None] = {}
    for result in ran.values():
        counted = result.observation.recomputed.executions if result.observation else ()
        named = [(e.region, e.statement) for e in counted or ()]
        named = [
            (r, s) for r, s, _ in (result.expected.executions if result.expected else ())
        ] + named
        keys |= dict.fromkeys(k for k in named if bool(k[1]) == statements and any(k))
    groups: dict[tuple[tuple[str, bool], ...], list[str]] = {}
    cells = {
        v: [tuple(_count_cell(r, *key, phase) for phase in _PHASES) for key in keys]
        for v, r in ran.items()
    }
    for variant, column in cells.items():
        alike = tuple((cell.text, cell.wrong) for pair in column for cell in pair)
        groups.setdefault(alike, []).append(variant)
    rows = []
    for number, (region, statement) in enumerate(keys):
        name = f"{region or 'outside'} · {statement}" if statement else region
        expected = tuple(_expected(ran.values(), region, statement, phase) for phase in _PHASES)
        pairs = tuple(cells[variants[0]][number] for variants in groups.values())
        rows.append(CountRow(name, expected, pairs))
    return Counts(tuple(map(tuple, groups.values())) if rows else (), tuple(rows))


def _expected(results: Iterable[Result], region: str, statement: str, phase: Phase) -> str:
    key = (region, statement, phase)
    listed = [r.expected.executions.get(key) for r in results if r.expected]
    words = {str(allowed) for allowed in listed if allowed}
    return "by discipline" if len(words) > 1 else "".join(words)


def _count_cell(result: Result, region: str, statement: str, phase: Phase) -> Cell:
    key = (region, statement, phase)
    run = None if result.observation is None else result.observation.recomputed
    if run is None or run.executions is None:
        return NOT_SEEN
    count = sum(e.count for e in run.executions if (e.region, e.statement, e.phase) == key)
    if not statement:
        whole = region_count(run, region, phase)
        if whole is None:
            return NOT_SEEN
        count = whole
    allowed = result.expected.executions.get(key) if result.expected else None
    if allowed is None:
        return Cell(str(count), "nothing is expected")
    reason = f" ({allowed.reason})" if allowed.reason else ""
    return Cell(str(count), f"expected {allowed}{reason}", count not in allowed)


# -- memory ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryRow:
    """Retained bytes, plain and recomputed, and what of them is freed in activations (`unit` bytes
    each); `expected` is what should be freed, in words."""

    plain: int
    recomputed: int
    unit: int = 0
    units: float | None = None
    expected: str = ""
    wrong: bool = False


def memory(results: ResultsOfCase) -> tuple[tuple[tuple[str, ...], MemoryRow], ...]:
    """Bytes held between forward and backward, with the variants that have the same."""
    groups: dict[MemoryRow, list[str]] = {}
    for variant, result in results.items():
        row = _memory_row(result)
        if row is not None:
            groups.setdefault(row, []).append(variant)
    return tuple((tuple(variants), row) for row, variants in groups.items())


def _memory_row(result: Result) -> MemoryRow | None:
    if result.observation is None:
        return None
    plain, recomputed = (
        run.retained for run in (result.observation.plain, result.observation.recomputed)
    )
    if plain is None or recomputed is None:
        return None
    drop = drop_of(result)
    if drop is None or result.expected is None or result.expected.memory is None:
        return MemoryRow(plain, recomputed)
    unit = result.expected.memory.unit
    least, most = drop_range(result.expected.memory)
    words = f"{least / unit:.2f}" if least == most else f"{least / unit:.2f} to {most / unit:.2f}"
    wrong = any(v.check == "retained memory" and v.status.deviates for v in result.verdicts)
    return MemoryRow(plain, recomputed, unit, drop.units, words, wrong)
