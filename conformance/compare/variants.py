"""Variants of all adapters against each other: which of them agree, case by case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.compare.beside import belong_together
from conformance.compare.executions import compare_executions
from conformance.compare.memory import compare_memory
from conformance.compare.model import Comparison, CrossVerdict
from conformance.compare.numeric import compare_numbers
from conformance.errors import ComparisonError
from conformance.judge.arrays import against_others
from conformance.model.case import Case
from conformance.model.result import Result, Results
from conformance.store import cases_hash


def compare(results: Sequence[Results], cases: Sequence[Case]) -> Comparison:
    """Compare every case that ran in at least two variants, within the case's tolerance.

    Raises `ComparisonError` for no results at all, the same adapter twice, and results from other
    cases than those given.
    """
    _refuse(results, cases)
    disciplines = {v: d for run in results for v, d in run.header.disciplines.items()}
    accuracy = {v: a for run in results for v, a in run.header.accuracy.items()}
    by_case: dict[str, dict[str, Result]] = {}
    for run in results:
        for result in run.results:
            by_case.setdefault(result.case, {})[result.variant] = result
    known = {case.id: case for case in cases}
    verdicts: list[CrossVerdict] = []
    for id_, found in by_case.items():
        # Where implementations legitimately differ, each one's own results say how.
        if len(found) > 1 and id_ in known and not known[id_].differs:
            verdicts += _case(known[id_], found, disciplines, accuracy)
    return Comparison(tuple(v for run in results for v in run.header.variants), tuple(verdicts))


def _case(
    case: Case,
    results: Mapping[str, Result],
    disciplines: Mapping[str, str],
    accuracy: Mapping[str, Mapping[str, float]],
) -> Iterator[CrossVerdict]:
    # The least accurate of those compared decides how far apart they may lie.
    tolerances = [against_others(case, accuracy.get(variant, {})) for variant in results]
    tolerance = max(tolerances, key=lambda tolerance: tolerance.atol)
    yield from compare_numbers(case, results, tolerance)
    yield from compare_executions(case.id, results, disciplines)
    yield from compare_memory(case.id, results)


def _refuse(results: Sequence[Results], cases: Sequence[Case]) -> None:
    if not results:
        raise ComparisonError("no results to compare", hint="run an adapter first")
    belong_together([results])
    for run in results:
        missing = [v for v in run.header.variants if v not in run.header.disciplines]
        if missing:
            raise ComparisonError(f"no discipline for {missing[0]}", where=run.path)
    if cases_hash(cases) != results[0].header.cases:
        raise ComparisonError(
            "these are results of other cases than those given: the cases have changed since",
            where=results[0].path,
            hint="run the adapters again",
        )
