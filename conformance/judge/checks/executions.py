"""Each region, and each operation in it, ran as often as the reference says: in forward, and again.

The expectation is exact for the discipline that the variant declares, and a set of counts, with the
reason, where that leaves it open. A region that is never run again although something in it had to be
is `inert`: recompute did nothing. Operations are judged where the observer can tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.case import Case
from conformance.model.observation import Allowed, Phase, Run
from conformance.model.verdict import Level, Status, Verdict

Key = tuple[str, str, Phase]


def _applies(case: Case) -> bool:
    return True


def counts(run: Run) -> dict[Key, int]:
    """Executions by region, statement and phase."""
    found: dict[Key, int] = {}
    for e in run.executions or ():
        key: Key = (e.region, e.statement, e.phase)
        found[key] = found.get(key, 0) + e.count
    return found


def _name(key: Key) -> str:
    region, statement, _ = key
    return f"{statement} in region {region}" if statement and region else (statement or region)


def _judge(evidence: Evidence) -> Verdict:
    if evidence.recomputed.executions is None:
        return CHECK.verdict(Status.UNSUPPORTED, "the adapter observed no executions")
    seen, control = counts(evidence.recomputed), counts(evidence.plain)
    unasked = [key for key, count in control.items() if key[2] == "rerun" and count]
    if unasked and not evidence.variant.model.says("cheap"):
        return CHECK.verdict(Status.BROKEN, f"{_name(unasked[0])} ran again in the plain run")
    wrong: list[tuple[Key, int, Allowed]] = []
    for key, allowed in _told_apart(evidence, [*seen, *control]).items():
        count = seen.get(key, 0)
        if count not in allowed:
            wrong.append((key, count, allowed))
    table = ", ".join(f"{_name(k)} {k[2]} {n}" for k, n in seen.items() if n and k[0] and not k[1])
    if not wrong:
        plain = ", ".join(_name(k) for k in unasked if k[1])
        told = f"; again in the plain run, as the compiler chose: {plain}" if plain else ""
        return CHECK.verdict(
            Status.PASS, f"as under {evidence.variant.model.discipline}: {table}{told}"
        )
    region = {k: a for k, a in evidence.expected.executions.items() if k[0] and k[2] == "rerun"}
    rerun = any(n > control.get(k, 0) for k, n in seen.items() if k[2] == "rerun")
    if not rerun and any(0 not in a for a in region.values()):
        first = next(k for k, a in region.items() if 0 not in a)
        return CHECK.verdict(
            Status.FAIL,
            f"inert: nothing ran again in backward, but {_name(first)} should have",
            f"rerun {region[first]}",
            "rerun 0",
        )
    key, count, allowed = wrong[0]
    verb = "ran in forward" if key[2] == "forward" else "ran again"
    reason = f" ({allowed.reason})" if allowed.reason else ""
    more = f"; {len(wrong) - 1} more counts differ" if len(wrong) > 1 else ""
    return CHECK.verdict(
        Status.FAIL,
        f"{_name(key)} {verb} {count} times, but should {allowed} times{reason}{more}",
        "; ".join(f"{_name(k)} {k[2]} {a}" for k, _, a in wrong[:8]),
        "; ".join(f"{_name(k)} {k[2]} {n}" for k, n, _ in wrong[:8]),
    )


def _told_apart(evidence: Evidence, seen: Sequence[Key]) -> dict[Key, Allowed]:
    """The expectations that the observer could see: all regions, and the statements it knows.

    It knows those that it saw in either run.
    """
    known = {(region, statement) for region, statement, _ in seen if statement}
    return {
        key: allowed
        for key, allowed in evidence.expected.executions.items()
        if (key[0] and not key[1]) or (key[0], key[1]) in known
    }


CHECK = Check(
    "executions",
    "each region, and each operation in it, ran as often in forward and again in backward as the "
    "reference says under the variant's discipline",
    Level.MUST,
    _applies,
    _judge,
)
