"""Known deviations against whole results: what entries explain, what none does, stale entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from conformance.judge.known import Entry
from conformance.judge.triage import Triage, Triaged, explaining, triage
from conformance.model.verdict import KnownNote, Status
from conformance.results.model import Result


def notes(entries: Sequence[Entry], result: Result) -> tuple[KnownNote, ...]:
    """The notes on a result's known deviations, one per check."""
    by_check: dict[str, KnownNote] = {}
    for verdict in result.verdicts:
        entry = explaining(entries, result.case, result.variant, verdict)
        if entry is not None:
            by_check.setdefault(verdict.check, entry.note)
    return tuple(by_check.values())


def triaged(entries: Sequence[Entry], result: Result) -> tuple[Triaged, ...]:
    """Every verdict of a result, triaged."""
    all_triaged: list[Triaged] = []
    for check in dict.fromkeys(verdict.check for verdict in result.verdicts):
        verdicts = [v for v in result.verdicts if v.check == check]
        all_triaged += triage(entries, result.case, result.variant, verdicts)
    return tuple(all_triaged)


def covered(entries: Sequence[Entry], result: Result) -> tuple[int, ...]:
    """The places, in the list, of the entries that speak of a verdict of this result.

    Where the variant does not support the case, none does.
    """
    checks = {v.check for v in result.verdicts if v.status is not Status.UNSUPPORTED}
    return tuple(
        place
        for place, entry in enumerate(entries)
        if entry.check in checks and entry.covers(result.case, result.variant, entry.check)
    )


def stale(entries: Sequence[Entry], met: Collection[int]) -> tuple[Entry, ...]:
    """Entries that explain no verdict of a full run, and that no verdict has contradicted.

    `met` are the places of those that are `covered` by some result. A case that is gone, a check that
    no longer applies, or a variant that does not support the case leaves an entry behind.
    """
    return tuple(entry for place, entry in enumerate(entries) if place not in met)


def additions(entries: Sequence[Entry], results: Iterable[Result]) -> list[dict[str, object]]:
    """Entries, as they are written, for the deviations that none explains yet.

    Equal deviations of a case on several variants make one entry. Warnings are left out: they need
    no entry. The reason is a person's to fill in.
    """
    new: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        for item in triaged(entries, result):
            verdict = item.verdict
            if item.triage is Triage.UNEXPECTED and verdict.status.deviates:
                key = (result.case, verdict.check, f"{verdict.status}: {verdict.message}")
                new.setdefault(key, []).append(result.variant.split("/", 1)[-1])
    return [
        {
            "case": case,
            "variant": variants[0] if len(variants) == 1 else variants,
            "check": check,
            "observed": observed,
            "reason": "",
        }
        for (case, check, observed), variants in new.items()
    ]
