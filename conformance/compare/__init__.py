"""Comparing the results of several adapters: which variants agree, case by case.

Cases are matched by id, never by their position in a file. Results of different sets of cases are
refused with `ComparisonError`. Imports `results` and what that imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.compare.executions import compare_executions, region_count
from conformance.compare.memory import compare_memory, drop_of, drop_range
from conformance.compare.model import (
    EXPECTATION,
    Comparison,
    CrossStatus,
    CrossVerdict,
    Disagreement,
    Group,
)
from conformance.compare.numeric import RANDOM_NOTES, Randomness, compare_numbers
from conformance.errors import ComparisonError
from conformance.judge.tolerance import against_others
from conformance.language.build import TOLERANCES
from conformance.language.capabilities import required_by
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.results import Result, Results, cases_hash

__all__ = [
    "EXPECTATION",
    "RANDOM_NOTES",
    "Comparison",
    "CrossStatus",
    "CrossVerdict",
    "Disagreement",
    "Group",
    "compare",
    "drop_of",
    "drop_range",
    "region_count",
]


def compare(results: Sequence[Results], cases: Sequence[Case] | None) -> Comparison:
    """Compare every case that ran in at least two variants.

    With `cases`, tolerances are those of the cases; without, the default of float32, and values of
    cases whose observations hold random numbers are left alone. Raises `ComparisonError` for no
    results at all, the same adapter twice, and results from other cases.
    """
    _refuse(results, cases)
    known = {case.id: case for case in cases or ()}
    disciplines = {v: d for file in results for v, d in file.header.disciplines.items()}
    accuracy = {v: a for file in results for v, a in file.header.accuracy.items()}
    by_case: dict[str, dict[str, Result]] = {}
    for file in results:
        for result in file.results:
            by_case.setdefault(result.case, {})[result.variant] = result
    verdicts: list[CrossVerdict] = []
    for id_, results_of in by_case.items():
        case = known.get(id_)
        # Where implementations legitimately differ, each one's own results say how.
        if len(results_of) > 1 and not (case and case.differs):
            verdicts += _case(id_, results_of, case, disciplines, accuracy)
    variants = tuple(v for file in results for v in file.header.variants)
    return Comparison(variants, tuple(verdicts))


def _case(
    id_: str,
    results: Mapping[str, Result],
    case: Case | None,
    disciplines: Mapping[str, str],
    accuracy: Mapping[str, Mapping[str, float]],
) -> Iterator[CrossVerdict]:
    tolerance = TOLERANCES["float32"]
    if case:
        # The least accurate of those compared decides how far apart they may lie.
        tolerances = [against_others(case, accuracy.get(variant, {})) for variant in results]
        tolerance = max(tolerances, key=lambda tolerance: tolerance.atol)
    yield from compare_numbers(id_, results, tolerance, _randomness(case, results))
    yield from compare_executions(id_, results, disciplines)
    yield from compare_memory(id_, results)


def _randomness(case: Case | None, results: Mapping[str, Result]) -> Randomness:
    if case is None:
        return "unknown" if any(_holds_random(r) for r in results.values()) else "none"
    if not case.uses(RANDOM):
        return "none"
    return "not preserved" if "preserve-rng-off" in required_by(case) else "preserved"


def _holds_random(result: Result) -> bool:
    observation = result.observation
    return observation is not None and (
        observation.plain.samples is not None or bool(observation.plain.generators)
    )


def _refuse(results: Sequence[Results], cases: Sequence[Case] | None) -> None:
    if not results:
        raise ComparisonError("no results to compare", hint="run an adapter first")
    seen: dict[str, Results] = {}
    first = results[0]
    for file in results:
        name = file.header.adapter
        if name in seen:
            raise ComparisonError(
                f"{seen[name].path} and {file.path} are both results of adapter {name!r}",
                hint="keep one of them",
            )
        seen[name] = file
        if file.header.cases != first.header.cases:
            raise ComparisonError(
                f"{first.path} and {file.path} are results of different cases "
                f"({first.header.cases[:12]} and {file.header.cases[:12]})",
                hint="run both adapters again on the same cases",
            )
        missing = [v for v in file.header.variants if v not in file.header.disciplines]
        if missing:
            raise ComparisonError(f"no discipline for {missing[0]}", where=file.path)
    if cases is not None and cases_hash(cases) != first.header.cases:
        raise ComparisonError(
            "these are results of other cases than those given: the cases have changed since",
            where=first.path,
            hint="run the adapters again",
        )
