"""Reads Paddle's programs (PIR): which line of the case's program each operation comes from.

An operation carries the Python stack that made it, and a clone made by the recompute pass keeps it.
Counts are accepted only if the kernels that the profiler saw launched are those of the operations.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from paddle.profiler import Profiler, ProfilerTarget, RecordEvent

from conformance.model.observation import Phase
from conformance.model.program import Program, Site
from conformance.observe.worker.trace import Trace

#: Operations that make constants or only regroup values: no statement does its work with them.
AROUND = frozenset({"full", "full_int_array", "assign_value", "full_like", "data", "parameter"})
#: Operations that launch no kernel: they regroup values, or run the operations in their own blocks.
REGROUPING = frozenset({"combine", "split", "slice"})
CONTROL = frozenset({"if", "while", "pylayer"})
#: Copies, which the executor may do without.
COPIES = frozenset({"assign", "assign_out"})
_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)')
_LAUNCH = re.compile(r"^(?:pd_op\.)?(\w+?)_? kernel launch\[")
_MARK = re.compile(r"^at (forward|backward|elsewhere)\[")


#: A line of the case's program and the function that it is in.
Place = tuple[int, str]


@dataclass(frozen=True)
class Operation:
    """One operation of a program.

    `stack` has the places in the case's program that made it, the innermost last; it ends at the
    statement, even where that calls a function which the program defines. `again` says whether the
    recompute pass has put it into backward. `inner` are the kernels of the operations in its own
    blocks, which may run more than once or not at all.
    """

    name: str
    stack: tuple[Place, ...]
    again: bool
    inner: frozenset[str] = frozenset()


def operations(graph: Any, program: Program) -> list[Operation]:
    """The operations of a graph that a case's program has made, in order."""
    # A statement may span several lines: its first one stands for all. Statements of one name are
    # equal sites, and not the same.
    first = {id(site): line for line, site in sorted(program.lines.items(), reverse=True)}

    def places(op: Any) -> tuple[Place, ...]:
        stack = []
        for text in op.attrs().get("op_callstack", ()):
            frame = _FRAME.match(text)
            if frame is not None and frame["file"] == program.file:
                line = int(frame["line"])
                site = program.lines.get(line)
                stack.append((line if site is None else first[id(site)], frame["function"]))
                if site is not None and site.kind == "statement":
                    break
        return tuple(stack)

    def one(op: Any) -> Operation:
        inner = tuple(_inside(op))
        # What runs other operations carries no stack, but they do.
        stacks = (places(each) for each in (op, *inner))
        stack = next((stack for stack in stacks if stack), ())
        names = frozenset(kernel(each.name()) for each in inner)
        return Operation(kernel(op.name()), stack, "bwd_recompute_id" in op.attrs(), names)

    return [one(op) for op in graph.global_block().ops]


def _inside(op: Any) -> Iterator[Any]:
    """The operations in an operation's own blocks."""
    for block in op.blocks():
        for inner in block.ops:
            yield inner
            yield from _inside(inner)


def kernel(name: str) -> str:
    """The kernel that an operation launches: `sin` for `pd_op.sin`, and for `pd_op.sin_` in place."""
    return name.rpartition(".")[2].removesuffix("_")


def executions(
    program: Program, path: str, forward: Iterable[Operation], backward: Iterable[Operation]
) -> tuple[Counter[tuple[Site, Phase]], Counter[tuple[Site, Phase]]]:
    """Executions of regions and of statements in one run of `path`.

    A statement ran as often as its last operation is in the graph. `backward` may hold any operations:
    those that come from a statement's line are reruns of it. In each of its calls a region ran as often
    as the statement in it that ran most.
    """
    made: dict[tuple[Place, ...], list[str]] = defaultdict(list)
    again: dict[tuple[Place, ...], Counter[str]] = defaultdict(Counter)
    for op in forward:
        if op.name not in AROUND and _site(program, op) is not None:
            made[op.stack].append(op.name)
    for op in backward:
        again[op.stack][op.name] += 1
    functions = {site.region.replace("-", "_"): site for site in program.sites("region", path)}
    statements: Counter[tuple[Site, Phase]] = Counter()
    calls: dict[tuple[Site, tuple[Place, ...]], int] = {}
    for stack, names in made.items():
        site = program.lines[stack[-1][0]]
        reruns = again[stack][names[-1]] // names.count(names[-1])
        statements[site, "forward"] += 1
        statements[site, "rerun"] += reruns
        for depth, (_, name) in enumerate(stack):
            if name in functions:
                call = functions[name], stack[:depth]
                calls[call] = max(calls.get(call, 0), reruns)
    regions: Counter[tuple[Site, Phase]] = Counter()
    for (site, _), reruns in calls.items():
        regions[site, "forward"] += 1
        regions[site, "rerun"] += reruns
    return regions, statements


def _site(program: Program, op: Operation) -> Site | None:
    site = program.lines.get(op.stack[-1][0]) if op.stack else None
    return site if site is not None and site.kind == "statement" else None


# -- what really ran -------------------------------------------------------------------------------


class MissedError(RuntimeError):
    """The kernels that the profiler recorded are not those of the graph."""


class Marking(Trace):
    """Leaves a mark for the profiler at every line of `run`, and remembers its variables."""

    names: Mapping[str, Any]
    #: `run`, and the function in it that `vjp` calls.
    MARKED = ("run", "loss_of")

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        tracer = super()._step(frame, event, argument)
        if event == "return" and frame.f_code.co_name == "run":
            self.names = dict(frame.f_locals)
        if event == "line" and frame.f_code.co_name in self.MARKED:
            site = self.program.lines.get(frame.f_lineno)
            label = site.label if site is not None and site.kind == "phase" else "elsewhere"
            with RecordEvent(f"at {label}"):
                pass
        return tracer


def launches(work: Callable[[], object]) -> Mapping[str, Counter[str]]:
    """How often each kernel was launched, by the mark before it, and (as `""`) in all.

    Marks themselves are counted under their own name: `found["forward"]["at forward"]`.
    """
    profiler = Profiler(targets=[ProfilerTarget.CPU], on_trace_ready=lambda _: None)
    profiler.start()
    try:
        work()
    finally:
        profiler.stop()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export(str(file), "json")
        events = json.loads(file.read_text("utf-8"))["traceEvents"]
    launched: dict[str, Counter[str]] = defaultdict(Counter)
    place = "elsewhere"
    for event in sorted(events, key=lambda e: float(e.get("ts", 0))):
        name = str(event.get("name", ""))
        if mark := _MARK.match(name):
            place = mark[1]
            launched[place][f"at {place}"] += 1
        elif launch := _LAUNCH.match(name):
            launched[place][launch[1]] += 1
            launched[""][launch[1]] += 1
    return launched


def times(program: Program, ops: Iterable[Operation], launched: Mapping[str, int]) -> int:
    """How often a program ran, if it launched each kernel of its statements equally often.

    Raises `MissedError` where the kernels are not those of the operations.
    """
    ops = list(ops)
    there = Counter(op.name for op in ops)
    asked = {op.name for op in ops if _site(program, op) is not None and op.name not in AROUND}
    asked -= REGROUPING | CONTROL | COPIES
    asked -= frozenset().union(*(op.inner for op in ops))
    runs = {name: launched.get(name, 0) / there[name] for name in asked}
    counts = set(runs.values())
    if len(counts) > 1 or not all(count.is_integer() for count in counts):
        raise MissedError(f"kernels launched are not the program's operations: {runs}")
    return int(counts.pop()) if counts else 1
