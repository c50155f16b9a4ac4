"""The lines of a program that is being written, and what they do."""

import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

from conformance.model.program import Site

#: The comment at the end of a line that refers to the line's site; `finish` takes it off. It does not
#: count towards the width of a line when ruff formats.
MARK = re.compile(r" *# pylint: s(\d+)$")
#: The lines of `run` at which the forward and the backward pass start.
FORWARD = Site("phase", "run", "", "forward")
BACKWARD = Site("phase", "run", "", "backward")


class Code:
    """Lines of Python being written, each with its indentation and perhaps a site."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.sites: list[Site] = []
        #: The parts of the case (`conformance.emit.emitter.PARTS`) that are written.
        self.parts: set[str] = set()
        #: Words for the adapter's observer (`Program.notes`).
        self.notes: set[str] = set()
        self._depth = 0

    def __call__(self, text: str = "", site: Site | None = None) -> None:
        """Write a line (or several, dedented); `site` marks the last of them."""
        several = "\n" in text  # dedenting is slow, and a single line does not need it
        lines = textwrap.dedent(text).strip("\n").split("\n") if several else [text.lstrip()]
        if site is not None:
            lines[-1] += f"  # pylint: s{len(self.sites)}"
            self.sites.append(site)
        self.lines += ["    " * self._depth + line if line else "" for line in lines]

    def wrote(self, part: str) -> None:
        """Record that a part of the case is written, a word of `conformance.emit.emitter.PARTS`. What
        takes the place of a method that calls this has to call it, too."""
        self.parts.add(part)

    def leave(self, name: str) -> None:
        """Write `return name`; if the last line assigned to it, return that expression instead."""
        made = "    " * self._depth + f"{name} = "
        if name.isidentifier() and self.lines[-1].startswith(made):
            self.lines[-1] = "    " * self._depth + f"return {self.lines[-1].removeprefix(made)}"
        else:
            self(f"return {name}")

    @contextmanager
    def indent(self, head: str, site: Site | None = None) -> Iterator[None]:
        """Write `head` and indent what is written inside the `with`."""
        self(head, site)
        self._depth += 1
        yield
        self._depth -= 1
