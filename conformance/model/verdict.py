"""Verdicts: the words of a judgement, as values.

Values of msgspec, so that results files hold them as they are; a field that has its default is left out.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from conformance.model.facts import Fact


class Status(StrEnum):
    """How one check of one case ended on one variant; never mixed with each other."""

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


class Verdict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The judgement of one check: `message` reads as a sentence, `facts` are what it is made from,
    `expected` and `observed` are both sides in words, `method` is how it was seen."""

    check: str
    status: Status
    level: Level
    message: str
    expected: str = ""
    observed: str = ""
    method: str = ""
    facts: tuple[Fact, ...] = ()


class KnownNote(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why a check's deviation was expected: a person's reason, and an upstream URL or ""."""

    check: str
    reason: str
    url: str
