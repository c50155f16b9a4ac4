"""Being told when a phase starts, on programs small enough to follow by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from conformance.model.program import Program
from conformance.observe.worker.loaded import load_program
from conformance.observe.worker.phases import announced
from conformance.observe.worker.trace import Trace
from tests.test_trace import program

TRAINED = """
    def recomputed(x):
        return x + 1

    def run(forward, *, steps=2):
        losses = []
        for _ in range(steps):
            if losses:
                x = losses[-1]
            else:
                x = 1
            with open(__file__) as file:
                loss = forward(  #p forward
                    x,
                )  #.
            try:
                gradient = 2 * loss  #p backward
            finally:
                losses.append(loss)
        return losses, gradient
"""


def told(made: Program) -> tuple[list[tuple[str, int, int]], object]:
    """(phase, losses so far, line) of each call, and what `run` gave."""
    found: list[tuple[str, int, int]] = []

    def on_phase(label: str, frame: FrameType) -> None:
        found.append((label, len(frame.f_locals["losses"]), frame.f_lineno))

    module = load_program(made)
    with announced(made, module, on_phase) as run:
        result = run(module.recomputed)
    return found, result


def test_each_start_of_a_phase_is_told_with_the_frame_and_the_line_of_it(tmp_path: Path) -> None:
    made = program(tmp_path, TRAINED)
    forward, backward = (
        min(n for n, site in made.lines.items() if site.label == label)
        for label in ("forward", "backward")
    )
    found, result = told(made)
    assert found == [
        ("forward", 0, forward),
        ("backward", 0, backward),
        ("forward", 1, forward),
        ("backward", 1, backward),
    ]
    assert result == ([2, 3], 6)


def test_it_is_told_what_a_trace_of_the_lines_is_told(tmp_path: Path) -> None:
    made = program(tmp_path, TRAINED)
    traced: list[tuple[str, int, int]] = []

    def on_phase(label: str, frame: FrameType) -> None:
        traced.append((label, len(frame.f_locals["losses"]), frame.f_lineno))

    module = load_program(made)
    with Trace(made, on_phase=on_phase).active():
        module.run(module.recomputed)
    assert told(made)[0] == traced


def test_nothing_traces_and_the_module_is_as_before(tmp_path: Path) -> None:
    made = program(tmp_path, TRAINED)
    module = load_program(made)
    before, run = dict(vars(module)), module.run
    seen: list[object] = []
    with announced(made, module, lambda label, frame: seen.append(sys.gettrace())) as marked:
        marked(module.recomputed, steps=1)
        assert module.run is run
    assert len(seen) == 2
    assert vars(module) == before


def test_an_exception_ends_the_run_where_the_phase_starts(tmp_path: Path) -> None:
    class Enough(BaseException):
        pass

    lines: list[int] = []

    def on_phase(label: str, frame: FrameType) -> None:
        lines.append(frame.f_lineno)
        if label == "backward":
            raise Enough

    made = program(tmp_path, TRAINED)
    module = load_program(made)
    try:
        with announced(made, module, on_phase) as run:
            run(module.recomputed)
    except Enough:
        pass
    assert len(lines) == 2


STEPS = """
    def recomputed(x):
        return x + 1

    def run(forward, *, losses=()):
        loss = both(forward, x=1)
        return loss, losses

    def both(forward, *, x, times=2):
        losses = []
        loss = forward(x)  #p forward
        losses.append(loss)
        return times * loss  #p backward
"""


def test_phases_that_start_in_a_function_that_run_calls_are_told(tmp_path: Path) -> None:
    made = program(tmp_path, STEPS)
    found, result = told(made)
    assert [(label, losses) for label, losses, _ in found] == [("forward", 0), ("backward", 1)]
    assert result == (4, ())
    module = load_program(made)
    before = dict(vars(module))
    with announced(made, module, lambda label, frame: None):
        assert module.both is not before["both"]
    assert vars(module) == before
