"""Results files: JSON lines, a header first, a line per case and variant, a footer last."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from conformance.errors import MissingFooterError, ResultsError
from conformance.results import codec
from conformance.results.lines import LINE, FooterModel, HeaderModel, ResultModel
from conformance.results.model import FORMAT, Footer, Header, Result, Results, make_footer

_RUN_AGAIN = "run the adapter again"


def result_to_dict(result: Result) -> dict[str, Any]:
    """A result as JSON values, as they stand in a file. Raises `ResultsError` for odd arrays."""
    return codec.result_to_model(result).model_dump(mode="json")


def result_from_dict(values: Mapping[str, Any]) -> Result:
    """The result that `result_to_dict` was given. Raises `ResultsError` for anything else."""
    try:
        return codec.result_from_model(ResultModel.model_validate(values))
    except ValidationError as error:
        raise ResultsError(f"not a result: {_first(error)}") from error


def write(path: Path, header: Header, results: Iterable[Result], footer: Footer) -> None:
    """Write a whole file or none: it gets its name when its last line is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(codec.header_to_model(header).model_dump_json() + "\n")
            for result in results:
                file.write(codec.result_to_model(result).model_dump_json() + "\n")
            file.write(codec.footer_to_model(footer).model_dump_json() + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> Results:
    """Read a whole file.

    Raises `MissingFooterError` for one that was cut off, and `ResultsError`, with the line's
    number, for one that is not there, is malformed, of another format, or disagrees with its own
    footer.
    """
    header: Header | None = None
    footer: Footer | None = None
    results: list[Result] = []
    number, line = 0, b"\n"
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                where = f"{path}:{number}"
                if footer is not None:
                    raise ResultsError("a line after the footer", where=where, hint=_RUN_AGAIN)
                model = _line(line, where, path)
                if header is None:
                    header = _header(model, where)
                elif isinstance(model, ResultModel):
                    results.append(_result(model, where, header))
                elif isinstance(model, FooterModel):
                    footer = codec.footer_from_model(model)
                else:
                    raise ResultsError("a second header", where=where, hint=_RUN_AGAIN)
    except OSError as error:
        raise ResultsError(f"cannot be read: {error.strerror}", where=path) from error
    if header is None or footer is None:
        raise _cut_off(f"{path}:{number}", path)
    _agree(path, number, results, footer)
    return Results(path, header, tuple(results), footer)


def _line(line: bytes, where: str, path: Path) -> HeaderModel | ResultModel | FooterModel:
    try:
        return LINE.validate_json(line)
    except ValidationError as error:
        if not line.endswith(b"\n"):
            raise _cut_off(where, path) from error
        raise ResultsError(_first(error), where=where, hint=_RUN_AGAIN) from error


def _header(model: object, where: str) -> Header:
    if not isinstance(model, HeaderModel):
        raise ResultsError("the first line is not a header", where=where, hint=_RUN_AGAIN)
    if model.format != FORMAT:
        raise ResultsError(
            f"format {model.format}, but this suite reads format {FORMAT}",
            where=where,
            hint=f"it was written by version {model.suite} of the suite; {_RUN_AGAIN}",
        )
    return codec.header_from_model(model)


def _result(model: ResultModel, where: str, header: Header) -> Result:
    if model.variant not in header.variants:
        raise ResultsError(
            f"variant {model.variant!r} is not in the header",
            where=where,
            hint=f"the header names {', '.join(header.variants)}",
        )
    try:
        return codec.result_from_model(model)
    except ResultsError as error:
        raise ResultsError(
            f"{model.case} on {model.variant}: {error.message}", where=where, hint=_RUN_AGAIN
        ) from error


def _agree(path: Path, number: int, results: list[Result], footer: Footer) -> None:
    where = f"{path}:{number}"
    seen: set[tuple[str, str]] = set()
    for result in results:
        key = (result.case, result.variant)
        if key in seen:
            raise ResultsError(
                f"{result.case} on {result.variant} stands there twice", where=path, hint=_RUN_AGAIN
            )
        seen.add(key)
    counted = make_footer(results, {})
    if footer.results != counted.results:
        raise ResultsError(
            f"the footer speaks of {footer.results} results, the file has {counted.results}",
            where=where,
            hint=_RUN_AGAIN,
        )
    if {s: n for s, n in footer.statuses.items() if n} != counted.statuses:
        raise ResultsError(
            "the footer's counts per status are not those of the file",
            where=where,
            hint=_RUN_AGAIN,
        )


def _cut_off(where: str, path: Path) -> MissingFooterError:
    return MissingFooterError(
        "no footer: the run that wrote this did not finish",
        where=where,
        hint=f"{_RUN_AGAIN}, then read {path.name} once more",
    )


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
