"""Verdicts: the words of a judgement, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True)
class Verdict:
    """The judgement of one check: `message` reads as a sentence, the rest is its evidence."""

    check: str
    status: Status
    level: Level
    message: str
    expected: str = ""
    observed: str = ""
    method: str = ""


@dataclass(frozen=True)
class KnownNote:
    """Why a check's deviation was expected: a person's reason, and an upstream URL or ""."""

    check: str
    reason: str
    url: str
