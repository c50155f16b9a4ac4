"""Triage: which verdicts are as they should be, which are known deviations, which are unexpected."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import Enum

import msgspec

from conformance.judge.known import Entry
from conformance.model.result import Result
from conformance.model.verdict import Status, Verdict

#: What differs between messages of one cause: names and numbers.
_VARIES = re.compile(r"'[^']*'|\([^)]*\)|\[[^\]]*\]|[\d.]+")
#: The fields of facts by which causes are told apart.
_TELLING = ("of", "kind", "what", "phase", "type", "against", "in_plain")
#: Words that describe a deviation, at least.
_WORDS = 3


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


def noted(entries: Sequence[Entry], result: Result) -> Result:
    """A result with a note on each of its known deviations."""
    verdicts: list[Verdict] = []
    for verdict in result.verdicts:
        entry = explaining(entries, result.case, result.variant, verdict)
        note = None if entry is None else entry.note
        same = note == verdict.known
        verdicts.append(verdict if same else msgspec.structs.replace(verdict, known=note))
    return replace(result, verdicts=tuple(verdicts))


def triaged(entries: Sequence[Entry], result: Result) -> tuple[Triaged, ...]:
    """Every verdict of a result, triaged."""
    all_triaged: list[Triaged] = []
    for check in dict.fromkeys(verdict.check for verdict in result.verdicts):
        verdicts = [v for v in result.verdicts if v.check == check]
        all_triaged += triage(entries, result.case, result.variant, verdicts)
    return tuple(all_triaged)


def covered(entries: Sequence[Entry], result: Result) -> tuple[int, ...]:
    """The positions, in the list, of the entries that apply to a verdict of this result.

    None applies if the variant does not support the case. An entry with `strict: false` applies
    only if it describes the verdict.
    """
    judged = [v for v in result.verdicts if v.status is not Status.UNSUPPORTED]
    checks = {v.check for v in judged}
    return tuple(
        position
        for position, entry in enumerate(entries)
        if entry.check in checks
        and entry.covers(result.case, result.variant, entry.check)
        and (entry.strict or any(entry.describes(v) for v in judged if v.check == entry.check))
    )


def stale(entries: Sequence[Entry], met: Collection[int]) -> tuple[Entry, ...]:
    """Stale entries: those that explain no verdict of a full run, and that no verdict contradicted.

    `met` are the positions of the entries that are `covered` by some result. An entry becomes stale
    if its case is gone, its check no longer applies, or its variant does not support the case.
    """
    return tuple(entry for position, entry in enumerate(entries) if position not in met)


def additions(entries: Sequence[Entry], results: Iterable[Result]) -> list[dict[str, object]]:
    """Entries, as they are written, for the deviations that none explains yet.

    Deviations that are alike make one entry, to be given one reason: their facts are of one kind, errors
    say the same but for names and numbers, and their cases deviate so on the same variants. Its text is
    the words that all their messages have. Warnings are left out: they need no entry. A person fills
    in cause and reason.
    """
    alike: dict[tuple[str, str], dict[str, dict[str, list[str]]]] = {}
    for result in results:
        variant = result.variant.split("/", 1)[-1]
        for of_result in triaged(entries, result):
            verdict = of_result.verdict
            if of_result.triage is Triage.UNEXPECTED and verdict.status.deviates:
                key = (verdict.check, cause(verdict))
                by_variant = alike.setdefault(key, {}).setdefault(result.case, {})
                texts = by_variant.setdefault(variant, [])
                texts.append(f"{verdict.status}: {verdict.message}")
    added: list[dict[str, object]] = []
    for (check, _), cases in alike.items():
        together: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for case, by_variant in cases.items():
            all_texts = [text for texts in by_variant.values() for text in texts]
            together.setdefault(tuple(by_variant), {})[case] = all_texts
        for variants, texts_by_case in together.items():
            added += [
                {
                    "case": _one_or_all(described),
                    "variant": _one_or_all(variants),
                    "check": check,
                    "observed": observed,
                    "cause": "",
                    "reason": "",
                }
                for described, observed in _described(texts_by_case)
            ]
    return added


def cause(verdict: Verdict) -> str:
    """A key shared by verdicts that seem to have one cause: the kinds of their facts or, without
    facts or for errors, the message without names and numbers.
    """
    kinds = {
        " ".join([type(fact).__name__, *(str(getattr(fact, name, "")) for name in _TELLING)])
        for fact in verdict.facts
    }
    message = _VARIES.sub("", verdict.message) if not kinds or verdict.check == "error" else ""
    return " ".join([verdict.status, *sorted(kinds), message])


def _described(texts: Mapping[str, Sequence[str]]) -> Iterator[tuple[list[str], str]]:
    """Cases by what describes them: the words that all their texts have; where these are too few, a case
    and each of its texts."""
    all_texts = [text for of_case in texts.values() for text in of_case]
    common = all_texts[0]
    for text in all_texts[1:]:
        a, b = common.split(" "), text.split(" ")
        match = SequenceMatcher(None, a, b, autojunk=False).find_longest_match()
        common = " ".join(a[match.a : match.a + match.size])
    if common == all_texts[0] or len(common.split(" ")) >= _WORDS:
        yield list(texts), common
        return
    for case, of_case in texts.items():
        for text in dict.fromkeys(of_case):
            yield [case], text


def _one_or_all(words: Sequence[str]) -> object:
    return words[0] if len(words) == 1 else list(words)
