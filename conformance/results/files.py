"""Results files: JSON lines, a header first, a line per case and variant, a footer last; and their
arrays in a file beside them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from conformance.errors import MissingFooterError, ResultsError
from conformance.model.result import FORMAT, Footer, Header, Result, Results, make_footer
from conformance.results import codec
from conformance.results.arrays import ArrayFile, beside, joint_digest, write_arrays
from conformance.results.lines import (
    ExpectedLine,
    FooterLine,
    HeaderLine,
    Line,
    PlainLine,
    ResultLine,
)
from conformance.results.written import ResultWriter, WrittenResults
from conformance.words import printable
from conformance.writing import writing

#: Seconds that whoever reads or writes results waits for another one to be done with them.
PATIENCE = 30.0
_RUN_AGAIN = "run the adapter again"
_LINES = msgspec.json.Decoder(Line)
#: Escapes of JSON and bytes of UTF-8 that may be a control character; most lines have none of them.
#: U+0000 is left for whoever takes a text for a path.
_CONTROL = (
    rb"\\[bfr]|\\u(?!0000)(?:00|06|20)[0-9a-fA-F]{2}|\\u[dD][0-9a-fA-F]{3}"
    rb"|\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
)
_MAY_CONTROL = re.compile(_CONTROL)
#: The same, each whole: a backslash that is one itself begins none, two halves are one character.
_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|" + _CONTROL
)


class _Start(msgspec.Struct):
    """What every format says of itself in its first line."""

    type: str
    format: int = 0
    suite: str = ""


_START = msgspec.json.Decoder(_Start)


def write(path: Path, header: Header, results: Iterable[Result], footer: Footer) -> None:
    """Write lines to `path` and arrays beside it, both whole or none. Raises `WriteError`."""
    with writing(path), _beside(path) as folder:
        writer = ResultWriter(folder / "all")
        try:
            for number, result in enumerate(results):
                writer.put(number, codec.encode(result))
        finally:
            writer.close()
        write_merged(path, header, WrittenResults.of([folder / "all"]), footer)


def write_merged(
    path: Path, header: Header, results: WrittenResults, footer: Footer, room: Path | None = None
) -> None:
    """Move finished temporary results and their arrays to `path`, replacing both files or neither.

    Both files are on disk in full before either is renamed; a failure before that changes neither
    and raises `WriteError`. The temporary files lie in `room`, a folder on the same disk, or beside
    `path`.
    """
    with writing(path), _beside(path, room) as folder:
        lines, arrays = folder / "lines", folder / "arrays"
        stored = results.arrays()
        write_arrays(arrays, stored)
        with lines.open("wb") as file:
            file.write(codec.header_line(header, joint_digest(stored)) + b"\n")
            file.writelines(results.lines())
            file.write(codec.footer_line(footer) + b"\n")
        for written in (lines, arrays):
            written.chmod(0o644)
            _to_disk(written)
        with _locked(path.parent, fcntl.LOCK_EX):
            _rename_both(lines, path, arrays, beside(path), folder / "before")


def remove(path: Path) -> None:
    """Take away a results file and its arrays, where they are. Raises `WriteError`."""
    with writing(path), _locked(path.parent, fcntl.LOCK_EX):
        path.unlink(missing_ok=True)
        beside(path).unlink(missing_ok=True)


@contextlib.contextmanager
def _beside(path: Path, room: Path | None = None) -> Iterator[Path]:
    """A temporary folder on the disk of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=room or path.parent, prefix=f".{path.name}.") as folder:
        yield Path(folder)


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Hold a lock on the two files inside the `with`: exclusive to rename them (`LOCK_EX`), else
    shared.

    If the file system has no locks, or the lock is held for too long, go on without it: readers
    check by the hash of the array names that both files belong to the same run.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.flock(handle, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(handle)


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _rename_both(lines: Path, path: Path, arrays: Path, stored: Path, before: Path) -> None:
    """Rename both files into place, or restore the previous ones.

    Only a crash between the two renames can leave arrays of one run beside lines of another;
    readers detect it.
    """
    if stored.exists():
        os.link(stored, before)
    arrays.replace(stored)
    try:
        lines.replace(path)
    except BaseException:
        stored.unlink()
        if before.exists():
            before.replace(stored)
        raise


def read(path: Path) -> Results:
    """Read a results file and its arrays, both whole.

    Raises `MissingFooterError` for one that was cut off, and `ResultsError`, with the line's
    number, for one that is not there, is malformed, of another format, disagrees with its own
    footer, or has other arrays beside it than its own.
    """
    header: Header | None = None
    footer: Footer | None = None
    decoder = codec.Decoder(_no_array)
    results: list[Result] = []
    number = 0
    try:
        with _locked(path.parent, fcntl.LOCK_SH), path.open("rb") as file:
            for number, line in enumerate(file, 1):
                where = f"{path}:{number}"
                if footer is not None:
                    raise ResultsError("a line after the footer", where=where, hint=_RUN_AGAIN)
                if header is None:
                    start = _header(line, where)
                    header = codec.header_from(start)
                    decoder = codec.Decoder(ArrayFile.read(beside(path), start.arrays).get)
                    continue
                model = _line(line, where)
                if isinstance(model, ResultLine):
                    results.append(_result(decoder, model, where, header))
                elif isinstance(model, ExpectedLine | PlainLine):
                    _shared(decoder, model, where)
                elif isinstance(model, FooterLine):
                    footer = codec.footer_from(model)
                else:
                    raise ResultsError("a second header", where=where, hint=_RUN_AGAIN)
    except OSError as error:
        raise ResultsError(f"cannot be read: {error.strerror}", where=path) from error
    if header is None or footer is None:
        raise _cut_off(f"{path}:{number}")
    _agree(path, number, results, footer)
    return Results(path, header, tuple(results), footer)


def _no_array(name: str) -> Any:
    raise ResultsError(f"array {name} before the header")


def _line(line: bytes, where: str, decoder: msgspec.json.Decoder[Any] = _LINES) -> Any:
    try:
        decoded = decoder.decode(line)
        return decoded if _MAY_CONTROL.search(line) is None else _shown(decoded, line, decoder)
    except RecursionError as error:
        raise ResultsError("nested too deeply", where=where, hint=_RUN_AGAIN) from error
    except ValueError as error:  # msgspec's own errors, and a number of too many digits
        if not line.endswith(b"\n"):
            raise _cut_off(where) from error
        raise ResultsError(str(error), where=where, hint=_RUN_AGAIN) from error


def _shown(decoded: Any, line: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """A line with control characters escaped, so that it is safe to print. Values that a program
    returned are left unchanged.
    """
    if isinstance(decoded, ExpectedLine):
        return decoded
    shown = decoder.decode(_ESCAPES.sub(_written_out, line))
    if isinstance(decoded, ResultLine):
        if decoded.recomputed is not None:
            shown.recomputed.outputs = decoded.recomputed.outputs
    elif isinstance(decoded, PlainLine):
        shown.run.outputs = decoded.run.outputs
    return shown


def _written_out(match: re.Match[bytes]) -> bytes:
    text = json.loads(b'"' + match[0] + b'"')
    shown = printable(text)
    return match[0] if text == shown else json.dumps(shown)[1:-1].encode("ascii")


def _header(line: bytes, where: str) -> Any:
    start = _line(line, where, _START)
    if start.type != "header":
        raise ResultsError("the first line is not a header", where=where, hint=_RUN_AGAIN)
    if start.format != FORMAT:
        raise ResultsError(
            f"format {start.format}, but this suite reads format {FORMAT}",
            where=where,
            hint=f"it was written by version {start.suite} of the suite; {_RUN_AGAIN}",
        )
    header = _line(line, where)
    assert isinstance(header, HeaderLine)
    return header


def _shared(decoder: codec.Decoder, model: ExpectedLine | PlainLine, where: str) -> None:
    try:
        if isinstance(model, ExpectedLine):
            decoder.expectation(model)
        else:
            decoder.plain(model)
    except ResultsError as error:
        what = "expectation" if isinstance(model, ExpectedLine) else "plain run"
        message = f"{what} {model.key}: {error.message}"
        raise ResultsError(message, where=where, hint=error.hint or _RUN_AGAIN) from error


def _result(decoder: codec.Decoder, model: ResultLine, where: str, header: Header) -> Result:
    if "\0" in model.program:
        raise ResultsError(
            f"{model.case} on {model.variant}: program {model.program!r} is no path",
            where=where,
            hint=_RUN_AGAIN,
        )
    if model.variant not in header.variants:
        raise ResultsError(
            f"variant {model.variant!r} is not in the header",
            where=where,
            hint=f"the header names {', '.join(header.variants)}",
        )
    try:
        return decoder.result(model)
    except ResultsError as error:
        hint = error.hint or _RUN_AGAIN
        message = f"{model.case} on {model.variant}: {error.message}"
        raise ResultsError(message, where=where, hint=hint) from error


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


def _cut_off(where: str) -> MissingFooterError:
    name = Path(where.rpartition(":")[0]).name
    return MissingFooterError(
        "no footer: the run that wrote this did not finish",
        where=where,
        hint=f"{_RUN_AGAIN}, then read {name} once more",
    )
