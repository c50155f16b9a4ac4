"""What a check is, and the evidence that it judges."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from conformance.drivers.adapter import Variant
from conformance.judge.arrays import against_others, difference, differs
from conformance.model.case import Case
from conformance.model.facts import Difference, Fact
from conformance.model.observation import Array, Expected, Observation, RandomSample, Run
from conformance.model.verdict import Level, Status, Verdict


@dataclass(frozen=True)
class Evidence:
    """A case, the variant that ran it, what the reference expects and what was seen."""

    case: Case
    variant: Variant
    expected: Expected
    observation: Observation

    @property
    def plain(self) -> Run:
        return self.observation.plain

    @property
    def recomputed(self) -> Run:
        return self.observation.recomputed

    @property
    def refused_plain(self) -> bool:
        """Whether the plain program raised, as the case allows, so that there is no plain run."""
        return self.case.as_plain and self.plain.error is not None

    @cached_property
    def drew_alike(self) -> bool:
        """Whether the recomputed run can be compared with the plain one: that one did not raise, and
        both drew the same numbers in forward, as far as draws were observed."""
        if self.refused_plain:
            return False
        recomputed, plain = forward_samples(self.recomputed), forward_samples(self.plain)
        if recomputed is None or plain is None:
            return True
        return len(recomputed) == len(plain) and all(
            np.array_equal(a.array, b.array, equal_nan=True)
            for a, b in zip(recomputed, plain, strict=True)
        )

    @property
    def exact_gradients(self) -> bool:
        """Whether gradients have to equal the plain run's bit for bit."""
        declared = self.variant.model.exact_gradients
        same_order = not self.expected.sums if declared == "pairs" else declared
        return self.variant.model.exact and same_order

    def difference(
        self,
        of: str,
        name: str,
        recomputed: Array | None,
        plain: Array | None,
        reference: Array | None,
        *,
        exact: bool,
    ) -> Difference | None:
        """The first difference of arrays, where they are given: of the plain run's from the
        reference's, then of the recomputed run's from the plain one's and from the reference's.

        With `exact`, the recomputed run's has to equal the plain run's bit for bit. The tolerance
        against the reference is wider where a kernel is known to be inaccurate.
        """
        to_plain = None if exact else self.case.tolerance
        to_reference = against_others(self.case, self.variant.model.accuracy)
        fault = None
        if plain is not None and reference is not None:
            fault = difference(of, name, plain, reference, to_reference, "reference", in_plain=True)
        if fault is None and recomputed is not None and plain is not None:
            fault = difference(of, name, recomputed, plain, to_plain, "plain run")
            if fault and exact and not differs(recomputed, plain, self.case.tolerance):
                of_values = of == "value"
                fault = replace(fault, rounding="exact" if of_values else "exact_gradients")
        if fault is None and recomputed is not None and reference is not None:
            fault = difference(of, name, recomputed, reference, to_reference, "reference")
        return fault


def forward_samples(run: Run) -> tuple[RandomSample, ...] | None:
    """What a run drew in its forward passes, in order; `None` where samples were not observed."""
    if run.samples is None:
        return None
    return tuple(sample for sample in run.samples if sample.phase == "forward")


def drawn(observation: Observation) -> tuple[RandomSample, ...] | None:
    """What the recomputed run drew in its forward passes; `None` where samples were not observed. Where
    a gradient inside has run regions again at once, the plain run drew fewer: these are what counts."""
    recomputed, plain = forward_samples(observation.recomputed), forward_samples(observation.plain)
    return plain if recomputed and plain and len(plain) < len(recomputed) else recomputed


def place_name(region: str, statement: str) -> str:
    """A statement or a region in words; either may be empty, but not both."""
    return f"{statement} in region {region}" if statement and region else (statement or region)


@dataclass(frozen=True)
class Check:
    """A named check: how it judges, which cases it applies to, how binding it is. What it asks is the
    first sentence of its module.

    `judge` returns one verdict, or one for each fault, so that no fault hides another.
    """

    name: str
    judge: Callable[[Evidence], Verdict | tuple[Verdict, ...]]
    applies: Callable[[Case], bool] = lambda _: True
    level: Level = Level.MUST

    @property
    def asks(self) -> str:
        """What it asks, in a sentence."""
        documentation = inspect.getdoc(inspect.getmodule(self.judge)) or ""
        return " ".join(documentation.split("\n\n")[0].split()).rstrip(".")

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
