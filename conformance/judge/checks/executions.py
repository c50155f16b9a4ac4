"""Each region, and each operation in it, ran as often as the reference says: in forward, and again.

The expected count is exact for the discipline that the variant declares; where the discipline leaves it
open, it is a set of counts with the reason. Recompute is `inert` where nothing ran again although
something in a region had to. Operations are judged where the observer can tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conformance.judge.checks.evidence import Check, Evidence, place_name
from conformance.model.case import Case
from conformance.model.facts import Count, Inert
from conformance.model.observation import Allowed, Phase, Run
from conformance.model.verdict import Level, Status, Verdict

#: The region, the statement's label (empty for the region as a whole) and the phase of a count.
Key = tuple[str, str, Phase]


def _applies(case: Case) -> bool:
    return True


def counts(run: Run) -> dict[Key, int]:
    """Executions by region, statement and phase."""
    total: dict[Key, int] = {}
    for e in run.executions or ():
        key: Key = (e.region, e.statement, e.phase)
        total[key] = total.get(key, 0) + e.count
    return total


def _name(key: Key) -> str:
    return place_name(key[0], key[1])


def _judge(evidence: Evidence) -> Verdict:
    if evidence.recomputed.executions is None:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed no executions")
    observed, control = counts(evidence.recomputed), counts(evidence.plain)
    plain_reruns = [key for key, count in control.items() if key[2] == "rerun" and count]
    if plain_reruns and not evidence.variant.model.says("cheap"):
        message = f"{_name(plain_reruns[0])} ran again in the plain run"
        return CHECK.verdict(Status.BROKEN, message)
    wrong = tuple(
        Count(*key, observed.get(key, 0), allowed.counts, allowed.reason)
        for key, allowed in _distinguishable(evidence, [*observed, *control]).items()
        if observed.get(key, 0) not in allowed
    )
    if wrong:
        inert = _inert(evidence, observed, control)
        return _inert_verdict(inert) if inert else _wrong_counts(wrong)
    table = ", ".join(
        f"{_name(k)} {k[2]} {n}" for k, n in observed.items() if n and k[0] and not k[1]
    )
    plain = ", ".join(_name(k) for k in plain_reruns if k[1])
    note = f"; again in the plain run, as the compiler chose: {plain}" if plain else ""
    message = f"as under {evidence.variant.model.discipline}: {table}{note}"
    return CHECK.verdict(Status.PASS, message)


def _inert(evidence: Evidence, observed: dict[Key, int], control: dict[Key, int]) -> Inert | None:
    """The first part of a region that should have run again, if nothing ran again; else `None`."""
    if any(n > control.get(k, 0) for k, n in observed.items() if k[2] == "rerun"):
        return None
    for (region, statement, phase), allowed in evidence.expected.executions.items():
        if region and phase == "rerun" and 0 not in allowed:
            return Inert(region, statement, allowed.counts)
    return None


def _inert_verdict(inert: Inert) -> Verdict:
    name = _name((inert.region, inert.statement, "rerun"))
    return CHECK.verdict(
        Status.FAIL,
        f"inert: nothing ran again in backward, but {name} should have",
        f"rerun {Allowed(inert.allowed)}",
        "rerun 0",
        facts=(inert,),
    )


def _wrong_counts(wrong: tuple[Count, ...]) -> Verdict:
    def listed(numbers: Callable[[Count], object]) -> str:
        return "; ".join(f"{_name(_key(c))} {c.phase} {numbers(c)}" for c in wrong[:8])

    first = wrong[0]
    verb = "ran in forward" if first.phase == "forward" else "ran again"
    reason = f" ({first.reason})" if first.reason else ""
    more = f"; {len(wrong) - 1} more counts differ" if len(wrong) > 1 else ""
    return CHECK.verdict(
        Status.FAIL,
        f"{_name(_key(first))} {verb} {first.observed} times, but should {Allowed(first.allowed)} "
        f"times{reason}{more}",
        listed(lambda count: Allowed(count.allowed)),
        listed(lambda count: count.observed),
        facts=wrong,
    )


def _key(count: Count) -> Key:
    return count.region, count.statement, count.phase


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
    Level.MUST,
    _applies,
    _judge,
)
