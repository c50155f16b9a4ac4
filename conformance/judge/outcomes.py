"""Outcomes: what verdicts mean for users of a framework, ordered by severity."""

from collections.abc import Iterable
from enum import StrEnum

from conformance.model.facts import Inert, Unoffered
from conformance.model.observation import Run
from conformance.model.result import Result
from conformance.model.verdict import Status, Verdict

#: Checks of what recompute saves and costs; all others check that results are unchanged.
_COST = frozenset({"executions", "retained memory", "peak memory", "release"})


class Outcome(StrEnum):
    """What a user sees of a case on a variant, the most severe first."""

    BROKEN = "the suite failed"
    WRONG = "silently wrong"
    RAISES = "raises"
    LIMIT = "documented limit"
    INERT = "not recomputed"
    COSTS = "more memory or work"
    WARNS = "differs"
    RIGHT = "right"
    UNSEEN = "not observed"
    NOT_OFFERED = "not offered"
    NOT_RUN = "not run"

    @property
    def rank(self) -> int:
        """Its place among all outcomes; 0 is the most severe."""
        return list(Outcome).index(self)


#: What each outcome means, for a legend.
MEANING: dict[Outcome, str] = {
    Outcome.BROKEN: "the suite or the adapter failed, not the framework",
    Outcome.WRONG: "a gradient, value, state or structure is wrong, and no error is raised",
    Outcome.RAISES: "the program raises an error or ends the process; without recompute it runs",
    Outcome.LIMIT: "the program goes wrong as the framework's documentation says",
    Outcome.INERT: "recompute has no effect: no operation runs again in backward",
    Outcome.COSTS: "results are right, but more memory is kept or more work is done than necessary",
    Outcome.WARNS: "something other than the results differs, such as BatchNorm's statistics",
    Outcome.RIGHT: "results, memory and work are as expected",
    Outcome.UNSEEN: "the program runs, but the suite cannot observe the answer",
    Outcome.NOT_OFFERED: "the variant cannot express what the case needs",
    Outcome.NOT_RUN: "left out: it takes too long, or another variant does the same",
}
#: A sign for each, so that nobody needs to see the colour.
SIGN: dict[Outcome, str] = {
    Outcome.BROKEN: "\N{WARNING SIGN}",
    Outcome.WRONG: "\N{BALLOT X}",
    Outcome.RAISES: "!",
    Outcome.LIMIT: "\N{SECTION SIGN}",
    Outcome.INERT: "\N{WHITE CIRCLE}",
    Outcome.COSTS: "\N{WHITE UP-POINTING TRIANGLE}",
    Outcome.WARNS: "\N{ALMOST EQUAL TO}",
    Outcome.RIGHT: "\N{CHECK MARK}",
    Outcome.UNSEEN: "?",
    Outcome.NOT_OFFERED: "\N{EN DASH}",
    Outcome.NOT_RUN: "\N{MIDDLE DOT}",
}


def gravest(outcomes: Iterable[Outcome]) -> Outcome:
    """The most severe of some outcomes; `UNSEEN` if there are none."""
    return min(outcomes, key=lambda outcome: outcome.rank, default=Outcome.UNSEEN)


def of_result(result: Result, checks: frozenset[str] = frozenset()) -> Outcome:
    """The outcome of a case on a variant: the most severe one of its verdicts.

    If `checks` are given, only their verdicts count, and an `error` that is not right.
    """
    if result.observation is None and all(v.status is Status.UNSUPPORTED for v in result.verdicts):
        reasons = [unoffered(verdict) for verdict in result.verdicts]
        left_out = all(why is not None and why.how == "not run" for why in reasons)
        return Outcome.NOT_RUN if left_out else Outcome.NOT_OFFERED
    outcomes = [(verdict.check, of_verdict(verdict, result)) for verdict in result.verdicts]
    return gravest(
        outcome
        for check, outcome in outcomes
        if not checks or check in checks or (check == "error" and outcome is not Outcome.RIGHT)
    )


def of_verdict(verdict: Verdict, result: Result) -> Outcome:
    """What one verdict of a result means."""
    if verdict.status is Status.BROKEN:
        return Outcome.BROKEN
    if verdict.status.deviates and verdict.known is not None and verdict.known.kind == "limit":
        return Outcome.LIMIT
    if verdict.status in (Status.CRASHED, Status.TIMEOUT):
        return Outcome.RAISES
    run = recomputed(result)
    if verdict.status is Status.UNSUPPORTED:
        if verdict.check != "error" or run is None or run.error is None:
            return Outcome.UNSEEN
        plain = result.observation and result.observation.plain.error
        return Outcome.NOT_OFFERED if plain else Outcome.RAISES
    if verdict.status in (Status.PASS, Status.REPORT):
        return Outcome.RIGHT
    if verdict.check in _COST:
        inert = any(isinstance(fact, Inert) for fact in verdict.facts)
        return Outcome.INERT if inert else Outcome.COSTS
    if verdict.status is Status.WARN:
        return Outcome.WARNS
    raised = verdict.check == "error" if run is None else run.error is not None
    return Outcome.RAISES if raised else Outcome.WRONG


def unoffered(verdict: Verdict) -> Unoffered | None:
    """Why the variant is not run on the case; `None` if the verdict does not say so."""
    return next((fact for fact in verdict.facts if isinstance(fact, Unoffered)), None)


def recomputed(result: Result) -> Run | None:
    """What was observed of the recomputed run; `None` where nothing was."""
    return None if result.observation is None else result.observation.recomputed
