"""The program runs to its end; or it raises the promised error and works afterwards.

With `error: {as: plain}`, recompute may refuse what the plain program refuses. If the plain program
raises, the recomputed one may raise the same error. If the plain program runs, the reference says what
the recomputed one must compute. Two errors are the same if they have the same type, or if one names
the other's type in its message. An error that Python raises for a wrong program, such as `NameError`,
is no refusal: the program is `broken`.

A case that promises an error has a good run after it. The good run is also tried before the error. If
it fails there, too, the failure says nothing about the error. If it fails after the error of the plain
program, too, it says nothing about recompute.

A crash, a time-out and an error that the case does not promise are also judged here.
"""

from __future__ import annotations

from msgspec.structs import replace

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.facts import Raised
from conformance.model.verdict import Status, Verdict

#: The verdict where the error came as promised, and then what comes of a good run is wrong.
AFTER = "the next run, without the error, failed"
#: What Python raises where the program itself is wrong.
_WRONG_PROGRAM = frozenset({"NameError", "AttributeError", "ImportError", "SyntaxError"})


def _judge(evidence: Evidence) -> tuple[Verdict, ...]:
    first = _raised(evidence)
    promised, raised = evidence.case.error, evidence.recomputed.error
    if promised is None or raised is None or not promised.then:
        return (first,)
    if evidence.recomputed.good_run_before_error is False:
        message = f"{first.message}, and the run that should succeed fails without the error, too"
        return (replace(first, message=message) if first.status is Status.PASS else first,)
    if evidence.recomputed.good_run_after_error is True:
        message = f"{first.message}, and the next run, without the error, succeeded"
        return (replace(first, message=message) if first.status is Status.PASS else first,)
    if evidence.plain.good_run_after_error is False:
        message = f"{first.message}, and the next run fails without recompute, too"
        return (replace(first, message=message) if first.status is Status.PASS else first,)
    after = CHECK.verdict(Status.FAIL, AFTER)
    return (after,) if first.status is Status.PASS else (first, after)


def _raised(evidence: Evidence) -> Verdict:
    """What was raised, and whether it was promised."""
    promised, raised, plain = evidence.case.error, evidence.recomputed.error, evidence.plain.error
    if evidence.case.as_plain and plain is not None:
        if not _WRONG_PROGRAM.isdisjoint(plain.bases):
            message = f"the plain program raised {plain.type}: {plain.message}"
            return CHECK.verdict(Status.BROKEN, message)
        if raised is None:
            message = f"ran without an error, but the plain program raised {plain.type}"
            return CHECK.verdict(Status.PASS, message)
        message = f"raised {raised.type} in {raised.phase}, and the plain program raised "
        message += f"{plain.type} in {plain.phase}"
        fact = Raised(raised.type, raised.phase, plain.type)
        if plain.type in raised.bases or plain.type in raised.message:
            return CHECK.verdict(Status.PASS, message, facts=(fact,))
        sides = (plain.type, raised.type)
        return CHECK.verdict(Status.FAIL, f"{message}: {raised.message}", *sides, facts=(fact,))
    if promised is None and raised is None:
        return CHECK.verdict(Status.PASS, "ran without an error")
    if promised is not None and raised is not None and promised.type in raised.bases:
        fact = Raised(raised.type, raised.phase, promised.type)
        return CHECK.verdict(Status.PASS, f"raised {raised.type} as promised", facts=(fact,))
    wanted = "" if promised is None else promised.type
    should = f"raise {wanted}" if wanted else "run without an error"
    if raised is None:
        message, fact = f"raised no error, but should {should}", Raised("", promised=wanted)
    else:
        when = "" if wanted or raised.phase == "unknown" else f" in {raised.phase}"
        message = f"raised {raised.type}{when}, but should {should}: {raised.message}"
        fact = Raised(raised.type, raised.phase, wanted)
    seen = "no error" if raised is None else raised.type
    return CHECK.verdict(Status.FAIL, message, wanted or "no error", seen, facts=(fact,))


CHECK = Check("error", _judge)
