"""What documents of frameworks say that can be tested, and which cases test it.

`documents.yaml` lies beside the documentation: for each document its claims, in our words. A claim is
*checked* by the verdicts of checks of cases on variants, maybe only *partly*; or it is *unchecked*, and
says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from conformance.errors import ConformanceError, nearest
from conformance.judge.checks import CHECKS, applicable
from conformance.language import yaml_marks
from conformance.language.spec_errors import described
from conformance.language.yaml_marks import Marked
from conformance.model.case import Case

#: Where the list lies, relative to the parent of the cases' folder.
FILE = Path("docs", "documents.yaml")

_Words = Annotated[str, Field(min_length=1)]
_Path = tuple[object, ...]


def _as_list(value: object) -> object:
    """A single name as a list of one."""
    return [value] if isinstance(value, str) else value


_Names = Annotated[list[_Words], BeforeValidator(_as_list), Field(min_length=1)]


class DocumentsError(ConformanceError):
    """The list of documents is malformed, or names what does not exist."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AnswerModel(_Model):
    """An answer in the file: the verdicts of each check, of each case, on each variant."""

    case: _Names
    variant: _Names
    check: _Names


class ClaimModel(_Model):
    """A claim in the file."""

    claim: _Words
    checked: list[AnswerModel] = []
    partly: str = ""
    unchecked: str = ""


class DocumentModel(_Model):
    """A document in the file."""

    title: _Words
    page: _Words
    url: Annotated[str, Field(pattern="^https://")] | None = None
    claims: Annotated[list[ClaimModel], Field(min_length=1)]


class DocumentsModel(_Model):
    """The whole file."""

    documents: Annotated[list[DocumentModel], Field(min_length=1)]


@dataclass(frozen=True)
class Name:
    """A name of a case, a variant or a check in the file; `where` is its `file:line:column`."""

    text: str
    where: str


@dataclass(frozen=True)
class Answer:
    """The verdicts that answer a claim: of these checks, of these cases, on these variants.

    Cases are named by id; an id without axes means all expansions of the case. Variants are full ids.
    """

    cases: tuple[Name, ...]
    variants: tuple[Name, ...]
    checks: tuple[Name, ...]


@dataclass(frozen=True)
class Claim:
    """A sentence or an example of a document, in our words.

    `unchecked` says why there are no `answers`, and is empty where there are some. `partly` says what
    part of the claim the answers do not check, or is empty.
    """

    text: str
    answers: tuple[Answer, ...]
    partly: str
    unchecked: str
    where: str


@dataclass(frozen=True)
class Document:
    """A document: the framework that it is of, its page, its URL (may be empty) and its claims."""

    title: str
    page: str
    url: str
    claims: tuple[Claim, ...]


def read(file: Path) -> tuple[Document, ...]:
    """The documents of the file. Raises `DocumentsError` with file, line and column if malformed."""
    marked = yaml_marks.read(file, DocumentsError)
    try:
        model = DocumentsModel.model_validate(marked.value)
    except ValidationError as error:
        raise _refusal(error, marked) from error
    _refuse_twice(marked, [(d.title, ("documents", i)) for i, d in enumerate(model.documents)])
    return tuple(
        _document(document, marked, ("documents", i)) for i, document in enumerate(model.documents)
    )


def cases_of(name: Name, cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases with that id, axes expanded. Raises `DocumentsError` where there is none."""
    matching = tuple(case for case in cases if name.text in (case.id, _bare(case.id)))
    if not matching:
        known = {_bare(case.id) for case in cases}
        hint = nearest(name.text, known)
        raise DocumentsError(f"no case {name.text!r}", where=name.where, hint=hint)
    return matching


def validate(documents: Sequence[Document], cases: Sequence[Case], variants: Sequence[str]) -> None:
    """Raise `DocumentsError` where a claim names a case, a variant or a check that does not exist, or
    a check that does not judge the case."""
    for answer in _answers(documents):
        for name in answer.variants:
            if name.text not in variants:
                hint = nearest(name.text, variants)
                raise DocumentsError(f"no variant {name.text!r}", where=name.where, hint=hint)
        for name in answer.checks:
            if name.text not in CHECKS:
                hint = nearest(name.text, CHECKS)
                raise DocumentsError(f"no check {name.text!r}", where=name.where, hint=hint)
        for case in (case for name in answer.cases for case in cases_of(name, cases)):
            judged = applicable(case)
            for name in answer.checks:
                if name.text not in judged:
                    raise DocumentsError(
                        f"the check {name.text!r} does not judge {case.id}",
                        where=name.where,
                        hint=f"its checks are {', '.join(judged)}",
                    )


def _answers(documents: Sequence[Document]) -> Iterator[Answer]:
    for document in documents:
        for claim in document.claims:
            yield from claim.answers


def _bare(case: str) -> str:
    """A case's id without its axes."""
    return case.partition("[")[0]


def _document(model: DocumentModel, marked: Marked, path: _Path) -> Document:
    with_paths = [(claim, (*path, "claims", i)) for i, claim in enumerate(model.claims)]
    _refuse_twice(
        marked, [(_line(claim.claim), path_of_claim) for claim, path_of_claim in with_paths]
    )
    claims = tuple(_claim(claim, marked, path_of_claim) for claim, path_of_claim in with_paths)
    return Document(_line(model.title), _line(model.page), model.url or "", claims)


def _claim(model: ClaimModel, marked: Marked, path: _Path) -> Claim:
    where = str(marked.key((*path, "claim")))
    text, partly, unchecked = (_line(part) for part in (model.claim, model.partly, model.unchecked))
    if bool(model.checked) == bool(unchecked):
        mistake = "both `checked` and" if unchecked else "neither `checked` nor"
        hint = "say what checks the claim, or why nothing does"
        raise DocumentsError(f"found {mistake} `unchecked`", where=where, hint=hint)
    if partly and unchecked:
        raise DocumentsError(
            "found `partly` beside `unchecked`", where=where, hint="`unchecked` says all of it"
        )
    answers = tuple(
        _answer(answer, marked, (*path, "checked", i)) for i, answer in enumerate(model.checked)
    )
    return Claim(text, answers, partly, unchecked, where)


def _answer(model: AnswerModel, marked: Marked, path: _Path) -> Answer:
    def names(texts: Sequence[str], key: str) -> tuple[Name, ...]:
        positions = (str(marked.at((*path, key, i))) for i in range(len(texts)))
        return tuple(map(Name, texts, positions))

    return Answer(
        names(model.case, "case"), names(model.variant, "variant"), names(model.check, "check")
    )


def _refuse_twice(marked: Marked, texts: Sequence[tuple[str, _Path]]) -> None:
    """Raise `DocumentsError` for a title or a claim that is in the list twice."""
    first: dict[str, _Path] = {}
    for text, path in texts:
        if first.setdefault(text, path) is not path:
            raise DocumentsError(
                f"{described(text)} is listed twice, first at {marked.key((*first[text], 'claim'))}",
                where=marked.key((*path, "claim")),
            )


def _refusal(error: ValidationError, marked: Marked) -> DocumentsError:
    """The first mistake of a file. Unknown keys first: a misspelt key is reported as missing as well."""
    first = min(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
    loc = first["loc"]
    if first["type"] == "extra_forbidden":
        return DocumentsError(f"unknown key {loc[-1]!r}", where=marked.key(loc))
    if first["type"] == "missing":
        return DocumentsError(f"key {loc[-1]!r} is missing", where=marked.at(loc))
    requirement = first["msg"].removeprefix("Input should be ")
    separator = ": " if requirement == first["msg"] else ", expected "
    value = described(first["input"])
    return DocumentsError(f"found {value}{separator}{requirement}", where=marked.at(loc))


def _line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())
