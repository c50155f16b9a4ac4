"""What a comparison across variants and frameworks finds, as values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from conformance.words import counted

#: How the reference's expectation is named beside the variants.
EXPECTATION = "expectation"


class Agreement(StrEnum):
    """Whether variants agree.

    `agree`: all the same. `differ as allowed`: they differ, each within what the reference allows.
    `disagree`: a variant differs from the others. This is new if the variant passed its own checks.
    `not compared`: the message says why.
    """

    AGREE = "agree"
    ALLOWED = "differ as allowed"
    DISAGREE = "disagree"
    SKIPPED = "not compared"


@dataclass(frozen=True)
class Group:
    """Variants (or the expectation) that agree, and what they agree on, in words."""

    members: tuple[str, ...]
    value: str

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(member for member in self.members if member != EXPECTATION)


@dataclass(frozen=True)
class Disagreement:
    """Variants that agree with each other and not with the others.

    `judged` has the outcome of each whose own checks show it already; `new` are the others.
    """

    variants: tuple[str, ...]
    against: tuple[str, ...]
    message: str
    judged: Mapping[str, str]
    new: tuple[str, ...]


@dataclass(frozen=True)
class CrossVerdict:
    """One thing that variants were compared on: a gradient, a count, a drop in memory.

    `check` is the check of single variants that it belongs to. `absent` are variants that have no
    value to compare, and why.
    """

    case: str
    check: str
    subject: str
    status: Agreement
    message: str
    groups: tuple[Group, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def new(self) -> bool:
        """Whether somebody disagrees whose own checks did not show it."""
        return any(disagreement.new for disagreement in self.disagreements)


@dataclass(frozen=True)
class Comparison:
    """All verdicts of a comparison, by case in the order of the files, and who took part."""

    variants: tuple[str, ...]
    verdicts: tuple[CrossVerdict, ...]

    @property
    def disagreements(self) -> tuple[tuple[CrossVerdict, Disagreement], ...]:
        return tuple((v, d) for v in self.verdicts for d in v.disagreements)

    @property
    def unexpected(self) -> tuple[CrossVerdict, ...]:
        return tuple(v for v in self.verdicts if v.new)

    @property
    def ok(self) -> bool:
        """Whether no disagreement is new: the exit decision."""
        return not self.unexpected

    @property
    def summary(self) -> str:
        """How many comparisons ended how, in a line."""
        counts = Counter(verdict.status for verdict in self.verdicts)
        new = {Agreement.DISAGREE: f" ({len(self.unexpected)} new)"}
        parts = [f"{counts[s]} {s}{new.get(s, '')}" for s in Agreement if counts[s]]
        variants = counted(len(self.variants), "variant")
        return f"{variants} compared: {', '.join(parts) or 'nothing in common'}"
