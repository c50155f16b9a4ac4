"""Verdicts of checks, and their statuses and levels.

They are msgspec structs, stored in results files unchanged; fields with default values are omitted.
"""

from enum import StrEnum

from msgspec import Struct

from conformance.model.facts import Fact


class Status(StrEnum):
    """How one check of one case ended on one variant."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    REPORT = "report"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    BROKEN = "broken"

    @property
    def deviates(self) -> bool:
        """Whether this is a departure from conformance that a known deviation may explain."""
        return self in (Status.FAIL, Status.WARN, Status.CRASHED, Status.TIMEOUT)


class Level(StrEnum):
    """How binding a check is (RFC 2119), or `report` for what is left to the implementation."""

    MUST = "must"
    SHOULD = "should"
    REPORT = "report"


class KnownNote(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a deviation was expected: a person's reason, an upstream URL or "", the cause's name, whether
    it is a `defect`, a `limit` or a `choice`, and what to do instead; empty where that is not known."""

    reason: str
    url: str
    cause: str = ""
    kind: str = ""
    instead: str = ""


class Verdict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The verdict of one check. `message` is a sentence made from `facts`, `expected` and `observed` are
    the two sides in words, `method` is how the observation was made. `known` is the note of the known
    deviation that describes it; none does as long as a check has only judged."""

    check: str
    status: Status
    level: Level
    message: str
    expected: str = ""
    observed: str = ""
    method: str = ""
    facts: tuple[Fact, ...] = ()
    known: KnownNote | None = None
