"""Grouping variants that agree: the code shared by arrays, counts and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from conformance.compare.model import (
    EXPECTATION,
    CrossStatus,
    CrossVerdict,
    Disagreement,
    Group,
)
from conformance.model.result import Result
from conformance.model.verdict import Status

T = TypeVar("T")
#: Verdicts of a variant's own that explain a disagreement, per check.
EXPLAINS: Mapping[str, frozenset[str]] = {
    "value": frozenset({"value", "gradient", "structure", "randomness"}),
    "gradient": frozenset({"value", "gradient", "structure", "randomness"}),
    "executions": frozenset({"executions"}),
    "retained memory": frozenset({"retained memory"}),
}


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
    return tuple(tuple(group) for group in groups)


def judged(result: Result, check: str) -> str:
    """The failure of the variant's own checks that explains a disagreement, or ""."""
    for verdict in result.verdicts:
        if verdict.status.deviates and verdict.check in EXPLAINS[check]:
            if verdict.known is not None:
                return f"known: {verdict.known.reason}"
            return f"{verdict.status}: {verdict.message}"
    return ""


def majority(
    groups: Iterable[tuple[str, ...]], results: Mapping[str, Result], check: str
) -> tuple[str, ...]:
    """The group that the others are compared with.

    It is the one that contains the expectation; else the one with most members whose own checks
    passed; else the largest, and of equal ones the first.
    """

    def weight(group: tuple[str, ...]) -> tuple[bool, int, int]:
        clean = sum(
            1 for member in group if member in results and not judged(results[member], check)
        )
        return EXPECTATION in group, clean, len(group)

    return max(groups, key=weight)


def cross_verdict(
    case: str,
    check: str,
    subject: str,
    groups: tuple[Group, ...],
    main: Group,
    wrong: Iterable[Group],
    results: Mapping[str, Result],
    absent: Mapping[str, str],
    difference: Callable[[Group], str],
) -> CrossVerdict:
    """The verdict where the `wrong` ones among the groups are held against the main one.

    `difference` says in words how a wrong group differs.
    """
    disagreements: list[Disagreement] = []
    for group in wrong:
        failures = {v: judged(results[v], check) for v in group.variants}
        against = main.variants or (EXPECTATION,)
        disagreements.append(
            Disagreement(
                group.variants,
                against,
                f"{listed(group.variants)} {verb(group.variants)} with {listed(against)} on "
                f"{subject}: {difference(group)}",
                {variant: words for variant, words in failures.items() if words},
                tuple(variant for variant, words in failures.items() if not words),
            )
        )
    if not disagreements:
        status = CrossStatus.AGREE
        message = f"{sum(len(g.variants) for g in groups)} variants agree on {subject}"
    else:
        new = any(disagreement.new for disagreement in disagreements)
        status = CrossStatus.DISAGREE if new else CrossStatus.JUDGED
        message = "; ".join(disagreement.message for disagreement in disagreements)
    return CrossVerdict(case, check, subject, status, message, groups, tuple(disagreements), absent)


def listed(names: tuple[str, ...]) -> str:
    """A list of names in words: `a, b and c`; the expectation gets an article."""
    words = [f"the {name}" if name == EXPECTATION else name for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def verb(names: tuple[str, ...]) -> str:
    """The verb that goes with a list of names."""
    return "disagrees" if len(names) == 1 else "disagree"


def absence(result: Result, check: str) -> str:
    """Why a result has no value to compare for a check, or "" if it has one."""
    observation = result.observation
    if observation is None:
        telling = [v for v in result.verdicts if v.status is not Status.PASS]
        return f"{telling[0].status}: {telling[0].message}" if telling else "nothing was observed"
    if observation.recomputed.error is not None:
        return f"raised {observation.recomputed.error.type}"
    if observation.plain.error is not None:
        return f"the plain run raised {observation.plain.error.type}"
    return observation.unobserved.get(check, "")
