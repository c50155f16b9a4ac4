"""No module of the suite or of an adapter is part of an import circle, by late imports neither."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def imports(root: Path) -> dict[str, set[str]]:
    """For each module of `conformance` and `adapters`, the modules there that its text imports.

    Imports in functions count, and those under `TYPE_CHECKING`.
    `from a import b` is an import of `a.b` where that is a module, else of `a`.
    """
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in ("conformance", "adapters")
        for path in (root / folder).rglob("*.py")
    }
    return {name: set(_imported(path, name, files)) - {name} for name, path in files.items()}


def _imported(path: Path, name: str, modules: Container[str]) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        named: list[str] = []
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            parts = [f"{source}.{alias.name}" for alias in node.names]
            named = [part if part in modules else source for part in parts]
        yield from (one for one in named if one in modules)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules of one circle, each importing the next one; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_there_is_no_import_circle() -> None:
    assert circle(imports(ROOT)) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    files = {
        "conformance/a.py": "from conformance.room import b\n",
        "conformance/room/__init__.py": "from conformance.room.b import thing\n",
        "conformance/room/b.py": "def late():\n    from adapters.x import c\n",
        "adapters/x/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import d\n",
        "adapters/x/d.py": "import conformance.a\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    found = circle(imports(tmp_path))
    modules = {"conformance.a", "conformance.room.b", "adapters.x.c", "adapters.x.d"}
    assert set(found) == modules
    (tmp_path / "adapters/x/d.py").write_text("", "utf-8")
    assert circle(imports(tmp_path)) == []
