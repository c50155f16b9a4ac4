"""The line trace, on programs small enough to count by hand."""

from __future__ import annotations

import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from conformance.model.observation import Execution
from conformance.model.program import Program, Site
from conformance.observe.worker.loaded import load_program
from conformance.observe.worker.trace import Trace, executions


def program(folder: Path, text: str, **more: Any) -> Program:
    """A program from a text whose lines are marked: `#s region label op` (`-` for no region),
    `#r region`, `#p phase`.

    A mark before a bracket that stays open counts for every line down to the one with `#.`.
    """
    text = textwrap.dedent(text).lstrip("\n")
    lines: dict[int, Site] = {}
    path, going = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("def "):
            path = line[4 : line.index("(")]
        code, _, mark = line.partition("#")
        if mark.startswith("."):
            assert going is not None
            lines[number], going = going, None
        elif mark:
            kind, *words = mark.split()
            if kind == "s":
                region, label, *op = words if len(words) > 1 else ["-", *words]
                site = Site("statement", path, region.strip("-"), label, op[0] if op else "")
            elif kind == "r":
                site = Site("region", path, words[0], words[0])
            else:
                site = Site("phase", "run", "", words[0])
            lines[number] = site
            going = site if code.count("(") > code.count(")") else None
        elif going is not None:
            lines[number] = going
    file = folder / "program.py"
    file.write_text(text, "utf-8")
    given = {"procedure": "backward", "random": False, "then": None, **more}
    return Program("fam/one", "mini", "mini", str(file), text, lines, **given)


def counts(found: dict[tuple[Site, Any], int]) -> dict[str, int]:
    """`{"block.h forward": 1}`"""
    return {
        f"{s.region}.{s.label} {phase}" if s.kind == "statement" else f"{s.region} {phase}": n
        for (s, phase), n in found.items()
    }


#: What runs a program that has no `run` of its own.
RUN = """
def run(forward):
    return forward(4)  #p forward
"""


def traced(folder: Path, text: str) -> Trace:
    made = program(folder, text if "def run" in text else textwrap.dedent(text) + RUN)
    module = load_program(made)
    trace = Trace(made)
    with trace.active():
        module.run(module.recomputed)
    return trace


#: A region called twice in forward and once again in backward; in backward it stops at its end.
RERUN = """
    kept = []

    class Stop(Exception):
        pass

    def recomputed(x):
        def block(x):  #r block
            h = x + 1  #s block h
            if len(kept) > 2:
                raise Stop  #s block never
            y = h * 2  #s block y
            return y
        kept.append(block)
        y = block(x)
        z = block(y)
        w = z + 1  #s w
        return w

    def run(forward):
        kept.clear()
        w = forward(1)  #p forward
        kept[0](1)  #p backward
        return w
"""


def test_counts_of_a_rerun(tmp_path: Path) -> None:
    trace = traced(tmp_path, RERUN)
    assert counts(trace.entered) == {"block forward": 2, "block rerun": 1}
    assert counts(trace.completed) == {
        "block.h forward": 2,
        "block.y forward": 2,
        ".w forward": 1,
        "block.h rerun": 1,
        "block.y rerun": 1,
    }
    assert trace.completed == trace.begun


def test_executions_name_regions_then_statements(tmp_path: Path) -> None:
    trace = traced(tmp_path, RERUN)
    found = executions(trace.entered, trace.completed)
    assert set(found) == {
        Execution("block", "", "forward", 2),
        Execution("block", "", "rerun", 1),
        Execution("block", "h", "forward", 2),
        Execution("block", "y", "forward", 2),
        Execution("", "w", "forward", 1),
        Execution("block", "h", "rerun", 1),
        Execution("block", "y", "rerun", 1),
    }
    assert [bool(e.statement) for e in found] == [False] * 2 + [True] * 5


def test_one_more_statement_moves_the_counts_by_one(tmp_path: Path) -> None:
    before = traced(tmp_path, RERUN).completed
    more = RERUN.replace(
        "        w = z + 1  #s w\n", "        w = z + 1  #s w\n        v = w  #s v\n"
    )
    after = traced(tmp_path, more).completed
    assert counts(after) == {**counts(before), ".v forward": 1}
    twice = RERUN.replace("kept[0](1)  #p backward", "kept[0](1)  #p backward\n        kept[0](1)")
    again = counts(traced(tmp_path, twice).completed)
    assert again == {**counts(before), "block.h rerun": 2, "block.y rerun": 2}


def test_a_statement_that_raises_is_begun_and_not_completed(tmp_path: Path) -> None:
    """Early stop: an exception leaves the region in the middle of a statement."""
    trace = traced(
        tmp_path,
        """
        def stop():
            raise StopIteration

        def recomputed(x):
            def block(x, last):  #r block
                h = x + 1  #s block h
                y = h * 2 if not last else stop()  #s block y
                z = y + 1  #s block z
                return z
            block(x, False)
            return block

        def run(forward):
            block = forward(1)  #p forward
            try:
                block(1, True)  #p backward
            except StopIteration:
                pass
        """,
    )
    assert counts(trace.entered) == {"block forward": 1, "block rerun": 1}
    assert counts(trace.begun) == {
        **{f"block.{n} forward": 1 for n in "hyz"},
        "block.h rerun": 1,
        "block.y rerun": 1,
    }
    assert counts(trace.completed) == {
        **{f"block.{n} forward": 1 for n in "hyz"},
        "block.h rerun": 1,
    }


def test_an_exception_that_is_caught_within_leaves_the_rest_counted(tmp_path: Path) -> None:
    trace = traced(
        tmp_path,
        """
        def recomputed(x):
            try:
                a = 1 / 0  #s a
            except ZeroDivisionError:
                b = x  #s b
            return b
        """,
    )
    assert counts(trace.begun) == {".a forward": 1, ".b forward": 1}
    assert counts(trace.completed) == {".b forward": 1}


def test_a_statement_on_several_lines_counts_once(tmp_path: Path) -> None:
    trace = traced(
        tmp_path,
        """
        def add(a, b):
            return a + b

        def recomputed(x):
            y = add(  #s y
                x
                + 1,
                add(
                    x,
                    2,
                ),
            )  #.
            z = y + 1  #s z
            return z
        """,
    )
    assert counts(trace.begun) == counts(trace.completed) == {".y forward": 1, ".z forward": 1}


def test_a_loop_counts_each_turn(tmp_path: Path) -> None:
    trace = traced(
        tmp_path,
        """
        def recomputed(x):
            for _ in range(3):
                x = x + 1  #s x
            return x
        """,
    )
    assert counts(trace.completed) == {".x forward": 3}


def test_recursion_keeps_each_frame_apart(tmp_path: Path) -> None:
    """An outer statement ends after the inner ones that it calls, and each counts by itself."""
    trace = traced(
        tmp_path,
        """
        def recomputed(n):
            def block(n):  #r block
                a = n - 1  #s block a
                b = block(a) if a else 0  #s block b
                return b
            return block(n)
        """,
    )
    assert counts(trace.entered) == {"block forward": 4}
    assert counts(trace.completed) == {"block.a forward": 4, "block.b forward": 4}


def test_threads_are_followed(tmp_path: Path) -> None:
    """Some frameworks run backward, and so the rerun, in a thread of their own."""
    trace = traced(
        tmp_path,
        """
        import threading

        def recomputed(x):
            def block(x):  #r block
                y = x + 1  #s block y
                return y
            block(x)
            return block

        def run(forward):
            block = forward(1)  #p forward
            thread = threading.Thread(target=block, args=(1,))  #p backward
            thread.start()
            thread.join()
        """,
    )
    assert counts(trace.entered) == {"block forward": 1, "block rerun": 1}
    assert counts(trace.completed) == {"block.y forward": 1, "block.y rerun": 1}


def test_phases_alternate_over_steps(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        """
        def recomputed(x):
            y = x + 1  #s y
            return y

        def run(forward):
            for _ in range(2):
                forward(1)  #p forward
                forward(1)  #p backward
        """,
    )
    module, seen = load_program(made), []

    def on_phase(label: str, frame: FrameType) -> None:
        seen.append((label, frame.f_code.co_name))

    trace = Trace(made, on_phase=on_phase)
    with trace.active():
        module.run(module.recomputed)
    assert seen == [("forward", "run"), ("backward", "run")] * 2
    assert counts(trace.completed) == {".y forward": 2, ".y rerun": 2}


def test_statements_are_shown_with_what_they_made(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        """
        def recomputed(x):
            y = x + 1  #s y
            y = y * 10  #s y
            return y

        def run(forward):
            forward(1)  #p forward
            forward(5)  #p backward
        """,
    )
    module, seen = load_program(made), []
    trace = Trace(made, on_statement=lambda s, phase, names: seen.append((phase, names[s.label])))
    with trace.active():
        module.run(module.recomputed)
    assert seen == [("forward", 2), ("forward", 20), ("rerun", 6), ("rerun", 60)]


def test_other_files_are_not_followed(tmp_path: Path) -> None:
    trace = traced(
        tmp_path,
        "import textwrap\n"
        + textwrap.dedent(RERUN).replace("x + 1", "len(textwrap.dedent(str(x)))"),
    )
    assert sum(trace.entered.values()) == 3


def test_tracing_ends_and_gives_the_tracer_back(tmp_path: Path) -> None:
    made = program(tmp_path, RERUN)
    module, before = load_program(made), (sys.gettrace(), threading.gettrace())
    trace = Trace(made)

    def fails() -> None:
        module.recomputed(1)
        raise RuntimeError

    with pytest.raises(RuntimeError), trace.active():
        fails()
    assert (sys.gettrace(), threading.gettrace()) == before
    found = dict(trace.completed)
    module.recomputed(1)
    assert trace.completed == found


def test_a_call_of_a_layer_counts_for_the_line_that_made_it(tmp_path: Path) -> None:
    made = program(tmp_path, "def plain(x):\n    layer = 1  #s block h\n    return x\n")
    layer = Site("layer", "plain", "block", "h", "sin")
    whole = Site("layer", "plain", "other", "y", "sin")
    around = Site("layer", "plain", "block", "")
    shown: list[object] = []
    trace = Trace(
        replace(made, lines={1: around, 2: layer, 3: whole}),
        on_statement=lambda site, phase, names: shown.append((site.label, phase, dict(names))),
    )
    with trace.calling(around) as gave:
        with trace.calling(layer) as done:
            done(5)
        gave(6)
    with pytest.raises(ValueError, match="stop"), trace.calling(layer):
        raise ValueError("stop")
    with trace.calling(None) as nothing:
        nothing(7)
    trace.phase = "rerun"
    with trace.calling(whole) as done:
        done(8)
    assert trace.entered == {(around, "forward"): 1, (whole, "rerun"): 1}
    assert trace.begun == {(layer, "forward"): 2, (whole, "rerun"): 1}
    assert trace.completed == {(layer, "forward"): 1, (whole, "rerun"): 1}
    assert shown == [("h", "forward", {"h": 5}), ("y", "rerun", {"y": 8})]


def test_current_is_the_statement_that_runs_now(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        """
        probe = print

        def recomputed(x):
            y = probe()  #s y
            probe()
            return y

        def run(forward):
            return forward(1)  #p forward
        """,
    )
    module, trace, seen = load_program(made), Trace(made), []
    module.probe = lambda: seen.append(trace.current())
    module.run(module.recomputed)
    assert [s and s.label for s in seen] == ["y", None]
    assert trace.current() is None


def test_a_region_that_both_functions_share_lies_inside_those_that_call_it(tmp_path: Path) -> None:
    found = program(
        tmp_path,
        """
        def inner(x):  #r inner
            return x


        def plain(x):
            def outer(x):  #r outer
                return inner(x)

            return inner(outer(x))
        """,
    )
    shared = {1: found.lines[1]._replace(path="both")}
    inside = replace(found, lines={**found.lines, **shared}).inner_regions("plain")
    assert inside == {"inner": [], "outer": ["inner"]}
