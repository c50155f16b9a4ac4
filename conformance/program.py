"""An emitted program: its text, and which line of it does what.

Imports nothing of ours: the worker process reads this too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

SiteKind = OneOf["statement", "region", "phase"]


@dataclass(frozen=True)
class Site:
    """What a line of a program does.

    `statement`: computes one statement of the case, named `label`, in `region` (empty outside).
    `region`: the `def` of a region's function, or its method that computes; `region` names it.
    `phase`: a line of `run`; `label` is `forward` or `backward`, the phase that starts there.
    `path` is the function it belongs to: `plain`, `recomputed` or `run`.
    """

    kind: SiteKind
    path: str
    region: str
    label: str
    op: str = ""


@dataclass(frozen=True)
class Program:
    """A program for one case and variant, as the worker needs it: no expectation is in it.

    `file` is the absolute path of the written file; `text` its content; `lines` maps line numbers
    (from 1, every line of a statement that spans several) to sites. `random` says whether the case
    draws random numbers, `then` are the arguments of the good run after an expected error (`None`
    where no error is expected), `procedure` is the kind of procedure.
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

    def sites(self, kind: SiteKind, path: str) -> tuple[Site, ...]:
        """The distinct sites of a kind in a function, in program order."""
        found = [s for _, s in sorted(self.lines.items()) if s.kind == kind and s.path == path]
        return tuple(dict.fromkeys(found))
