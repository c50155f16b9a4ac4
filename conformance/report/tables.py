"""Tables of one case: what variants do, and expected and observed arrays, executions and bytes.

Variants that do the same share a row or a column.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from conformance.compare import drop_of, numeric, region_count
from conformance.compare.numeric import Missing, Subject, Value, largest_difference, summary
from conformance.judge.outcomes import Outcome, of_result, of_verdict, unoffered
from conformance.model.case import Tolerance
from conformance.model.observation import Allowed, Expected, Phase, Run
from conformance.model.result import Result
from conformance.model.verdict import KnownNote
from conformance.report.findings import is_unexpected

#: A variant's results on a case, by full id.
ResultsOfCase = Mapping[str, Result]
_T = TypeVar("_T")


def _together(keys: Iterable[tuple[str, _T]]) -> dict[_T, tuple[str, ...]]:
    """The variants by key, in the order given."""
    groups: dict[_T, tuple[str, ...]] = {}
    for variant, key in keys:
        groups[key] = (*groups.get(key, ()), variant)
    return groups


class Statement(NamedTuple):
    """What a verdict says, and the known deviation that explains it."""

    message: str
    known: KnownNote | None
    unexpected: bool


class OutcomeGroup(NamedTuple):
    """Variants with the same outcome on a case, whose verdicts say the same."""

    outcome: Outcome
    statements: tuple[Statement, ...]
    variants: tuple[str, ...]


def outcome_groups(results: ResultsOfCase) -> list[OutcomeGroup]:
    """The variants of a case grouped by outcome and what is said, the gravest outcome first."""
    told = ((v, (outcome := of_result(r), _statements(r, outcome))) for v, r in results.items())
    groups = [OutcomeGroup(*key, variants) for key, variants in _together(told).items()]
    return sorted(groups, key=lambda group: (group.outcome.rank, -len(group.variants)))


def _statements(result: Result, outcome: Outcome) -> tuple[Statement, ...]:
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


class Cell(NamedTuple):
    """A cell: its text, the text of its tooltip, and whether it deviates from the expectation."""

    text: str
    more: str = ""
    wrong: bool = False


_MISSING = Missing()


class ValueRow(NamedTuple):
    """Variants that are wrong in the same way, or (`all_right`) all that are right. Cells of the latter
    show the largest difference among them."""

    variants: tuple[str, ...]
    cells: tuple[Cell, ...]
    all_right: bool


class Values(NamedTuple):
    """Arrays (name, and what is expected in words), and a row for each group of variants."""

    arrays: tuple[tuple[str, str], ...]
    rows: tuple[ValueRow, ...]


def values(results: ResultsOfCase, tolerance: Tolerance) -> Values:
    """Largest differences of arrays of recomputed runs from what is expected, or else from plain."""
    # The arrays of each variant: recomputed, plain, expected.
    sides = {
        variant: tuple(map(_values, (seen.recomputed, seen.plain, result.expected)))
        for variant, result in results.items()
        if (seen := result.observation) is not None and seen.recomputed.error is None
    }
    expectations = [expected for *_, expected in sides.values()]
    arrays: list[tuple[str, str]] = []
    columns: list[list[Cell]] = []
    for subject in dict.fromkeys(chain(*expectations, *(side[0] for side in sides.values()))):
        # Variants share arrays; each is looked at once.
        shared = {id(of[subject]): of[subject] for of in expectations if subject in of}
        words = list(dict.fromkeys(map(summary, shared.values())))
        various = "differs with the numbers drawn" if words else "what the plain run gives"
        arrays.append((subject[1], words[0] if len(words) == 1 else various))
        cells: dict[tuple[int, ...], Cell] = {}
        columns.append([])
        for side in sides.values():
            recomputed, plain, expected = (of.get(subject, _MISSING) for of in side)
            key = id(recomputed), id(plain), id(expected)
            if key not in cells:
                own = len(words) > 1
                cells[key] = _value_cell(subject, recomputed, plain, expected, tolerance, own)
            columns[-1].append(cells[key])
    rows = dict(zip(sides, zip(*columns, strict=True), strict=True)) if arrays else {}
    return Values(tuple(arrays), tuple(_rows(rows)))


def _rows(rows: Mapping[str, tuple[Cell, ...]]) -> Iterable[ValueRow]:
    wrong = {v: cells for v, cells in rows.items() if any(cell.wrong for cell in cells)}
    alike = {v: tuple((cell.text, cell.wrong) for cell in cells) for v, cells in wrong.items()}
    for variants in _together(alike.items()).values():
        yield ValueRow(variants, rows[variants[0]], False)
    right = tuple(v for v in rows if v not in wrong)
    if right:
        columns = zip(*(rows[v] for v in right), strict=True)
        yield ValueRow(right, tuple(max(cells, key=_distance) for cells in columns), True)


def _distance(cell: Cell) -> float:
    try:
        return float(cell.text)
    except ValueError:
        return -1.0


def _values(source: Run | Expected | None) -> dict[Subject, Value]:
    if source is None:
        return {}
    state = {("state", f"state {name}"): array for name, array in (source.state or {}).items()}
    return numeric.values_of(source) | state


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
        observed = numeric.comparable_gradient(observed, plain, against)
    return Cell(text, more, not numeric.close(observed, against, tolerance))


class CountRow(NamedTuple):
    """How often a region or an operation ran, in forward and again: what is expected (in words), and
    what each group of variants did."""

    name: str
    expected: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]


class Counts(NamedTuple):
    """Executions, with two columns for variants that did the same everywhere."""

    groups: tuple[tuple[str, ...], ...]
    rows: tuple[CountRow, ...]


_PHASES: tuple[Phase, ...] = ("forward", "rerun")
#: Region, statement (empty for the region as a whole) and phase.
_Counted = tuple[str, str, Phase]


def executions(results: ResultsOfCase, *, statements: bool) -> Counts:
    """How often each region (or each statement) ran, in forward and again in backward."""
    ran = {
        variant: (seen.recomputed, result.expected.executions if result.expected else {})
        for variant, result in results.items()
        if (seen := result.observation) is not None and seen.recomputed.error is None
    }
    keys: dict[tuple[str, str], None] = {}
    for run, allowed in ran.values():
        found = [(region, statement) for region, statement, _ in allowed]
        found += [(e.region, e.statement) for e in run.executions or ()]
        keys |= dict.fromkeys(k for k in found if bool(k[1]) == statements and any(k))
    cells = {
        variant: [tuple(_count_cell(*of, (*key, phase)) for phase in _PHASES) for key in keys]
        for variant, of in ran.items()
    }
    alike = {v: tuple((c.text, c.wrong) for c in chain(*pairs)) for v, pairs in cells.items()}
    groups = tuple(_together(alike.items()).values()) if keys else ()
    expectations = [allowed for _, allowed in ran.values()]
    rows = []
    for number, (region, statement) in enumerate(keys):
        name = f"{region or 'outside'} · {statement}" if statement else region
        expected = tuple(_expected(expectations, (region, statement, phase)) for phase in _PHASES)
        pairs = tuple(cells[variants[0]][number] for variants in groups)
        rows.append(CountRow(name, expected, pairs))
    return Counts(groups, tuple(rows))


def _expected(expectations: Iterable[Mapping[_Counted, Allowed]], key: _Counted) -> str:
    words = {str(allowed[key]) for allowed in expectations if key in allowed}
    return "by discipline" if len(words) > 1 else "".join(words)


def _count_cell(run: Run, expected: Mapping[_Counted, Allowed], key: _Counted) -> Cell:
    region, statement, phase = key
    if run.executions is None:
        return Cell("–", "not observed")
    count = region_count(run, region, phase)
    if statement:
        found = (e for e in run.executions if (e.region, e.statement, e.phase) == key)
        count = sum(e.count for e in found)
    allowed = expected.get(key)
    if allowed is None:
        return Cell(str(count), "nothing is expected")
    reason = f" ({allowed.reason})" if allowed.reason else ""
    return Cell(str(count), f"expected {allowed}{reason}", count not in allowed)


class MemoryRow(NamedTuple):
    """Retained bytes, plain and recomputed, and what of them is freed in activations (`unit` bytes
    each); `expected` is what should be freed, in words."""

    plain: int
    recomputed: int
    unit: int = 0
    units: float | None = None
    expected: str = ""
    wrong: bool = False


def memory(results: ResultsOfCase) -> list[tuple[tuple[str, ...], MemoryRow]]:
    """Bytes held between forward and backward, with the variants that have the same."""
    rows = ((v, row) for v, result in results.items() if (row := _memory_row(result)) is not None)
    return [(variants, row) for row, variants in _together(rows).items()]


def _memory_row(result: Result) -> MemoryRow | None:
    seen, drop = result.observation, drop_of(result)
    if seen is None or seen.plain.retained is None or seen.recomputed.retained is None:
        return None
    both = seen.plain.retained, seen.recomputed.retained
    if drop is None or result.expected is None or result.expected.memory is None:
        return MemoryRow(*both)
    words = " to ".join(dict.fromkeys(f"{units:.2f}" for units in (drop.least, drop.most)))
    wrong = any(v.check == "retained memory" and v.status.deviates for v in result.verdicts)
    return MemoryRow(*both, result.expected.memory.unit, drop.units, words, wrong)
