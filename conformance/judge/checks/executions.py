"""Each region, and each operation in it, runs as often as the reference says, in forward and backward.

The expected count is exact for the discipline that the variant declares. If the discipline allows
several counts, all of them are right, with the reason. Recompute is `inert` if nothing ran again
although something in a region had to. Operations are judged if the observer can tell them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from conformance.judge.checks.evidence import Check, Evidence, place_name
from conformance.model.facts import Count, Inert
from conformance.model.observation import Allowed, Phase, Run
from conformance.model.verdict import Status, Verdict

#: The region, the statement's label (empty for the region as a whole) and the phase of a count.
Key = tuple[str, str, Phase]


def counts(run: Run) -> Counter[Key]:
    """Executions by region, statement and phase."""
    total: Counter[Key] = Counter()
    for e in run.executions or ():
        total[e.region, e.statement, e.phase] += e.count
    return total


def _judge(evidence: Evidence) -> Verdict:
    if evidence.recomputed.executions is None:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed no executions")
    observed, control = counts(evidence.recomputed), counts(evidence.plain)
    plain_reruns = [key for key, count in control.items() if key[2] == "rerun" and count]
    if plain_reruns and not evidence.variant.model.says("cheap"):
        message = f"{place_name(*plain_reruns[0][:2])} ran again in the plain run"
        return CHECK.verdict(Status.BROKEN, message)
    # Statements are judged where the observer counted them in either run.
    counted = {(region, statement) for region, statement, _ in [*observed, *control] if statement}
    known = {(region, statement) for region, statement, _ in evidence.expected.executions}
    judged = counted | {(region, "") for region, _ in known if region}
    if evidence.variant.model.discipline == "minimal":
        # A region is counted by its statements: by those that are counted, where not all of them are.
        partly = {region for region, statement in known - counted if statement}
        judged -= {(region, "") for region in partly & {region for region, _ in counted}}
    wrong = tuple(
        Count(*key, observed[key], allowed.counts, allowed.reason)
        for key, allowed in evidence.expected.executions.items()
        if observed[key] not in allowed and key[:2] in judged
    )
    if wrong:
        return _inert(evidence, observed, control) or _wrong_counts(wrong)
    regions = (
        f"{r} {phase} {n}" for (r, label, phase), n in observed.items() if n and r and not label
    )
    plain = ", ".join(place_name(*key[:2]) for key in plain_reruns if key[1])
    note = f"; the compiler recomputes these in the plain run, too: {plain}" if plain else ""
    message = f"as expected under {evidence.variant.model.discipline}: {', '.join(regions)}{note}"
    return CHECK.verdict(Status.PASS, message)


def _inert(
    evidence: Evidence, observed: Mapping[Key, int], control: Mapping[Key, int]
) -> Verdict | None:
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
    of_phase = {c.phase: c for c in reversed(wrong)}
    first = [c for c in wrong if c is of_phase[c.phase]]  # the first one of each phase
    names = [f"{place_name(c.region, c.statement)} {c.phase}" for c in wrong[:8]]
    expected = "; ".join(f"{n} {Allowed(c.allowed)}" for n, c in zip(names, wrong, strict=False))
    observed = "; ".join(f"{n} {c.observed}" for n, c in zip(names, wrong, strict=False))
    named = "; ".join(map(_wrong_count, first))
    more = f"; {len(wrong) - len(first)} more counts differ" if len(wrong) > len(first) else ""
    return CHECK.verdict(Status.FAIL, named + more, expected, observed, facts=wrong)


def _wrong_count(count: Count) -> str:
    verb = "ran in forward" if count.phase == "forward" else "ran again"
    reason = f" ({count.reason})" if count.reason else ""
    place = place_name(count.region, count.statement)
    return f"{place} {verb} {count.observed} times, expected {Allowed(count.allowed)}{reason}"


CHECK = Check("executions", _judge, applies=lambda case: case.procedure.kind != "jvp")
