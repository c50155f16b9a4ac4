"""The file of a user's program, read without running it: its form and its framework."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.drivers.adapter import Adapter
from conformance.errors import ConformanceError, nearest

#: What a program that is trained defines, and what one that is run.
TRAINS = ("model", "batch", "loss")
RUNS = ("plain", "recomputed", "run")


class ProgramFileError(ConformanceError):
    """The file is no program that can be checked."""


@dataclass(frozen=True)
class Source:
    """A program's file, absolute, whether it has `model`, `batch` and `loss` or else `run`, and the
    adapter of its framework."""

    file: Path
    trains: bool
    adapter: Adapter
    #: What the file puts into `os.environ`: frameworks read some of it when they are imported.
    environment: Mapping[str, str]


def read(file: Path, adapters: Sequence[Adapter], chosen: Adapter | None = None) -> Source:
    """The program in a file. Raises `ProgramFileError` with the file, the line and what is expected."""
    try:
        text = file.read_text("utf-8")
        tree = ast.parse(text, str(file))
    except OSError as error:
        raise ProgramFileError(f"cannot be read: {error.strerror}", where=file) from error
    except UnicodeDecodeError as error:
        raise ProgramFileError("is not UTF-8 text", where=file) from error
    except SyntaxError as error:
        raise ProgramFileError(f"{error.msg}", where=f"{file}:{error.lineno}") from error
    defined = set(_defined(tree))
    trains = set(TRAINS) <= defined
    if not trains and not set(RUNS) <= defined:
        raise ProgramFileError(_lacking(defined), where=file, hint=_hint(defined))
    adapter = chosen or _adapter(tree, file, adapters)
    return Source(file.resolve(), trains, adapter, dict(_environment(tree)))


def _defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines at its top, also inside `if` and `try`, or imports."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                yield from (name.asname or name.name for name in names)


def _environment(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The constant texts that a module assigns to names in `os.environ`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[
                    ast.Subscript(
                        value=ast.Attribute(attr="environ"), slice=ast.Constant(str(name))
                    )
                ],
                value=ast.Constant(str(value)),
            ):
                yield name, value


def _lacking(defined: set[str]) -> str:
    nearer = TRAINS if defined & set(TRAINS) or not defined & set(RUNS) else RUNS
    lacking = [f"`{name}`" for name in nearer if name not in defined]
    lacks = " and no ".join(lacking)
    return f"a program that can be checked defines {_listed(nearer)}; this one has no {lacks}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:-1]) + f" and `{names[-1]}`"


def _hint(defined: set[str]) -> str:
    similar = [nearest(name, defined) for name in (*TRAINS, *RUNS) if name not in defined]
    forms = "model(recompute), batch(step), loss(model, batch); or plain, recomputed, run(forward)"
    return next((hint for hint in similar if hint and "did you" in hint.lower()), "") or forms


def _adapter(tree: ast.Module, file: Path, adapters: Sequence[Adapter]) -> Adapter:
    """The adapter whose framework the file imports; one that builds on others goes before them."""
    imported = {name for node in ast.walk(tree) for name in _imported(node)}
    found = [one for one in adapters if imported & set(one.model.imports)]
    below = {name for one in found for name in one.model.builds_on}
    found = [one for one in found if one.name not in below]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.name for one in found or adapters if one.model.imports)
    if found:
        raise ProgramFileError(
            f"imports several frameworks: {names}", where=file, hint="say --adapter NAME"
        )
    raise ProgramFileError(
        "imports no framework that can be checked",
        where=file,
        hint=f"say --adapter, one of {names}",
    )


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (name.name.partition(".")[0] for name in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]
