"""The program runs to its end; or it raises the promised error, lives on, and works afterwards.

Where the case says `error: {as: plain}`, recompute may refuse what the plain program refuses: if that
raises, the recomputed program may raise too, and if it runs, the reference alone says what it should
compute.

Also the place where a run that did not finish is judged: a crash, a time-out, an error that nobody
promised.
"""

from __future__ import annotations

from msgspec.structs import replace

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.case import Case
from conformance.model.facts import Raised
from conformance.model.verdict import Level, Status, Verdict


def _applies(case: Case) -> bool:
    return True


def _judge(evidence: Evidence) -> tuple[Verdict, ...]:
    first = _raised(evidence)
    promised, raised = evidence.case.error, evidence.recomputed.error
    if promised is None or raised is None or not promised.then:
        return (first,)
    if evidence.recomputed.good_run_after_error is True:
        message = f"{first.message}, and a good run worked afterwards"
        return (replace(first, message=message) if first.status is Status.PASS else first,)
    after = CHECK.verdict(Status.FAIL, "a good run after the error did not work")
    return (after,) if first.status is Status.PASS else (first, after)


def _raised(evidence: Evidence) -> Verdict:
    """What was raised, and whether it was promised."""
    promised, raised = evidence.case.error, evidence.recomputed.error
    if evidence.refused_plain:
        return CHECK.verdict(Status.PASS, _as_plain(evidence))
    if promised is None:
        if raised is None:
            return CHECK.verdict(Status.PASS, "ran to its end")
        return CHECK.verdict(
            Status.FAIL,
            f"raised {raised.type} in {raised.phase}, but should run to its end: {raised.message}",
            "no error",
            raised.type,
            facts=(Raised(raised.type, raised.phase),),
        )
    if raised is None:
        return CHECK.verdict(
            Status.FAIL,
            f"raised nothing, but should raise {promised.type}",
            promised.type,
            "no error",
            facts=(Raised("", promised=promised.type),),
        )
    if promised.type not in raised.bases:
        return CHECK.verdict(
            Status.FAIL,
            f"raised {raised.type}, but should raise {promised.type}: {raised.message}",
            promised.type,
            raised.type,
            facts=(Raised(raised.type, raised.phase, promised.type),),
        )
    return CHECK.verdict(Status.PASS, f"raised {raised.type} as promised")


def _as_plain(evidence: Evidence) -> str:
    """What became of a program that the framework refuses without recompute, too."""
    plain, raised = evidence.plain.error, evidence.recomputed.error
    assert plain is not None
    if raised is None:
        return f"ran to its end, where the plain program raised {plain.type}"
    return (
        f"raised {raised.type} in {raised.phase}, and the plain program raised {plain.type} in "
        f"{plain.phase}"
    )


CHECK = Check(
    "error",
    "the program runs to its end, or raises the promised category of error, stays alive, and a good "
    "run works afterwards",
    Level.MUST,
    _applies,
    _judge,
)
