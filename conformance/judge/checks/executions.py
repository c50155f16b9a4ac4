"""Each region, and each operation in it, ran as often as the reference says: in forward, and again.

The expected count is exact for the discipline that the variant declares; where the discipline leaves it
open, it is a set of counts with the reason. Recompute is `inert` where nothing ran again although
something in a region had to. Operations are judged where the observer can tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conformance.judge.checks.evidence import Check, Evidence, place_name
from conformance.model.facts import Count, Inert
from conformance.model.observation import Allowed, Phase, Run
from conformance.model.verdict import Status, Verdict

#: The region, the statement's label (empty for the region as a whole) and the phase of a count.
Key = tuple[str, str, Phase]


def counts(run: Run) -> dict[Key, int]:
    """Executions by region, statement and phase."""
    total: dict[Key, int] = {}
    for e in run.executions or ():
        key: Key = (e.region, e.statement, e.phase)
        total[key] = total.get(key, 0) + e.count
    return total


def _judge(evidence: Evidence) -> Verdict:
    if evidence.recomputed.executions is None:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed no executions")
    observed, control = counts(evidence.recomputed), counts(evidence.plain)
    plain_reruns = [key for key, count in control.items() if key[2] == "rerun" and count]
    if plain_reruns and not evidence.variant.model.says("cheap"):
        message = f"{place_name(*plain_reruns[0][:2])} ran again in the plain run"
        return CHECK.verdict(Status.BROKEN, message)
    wrong = tuple(
        Count(*key, observed.get(key, 0), allowed.counts, allowed.reason)
        for key, allowed in _distinguishable(evidence, [*observed, *control]).items()
        if observed.get(key, 0) not in allowed
    )
    if wrong:
        return _inert(evidence, observed, control) or _wrong_counts(wrong)
    table = ", ".join(
        f"{region} {phase} {n}"
        for (region, statement, phase), n in observed.items()
        if n and region and not statement
    )
    plain = ", ".join(place_name(*key[:2]) for key in plain_reruns if key[1])
    note = f"; again in the plain run, as the compiler chose: {plain}" if plain else ""
    message = f"as under {evidence.variant.model.discipline}: {table}{note}"
    return CHECK.verdict(Status.PASS, message)


def _inert(evidence: Evidence, observed: dict[Key, int], control: dict[Key, int]) -> Verdict | None:
    """The verdict if nothing ran again although something in a region had to; else `None`."""
    if any(n > control.get(k, 0) for k, n in observed.items() if k[2] == "rerun"):
        return None
    for (region, statement, phase), allowed in evidence.expected.executions.items():
        if region and phase == "rerun" and 0 not in allowed:
            name, fact = place_name(region, statement), Inert(region, statement, allowed.counts)
            message = f"inert: nothing ran again in backward, but {name} should have"
            return CHECK.verdict(Status.FAIL, message, f"rerun {allowed}", "rerun 0", facts=(fact,))
    return None


def _wrong_counts(wrong: tuple[Count, ...]) -> Verdict:
    def listed(numbers: Callable[[Count], object]) -> str:
        return "; ".join(
            f"{place_name(c.region, c.statement)} {c.phase} {numbers(c)}" for c in wrong[:8]
        )

    first = wrong[0]
    verb = "ran in forward" if first.phase == "forward" else "ran again"
    reason = f" ({first.reason})" if first.reason else ""
    more = f"; {len(wrong) - 1} more counts differ" if len(wrong) > 1 else ""
    return CHECK.verdict(
        Status.FAIL,
        f"{place_name(first.region, first.statement)} {verb} {first.observed} times, but should "
        f"{Allowed(first.allowed)} times{reason}{more}",
        listed(lambda count: Allowed(count.allowed)),
        listed(lambda count: count.observed),
        facts=wrong,
    )


def _distinguishable(evidence: Evidence, counted: Sequence[Key]) -> dict[Key, Allowed]:
    """The expectations that can be checked: of all regions, and of the statements that the observer
    counted in either run."""
    statements = {(region, statement) for region, statement, _ in counted if statement}
    return {
        key: allowed
        for key, allowed in evidence.expected.executions.items()
        if (key[0] and not key[1]) or (key[0], key[1]) in statements
    }


CHECK = Check(
    "executions",
    "each region, and each operation in it, ran as often in forward and again in backward as the "
    "reference says under the variant's discipline",
    _judge,
)
