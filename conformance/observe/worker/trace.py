"""Watching a program run, line by line, from outside: `sys.settrace` on the program's file alone.

Dependable wherever Python itself runs the region each time (eager modes). A compiled function runs
its Python once, while it is traced: there an adapter counts by other means.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, MappingProxyType
from typing import Any

from conformance.model.observation import Execution, Phase
from conformance.model.program import Program, Site, SiteKind


class Trace:
    """Follows a program: phases, entries of regions, statements begun and completed.

    `completed` counts (site, phase) of statements that ran to their end; a statement that an
    exception left (early stop raises one) counts only in `begun`. `entered` counts calls of
    regions' functions. `phase` is `forward` until the line that starts the backward pass.
    """

    def __init__(
        self,
        program: Program,
        *,
        on_phase: Callable[[str, FrameType], None] | None = None,
        on_statement: Callable[[Site, Phase, Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.program = program
        self.phase: Phase = "forward"
        self.begun: Counter[tuple[Site, Phase]] = Counter()
        self.completed: Counter[tuple[Site, Phase]] = Counter()
        self.entered: Counter[tuple[Site, Phase]] = Counter()
        self._on_phase, self._on_statement = on_phase, on_statement
        self._pending: dict[FrameType, Site | None] = {}
        sites = set(program.lines.values())
        others = {s.region for s in sites if s.kind == "region" or not s.label}
        #: Layers that are the only content of a region: each of their calls enters it.
        self._whole = {s for s in sites if s.kind == "layer" and s.region not in others}

    @contextmanager
    def active(self) -> Iterator[Trace]:
        """Trace this thread, and threads started meanwhile, until the `with` ends."""
        before, before_threads = sys.gettrace(), threading.gettrace()
        file = self.program.file

        def enter(frame: FrameType, event: str, argument: object) -> Any:
            # Python calls this for every function call in the thread: it has to be fast.
            return self._enter(frame, event, argument) if frame.f_code.co_filename == file else None

        sys.settrace(enter)
        threading.settrace(enter)
        try:
            yield self
        finally:
            sys.settrace(before)
            threading.settrace(before_threads)
            self._pending.clear()

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        site = self.program.lines.get(frame.f_code.co_firstlineno)
        if site is not None and site.kind == "region":
            self.entered[site, self.phase] += 1
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            site = self.program.lines.get(frame.f_lineno)
            if site is not None and site is self._pending.get(frame):
                return self._step  # a further line of the same statement
            self._finish(frame)
            self._pending[frame] = site
            if site is not None and site.kind == "statement":
                self.begun[site, self.phase] += 1
            elif site is not None and site.kind == "phase":
                self.phase = "rerun" if site.label == "backward" else "forward"
                if self._on_phase is not None:
                    self._on_phase(site.label, frame)
        elif event == "exception":
            self._pending[frame] = None
        elif event == "return":
            site = self._pending.get(frame)
            # The statement that is running when the function returns is its `return`.
            self._finish(frame, {} if site is None else {site.label: argument})
            self._pending.pop(frame, None)
        return self._step

    def _finish(self, frame: FrameType, returned: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Count the statement that has just run to its end in a frame, if there is one. `returned` holds
        the value that it returns, by the statement's label."""
        site = self._pending.get(frame)
        if site is not None and site.kind == "statement":
            self.completed[site, self.phase] += 1
            if self._on_statement is not None:
                names = {**frame.f_locals, **returned} if returned else frame.f_locals
                self._on_statement(site, self.phase, names)

    @contextmanager
    def calling(self, site: Site | None) -> Iterator[Callable[[Any], None]]:
        """Count a call of the layer made at `site`, if any. Yields a function that takes its result."""
        if site is not None and (not site.label or site in self._whole):
            self.entered[site, self.phase] += 1
        if site is None or not site.label:
            yield lambda _: None
            return
        begun = self.phase
        self.begun[site, begun] += 1

        def done(result: Any) -> None:
            self.completed[site, begun] += 1
            if self._on_statement is not None:
                self._on_statement(site, begun, {site.label: result})

        yield done

    def current(self, kind: SiteKind = "statement") -> Site | None:
        """The site of the innermost line of the program that is running now, if it is of a kind."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.program.file:
                site = self.program.lines.get(frame.f_lineno)
                return site if site is not None and site.kind == kind else None
            frame = frame.f_back
        return None


def executions(
    entered: Mapping[tuple[Site, Phase], int], statements: Mapping[tuple[Site, Phase], int]
) -> tuple[Execution, ...]:
    """Counts as observation values: regions first, then statements."""
    regions = [Execution(s.region, "", phase, n) for (s, phase), n in entered.items()]
    counts: Counter[tuple[str, str, Phase]] = Counter()
    for (site, phase), n in statements.items():
        counts[site.region, site.label, phase] += n
    return (*regions, *(Execution(r, label, phase, n) for (r, label, phase), n in counts.items()))
