"""What a check is, and the evidence that it judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from conformance.drivers.adapter import Variant
from conformance.judge.tolerance import against_others
from conformance.model.case import Case, Tolerance
from conformance.model.facts import Fact
from conformance.model.observation import Expected, Observation, RandomSample, Run
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


def forward_samples(run: Run) -> tuple[RandomSample, ...] | None:
    """What a run drew in its forward passes, in order; `None` where samples were not observed."""
    if run.samples is None:
        return None
    return tuple(sample for sample in run.samples if sample.phase == "forward")


def place_name(region: str, statement: str) -> str:
    """A statement or a region in words; either may be empty, but not both."""
    return f"{statement} in region {region}" if statement and region else (statement or region)


@dataclass(frozen=True)
class Check:
    """A named check: what it asks, how binding it is, which cases it applies to, how it judges.

    `judge` returns one verdict, or one for each fault, so that no fault hides another.
    """

    name: str
    asks: str
    level: Level
    applies: Callable[[Case], bool]
    judge: Callable[[Evidence], Verdict | tuple[Verdict, ...]]

    def verdicts(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """The verdicts; one `unsupported` with the reason where the adapter cannot observe the check."""
        reason = evidence.observation.unobserved.get(self.name)
        if reason is not None:
            return (self.verdict(Status.UNSUPPORTED, f"cannot be observed here: {reason}"),)
        judged = self.judge(evidence)
        method = evidence.observation.methods.get(self.name, "")
        verdicts = judged if isinstance(judged, tuple) else (judged,)
        return tuple(replace(v, method=v.method or method) for v in verdicts)

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
