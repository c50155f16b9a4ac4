"""How often statements run again in one backward pass under the discipline `minimal`: only where some
gradient needs their results.

Unlike the other disciplines it looks at what backward reads, not at where regions begin and end: a
statement runs again when a residual, or another statement that runs again, reads what it made.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.language.operations import RANDOM
from conformance.model.case import (
    Position,
    Region,
    flat,
)
from conformance.oracle.assumptions import COSTLY, Assumption, is_kept, merged_into
from conformance.oracle.dataflow import Call, Dataflow, Step
from conformance.oracle.disciplines import Key

#: The whole program as a region without a name, for a variant that reruns it as one (`program`).
PROGRAM = Region(
    *("", (), {}, (), (), "function"),
    preserve_rng=False,
    merge_adjacent=False,
    block="callable",
    where=Position("", 0, 0),
)


@dataclass(frozen=True)
class Unit:
    """Calls that run again together: one call, or several that are merged.

    `reads` are the tensors from around it that its gradients need, `reruns` the steps that must run
    again, and `kept_results` those of its own tensors that are kept and read.
    """

    calls: tuple[Call, ...]
    reads: frozenset[int] = frozenset()
    reruns: frozenset[Step] = frozenset()
    kept_results: frozenset[int] = frozenset()

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step in its calls."""
        if len(self.calls) == 1:
            return self.calls[0].steps
        return tuple(step for call in self.calls for step in call.steps)

    @cached_property
    def producers(self) -> Mapping[int, Step]:
        """The step that made each of the tensors that are made in it."""
        return {n: step for step in self.steps for n in step.results}

    @cached_property
    def read(self) -> frozenset[int]:
        """The tensors among the arguments of its steps."""
        return frozenset().union(*(call.read for call in self.calls))


def minimal(dataflow: Dataflow, assumption: Assumption) -> Counter[Key]:
    """Reruns under `minimal`: only what some gradient needs runs again. A region's count is the largest
    of its statements' counts."""
    reruns: Counter[Key] = Counter()
    for unit in minimal_units(dataflow, assumption):
        for step in unit.reruns:
            reruns[step.key] += 1
    for call in dataflow.calls():
        name = call.region.name
        counts = [n for (region, label), n in reruns.items() if region == name and label]
        reruns[name, ""] = max(counts, default=0)
    return reruns


def minimal_units(dataflow: Dataflow, assumption: Assumption) -> list[Unit]:
    """Every unit with its reruns, an outer one before its inner ones. If the variant says `flat`, only
    the outermost units; if `program`, one unit for the whole program."""
    outermost = units(dataflow, dataflow.body)
    if "program" in assumption.regions:
        every = tuple(dataflow.leaves.values())
        body = list(dataflow.body)
        outermost = [Unit((Call(PROGRAM, None, every, (), dataflow.outputs, body),))]
    solved = [unit for outer in outermost for unit in _solved(dataflow, assumption, outer)]
    if assumption.regions.isdisjoint(("anew", "operations")):
        return solved
    return _made_anew(dataflow, assumption, solved)


def units(dataflow: Dataflow, items: Iterable[Step | Call]) -> list[Unit]:
    """The calls among the items as units, in order; merged calls are in one unit."""
    calls = [item for item in items if isinstance(item, Call)]
    if not any(call.region.merge_adjacent for call in calls):
        return [Unit((call,)) for call in calls]
    groups: list[list[Call]] = []
    for call in calls:
        home = [g for g in groups if any(call in merged_into(dataflow, c) for c in g)]
        joined = [member for group in home for member in group] + [call]
        groups = [group for group in groups if group not in home] + [joined]
    return [Unit(tuple(group)) for group in groups]


def _solved(dataflow: Dataflow, assumption: Assumption, unit: Unit) -> list[Unit]:
    """A unit and those inside it, with `reads`, `reruns` and `kept_results` computed."""
    direct: list[Step] = []
    inner: list[Unit] = []
    for call in unit.calls:
        if not assumption.regions.isdisjoint(("flat", "program")):
            direct += call.steps
            continue
        direct += [item for item in call.body if isinstance(item, Step)]
        for below in units(dataflow, call.body):
            inner += _solved(dataflow, assumption, below)
    available = _available(dataflow, assumption, unit, direct)
    wanted, reruns = _residuals(dataflow, assumption, direct, available)
    wanted += [n for u in inner if u.calls[0].parent in unit.calls for n in u.reads]
    made = unit.producers
    reads: set[int] = set()
    kept: set[int] = set()
    expanded: set[Step] = set()  # steps whose arguments are wanted already
    while wanted:
        number = wanted.pop()
        if number in available:
            kept.add(number)
        elif number not in made:
            reads.add(number)
        elif made[number] not in expanded:
            expanded.add(made[number])
            wanted += made[number].reads
    solved = Unit(unit.calls, frozenset(reads), frozenset(reruns | expanded), frozenset(kept))
    return [solved, *inner]


def _available(
    dataflow: Dataflow, assumption: Assumption, unit: Unit, direct: Iterable[Step]
) -> frozenset[int]:
    """The tensors made in a unit that backward need not compute again: those that policies keep, and
    those that the variant declares available (`out`, `inner`, `passed`)."""
    available = {n for step in direct if is_kept(step) for n in step.results}
    if "out" in assumption.regions:
        last = [c for c in unit.calls if not set(merged_into(dataflow, c)) & set(unit.calls)]
        if "inner" in assumption.regions:
            last += [inner for call in unit.calls for inner in dataflow.calls(call.body)]
        available |= {n for call in last for n in call.gives}
    if "passed" in assumption.regions:
        available |= passed(dataflow)
    return frozenset(available)


def _residuals(
    dataflow: Dataflow, assumption: Assumption, steps: Iterable[Step], available: Set[int]
) -> tuple[list[int], set[Step]]:
    """The residuals of steps: (numbers of tensors, steps that run again for their mask)."""
    wanted: list[int] = []
    masks: set[Step] = set()
    for step in steps:
        if step not in assumption.differentiated:
            continue
        words = assumption.residuals(dataflow, step)
        wanted += tensors_of(step, words)
        # An operation that is not run again keeps its mask too.
        saved = not available.isdisjoint(step.results)
        if "mask" in words and not (saved and (assumption.mask_kept or not is_kept(step))):
            masks.add(step)
            if step.statement.op not in RANDOM or not assumption.mask_alone:
                wanted += step.reads
    return wanted, masks


def tensors_of(step: Step, words: Iterable[str]) -> list[int]:
    """The numbers of the tensors among a step's residuals; a mask is no tensor of the program."""
    numbers: list[int] = []
    for word in words:
        numbers += step.results if word == "out" else step.arguments.get(word, ())
    return numbers


@functools.lru_cache(maxsize=2)
def passed(dataflow: Dataflow) -> frozenset[int]:
    """The tensors made in one outermost region that a statement in another one reads."""
    home = {n: step.chain[0] for step in dataflow.steps if step.chain for n in step.results}
    return frozenset(
        n
        for step in dataflow.steps
        for n in step.reads
        if step.chain and home.get(n, step.chain[0]) is not step.chain[0]
    )


def _made_anew(dataflow: Dataflow, assumption: Assumption, solved: list[Unit]) -> list[Unit]:
    """The units for a variant that says `anew` or `operations`: a region's results (with `operations`,
    only those of regions of one operation) are not kept for gradients outside of it, but computed
    again from what is kept."""
    made: Mapping[int, Step] = {
        n: step
        for unit in solved
        for step in unit.steps
        if "anew" in assumption.regions or _is_operation(step)
        for n in step.results
    }
    available = {n for u in solved for step in u.steps if is_kept(step) for n in step.results}
    available |= passed(dataflow) if "passed" in assumption.regions else frozenset()
    cheap = {
        n: step
        for step in dataflow.steps
        for n in step.results
        if assumption.through and step.call is None and step.statement.op not in COSTLY
    }
    wanted = [n for unit in solved for n in unit.reads]
    for step in dataflow.steps:
        if step in assumption.differentiated and step.call is None:
            wanted += tensors_of(step, assumption.residuals(dataflow, step))
    rerun: set[Step] = set()
    while wanted:
        number = wanted.pop()
        if number in made and number not in available and made[number] not in rerun:
            rerun.add(made[number])
            wanted += made[number].reads
        elif number in cheap:
            wanted += cheap.pop(number).reads
    return [replace(u, reruns=u.reruns | rerun.intersection(u.steps)) for u in solved]


def _is_operation(step: Step) -> bool:
    """Whether the region around a step consists of it alone and captures nothing."""
    if step.call is None:
        return False
    region = step.call.region
    return len(tuple(flat(region.body))) == 1 and not region.captured()
