"""How often statements run again in one backward pass, under each discipline.

A rule takes the dataflow of the forward pass and an assumption on what is saved, and gives reruns by
(region, statement's label), and by (region, "") for the region itself.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.language.operations import RANDOM
from conformance.model.case import Position, Region, flat
from conformance.oracle.assumptions import COSTLY, Assumption, is_kept, merged_into, runs_plainly
from conformance.oracle.dataflow import Call, Dataflow, Step

#: The name of a region (empty outside of regions), and the label of a statement (empty for the region).
Key = tuple[str, str]

# -- whole -----------------------------------------------------------------------------------------


def whole(dataflow: Dataflow, assumption: Assumption) -> Counter[Key]:
    """Reruns under `whole`: every region that contributes to a gradient runs again as a whole, and what
    is in an inner region runs again once for each region around it.

    If the variant says `asked`, only regions run again in which a residual was saved that backward
    reads; if `flat`, inner regions do not count as regions; if `ends`, statements whose results nothing
    in the region reads do not run again.
    """
    reruns: Counter[Key] = Counter()
    asked = asked_for(dataflow, assumption)

    def around(chain: tuple[Call, ...]) -> tuple[Call, ...]:
        return chain[:1] if "flat" in assumption.regions else chain

    def runs_again(call: Call) -> bool:
        if runs_plainly(call, assumption):
            return False
        return asked(call) if "asked" in assumption.regions else contributes(call, assumption)

    for step in dataflow.steps:
        left_out = is_kept(step) or ("ends" in assumption.regions and is_end(step))
        if not left_out:
            reruns[step.key] += sum(runs_again(call) for call in around(step.chain))
    for call in dataflow.calls():
        reruns[call.region.name, ""] += sum(runs_again(outer) for outer in around(call.chain))
    return reruns


def contributes(call: Call, assumption: Assumption) -> bool:
    """Whether the gradient of any statement in a call of a region is computed."""
    return any(step in assumption.differentiated for step in call.steps)


def is_end(step: Step) -> bool:
    """Whether no step in the outermost region around this one reads its results. False for the first
    step of a region, and outside of regions."""
    if not step.chain:
        return False
    first, *rest = step.chain[0].steps
    read = {number for other in rest for number in other.reads}
    return step is not first and read.isdisjoint(step.results)


def asked_for(dataflow: Dataflow, assumption: Assumption) -> Callable[[Call], bool]:
    """A function that says whether backward reads a residual saved in a call of a region. The arguments
    of an inner region count as residuals if that region runs again."""
    known: dict[Call, bool] = {}

    def asked(call: Call) -> bool:
        if call not in known:
            known[call] = False
            known[call] = asked_inside(call) or any(map(asked, merged_into(dataflow, call)))
        return known[call]

    def asked_inside(call: Call) -> bool:
        for item in call.body:
            if isinstance(item, Call):
                if item.saved_on_entry and asked(item):
                    return True
            elif item in assumption.differentiated and assumption.residuals(dataflow, item):
                return True
        return False

    return asked


# -- early stop ------------------------------------------------------------------------------------


def early_stop(dataflow: Dataflow, assumption: Assumption) -> Counter[Key]:
    """Reruns under `early-stop`: a region runs again when backward first reads a residual saved in it,
    and stops as soon as all its residuals are computed again."""
    asked = asked_for(dataflow, assumption)
    reruns: Counter[Key] = Counter()
    for call in dataflow.calls():
        length = stop_point(dataflow, call, assumption)
        if length is None or runs_plainly(call, assumption) or not asked(call):
            continue
        reruns[call.region.name, ""] += 1
        if call.region.merge_adjacent and (assumption.merged_to_end or merged_into(dataflow, call)):
            length = len(call.body)
        for item in call.body[:length]:
            _run_to_end(item, reruns)
    return reruns


def stop_point(dataflow: Dataflow, call: Call, assumption: Assumption) -> int | None:
    """How many items of a call's body run again until its last residual is computed; `None` if nothing
    is saved in it.

    If the last residuals are arguments of a statement, the rerun stops before that statement (unless the
    variant says `after`), as it does for a statement that saves its residuals before its end (`early`).
    An inner region saves its arguments before it runs.
    """
    length = None
    for place, item in enumerate(call.body):
        if isinstance(item, Call):
            if item.saved_on_entry:
                length = place
        else:
            words = assumption.residuals(dataflow, item)
            if words:
                result_kept = "early" not in words and not words.isdisjoint(("out", "mask"))
                length = place + (result_kept or "after" in assumption.regions)
    return length


def _run_to_end(item: Step | Call, reruns: Counter[Key]) -> None:
    """Count a rerun of an item and of all that it contains."""
    if isinstance(item, Call):
        reruns[item.region.name, ""] += 1
        for inner in item.body:
            _run_to_end(inner, reruns)
    elif not is_kept(item):
        reruns[item.key] += 1


# -- minimal ---------------------------------------------------------------------------------------
# It looks at what backward reads, not at where regions begin and end: a statement runs again when a
# residual, or another statement that runs again, reads what it made.

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
        wanted += (number for word in words for number in step.named(word))
        # An operation that is not run again keeps its mask too.
        saved = not available.isdisjoint(step.results)
        if "mask" in words and not (saved and (assumption.mask_kept or not is_kept(step))):
            masks.add(step)
            if step.statement.op not in RANDOM or not assumption.mask_alone:
                wanted += step.reads
    return wanted, masks


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
            words = assumption.residuals(dataflow, step)
            wanted += (number for word in words for number in step.named(word))
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
