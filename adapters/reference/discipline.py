"""How often each statement of a case runs, forward and again in backward, under each discipline.

Where implementations legitimately differ (a gradient may read the operation's argument or its
result), every combination is a `World`; what any of them does is allowed.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.case import Case, Region
from conformance.model.observation import Allowed, Phase

from . import flow as flow_

Step, Call = flow_.Step, flow_.Call
Key = tuple[str, str]
_WORDS = {
    "alternatives": "implementations differ in what a gradient reads and which gradients they take",
    "second order": "the second pass may run a region again or use what the first made",
    "before": "what ran before with gradients off may be another program, and not counted",
    "unused": "what no output needs may be left out",
    "cheap": "a compiler may run what is cheap again",
    "flat": "a compiler runs again what it needs of regions inside others",
}
#: Operations that no compiler runs again unasked.
COSTLY = frozenset({"matmul", "linear", "conv2d", "embedding", *RANDOM})


@dataclass(frozen=True)
class World:
    """One consistent way to implement the operations.

    `choice` is the number of the alternative of an operation's needs, `saves` overrides it.
    `active` are the tensors through which gradients flow, `reached` the statements whose gradients
    are taken. `mask_alone`: a dropout mask can be made without the tensor that it masks.
    `whole_merged`: a merged region with nothing after it runs to its end. `through`: what
    stands outside regions and is cheap is made again for the gradients that read it.
    """

    choice: Mapping[str, int]
    saves: Mapping[str, str]
    active: frozenset[int]
    reached: frozenset[Any]
    mask_alone: bool
    whole_merged: bool
    through: bool = False
    #: What `words` has found, by statement.
    _words: dict[Any, frozenset[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def words(self, flow: Any, step: Any) -> frozenset[str]:
        """What the gradients of a statement read: argument names, `out`, `mask`."""
        found = self._words.get(step)
        if found is None:
            found = self._words[step] = self._read(flow, step)
        return found

    def _read(self, flow: Any, step: Any) -> frozenset[str]:
        op = step.statement.op
        names = flow.differentiable(step, self.active)
        if not names:
            return frozenset()
        if op in self.saves:
            return frozenset(self.saves[op].replace(",", " ").split())
        found: set[str] = set()
        for name in names:
            options = OPERATIONS[op].needs[name]
            found |= options[min(self.choice.get(op, 0), len(options) - 1)]
        return frozenset(found)

    @cached_property
    def region(self) -> frozenset[str]:
        """What the variant says of regions as a whole: the words of `REGION_SAVES`."""
        return frozenset(self.saves.get("region", "").replace(",", " ").split())


def worlds(
    case: Case, flow: Any, saves: Mapping[str, str], *, alternatives: bool
) -> Iterator[World]:
    """Every consistent way to implement the case's operations; only the first alternative of each
    where `alternatives` is false."""
    used = sorted({step.statement.op for step in flow.steps()})
    options: dict[str, range] = {}
    for op in used:
        most = max((len(sets) for sets in OPERATIONS[op].needs.values()), default=1)
        if alternatives and most > 1 and op not in saves:
            options[op] = range(most)
    asking = [array.name for array in case.arrays if array.gradient]
    pairs = {(frozenset(asking), frozenset(case.wrt))}
    pairs |= {(frozenset(names), frozenset(names)) for names in (asking, case.wrt)}
    has_mask = any(RANDOM & {op} for op in used)
    merged = any(region.merge_adjacent for region in case.regions())
    ends = () if flow.loss is None else (flow.loss,)
    for kept, wanted in sorted(pairs, key=lambda p: (sorted(p[0]), sorted(p[1]))):
        active, reached = flow.active(kept), flow.reached(flow.active(wanted), ends)
        for numbers in itertools.product(*options.values()):
            choice = dict(zip(options, numbers, strict=True))
            for alone in (True, False) if has_mask and alternatives else (True,):
                for whole in (True, False) if merged else (False,):
                    world = World(choice, saves, active, reached, alone, whole)
                    yield world
                    if "cheap" in world.region:
                        yield replace(world, through=True)


def contributes(call: Any, world: World) -> bool:
    """Whether any gradient that is taken passes through a call of a region."""
    return any(step in world.reached for step in call.steps())


def run_plainly(call: Any, world: World) -> bool:
    """Whether the variant does not recompute a call: the last segment of a sequence."""
    if "last" not in world.region:
        return False
    segment = call.region.segment
    return segment is not None and segment.last


def is_kept(step: Any) -> bool:
    """Whether the policy of the region around it keeps a statement's results."""
    return step.call is not None and step.call.region.saves(step.statement)


def policy_keeps(call: Any) -> frozenset[int]:
    """The tensors inside a call that the policy of its region keeps."""
    return frozenset(
        n for step in call.body if isinstance(step, Step) and is_kept(step) for n in step.results
    )


# -- whole -----------------------------------------------------------------------------------------


def whole(flow: Any, world: World) -> Counter[Key]:
    """Every region that contributes runs again, with all that is in it.

    Where the variant says `asked`, only those do in which a value was saved that is asked for;
    where it says `flat`, regions inside others are no regions; where it says `ends`, what nothing in
    a region reads does not run again.
    """
    found: Counter[Key] = Counter()
    asked = asked_for(flow, world)

    def regions(chain: tuple[Any, ...]) -> tuple[Any, ...]:
        return chain[:1] if "flat" in world.region else chain

    def again(call: Any) -> bool:
        if run_plainly(call, world):
            return False
        return asked(call) if "asked" in world.region else contributes(call, world)

    for step in flow.steps():
        left = is_kept(step) or ("ends" in world.region and ends(step))
        if not left:
            found[step.key] += sum(again(call) for call in regions(step.chain))
    for call in flow.calls():
        found[call.region.name, ""] += sum(again(outer) for outer in regions(call.chain))
    return found


def ends(step: Any) -> bool:
    """Whether nothing in the outermost region around a statement reads its results; the first
    statement of a region is none of its ends."""
    if not step.chain:
        return False
    first, *rest = step.chain[0].steps()
    read = {number for other in rest for number in other.reads()}
    return step is not first and read.isdisjoint(step.results)


def asked_for(flow: Any, world: World) -> Callable[[Any], bool]:
    """Tells of a call whether backward asks for a value that was saved in it; what a region inside
    it was given is one, where that region runs again."""
    known: dict[Any, bool] = {}

    def asked(call: Any) -> bool:
        if call not in known:
            known[call] = False
            known[call] = _own(call) or any(asked(c) for c in _consumers(flow, call))
        return known[call]

    def _own(call: Any) -> bool:
        for item in call.body:
            if isinstance(item, Call):
                if item.saves_on_entry and asked(item):
                    return True
            elif item in world.reached and world.words(flow, item):
                return True
        return False

    return asked


# -- early stop ------------------------------------------------------------------------------------


def stop_point(flow: Any, call: Any, world: World) -> tuple[int, bool] | None:
    """Where a rerun of a call stops: the place in its body of the last saved value, and whether
    what stands there still runs. `None` where nothing is saved.

    A statement that saves only arguments stops before it runs (unless the variant says `after`), and
    one that saves `early` before its end; a region inside saves its arguments before it is entered.
    """
    found = None
    for place, item in enumerate(call.body):
        if isinstance(item, Call):
            if item.saves_on_entry:
                found = (place, False)
        else:
            words = world.words(flow, item)
            if words:
                own = "early" not in words and bool(words & {"out", "mask"})
                found = (place, own or "after" in world.region)
    return found


def early_stop(flow: Any, world: World) -> Counter[Key]:
    """A region runs again when a value saved in it is first asked for, until all are back."""
    asked = asked_for(flow, world)
    found: Counter[Key] = Counter()
    for call in flow.calls():
        point = stop_point(flow, call, world)
        if point is None or run_plainly(call, world) or not asked(call):
            continue
        found[call.region.name, ""] += 1
        place, still = point
        if call.region.merge_adjacent and (world.whole_merged or _consumers(flow, call)):
            place, still = len(call.body), False
        for item in call.body[: place + still]:
            _run_through(item, found)
    return found


def _run_through(item: Any, found: Counter[Key]) -> None:
    """Count an item that runs to its end, with all that is in it."""
    if isinstance(item, Call):
        found[item.region.name, ""] += 1
        for inner in item.body:
            _run_through(inner, found)
    elif not is_kept(item):
        found[item.key] += 1


def _consumers(flow: Any, call: Any) -> list[Any]:
    """The calls that a merged region's results are given to without being kept."""
    if not call.region.merge_adjacent:
        return []
    made = set(call.gives)
    return [c for c in flow.calls() if c.parent is call.parent and made & set(c.taken)]


# -- minimal ---------------------------------------------------------------------------------------


@dataclass
class Unit:
    """Calls that run again together: one call, or several that are merged. `reads` are the tensors
    from around it that its gradients need, `reruns` the statements that must run again."""

    calls: tuple[Any, ...]
    reads: frozenset[int] = frozenset()
    reruns: frozenset[Any] = frozenset()
    kept_results: frozenset[int] = frozenset()

    def steps(self) -> Iterator[Any]:
        for call in self.calls:
            yield from call.steps()


def units(flow: Any, items: Iterable[Any]) -> list[Unit]:
    """The calls among the items, merged ones together, in order."""
    found: list[list[Any]] = []
    calls = [item for item in items if isinstance(item, Call)]
    if not any(call.region.merge_adjacent for call in calls if call.region):
        return [Unit((call,)) for call in calls]
    for item in calls:
        home = [group for group in found if any(item in _consumers(flow, c) for c in group)]
        joined = [call for group in home for call in group] + [item]
        found = [group for group in found if group not in home] + [joined]
    return [Unit(tuple(group)) for group in found]


def minimal_units(flow: Any, world: World) -> list[Unit]:
    """Every unit with what it reruns, outer ones first. Flat: only the outermost ones."""
    found: list[Unit] = []
    whole = [Unit((everything(flow),))] if "program" in world.region else units(flow, flow.body)
    for unit in whole:
        found += _solved(flow, world, unit)
    return found if {"anew", "operations"}.isdisjoint(world.region) else _anew(flow, world, found)


def everything(flow: Any) -> Any:
    """The whole program as one call of a region that has no name."""
    return Call(None, None, tuple(flow.leaves.values()), (), flow.outputs, list(flow.body))


def _solved(flow: Any, world: World, unit: Unit) -> list[Unit]:
    """A unit and those inside it, with `reads` and `reruns` filled in."""
    inner: list[Unit] = []
    direct: list[Any] = []
    for call in unit.calls:
        if not {"flat", "program"}.isdisjoint(world.region):
            direct += call.steps()
            continue
        direct += [item for item in call.body if isinstance(item, Step)]
        for below in units(flow, call.body):
            inner += _solved(flow, world, below)
    nearest = [u for u in inner if u.calls[0].parent in unit.calls]
    made = {n: step for step in unit.steps() for n in step.results}
    at_hand: set[int] = set()
    if "out" in world.region:
        last = [c for c in unit.calls if not set(_consumers(flow, c)) & set(unit.calls)]
        if "inner" in world.region:
            last += [inner for call in unit.calls for inner in flow.calls(call.body)]
        at_hand = {n for call in last for n in call.gives}
    at_hand |= {n for step in direct if is_kept(step) for n in step.results}
    if "passed" in world.region:
        at_hand |= passed(flow)
    wanted = [n for u in nearest for n in u.reads]
    reruns: set[Any] = set()
    masks: list[Any] = []
    for step in direct:
        if step not in world.reached:
            continue
        for word in world.words(flow, step):
            if word == "mask":
                masks.append(step)
            else:
                wanted += step.results if word == "out" else step.arguments.get(word, ())
    reads: set[int] = set()
    kept: set[int] = set()
    for step in masks:
        if at_hand.intersection(step.results):
            continue  # an operation that is not run again keeps its mask too
        reruns.add(step)
        if step.statement.op not in RANDOM or not world.mask_alone:
            wanted += step.reads()
    entered: set[Any] = set()  # statements whose arguments were asked for
    while wanted:
        number = wanted.pop()
        if number in at_hand:
            kept.add(number)
        elif number not in made:
            reads.add(number)
        elif made[number] not in entered:
            step = made[number]
            entered.add(step)
            reruns.add(step)
            wanted += step.reads()
    solved = Unit(unit.calls, frozenset(reads), frozenset(reruns), frozenset(kept))
    return [solved, *inner]


@functools.lru_cache(maxsize=2)
def passed(flow: Any) -> frozenset[int]:
    """The tensors made in one region that a statement of another one reads, outermost regions taken."""
    home = {n: step.chain[0] for step in flow.steps() if step.chain for n in step.results}
    return frozenset(
        n
        for step in flow.steps()
        for n in step.reads()
        if step.chain and home.get(n, step.chain[0]) is not step.chain[0]
    )


def _is_operation(region: Region | None) -> bool:
    """Whether a region is one operation on what it takes, and reads nothing else."""
    return region is not None and len(region.body) == 1 and not region.captured()


def _anew(flow: Any, world: World, solved: list[Unit]) -> list[Unit]:
    """The units, where what a region gives is not kept for the gradients around it, but made again
    from what is."""
    made = {
        n: step
        for unit in solved
        for step in unit.steps()
        if "anew" in world.region or _is_operation(step.call.region)
        for n in step.results
    }
    wanted = [n for unit in solved for n in unit.reads]
    for step in flow.steps():
        if step in world.reached and step.call is None:
            for word in world.words(flow, step):
                wanted += step.results if word == "out" else step.arguments.get(word, ())
    again: set[Any] = set()
    at_hand = {n for u in solved for step in u.steps() if is_kept(step) for n in step.results}
    at_hand |= passed(flow) if "passed" in world.region else frozenset()
    outside = {
        n: step
        for step in flow.steps()
        for n in step.results
        if world.through and step.call is None and step.statement.op not in COSTLY
    }
    while wanted:
        number = wanted.pop()
        if number in made and number not in at_hand and made[number] not in again:
            again.add(made[number])
            wanted += made[number].reads()
        elif number in outside:
            wanted += outside.pop(number).reads()
    return [replace(u, reruns=u.reruns | again.intersection(u.steps())) for u in solved]


def minimal(flow: Any, world: World) -> Counter[Key]:
    """Only what some gradient needs runs again; a region counts as its busiest statement does."""
    found: Counter[Key] = Counter()
    for unit in minimal_units(flow, world):
        for step in unit.reruns:
            found[step.key] += 1
    for call in flow.calls():
        name = call.region.name
        own = [n for (region, label), n in found.items() if region == name and label]
        found[name, ""] = max(own, default=0)
    return found


# -- all together ----------------------------------------------------------------------------------

COUNT: Mapping[str, Callable[[Any, World], Counter[Key]]] = {
    "whole": whole,
    "early-stop": early_stop,
    "minimal": minimal,
}


def executions(
    case: Case, flow: Any, discipline: str, saves: Mapping[str, str]
) -> dict[tuple[str, str, Phase], Allowed]:
    """Counts over the whole procedure, by region, statement (empty for the region) and phase."""
    forward: Counter[Key] = Counter()
    for step in flow.steps():
        forward[step.key] += 1
    for call in flow.calls():
        forward[call.region.name, ""] += 1
    kind = case.procedure.kind
    steps = case.procedure.steps if kind == "train" else 1
    steps += case.procedure.after == "backward"
    unused = _unused(case, flow) if discipline == "minimal" else set()
    found: dict[tuple[str, str, Phase], Allowed] = {}
    for key, count in forward.items():
        counts = (steps * count, 0) if key in unused else (steps * count,)
        reason = _WORDS["unused"] if key in unused else ""
        if case.procedure.after == "inference":
            counts, reason = (*counts, *(n + count for n in counts)), _WORDS["before"]
        found[*key, "forward"] = Allowed(counts, reason)
    rerun: dict[Key, dict[int, None]] = {key: {} for key in forward}
    if kind != "inference":
        for world in worlds(case, flow, saves, alternatives=discipline == "minimal"):
            counted = COUNT[discipline](flow, world)
            if kind == "per_output":
                towards = _towards(flow, world, case.wrt)
                counted = counted + COUNT[discipline](flow, towards)
                if discipline == "minimal":  # one backward program may serve all outputs
                    both = replace(world, reached=world.reached | towards.reached)
                    for key, count in COUNT[discipline](flow, both).items():
                        rerun[key].setdefault(2 * count)
            for key in forward:
                rerun[key].setdefault(counted[key])
    times = 2 if kind == "second_backward" else steps
    order = case.procedure.order
    cheap = {step.key for step in flow.steps() if step.statement.op not in COSTLY}
    cheap |= {(region, "") for region, _ in cheap if region}
    nested = {step.key for step in flow.steps() if len(step.chain) > 1}
    for key, seen in rerun.items():
        counts = tuple(times * n for n in seen) or (0,)
        reason = _WORDS["alternatives"] if len(counts) > 1 else ""
        words = saves.get("region", "").split()
        if "cheap" in words and discipline == "whole":
            # with each rerun of a compiled region comes a backward graph of its own
            if key[1] and (key in cheap or ("flat" in words and key in nested)):
                more = range(max(counts) + 1, 2 * max(counts) + 1)
                why = _WORDS["flat" if key in nested else "cheap"] if more else reason
                counts, reason = (*counts, *more), why
        elif "cheap" in words and key in cheap:
            more = range(max(counts) + 1, times * forward[key] + 1)
            counts, reason = (*counts, *more), _WORDS["cheap"]
        least = discipline == "minimal"
        if order > 1 and (least or max(counts)):
            most = (2**order - 1) * (len_of(key, flow) if least else max(counts))
            counts, reason = _second_order(counts, most), _WORDS["second order"]
        # Where the least is rerun, a region is what its own statements do: with none, it is nothing.
        own = key[1] or discipline != "minimal" or any(r == key[0] and s for r, s in rerun)
        if own:
            found[*key, "rerun"] = Allowed(counts, reason)
    return found


def _towards(flow: Any, world: World, wrt: Iterable[str]) -> World:
    """The world of the second backward pass, from what that differentiates."""
    return replace(world, reached=flow.reached(flow.active(wrt), (flow.then,)))


def _second_order(counts: tuple[int, ...], most: int) -> tuple[int, ...]:
    return (*counts, *(n for n in range(min(counts) + 1, most + 1) if n not in counts))


def len_of(key: Key, flow: Any) -> int:
    """How often a statement or region would run again if every region around it ran again whole."""
    region, label = key
    if label:
        return sum(len(step.chain) for step in flow.steps() if step.key == key)
    return sum(len(call.chain) for call in flow.calls() if call.region.name == region)


def _unused(case: Case, flow: Any) -> set[Key]:
    """Statements (and regions) none of whose results the outputs or the loss depend on."""
    wanted = set(flow.outputs) | ({flow.loss} - {None})
    unused: set[Key] = set()
    used: set[Key] = set()
    for step in reversed(list(flow.steps())):
        keys = {step.key, *((call.region.name, "") for call in step.chain)}
        if not step.results or not wanted.isdisjoint(step.results):
            wanted |= set(step.reads())
            used |= keys
        else:
            unused |= keys
    return unused - used
