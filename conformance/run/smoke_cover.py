"""Choosing a smoke selection: what each pair of case and variant shows, and the cheapest that show all.

A selection meets three kinds of requirements (`Requirement`): it shows every reason of the adapter's
list of known deviations, every faulty implementation that is on record for it (`caught.yaml`), and a
gradient that passes on every variant.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import yaml
from pydantic import RootModel

from conformance.drivers.adapter import Adapter, Variant, read_model
from conformance.errors import SmokeError
from conformance.judge.known import Entry
from conformance.judge.triage import Triage
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.model.verdict import Status
from conformance.results import Result, Results, cases_hash, recorded
from conformance.results.triage import triaged
from conformance.run.runner import ERROR, checks_of, lacking
from conformance.run.shards import UNSUPPORTED, Pair
from conformance.writing import write_text

#: The faults that are on record, beside `adapter.yaml`: fault -> case -> the checks that catch it.
CAUGHT = "caught.yaml"
#: The check that something has to pass on every variant.
GRADIENT = "gradient"
#: Seconds that a pair takes beside its observation: a program is written, and it is judged.
OVERHEAD = 0.1
#: Seconds of a pair in which the process dies: a new one has to import the framework.
CRASHED = 20.0
P = TypeVar("P", bound=Hashable)
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Requirement:
    """What a selection has to show: a reason (as the list of known deviations words it), a fault (by its
    name), or a passing gradient on a variant (by its full id)."""

    kind: Literal["reason", "fault", "variant"]
    name: str

    def __str__(self) -> str:
        words = {"reason": "the reason", "fault": "the fault", "variant": "a right gradient on"}
        return f"{words[self.kind]} {self.name!r}"


Caught = Mapping[str, Mapping[str, Sequence[str]]]
Shown = Mapping[Pair, frozenset[Requirement]]


class _CaughtModel(RootModel[dict[str, dict[str, list[str]]]]):
    pass


def read_caught(adapter: Adapter) -> Caught:
    """Which checks of which cases catch each faulty implementation; empty where none is on record.

    Raises `SmokeError` for a file that is malformed.
    """
    file = adapter.folder / CAUGHT
    return read_model(file, _CaughtModel, SmokeError).root if file.is_file() else {}


def write_caught(adapter: Adapter, caught: Caught, header: str) -> Path:
    """Put what caught each fault on record; `header` are lines of comment."""
    listed = {
        fault: {case: list(checks) for case, checks in sorted(cases.items())}
        for fault, cases in sorted(caught.items())
    }
    file = adapter.folder / CAUGHT
    dumped = yaml.safe_dump(listed, sort_keys=False, default_flow_style=None, width=1000)
    write_text(file, header + dumped)
    return file


def requirements_of(
    adapter: Adapter, entries: Iterable[Entry], caught: Caught
) -> frozenset[Requirement]:
    """Everything that a selection of an adapter has to show."""
    return frozenset(
        {Requirement("variant", variant.id) for variant in adapter.variants}
        | {Requirement("reason", entry.reason) for entry in entries}
        | {Requirement("fault", fault) for fault in caught}
    )


def shown_by(result: Result, entries: Sequence[Entry], caught: Caught) -> frozenset[Requirement]:
    """What a pair was seen to show. Nothing where the suite or the adapter is at fault, or where a
    verdict is unexpected."""
    verdicts = triaged(entries, result)
    if any(verdict.triage is Triage.UNEXPECTED for verdict in verdicts):
        return frozenset()
    reasons = {verdict.reason for verdict in verdicts if verdict.triage is Triage.KNOWN}
    passes = {v.status for v in result.verdicts if v.check == GRADIENT} == {Status.PASS}
    return _requirements(result.case, result.variant, reasons, passes, _ran(result), caught)


def promised_by(
    case: Case, variant: Variant, entries: Sequence[Entry], caught: Caught
) -> frozenset[Requirement]:
    """What a pair shows as far as that can be told without running it: a known deviation is strict,
    so that what an entry speaks of has been seen, if the variant can express the case at all."""
    if lacking(case, variant) is not None:
        return frozenset()
    covering = [
        entry
        for check in checks_of(case)
        for entry in entries
        if entry.covers(case.id, variant.id, check)
    ]
    ran = bool(covering or not required_by(case) & set(variant.model.refuses))
    deviating = {entry.check for entry in covering}
    passes = ran and GRADIENT in checks_of(case) and not deviating & {ERROR, GRADIENT}
    reasons = {entry.reason for entry in covering}
    return _requirements(case.id, variant.id, reasons, passes, ran, caught)


def _ran(result: Result) -> bool:
    return all(verdict.status is not Status.UNSUPPORTED for verdict in result.verdicts)


def _requirements(
    case: str, variant: str, reasons: Iterable[str], passes: bool, ran: bool, caught: Caught
) -> frozenset[Requirement]:
    faults = [fault for fault, cases in caught.items() if ran and case in cases]
    requirements = {Requirement("reason", reason) for reason in reasons}
    requirements |= {Requirement("variant", variant)} if passes else set()
    requirements |= {Requirement("fault", fault) for fault in faults}
    return frozenset(requirements)


def seconds_of(adapter: Adapter, run: Results | None = None) -> dict[Pair, float]:
    """What each pair took to observe: what is recorded, so that the next run makes no other choice,
    and what a run says of pairs that nothing is recorded of."""
    new = (
        recorded.from_results(run.results, adapter.model.time_limit) if run else recorded.Recorded()
    )
    return {
        (case, f"{adapter.name}/{variant}"): seconds
        for source in (new, recorded.read(adapter.folder))
        for variant, cases in source.variants.items()
        for case, seconds in cases.items()
    }


def with_unsupported(shown: Shown, caught: Caught) -> Shown:
    """The same, with faults that no other pair catches assigned to pairs whose variant does not
    support the case: a faulty implementation may accept what the framework refuses.
    """
    seen = frozenset[Requirement]().union(*shown.values())
    uncaught = {
        fault: cases for fault, cases in caught.items() if Requirement("fault", fault) not in seen
    }
    return {
        pair: requirements
        | {Requirement("fault", fault) for fault, cases in uncaught.items() if pair[0] in cases}
        for pair, requirements in shown.items()
    }


def choose(
    adapter: Adapter,
    run: Results,
    cases: Sequence[Case],
    entries: Sequence[Entry],
    caught: Caught,
    seconds: Mapping[Pair, float],
) -> tuple[Pair, ...]:
    """The cheapest pairs that show all that is wanted, by variant and case as those are listed.

    `run` is a whole run of the adapter; `seconds` are what pairs took (`CRASHED` where the process
    died). Raises `SmokeError` where `run` is not of these cases and variants, or does not show
    everything.
    """
    command = f"conformance run --adapter {adapter.folder}"
    variants = tuple(variant.id for variant in adapter.variants)
    header = run.header
    if header.selection or header.interrupted or header.variants != variants:
        part = header.selection or header.interrupted or ", ".join(header.variants)
        raise SmokeError(f"not a whole run: only {part}", where=run.path, hint=command)
    if run.header.cases != cases_hash(cases):
        raise SmokeError("a run of other cases than there are now", where=run.path, hint=command)
    by_pair = {(r.case, r.variant): r for r in run.results}
    by_case = {case.id: case for case in cases}
    by_variant = {variant.id: variant for variant in adapter.variants}
    # What a variant is said to refuse may pass here and there; a selection does not rest on that.
    by_pairs = {
        pair: shown_by(result, entries, caught)
        & promised_by(by_case[pair[0]], by_variant[pair[1]], entries, caught)
        for pair, result in by_pair.items()
    }
    shown = with_unsupported(by_pairs, caught)
    missing = requirements_of(adapter, entries, caught) - frozenset().union(*shown.values())
    if missing:
        names = "; ".join(sorted(map(str, missing)))
        raise SmokeError(f"no result shows {names}", where=run.path, hint=command)
    order = {
        (case.id, variant): (v, c)
        for v, variant in enumerate(variants)
        for c, case in enumerate(cases)
    }
    listed = {pair: shown[pair] for pair in sorted(shown, key=lambda pair: order[pair])}
    costs = {
        pair: OVERHEAD + seconds.get(pair, CRASHED if _ran(by_pair[pair]) else UNSUPPORTED)
        for pair in listed
    }
    return tuple(sorted(cover(listed, costs), key=lambda pair: order[pair]))


def cover(shown: Mapping[P, AbstractSet[T]], costs: Mapping[P, float]) -> tuple[P, ...]:
    """Keys that together show all that any does, found greedily: the least cost for each new thing
    first (the first of several that cost the same), and in the end without those, the dearest first,
    whose requirements all others show too."""
    left = {thing for requirements in shown.values() for thing in requirements}
    chosen: list[P] = []
    while left:
        helpful = [key for key in shown if shown[key] & left]
        best = min(helpful, key=lambda key: costs[key] / len(shown[key] & left))
        chosen.append(best)
        left -= shown[best]
    for key in sorted(chosen, key=lambda key: -costs[key]):
        if not shown_alone({other: shown[other] for other in chosen})[key]:
            chosen.remove(key)
    return tuple(chosen)


def shown_alone(shown: Mapping[P, AbstractSet[T]]) -> dict[P, frozenset[T]]:
    """For each key, what only it shows; a key that shows nothing unique can be left out."""
    return {
        key: frozenset(requirements).difference(*(shown[other] for other in shown if other != key))
        for key, requirements in shown.items()
    }
