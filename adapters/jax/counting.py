"""Counts how often statements ran in forward and in reruns, from the values that a walk has numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.language.operations import RANDOM
from conformance.model.program import Site

from .jaxprs import Event, Signature


@dataclass(frozen=True)
class Counts:
    """Executions of each statement in forward and in reruns, and what random statements drew.

    `entered` is how often each region ran in forward, and `again` in reruns of rules: as often as its
    line that ran most. `drawn` has (statement, whether in a rerun, number of the drawn value).
    """

    forward: Counter[Site]
    rerun: Counter[Site]
    entered: Counter[str]
    again: Counter[str]
    drawn: tuple[tuple[Site, bool, int], ...]


def count(
    events: Sequence[Event],
    known: Mapping[Site, Signature],
    *,
    higher: bool = False,
    alone: Sequence[Event] = (),
) -> Counts:
    """Executions of statements: how often a result of theirs is computed.

    A statement was rerun where one of its results, or its mask, is computed in a rerun. Equations for
    gradients of the same line have other forms. The gradient of a recomputed statement may compute its
    value too, so a value counts once per recomputed function. With gradients of a `higher` order it
    also counts once per forward evaluation: the second derivative of a sine contains that sine. Calls
    of one function that JAX has traced once look like one evaluation, so it counts as often as it is
    computed `alone`, in the forward pass without gradients. No derivative draws, so what is drawn counts
    each time. The derivative of a product is a product of other values, and that of a dropout is one. In
    higher orders, reruns have both, and only the values that the statement has `alone` count, unless
    forward has others; of what is drawn, those of forward, unless the rerun has none of them.
    """
    #: How often each value of a statement is computed without gradients.
    often = Counter((event.place.site, value.number) for event in alone for value in event.results)
    #: By value: how often it is computed, and in which places.
    computed: Counter[tuple[Site, int, int, int]] = Counter()
    places: Counter[tuple[Site, int, int, int]] = Counter()
    forward: Counter[tuple[Site, int]] = Counter()
    #: Reruns of values that a statement has `alone`, and of others.
    again: Counter[tuple[Site, int]] = Counter()
    others: Counter[tuple[Site, int]] = Counter()
    repeated: set[Site] = set()
    lines: Counter[tuple[Site, int, int]] = Counter()
    lines_again: Counter[tuple[Site, int, int]] = Counter()
    seen: set[tuple[Site, object, int]] = set()
    drawn: list[tuple[Site, bool, int]] = []
    for event in events:
        site = event.place.site
        signature = known.get(site)
        if signature is None or (event.transposed and not event.rerun):
            continue
        for value in event.results:
            if event.rerun < 0 and higher and (site, value.number) not in often:
                continue
            wanted = signature.results | (signature.masks if event.rerun else frozenset())
            if value.form not in wanted:
                continue
            key = (site, event.rerun or event.place, value.number)
            once = (event.rerun or higher) and site.op not in RANDOM
            new = not once or key not in seen
            seen.add(key)
            same = (site, value.number) in often
            if not event.rerun:
                repeated |= {site} if same else set()
                one = (site, event.place.lines[-1], value.form, value.number)
                computed[one] += 1
                places[one] += new
            elif new:
                (again if same or not higher else others)[site, value.form] += 1
                lines_again[site, event.place.lines[-1], value.form] += event.rerun < 0
            if new and site.op in RANDOM and value.form in signature.results:
                drawn.append((site, bool(event.rerun), value.number))
    for (site, line, form, own), times in computed.items():
        times = max(places[site, line, form, own], min(times, often[site, own]))
        forward[site, form] += times
        lines[site, line, form] += times
    again.update({key: n for key, n in others.items() if key[0] not in repeated})
    if higher:
        first = {(site, number) for site, rerun, number in drawn if not rerun}
        found = {site for site, rerun, number in drawn if rerun and (site, number) in first}
        drawn = [d for d in drawn if not d[1] or d[0] not in found or (d[0], d[2]) in first]
    entered, entered_again = _entered(lines), _entered(lines_again)
    return Counts(_most(forward), _most(again), entered, entered_again, tuple(drawn))


def _entered(lines: Mapping[tuple[Site, int, int], int]) -> Counter[str]:
    """By region: how often its line that ran most did."""
    entered: Counter[str] = Counter()
    for (site, _, _), number in lines.items():
        entered[site.region] = max(entered[site.region], number)
    return +entered


def _most(counts: Mapping[tuple[Site, int], int]) -> Counter[Site]:
    """By statement: how often its most frequent result was computed."""
    most_frequent: Counter[Site] = Counter()
    for (site, _), number in counts.items():
        most_frequent[site] = max(most_frequent[site], number)
    return most_frequent
