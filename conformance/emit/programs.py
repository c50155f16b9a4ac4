"""From what an emitter has written to programs: formatted by ruff, with their source maps, and as files,
`<reports>/programs/<adapter>/<variant>/<family>/<name>.py`."""

import ast
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ruff.__main__ import find_ruff_bin

from conformance.drivers.adapter import Adapter, Variant
from conformance.drivers.contract import Draft, Emitter
from conformance.emit.code import MARK
from conformance.errors import NotEmittedError
from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.program import MAPPED, Program, Site
from conformance.writing import check_full, write_bytes

#: A case and a variant, by id: what names a program.
Key = tuple[str, str]
T = TypeVar("T")
K = TypeVar("K")
#: The greatest width of a program's lines.
LINE_LENGTH = 88


@dataclass(frozen=True)
class Text:
    """A finished program: its text, its source map (by line number from 1), and its notes for the
    observer."""

    text: str
    lines: Mapping[int, Site]
    notes: frozenset[str] = frozenset()


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
    made = {(c.id, v.id): _attempt(partial(_draft, adapter, c, v)) for c, v in pairs}
    failed = {key: draft for key, draft in made.items() if isinstance(draft, EmitFailure)}
    drafts = {key: draft for key, draft in made.items() if not isinstance(draft, EmitFailure)}
    return {**failed, **_finished(drafts)}


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
        contents = {file.name: text.text.encode("utf-8"), **beside}
        for place in (file.parent / name for name in contents):
            # Whole at once, since several processes of one run write the same files.
            if not place.is_file() or place.read_bytes() != contents[place.name]:
                write_bytes(place, contents[place.name])
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
            ranks=case.ranks,
            then=None if case.error is None else dict(case.error.then),
        )
    return written


def finish(drafts: Mapping[K, Draft]) -> dict[K, Text]:
    """Format drafts as one batch with ruff: remove unused imports, sort imports, format, remove marks.

    Raises `RuntimeError` with ruff's own words where a draft is not valid Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {key: Path(folder) / f"p{i}.py" for i, key in enumerate(drafts)}
        for key, code in drafts.items():
            files[key].write_text("\n".join(code.lines) + "\n", "utf-8")
        _ruff(folder, "check", "--fix", "--quiet", "--select", "F401,I001", "--exit-zero")
        _ruff(folder, "format", "--quiet")
        return {key: _unmarked(file.read_text("utf-8"), drafts[key]) for key, file in files.items()}


def _ruff(folder: str, *arguments: str) -> None:
    """Run ruff with nothing left to the defaults that releases change: the width, and the Python that
    programs are for. Stable styles of ruff differ in nothing that programs contain; a test holds the
    oldest and the newest release that the suite takes to that."""
    line = f"--config=line-length={LINE_LENGTH}"
    options = ["--isolated", "--no-cache", "--target-version", "py311", line]
    command = [find_ruff_bin(), *arguments, *options, "."]
    # Run elsewhere, since ruff would sort modules in the current folder as the program's own.
    # A batch usually takes less than a second.
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120.0
    )
    if done.returncode:
        raise RuntimeError(f"ruff could not format an emitted program:\n{done.stderr.strip()}")


def _unmarked(text: str, draft: Draft) -> Text:
    tree = ast.parse(text)  # the marks are comments: without them the lines are the same
    statements = tuple(_statements(tree))
    # A docstring, which holds the case's title, may contain the same text.
    docstrings = {
        number
        for node in statements
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    marks: dict[int, Site] = {}
    plain = text.splitlines()
    for row, line in enumerate(plain, 1):
        mark = MARK.search(line) if row not in docstrings else None
        if mark:
            marks[row] = draft.sites[int(mark[1])]
            plain[row - 1] = line[: mark.start()].rstrip()
    lines: dict[int, Site] = {}
    for node in statements:
        if isinstance(node, ast.FunctionDef):
            end = max(node.lineno, node.body[0].lineno - 1)
            for number in range(node.lineno, end + 1):
                if number in marks and marks[number].kind == "region":
                    lines[node.lineno] = marks[number]
        elif not hasattr(node, "body"):
            end = node.end_lineno or node.lineno
            for number in range(node.lineno, end + 1):
                if number in marks and marks[number].kind != "region":
                    lines |= dict.fromkeys(range(node.lineno, end + 1), marks[number])
    return Text("\n".join(plain) + "\n", lines, frozenset(getattr(draft, "notes", ())))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements in a module, outer ones before those in them; nothing of their expressions."""
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        for part in getattr(node, block, ()):
            if isinstance(part, ast.stmt):
                yield part
            yield from _statements(part)
