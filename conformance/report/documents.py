"""A page of documents: each claim that can be tested, and the verdicts that answer it.

The claims come from a list (`conformance.report.claims`), the verdicts from results alone.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from conformance.judge.checks.state import NOTES
from conformance.judge.outcomes import unoffered
from conformance.model.case import Case
from conformance.model.facts import Calls, Difference, Fact, State, Unoffered
from conformance.model.verdict import Status, Verdict
from conformance.report.claims import Answer, Claim, Document, cases_of
from conformance.results import Result, Results
from conformance.words import counted, escape

#: The absolute path of a run's `programs/` folder, in a message.
_FOLDERS = re.compile(r"(?:/[^/\s\"']+)+/(?=programs/)")
LONGEST = 160

#: Results by case and variant.
ResultsByPair = Mapping[tuple[str, str], Result]


def render(documents: Sequence[Document], cases: Sequence[Case], results: Sequence[Results]) -> str:
    """The page, in Markdown. Where two results are of one case and variant, the later one counts.

    Raises `DocumentsError` where a claim names a case that does not exist.
    """
    return "\n".join(_lines(documents, cases, results)) + "\n"


def _lines(
    documents: Sequence[Document], cases: Sequence[Case], results: Sequence[Results]
) -> Iterator[str]:
    by_pair = {(r.case, r.variant): r for run in results for r in run.results}
    yield "# Documents"
    yield ""
    yield "What the documentation of four frameworks says of recompute, sentence by sentence and in our"
    yield "words, as far as it can be tested; and what was seen in the runs below. Made by"
    yield "`conformance documents` from their results and the list `docs/documents.yaml`, never by hand."
    yield "A *known* deviation was recorded before; *unsupported* says what a variant does not offer."
    yield ""
    adapters = {name.partition("/")[0] for name in _variants(documents)}
    for run in dict.fromkeys(_versions(r) for r in results if r.header.adapter in adapters):
        yield f"- {run}"
    yield ""
    yield _counts([claim for document in documents for claim in document.claims])
    yield ""
    for document in documents:
        yield from _section(document, cases, by_pair)


def _variants(documents: Sequence[Document]) -> Iterator[str]:
    for claim in (claim for document in documents for claim in document.claims):
        for answer in claim.answers:
            yield from (name.text for name in answer.variants)


def _versions(run: Results) -> str:
    named = ", ".join(f"{k} {v}" for k, v in run.header.versions.items() if k != "platform")
    return f"{escape(run.header.adapter)}: {escape(named)}"


def _counts(claims: Sequence[Claim]) -> str:
    partly = sum(bool(claim.partly) for claim in claims)
    unchecked = sum(bool(claim.unchecked) for claim in claims)
    checked = len(claims) - unchecked
    return (
        f"{counted(len(claims), 'claim')}: {checked} checked, {partly} of them in part, "
        f"and {unchecked} unchecked."
    )


def _section(document: Document, cases: Sequence[Case], by_pair: ResultsByPair) -> Iterator[str]:
    yield f"## {escape(document.title)}"
    yield ""
    address = f", <{quote(document.url, safe=':/?&=#%')}>" if document.url else ""
    yield f"{escape(document.page)}{address}. {_counts(document.claims)}"
    yield ""
    yield "| claim | case | variant | check | verdict |"
    yield "|---|---|---|---|---|"
    for claim in document.claims:
        first = escape(claim.text)
        for cells in _rows(claim, cases, by_pair):
            yield f"| {first} | {' | '.join(cells)} |"
            first = ""
    yield ""


def _rows(claim: Claim, cases: Sequence[Case], by_pair: ResultsByPair) -> Iterator[tuple[str, ...]]:
    """A claim's rows: case, variants, check and verdict; last what is not checked."""
    if claim.unchecked:
        yield "", "", "", f"*unchecked*: {escape(claim.unchecked)}"
    for answer in claim.answers:
        yield from _answered(answer, cases, by_pair)
    if claim.partly:
        yield "", "", "", f"*in part*: {escape(claim.partly)}"


def _answered(
    answer: Answer, cases: Sequence[Case], by_pair: ResultsByPair
) -> Iterator[tuple[str, ...]]:
    """An answer's rows: variants and checks with the same verdict on a case share a row."""
    for case in (case for name in answer.cases for case in cases_of(name, cases)):
        rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for check in answer.checks:
            by_text: dict[str, list[str]] = {}
            for variant in answer.variants:
                text = verdict_words(by_pair.get((case.id, variant.text)), check.text)
                by_text.setdefault(text, []).append(variant.text)
            for text, variants in by_text.items():
                rows.setdefault((text, tuple(variants)), []).append(check.text)
        for (text, in_variants), checks in rows.items():
            names = (case.id, ", ".join(in_variants), ", ".join(checks))
            yield (*(escape(word) for word in names), text)


def verdict_words(result: Result | None, check: str) -> str:
    """The verdict of a check, in Markdown; where the program ended in an error, that of `error`."""
    if result is None:
        return "*not run*"
    verdict = _verdict(result, check)
    if verdict is not None and verdict.status is Status.PASS:
        return f"*{verdict.status}*"
    verdict = verdict or _verdict(result, "error")
    if verdict is None or verdict.status is Status.PASS:
        return "*no verdict*"
    reason = unoffered(verdict)
    if reason is not None and reason.how == "not run":
        return f"*not run*: {escape(_cut(reason.why))}"
    note = verdict.known if verdict.status.deviates else None
    explanation = f" known: {escape(_cut(note.reason))}" if note else f": {escape(short(verdict))}"
    prefix = "" if verdict.check == check or not verdict.status.deviates else "ended in an error, "
    return f"{prefix}*{verdict.status}*{explanation}"


def _verdict(result: Result, check: str) -> Verdict | None:
    """The verdict of a check, `None` if there is none; of several, the first that deviates."""
    of_check = [verdict for verdict in result.verdicts if verdict.check == check]
    return next((v for v in of_check if v.status.deviates), of_check[0] if of_check else None)


def _cut(text: str) -> str:
    return textwrap.shorten(text, LONGEST, placeholder=" …")


def short(verdict: Verdict) -> str:
    """A verdict's message without the numbers that differ from variant to variant."""
    text = _FOLDERS.sub("", _of_state(verdict.facts) or _of_fact(verdict.facts) or verdict.message)
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(" ", 1)[0] + " …"
    return text


def _of_state(facts: Sequence[Fact]) -> str:
    """How far state moved, or how often an effect happened; empty where no fact says so."""
    times = {float(f.times) for f in facts if isinstance(f, State) and f.times is not None}
    if times:
        factors = " and ".join(sorted({f"{number:.2f}" for number in times}))
        return f"state moves {factors} times as far as without recompute"
    for fact in facts:
        if isinstance(fact, Calls) and fact.name == NOTES:
            calls = f"it happens {fact.observed} times"
            return f"{calls}, without recompute {fact.expected} time(s)"
    return ""


def _of_fact(facts: Sequence[Fact]) -> str:
    """A fact's words without its numbers; empty where no fact has such words."""
    for fact in facts:
        if isinstance(fact, Difference):
            return fact.words(numbers=False)
        if isinstance(fact, Unoffered):  # the variant stands beside it
            return fact.words
    return ""
