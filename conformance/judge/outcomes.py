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
    """How a variant does on a case, the gravest first."""

    BROKEN = "the suite failed"
    WRONG = "silently wrong"
    RAISES = "raises"
    INERT = "not recomputed"
    COSTS = "more memory or work"
    WARNS = "differs"
    RIGHT = "right"
    UNSEEN = "not observed"
    NOT_OFFERED = "not offered"
    NOT_RUN = "not run"

    @property
    def rank(self) -> int:
        """Its place among all outcomes, 0 the gravest."""
        return list(Outcome).index(self)


#: What each outcome means, for a legend.
MEANING: dict[Outcome, str] = {
    Outcome.BROKEN: "the suite or the adapter is at fault, never the framework",
    Outcome.WRONG: "a gradient, value, state or structure is wrong, and no error says so",
    Outcome.RAISES: "the program raises, is refused or ends the process, where plain runs",
    Outcome.INERT: "recompute does nothing: no operation runs again",
    Outcome.COSTS: "right, but more is kept, left over or run again than recompute needs",
    Outcome.WARNS: "something differs from the run without recompute that should not, but may",
    Outcome.RIGHT: "as without recompute, for the memory and the work that recompute promises",
    Outcome.UNSEEN: "it runs, and what is asked cannot be observed there",
    Outcome.NOT_OFFERED: "the variant does not offer what the case needs",
    Outcome.NOT_RUN: "another variant that does the same is run on the case, or it takes too long",
}
#: The same as signs, so that no outcome is known by its colour alone.
SIGN: dict[Outcome, str] = {
    Outcome.BROKEN: "\N{WARNING SIGN}",
    Outcome.WRONG: "\N{BALLOT X}",
    Outcome.RAISES: "!",
    Outcome.INERT: "\N{WHITE CIRCLE}",
    Outcome.COSTS: "\N{WHITE UP-POINTING TRIANGLE}",
    Outcome.WARNS: "\N{ALMOST EQUAL TO}",
    Outcome.RIGHT: "\N{CHECK MARK}",
    Outcome.UNSEEN: "?",
    Outcome.NOT_OFFERED: "\N{EN DASH}",
    Outcome.NOT_RUN: "\N{MIDDLE DOT}",
}


def gravest(outcomes: Iterable[Outcome]) -> Outcome:
    """The gravest of some outcomes; `UNSEEN` where there are none."""
    return min(outcomes, key=lambda outcome: outcome.rank, default=Outcome.UNSEEN)


def of_result(result: Result, checks: frozenset[str] = frozenset()) -> Outcome:
    """The outcome of a variant on a case: the gravest of its verdicts of `checks` (of all if empty) and,
    where the program does not run to its end, of `error`."""
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
    if verdict.status in (Status.CRASHED, Status.TIMEOUT):
        return Outcome.RAISES
    run = recomputed(result)
    if verdict.status is Status.UNSUPPORTED:
        refused = verdict.check == "error" and run is not None and run.error is not None
        return Outcome.RAISES if refused else Outcome.UNSEEN
    if verdict.status in (Status.PASS, Status.REPORT):
        return Outcome.RIGHT
    if verdict.check in _COST:
        inert = any(isinstance(fact, Inert) for fact in verdict.facts)
        return Outcome.INERT if inert else Outcome.COSTS
    if verdict.status is Status.WARN:
        return Outcome.WARNS
    return Outcome.WRONG if run is None or run.error is None else Outcome.RAISES


def unoffered(verdict: Verdict) -> Unoffered | None:
    """The fact why the variant is not run on the case; `None` where the verdict has no such fact."""
    return next((fact for fact in verdict.facts if isinstance(fact, Unoffered)), None)


def recomputed(result: Result) -> Run | None:
    """What was observed of the recomputed run; `None` where nothing was."""
    return None if result.observation is None else result.observation.recomputed
