"""docs/documents.md: what documents of frameworks say that can be tested, and what the runs have shown.

    python tools/documents.py [reports]

`docs/documents.yaml` lists the claims of each document, in our words. A claim is *checked* by the
verdicts of checks of cases on variants, maybe only *partly*; or it is *unchecked*, and says why.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from conformance.judge.checks import CHECKS, applicable
from conformance.judge.checks.state import NOTES
from conformance.judge.outcomes import unoffered
from conformance.language import yaml_marks
from conformance.language.load import load_folder
from conformance.language.source import described
from conformance.language.yaml_marks import Marked
from conformance.model.case import Case
from conformance.model.facts import Calls, Difference, Fact, State, Unoffered
from conformance.model.result import Result, Results
from conformance.model.verdict import Status, Verdict
from conformance.words import counted, escape
from tools.shared import ROOT, RegisterError, cases_named, check_name, main, variants

FILE = ROOT / "docs" / "documents.yaml"
#: The absolute path of a run's `programs/` folder, in a message.
_FOLDERS = re.compile(r"(?:/[^/\s\"']+)+/(?=programs/)")
LONGEST = 160

#: Results by case and variant.
ResultsByPair = Mapping[tuple[str, str], Result]
_Path = tuple[object, ...]


# -- the list --------------------------------------------------------------------------------------


def _as_list(value: object) -> object:
    """A single name as a list of one."""
    return [value] if isinstance(value, str) else value


_Words = Annotated[str, Field(min_length=1)]
_Line = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]
_Names = Annotated[list[_Words], BeforeValidator(_as_list), Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(_Model):
    """The verdicts that answer a claim: of each check, of each case, on each variant.

    Cases are named by id; an id without axes means all expansions of the case. Variants are full ids.
    """

    case: _Names
    variant: _Names
    check: _Names


class Claim(_Model):
    """A sentence or an example of a document, in our words.

    `unchecked` says why no answers check it, and is empty where some do. `partly` says what part of the
    claim the answers do not check, or is empty.
    """

    claim: Annotated[_Line, Field(min_length=1)]
    checked: list[Answer] = []
    partly: _Line = ""
    unchecked: _Line = ""


class Document(_Model):
    """A document: the framework that it is of, its page, its address and its claims."""

    title: Annotated[_Line, Field(min_length=1)]
    page: Annotated[_Line, Field(min_length=1)]
    url: Annotated[str, Field(pattern="^https://")] | None = None
    claims: Annotated[list[Claim], Field(min_length=1)]


class _File(_Model):
    documents: Annotated[list[Document], Field(min_length=1)]


@dataclass(frozen=True)
class Register:
    """The documents of a file, and where everything stands in it."""

    documents: Sequence[Document]
    marked: Marked

    def claims(self) -> Iterator[tuple[_Path, Claim]]:
        """All claims with their paths in the file."""
        for i, document in enumerate(self.documents):
            for j, claim in enumerate(document.claims):
                yield ("documents", i, "claims", j), claim

    def answers(self) -> Iterator[tuple[_Path, Answer]]:
        """All answers with their paths in the file."""
        for path, claim in self.claims():
            for i, answer in enumerate(claim.checked):
                yield (*path, "checked", i), answer


def read(file: Path) -> Register:
    """The documents of the file. Raises `RegisterError` with file, line and column if malformed."""
    marked = yaml_marks.read(file, RegisterError)
    try:
        register = Register(_File.model_validate(marked.value).documents, marked)
    except ValidationError as error:
        raise _refusal(error, marked) from error
    first: dict[tuple[object, str], _Path] = {}
    titles = [(("documents", i), d.title) for i, d in enumerate(register.documents)]
    for path, text in [*titles, *((path, c.claim) for path, c in register.claims())]:
        if first.setdefault((path[:-1], text), path) is not path:
            before = marked.at(first[path[:-1], text])
            message = f"{described(text)} is listed twice, first at {before}"
            raise RegisterError(message, where=marked.at(path))
    for path, claim in register.claims():
        if bool(claim.checked) == bool(claim.unchecked):
            mistake = "both `checked` and" if claim.unchecked else "neither `checked` nor"
            hint = "say what checks the claim, or why nothing does"
            message = f"found {mistake} `unchecked`"
            raise RegisterError(message, where=marked.at(path), hint=hint)
        if claim.partly and claim.unchecked:
            hint = "`unchecked` says all of it"
            message = "found `partly` beside `unchecked`"
            raise RegisterError(message, where=marked.at(path), hint=hint)
    return register


def _refusal(error: ValidationError, marked: Marked) -> RegisterError:
    """The first mistake of a file. Unknown keys first: a misspelt key is reported as missing as well."""
    first = min(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
    loc = first["loc"]
    if first["type"] == "extra_forbidden":
        return RegisterError(f"unknown key {loc[-1]!r}", where=marked.key(loc))
    if first["type"] == "missing":
        return RegisterError(f"key {loc[-1]!r} is missing", where=marked.at(loc))
    requirement = first["msg"].removeprefix("Input should be ")
    separator = ": " if requirement == first["msg"] else ", expected "
    value = described(first["input"])
    return RegisterError(f"found {value}{separator}{requirement}", where=marked.at(loc))


def validate(register: Register, cases: Sequence[Case], variants: Sequence[str]) -> None:
    """Raise `RegisterError` where a claim names a case, a variant or a check that does not exist, or a
    check that does not judge the case."""
    for path, answer in register.answers():

        def where(key: str, number: int, path: _Path = path) -> object:
            return register.marked.at((*path, key, number))

        for i, name in enumerate(answer.variant):
            check_name("variant", name, variants, where("variant", i))
        for i, name in enumerate(answer.check):
            check_name("check", name, CHECKS, where("check", i))
        for i, name in enumerate(answer.case):
            for case in cases_named(name, cases, where("case", i)):
                judged = applicable(case)
                for j, check in enumerate(answer.check):
                    if check not in judged:
                        raise RegisterError(
                            f"the check {check!r} does not judge {case.id}",
                            where=where("check", j),
                            hint=f"its checks are {', '.join(judged)}",
                        )


# -- the page --------------------------------------------------------------------------------------


def pages(results: Sequence[Results]) -> Mapping[str, str]:
    """The page, from the list beside it. Raises `RegisterError`."""
    register, cases = read(FILE), load_folder(ROOT / "cases")
    validate(register, cases, variants())
    return {"docs/documents.md": render(register.documents, cases, results)}


def render(documents: Sequence[Document], cases: Sequence[Case], results: Sequence[Results]) -> str:
    """The page, in Markdown, from the results of several adapters."""
    return "\n".join(_lines(documents, cases, results)) + "\n"


def _lines(
    documents: Sequence[Document], cases: Sequence[Case], results: Sequence[Results]
) -> Iterator[str]:
    by_pair = {result.pair: result for run in results for result in run.results}
    claims = [claim for document in documents for claim in document.claims]
    named = {name for claim in claims for answer in claim.checked for name in answer.variant}
    yield "# Documents"
    yield ""
    yield "This page lists what the documentation of four frameworks says about recompute, one claim per"
    yield "sentence and in our words, and the verdicts of the runs below. `tools/documents.py` generates"
    yield "it from `docs/documents.yaml` and the results. *known* is a deviation with a known cause,"
    yield "*unsupported* is something that the mode does not offer."
    yield ""
    for header in (run.header for run in results):
        if header.adapter in {name.partition("/")[0] for name in named}:
            versions = ", ".join(f"{k} {v}" for k, v in header.versions.items() if k != "platform")
            yield f"- {escape(header.adapter)}: {escape(versions)}"
    yield ""
    yield _counts(claims)
    yield ""
    for document in documents:
        yield from _section(document, cases, by_pair)


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
    yield "| claim | case · modes · checks · verdict |"
    yield "|---|---|"
    for claim in document.claims:
        yield f"| {escape(claim.claim)} | {'<br>'.join(_seen(claim, cases, by_pair))} |"
    yield ""


def _seen(claim: Claim, cases: Sequence[Case], by_pair: ResultsByPair) -> Iterator[str]:
    """A claim's answers: case, modes, checks and verdict; last what is not checked."""
    if claim.unchecked:
        yield f"*unchecked*: {escape(claim.unchecked)}"
    for answer in claim.checked:
        for parts in _answered(answer, cases, by_pair):
            yield " · ".join(parts)
    if claim.partly:
        yield f"*in part*: {escape(claim.partly)}"


def _answered(
    answer: Answer, cases: Sequence[Case], by_pair: ResultsByPair
) -> Iterator[tuple[str, ...]]:
    """An answer's parts: variants and checks with the same verdict on a case stay together."""
    for case in (case for name in answer.case for case in cases_named(name, cases, FILE)):
        rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for check in answer.check:
            by_text: dict[str, list[str]] = {}
            for variant in answer.variant:
                text = verdict_words(by_pair.get((case.id, variant)), check)
                by_text.setdefault(text, []).append(variant)
            for text, found in by_text.items():
                rows.setdefault((text, tuple(found)), []).append(check)
        for (text, on), checks in rows.items():
            names = (case.id, ", ".join(on), ", ".join(checks))
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


if __name__ == "__main__":
    main(pages, __doc__)
