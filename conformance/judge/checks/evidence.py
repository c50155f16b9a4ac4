"""What a check looks at, and what a check is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from conformance.drivers.adapter import Variant
from conformance.judge.tolerance import against_others
from conformance.model.case import Case, Tolerance
from conformance.model.facts import Fact
from conformance.model.observation import Expected, Observation, Run
from conformance.model.verdict import Level, Status, Verdict


@dataclass(frozen=True)
class Evidence:
    """A case, the variant that ran it, what the reference expects and what was seen."""

    case: Case
    variant: Variant
    expected: Expected
    observation: Observation

    @property
    def against_reference(self) -> Tolerance:
        """The tolerance against the reference, wider where a kernel is known to be inaccurate."""
        return against_others(self.case, self.variant.model.accuracy)

    @property
    def plain(self) -> Run:
        return self.observation.plain

    @property
    def refused_plain(self) -> bool:
        """Whether the plain program raised, as the case allows: then there is no plain run to
        compare with.
        """
        return self.case.as_plain and self.plain.error is not None

    @property
    def recomputed(self) -> Run:
        return self.observation.recomputed


@dataclass(frozen=True)
class Check:
    """A named check: what it asks, how binding it is, which cases it applies to, how it judges.

    `judge` gives one verdict, or one for each fault that it has found, so that no fault hides another.
    """

    name: str
    asks: str
    level: Level
    applies: Callable[[Case], bool]
    judge: Callable[[Evidence], Verdict | tuple[Verdict, ...]]

    def verdicts(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """The verdicts, or `unsupported` with the reason where the adapter could not see."""
        reason = evidence.observation.unobserved.get(self.name)
        if reason is not None:
            return (self.verdict(Status.UNSUPPORTED, f"cannot be observed here: {reason}"),)
        given = self.judge(evidence)
        method = evidence.observation.methods.get(self.name, "")
        listed = given if isinstance(given, tuple) else (given,)
        return tuple(replace(one, method=one.method or method) for one in listed)

    def verdict(
        self,
        status: Status,
        message: str,
        expected: str = "",
        observed: str = "",
        method: str = "",
        facts: tuple[Fact, ...] = (),
    ) -> Verdict:
        """A verdict of this check; a failure of a `should` check is a warning."""
        if status is Status.FAIL and self.level is Level.SHOULD:
            status = Status.WARN
        return Verdict(self.name, status, self.level, message, expected, observed, method, facts)
