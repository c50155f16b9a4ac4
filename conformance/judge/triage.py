"""Triage: which verdicts are as they should be, which are known deviations, which are unexpected."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import Enum
from itertools import chain

import msgspec

from conformance.judge.checks.error import AFTER
from conformance.judge.known import Catalog, Entry
from conformance.judge.proposing import proposed
from conformance.model.facts import Raised
from conformance.model.result import Result
from conformance.model.verdict import Status, Verdict

#: What differs between messages of one cause: names and numbers.
_VARIES = re.compile(r"'[^']*'|\([^)]*\)|\[[^\]]*\]|[\d.]+")
#: The fields of facts that distinguish causes.
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


def triaged(entries: Sequence[Entry], result: Result) -> tuple[Triaged, ...]:
    """Every verdict of a result, triaged.

    A SHOULD that does not hold is expected even where no entry describes it: it warns, and does not fail
    the run. A known deviation is gone where no verdict of its check deviates, nor reports it where that
    is left to the implementation; but not where an error came as it should, and hides it.
    """
    return tuple(_triage_one(entries, result, verdict) for verdict in result.verdicts)


def _triage_one(entries: Sequence[Entry], result: Result, verdict: Verdict) -> Triaged:
    if verdict.status is Status.BROKEN:
        return Triaged(verdict, Triage.UNEXPECTED, "the suite or the adapter is at fault")
    known = _explaining(entries, result, verdict)
    if known:
        return Triaged(verdict, Triage.KNOWN, known.reason, known)
    covering = [e for e in entries if e.covers(result.case, result.variant, verdict.check)]
    raised = any(isinstance(fact, Raised) for fact in verdict.facts)
    hidden = raised and not verdict.status.deviates
    strict = [e for e in covering if not e.may_be_absent(result.case)]
    entry = next((e for e in strict if e.of_errors or not hidden), None)
    if verdict.status.deviates:
        if entry:
            reason = f"not what {entry.where} describes: {' or '.join(map(repr, entry.observed))}"
            return Triaged(verdict, Triage.UNEXPECTED, reason)
        warns = verdict.status is Status.WARN
        return Triaged(verdict, Triage.EXPECTED if warns else Triage.UNEXPECTED)
    beside = [v for v in result.verdicts if v.check == verdict.check]
    deviates = any(v.status.deviates for v in beside)
    told = [v for v in beside if v.status is Status.REPORT]
    reported = any(e.tells(v) for e in covering for v in told)
    if entry and not deviates and verdict.status is not Status.UNSUPPORTED and not reported:
        reason = f"the known deviation is gone: remove {entry.where} ({entry.reason})"
        return Triaged(verdict, Triage.UNEXPECTED, reason, entry)
    return Triaged(verdict, Triage.EXPECTED)


def _explaining(entries: Sequence[Entry], result: Result, verdict: Verdict) -> Entry | None:
    """The first entry that describes this verdict, if it is a deviation."""
    return _describing(entries, result, verdict) or _trained(entries, result, verdict)


def _describing(entries: Sequence[Entry], result: Result, verdict: Verdict) -> Entry | None:
    """The first entry that describes this verdict itself. A good run after an error deviates as the
    program would without the error."""
    after = verdict.message == AFTER
    checks = ("error", "value", "gradient") if after else (verdict.check,)
    covering = (e for e in entries if any(e.covers(result.case, result.variant, c) for c in checks))
    return next((e for e in covering if after or e.describes(verdict)), None)


def _trained(entries: Sequence[Entry], result: Result, verdict: Verdict) -> Entry | None:
    """The entry that describes the deviation of a gradient in training, for the values that differ since
    parameters have been changed with it, or that of a parameter, for the next gradients."""
    other = {"value": "gradient", "gradient": "value"}.get(verdict.check)
    if other is None or "differs in" not in verdict.message:
        return None
    others = [v for v in result.verdicts if v.check == other]
    known = (_describing(entries, result, one) for one in others)
    found = next((entry for entry in known if entry is not None), None)
    features = found and found.catalog.features(result.case)
    return found if features and "procedure:train" in features.case else None


def noted(entries: Sequence[Entry], result: Result) -> Result:
    """A result with a note on each of its known deviations."""
    verdicts: list[Verdict] = []
    for verdict in result.verdicts:
        entry = _explaining(entries, result, verdict)
        note = entry and entry.note
        same = note == verdict.known
        verdicts.append(verdict if same else msgspec.structs.replace(verdict, known=note))
    return replace(result, verdicts=tuple(verdicts))


def covered(entries: Sequence[Entry], result: Result) -> tuple[int, ...]:
    """The positions, in the list, of the entries that apply to a verdict of this result: none if the
    variant does not support the case."""
    checks = {v.check for v in result.verdicts if v.status is not Status.UNSUPPORTED}
    return tuple(
        position
        for position, entry in enumerate(entries)
        if entry.check in checks and entry.covers(result.case, result.variant, entry.check)
    )


def additions(
    entries: Sequence[Entry], results: Sequence[Result], catalog: Catalog
) -> list[dict[str, object]]:
    """Causes, as they are written, for the deviations that none explains yet; warnings need none.

    Deviations that are alike make one cause: the kinds of their facts are the same, and their cases
    deviate so on the same variants. Its text is the words that all their messages have; `when` are the
    features that these cases share and the right ones lack, where there are such. A person fills in name
    and `says`.
    """
    alike: dict[tuple[str, str], dict[str, dict[str, list[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for result in results:
        variant = result.variant.split("/", 1)[-1]
        for of_result in triaged(entries, result):
            verdict = of_result.verdict
            if of_result.triage is Triage.UNEXPECTED and verdict.status.deviates:
                by_variant = alike[verdict.check, cause(verdict)][result.case]
                by_variant[variant].append(f"{verdict.status}: {verdict.message}")
    added: list[dict[str, object]] = []
    for (check, _), cases in alike.items():
        together: dict[tuple[str, ...], dict[str, list[str]]] = defaultdict(dict)
        for case, by_variant in cases.items():
            together[tuple(by_variant)][case] = list(chain(*by_variant.values()))
        for variants, texts_by_case in together.items():
            for described, observed in _described(texts_by_case):
                shows = {check: observed}
                when = proposed(described, _right(results, variants, check), catalog)
                where = {"when": when} if when else {"cases": _one_or_all(described)}
                named = {"cause": "", "kind": "defect", "variants": _one_or_all(variants)}
                added.append({**named, **where, "shows": shows, "says": "", "instead": ""})
    return added


def _right(results: Iterable[Result], variants: Sequence[str], check: str) -> set[str]:
    """The cases that do not deviate in a check on any of these variants, where it was judged."""
    right: set[str] = set()
    wrong: set[str] = set()
    for result in results:
        statuses = [v.status for v in result.verdicts if v.check == check]
        if result.variant.split("/", 1)[-1] in variants and statuses:
            deviates = any(status.deviates for status in statuses)
            judged = Status.UNSUPPORTED not in statuses
            (wrong if deviates else right if judged else set()).add(result.case)
    return right - wrong


def cause(verdict: Verdict) -> str:
    """A key shared by verdicts that seem to have one cause: the kinds of their facts or, without facts
    or for errors, the message without names and numbers."""
    kinds = {
        " ".join([type(fact).__name__, *(str(getattr(fact, name, "")) for name in _TELLING)])
        for fact in verdict.facts
    }
    message = _VARIES.sub("", verdict.message) if not kinds or verdict.check == "error" else ""
    return " ".join([verdict.status, *sorted(kinds), message])


def _described(texts: Mapping[str, Sequence[str]]) -> Iterator[tuple[list[str], str]]:
    """Cases by what describes them: the words that all their texts have; where these are too few, a case
    and each of its texts."""
    first, *others = chain(*texts.values())
    common = first
    for text in others:
        a, b = common.split(" "), text.split(" ")
        match = SequenceMatcher(None, a, b, autojunk=False).find_longest_match()
        common = " ".join(a[match.a : match.a + match.size])
    if common == first or len(common.split(" ")) >= _WORDS:
        yield list(texts), common
        return
    for case, of_case in texts.items():
        for text in dict.fromkeys(of_case):
            yield [case], text


def _one_or_all(words: Sequence[str]) -> object:
    return words[0] if len(words) == 1 else list(words)
