"""Grouping variants that agree: the code shared by arrays, counts and bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from conformance.compare.beside import side_of
from conformance.compare.model import (
    EXPECTATION,
    Agreement,
    CrossVerdict,
    Disagreement,
    Group,
)
from conformance.judge.outcomes import of_verdict
from conformance.model.result import Result

T = TypeVar("T")
_NUMBERS = frozenset({"value", "gradient", "structure", "randomness"})
#: Checks of a variant's own whose failure explains a disagreement, by the check compared.
_EXPLAINS = {"value": _NUMBERS, "gradient": _NUMBERS}


@dataclass(frozen=True)
class Compared:
    """Variants that are compared on what one check is about: those that have something to compare,
    with their results, and why others have not."""

    case: str
    check: str
    present: Mapping[str, Result]
    absent: Mapping[str, str]

    @classmethod
    def of(
        cls, case: str, check: str, results: Mapping[str, Result], why: Callable[[Result], str]
    ) -> Self:
        """All variants of a case; `why` says why a result has nothing to compare, or is empty."""
        absent = {v: words for v, r in results.items() if (words := why(r))}
        return cls(case, check, {v: r for v, r in results.items() if v not in absent}, absent)

    def among(self, variants: Collection[str]) -> Self:
        """The same with some of the variants that are present."""
        return replace(self, present={v: r for v, r in self.present.items() if v in variants})

    def judged(self, variant: str) -> str:
        """The outcome of a variant's own checks that explains a disagreement, with its reason; empty
        where they show none."""
        result = self.present[variant]
        for verdict in result.verdicts:
            if verdict.status.deviates and verdict.check in _EXPLAINS.get(self.check, {self.check}):
                words = verdict.message if verdict.known is None else verdict.known.reason
                return f"{of_verdict(verdict, result)}: {words}"
        return ""

    def majority(self, groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        """The group that the others are compared with.

        It is the one that contains the expectation; else the one with most members whose own checks
        passed; else the largest, and of equal ones the first.
        """

        def weight(group: tuple[str, ...]) -> tuple[bool, int, int]:
            clean = sum(1 for member in group if member in self.present and not self.judged(member))
            return EXPECTATION in group, clean, len(group)

        return max(groups, key=weight)

    def verdict(
        self,
        subject: str,
        groups: tuple[Group, ...],
        main: Group,
        wrong: Iterable[Group],
        difference: Callable[[Group], str],
    ) -> CrossVerdict:
        """The verdict where the `wrong` ones among the groups are held against the main one.

        `difference` says in words how a wrong group differs.
        """
        disagreements: list[Disagreement] = []
        for group in wrong:
            failures = {v: self.judged(v) for v in group.variants}
            against = main.variants or (EXPECTATION,)
            verb = "disagrees" if len(group.variants) == 1 else "disagree"
            disagreements.append(
                Disagreement(
                    group.variants,
                    against,
                    f"{_listed(group.variants)} {verb} with {_listed(against)} on {subject}: "
                    f"{difference(group)}",
                    {variant: words for variant, words in failures.items() if words},
                    tuple(variant for variant, words in failures.items() if not words),
                )
            )
        status = Agreement.DISAGREE if disagreements else Agreement.AGREE
        message = "; ".join(disagreement.message for disagreement in disagreements)
        if not disagreements:
            message = f"{sum(len(g.variants) for g in groups)} variants agree on {subject}"
        told = self.told(subject, status, message, groups)
        return replace(told, disagreements=tuple(disagreements))

    def told(
        self, subject: str, status: Agreement, message: str, groups: tuple[Group, ...] = ()
    ) -> CrossVerdict:
        """A verdict without disagreements."""
        return CrossVerdict(
            self.case, self.check, subject, status, message, groups, absent=self.absent
        )


def partition(
    values: Mapping[str, T], agree: Callable[[T, T], bool]
) -> tuple[tuple[str, ...], ...]:
    """Groups in which everybody agrees with everybody; each joins the first one that it can."""
    groups: list[list[str]] = []
    for name, value in values.items():
        for group in groups:
            if all(agree(value, values[member]) for member in group):
                group.append(name)
                break
        else:
            groups.append([name])
    return tuple(map(tuple, groups))


def absence(result: Result, check: str) -> str:
    """Why a result has no value to compare for a check; empty if it has one."""
    observation = result.observation
    if observation is None:
        return side_of(result).text
    if observation.recomputed.error is not None:
        return f"raised {observation.recomputed.error.type}"
    if observation.plain.error is not None:
        return f"the plain run raised {observation.plain.error.type}"
    return observation.unobserved.get(check, "")


def _listed(names: tuple[str, ...]) -> str:
    """A list of names in words: `a, b and c`; the expectation gets an article."""
    words = [f"the {name}" if name == EXPECTATION else name for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
