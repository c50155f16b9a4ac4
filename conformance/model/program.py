"""An emitted program: its text, and its source map.

Imports nothing of `conformance`, since the worker process imports it, too.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NamedTuple

#: The note on a program in which a region is called through the framework's vectorising map.
MAPPED = "mapped"
#: The note on a program whose later steps compute with other numbers, or draw another number of them.
SET = "set"
SiteKind = OneOf["statement", "region", "layer", "phase", "gradient"]


class Site(NamedTuple):
    """What a line of a program does: an entry of the source map.

    `statement`: computes one statement of the case, named `label`, in `region` (empty outside).
    `region`: the `def` of a region's function, or of its layer's `forward`.
    `layer`: makes a layer of the framework, each of whose calls, which the observer counts, computes
    the statement, or the region if `label` is empty.
    `phase`: a line of `run`; `label` is `forward` or `backward`, the phase that starts there.
    `gradient`: a line of `run` that calls for the value and the gradients at once. An error that passes
    it, and no line of `phase` below it, is raised in backward.
    `path`: the function it belongs to, `plain`, `recomputed` or `run`; `both` for the first two.
    """

    kind: SiteKind
    path: str
    region: str
    label: str
    op: str = ""

    def serves(self, path: str) -> bool:
        """Whether the line belongs to this function."""
        return self.path in (path, "both")


@dataclass(frozen=True)
class Program:
    """A program for one case and variant, as the worker needs it. It holds no expected results.

    `file` is the absolute path of the written file, `lines` the source map by line number (from 1,
    every line of a statement that spans several). `then` are the arguments of the good run after an
    expected error (`None` if no error is expected). `notes` are words from the adapter's emitter to its
    observer. The other fields are as in the case: the kind of its `procedure`, whether it draws `random`
    numbers, and from which implicit `sources`.
    """

    case: str
    adapter: str
    variant: str
    file: str
    text: str
    lines: Mapping[int, Site]
    procedure: str
    random: bool
    then: Mapping[str, object] | None
    sources: tuple[str, ...] = ()
    release: int = 0
    keeps: bool = False
    seeded: bool = True
    notes: frozenset[str] = frozenset()
    ranks: int = 1

    def sites(self, kind: SiteKind, path: str) -> tuple[Site, ...]:
        """The distinct sites of a kind in a function, in program order."""
        matching = [s for _, s in sorted(self.lines.items()) if s.kind == kind and s.serves(path)]
        return tuple(dict.fromkeys(matching))

    def inner_regions(self, path: str) -> dict[str, list[str]]:
        """For each region of a function (`plain` or `recomputed`), outer ones first, the names of those
        directly inside it: defined there, or called there and defined for both functions."""
        inner: dict[str, list[str]] = {}
        tree = ast.parse(self.text)

        def region(node: ast.AST) -> str:
            site = self.lines.get(node.lineno) if isinstance(node, ast.FunctionDef) else None
            return site.region if site and site.kind == "region" and site.serves(path) else ""

        shared = {
            node.name: region(node) for node in tree.body if isinstance(node, ast.FunctionDef)
        }

        def visit(node: ast.AST, around: str) -> None:
            for child in ast.iter_child_nodes(node):
                name = region(child)
                if name:
                    inner[name] = []
                called = shared.get(child.id, "") if isinstance(child, ast.Name) else ""
                if around and (name or called):
                    inner[around].append(name or called)
                visit(child, name or around)

        visit(tree, "")
        return inner
