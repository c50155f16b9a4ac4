"""What a comparison across variants and frameworks finds, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: How the reference's expectation is named beside the variants.
EXPECTATION = "expectation"


class CrossStatus(StrEnum):
    """How one comparison ended.

    `agree`: all the same. `allowed`: they differ, each within what the expectation allows.
    `judged`: who disagrees has failed a check of its own already. `disagree`: somebody disagrees
    whose own checks did not say so. `skipped`: not to be compared; the message says why.
    """

    AGREE = "agree"
    ALLOWED = "allowed"
    JUDGED = "judged"
    DISAGREE = "disagree"
    SKIPPED = "skipped"


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

    `judged` says, for each of them whose own checks failed already, how; `new` are the others, for
    which this was not known yet.
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
    status: CrossStatus
    message: str
    groups: tuple[Group, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """All verdicts of a comparison, by case in the order of the files, and who took part."""

    variants: tuple[str, ...]
    verdicts: tuple[CrossVerdict, ...]

    @property
    def counts(self) -> Mapping[CrossStatus, int]:
        """How many verdicts there are of each status, none left out."""
        counted = Counter(verdict.status for verdict in self.verdicts)
        return {status: counted[status] for status in CrossStatus}

    @property
    def disagreements(self) -> tuple[tuple[CrossVerdict, Disagreement], ...]:
        """Who disagrees with whom: every disagreement with the verdict it stands in."""
        return tuple((v, d) for v in self.verdicts for d in v.disagreements)

    @property
    def unexpected(self) -> tuple[CrossVerdict, ...]:
        """The verdicts in which somebody disagrees whose own checks did not say so."""
        return tuple(v for v in self.verdicts if v.status is CrossStatus.DISAGREE)

    @property
    def ok(self) -> bool:
        """Whether nothing unexpected was found: the exit decision."""
        return not self.unexpected
