"""The emitted programs as files: `<reports>/programs/<adapter>/<variant>/<family>/<name>.py`."""

from __future__ import annotations

import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from conformance.drivers.adapter import Adapter, Variant
from conformance.drivers.contract import Draft, Emitter
from conformance.emit.finishing import Text, finish
from conformance.errors import NotEmittedError
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.program import MAPPED, Program
from conformance.writing import check_full, write_bytes

#: A case and a variant, by id: what names a program.
Key = tuple[str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class EmitFailure:
    """The adapter's emitter could not write a program: the exception in a line, and its traceback.

    `asked` is what the adapter does not offer, an operation or another part of the case, if that is the
    cause; else empty.
    """

    message: str
    traceback: str
    asked: str = ""


def program_path(case: str, variant: str) -> PurePosixPath:
    """Where a program lies below the reports' folder.

    Axes become words (`chain[depth=4]` → `chain__depth-4.py`), and a name that is a module of the
    standard library gets a `_`: a program's folder is the first that Python searches for modules.
    """
    family, _, name = case.partition("/")
    base, _, axes = name.removesuffix("]").partition("[")
    words = [re.sub(r"[^A-Za-z0-9.+-]", "_", axis.replace("=", "-", 1)) for axis in axes.split(",")]
    stem = "__".join([base, *words] if axes else [base])
    if stem in sys.stdlib_module_names or stem == "numpy" or stem == variant.split("/", 1)[0]:
        stem += "_"
    return PurePosixPath("programs", variant, family, f"{stem}.py")


def texts(
    adapter: Adapter, pairs: Sequence[tuple[Case, Variant]]
) -> Mapping[Key, Text | EmitFailure]:
    """The programs of an adapter, written in memory and formatted as one batch."""
    written: dict[Key, Text | EmitFailure] = {}
    drafts: dict[Key, Draft] = {}
    for case, variant in pairs:
        key = (case.id, variant.id)
        draft = _attempt(partial(_draft, adapter, case, variant))
        if isinstance(draft, EmitFailure):
            written[key] = draft
        else:
            drafts[key] = draft
    return {**written, **_finished(drafts)}


def _draft(adapter: Adapter, case: Case, variant: Variant) -> Draft:
    emitter: Emitter = adapter.load("emitter").emitter(case, variant)
    return emitter.write()


def _finished(drafts: Mapping[Key, Draft]) -> Mapping[Key, Text | EmitFailure]:
    if not drafts:
        return {}
    done = _attempt(lambda: finish(drafts))
    if not isinstance(done, EmitFailure):
        return done
    if len(drafts) == 1:
        return dict.fromkeys(drafts, done)
    # At least one draft is not valid Python: halve the batch until it is isolated.
    keys, half = list(drafts), len(drafts) // 2
    parts = ({key: drafts[key] for key in part} for part in (keys[:half], keys[half:]))
    return {key: text for part in parts for key, text in _finished(part).items()}


def _attempt(work: Callable[[], T]) -> T | EmitFailure:
    try:
        return work()
    except NotEmittedError as error:
        return EmitFailure(error.message, "", error.asked)
    except Exception as error:
        if isinstance(error, OSError):
            check_full(error, Path(tempfile.gettempdir()))
        line = "".join(traceback.format_exception_only(error)).strip()
        return EmitFailure(line, traceback.format_exc())


def write_programs(
    adapter: Adapter,
    pairs: Sequence[tuple[Case, Variant]],
    reports: Path,
    taken: dict[Path, str] | None = None,
) -> Mapping[Key, Program | EmitFailure]:
    """Write the programs of an adapter, and beside them the files that they import.

    `taken` maps each file written before to its case, and is updated, so that no two cases share a
    file. Raises `WriteError`.
    """
    taken = {} if taken is None else taken
    beside = {name: file.read_bytes() for name, file in adapter.beside.items()}
    written: dict[Key, Program | EmitFailure] = {}
    made = texts(adapter, pairs)
    for case, variant in pairs:
        key = (case.id, variant.id)
        text = made[key]
        if isinstance(text, EmitFailure):
            written[key] = text
            continue
        file = reports / program_path(case.id, variant.id)
        if taken.setdefault(file, case.id) != case.id:
            written[key] = EmitFailure(f"cases {taken[file]} and {case.id} share {file.name}", "")
            continue
        _write(file, text.text.encode("utf-8"))
        for name, content in beside.items():
            _write(file.parent / name, content)
        written[key] = Program(
            case=case.id,
            adapter=adapter.name,
            variant=variant.name,
            file=str(file),
            text=text.text,
            lines=text.lines,
            notes=text.notes | {MAPPED for region in case.regions() if region.mapped},
            procedure=case.procedure.kind,
            random=case.uses(RANDOM),
            sources=tuple(sorted(case.sources())),
            release=case.release,
            keeps=case.keeps,
            seeded=case.seeded,
            then=None if case.error is None else dict(case.error.then),
        )
    return written


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically, since several processes of one run write the same files."""
    if file.is_file() and file.read_bytes() == content:
        return
    write_bytes(file, content)
