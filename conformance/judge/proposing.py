"""Proposing when a deviation shows: features that the deviating cases share and the right ones lack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conformance.judge.known import Catalog

#: The longest conjunction of features, and the most alternatives.
_LONGEST, _ALTERNATIVES = 4, 3
#: How many conjunctions of each length are made longer.
_KEPT = 60
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class _Candidate:
    """Features together: of one region, and of the case; `regions` and `cases` have them."""

    region: tuple[str, ...]
    case: tuple[str, ...]
    regions: Mask
    cases: Mask

    @property
    def cost(self) -> float:
        """Plain features are better than those of a family (`op:sin`), and both than `not x`; of
        two that are alike, the one with the shorter name."""
        words = (*self.region, *self.case)
        return sum(
            1 + 1.5 * (":" in word) + 0.4 * word.startswith("not ") + 0.01 * len(word)
            for word in words
        )


def proposed(
    deviating: Collection[str], right: Collection[str], catalog: Catalog
) -> list[dict[str, list[str]]]:
    """Conditions, as they are written, one of which holds in each deviating case and none in a right
    one; empty if there are no such."""
    ids = [id_ for id_ in (*deviating, *right) if catalog.features(id_) is not None]
    wanted = np.array([id_ in deviating for id_ in ids], bool)
    if not wanted.any() or wanted.all():
        return []
    table = _Table(ids, catalog)
    conditions: list[dict[str, list[str]]] = []
    left = wanted.copy()
    while left.any() and len(conditions) < _ALTERNATIVES:
        best = table.best(left, ~wanted)
        if best is None:
            return []
        left &= ~best.cases
        words = {"region": list(best.region), "case": list(best.case)}
        conditions.append({key: value for key, value in words.items() if value})
    return [] if left.any() else conditions


class _Table:
    """Which region and which case has which feature."""

    def __init__(self, ids: Iterable[str], catalog: Catalog) -> None:
        found = [features for id_ in ids if (features := catalog.features(id_)) is not None]
        regions = [(n, r) for n, f in enumerate(found) for r in set(f.regions)]
        self.owner = np.array([n for n, _ in regions], int)
        self.size = len(found)
        self.literals = [
            *self._of("region", [r for _, r in regions]),
            *self._of("case", [f.case for f in found]),
        ]

    def _of(self, scope: str, sets: list[frozenset[str]]) -> Iterator[_Candidate]:
        everywhere = np.ones(len(self.owner), bool)
        for word in sorted(set().union(*sets)):
            mask = np.array([word in features for features in sets], bool)
            for name, has in ((word, mask), (f"not {word}", ~mask)):
                if not has.any() or has.all():
                    continue
                if scope == "region":
                    yield _Candidate((name,), (), has, self._project(has))
                else:
                    yield _Candidate((), (name,), everywhere, has)

    def _project(self, regions: Mask) -> Mask:
        cases = np.zeros(self.size, bool)
        cases[self.owner[regions]] = True
        return cases

    def best(self, wanted: Mask, forbidden: Mask) -> _Candidate | None:
        """The cheapest conjunction of features that holds in the most wanted cases and in no forbidden
        one."""
        useful = [c for c in self.literals if (c.cases & wanted).any()]
        frontier, found = useful, [c for c in useful if not (c.cases & forbidden).any()]
        for _ in range(_LONGEST - 1):
            if any((c.cases & wanted).sum() == wanted.sum() for c in found):
                break
            frontier = sorted(frontier, key=lambda c: self._rank(c, wanted, forbidden))[:_KEPT]
            longer = {
                (*made.region, "", *made.case): made
                for one in frontier
                for other in useful
                if (made := self._both(one, other)) is not None and (made.cases & wanted).any()
            }
            frontier = list(longer.values())
            found += [c for c in frontier if not (c.cases & forbidden).any()]
        return max(found, key=lambda c: (int((c.cases & wanted).sum()), -c.cost), default=None)

    def _rank(self, one: _Candidate, wanted: Mask, forbidden: Mask) -> tuple[float, float]:
        right, wrong = int((one.cases & wanted).sum()), int((one.cases & forbidden).sum())
        return (wrong / max(1, int(forbidden.sum())) - right / int(wanted.sum()), one.cost)

    def _both(self, one: _Candidate, other: _Candidate) -> _Candidate | None:
        words = (*one.region, *one.case)
        (word,) = (*other.region, *other.case)
        if any(word.removeprefix("not ") == w.removeprefix("not ") for w in words):
            return None
        regions = one.regions & other.regions
        region = tuple(sorted((*one.region, *other.region)))
        case = tuple(sorted((*one.case, *other.case)))
        cases = one.cases & (self._project(regions) if other.region else other.cases)
        return _Candidate(region, case, regions, cases)
