"""Triage of verdicts: which are as they should be, which are known deviations, which are unexpected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from conformance.judge.known import Entry
from conformance.model.verdict import Status, Verdict


class Triage(Enum):
    """What a verdict means once known deviations are taken into account.

    `EXPECTED`: it holds, or warns of a SHOULD that does not. `KNOWN`: a deviation that an entry
    describes. `UNEXPECTED`: a deviation that no entry describes, or none where an entry describes one.
    """

    EXPECTED = "expected"
    KNOWN = "known"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True)
class Triaged:
    """A verdict and its triage; `reason` says why it is known, or what is unexpected about it."""

    verdict: Verdict
    triage: Triage
    reason: str = ""
    entry: Entry | None = None


def triage(
    entries: Sequence[Entry], case: str, variant: str, verdicts: Iterable[Verdict]
) -> tuple[Triaged, ...]:
    """Every verdict of one check of one case on one variant, triaged.

    A SHOULD that does not hold is expected even where no entry describes it: it warns, and does not fail
    the run.
    """
    verdicts = tuple(verdicts)
    deviating = any(verdict.status.deviates for verdict in verdicts)
    return tuple(
        _triage_one(entries, case, variant, v, none_deviates=not deviating) for v in verdicts
    )


def explaining(entries: Sequence[Entry], case: str, variant: str, verdict: Verdict) -> Entry | None:
    """The first entry that describes this deviation; none describes what is `broken`."""
    if verdict.status is Status.BROKEN:
        return None
    covering = (e for e in entries if e.covers(case, variant, verdict.check))
    return next((e for e in covering if e.describes(verdict)), None)


def _triage_one(
    entries: Sequence[Entry], case: str, variant: str, verdict: Verdict, *, none_deviates: bool
) -> Triaged:
    """One verdict, triaged. `none_deviates`: no verdict of the same check deviates, so that a deviation
    that an entry describes is gone."""
    covering = [e for e in entries if e.covers(case, variant, verdict.check)]
    if verdict.status is Status.BROKEN:
        return Triaged(verdict, Triage.UNEXPECTED, "the suite or the adapter is at fault")
    if verdict.status.deviates:
        known = next((e for e in covering if e.describes(verdict)), None)
        if known:
            return Triaged(verdict, Triage.KNOWN, known.reason, known)
        covering = [entry for entry in covering if not entry.lenient]
        if covering:
            reason = f"not what {covering[0].where} describes: {covering[0].observed!r}"
            return Triaged(verdict, Triage.UNEXPECTED, reason)
        if verdict.status is not Status.WARN:
            return Triaged(verdict, Triage.UNEXPECTED)
    elif none_deviates and verdict.status is not Status.UNSUPPORTED:
        entry = next((entry for entry in covering if not entry.lenient), None)
        if entry is None:
            return Triaged(verdict, Triage.EXPECTED)
        reason = f"known deviation is gone: take {entry.where} out ({entry.reason})"
        return Triaged(verdict, Triage.UNEXPECTED, reason, entry)
    return Triaged(verdict, Triage.EXPECTED)
