"""Bytes kept between forward and backward, with every region run plainly and recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.observation import ExpectedMemory

from . import discipline as rules
from . import flow as flow_
from . import peaks as peaks_

Kept = dict[object, int]
#: Operations whose gradient multiplies with a number that they can make in forward.
_FACTORS = frozenset({"sin", "cos", "tanh"})


class Ledger:
    """Distinct tensors and masks, with their bytes.

    With `views`, a reshaped tensor is the memory of what it was made from. `wide` masks take the
    most bytes per element that implementations use, else the least. With `factors`, functions of one
    number keep the factor of their gradient, which is no tensor of the program.
    """

    def __init__(self, flow: Any, *, views: bool, wide: bool, factors: bool = False) -> None:
        self.flow, self.views, self.wide, self.factors = flow, views, wide, factors
        self._roots: dict[int, int] = {}
        self.free = {self.root(n) for n in (*flow.leaves.values(), *flow.outputs)}

    def root(self, number: int) -> int:
        """The tensor whose memory a tensor is."""
        if not self.views:
            return number
        if number not in self._roots:
            self._roots[number] = self._root(number)
        return self._roots[number]

    def _root(self, number: int) -> int:
        while True:
            step = self.flow.tensors[number].step
            if step is None or step.statement.op not in flow_.VIEWS:
                return number
            source: int = step.arguments["x"][0]
            if self.flow.tensors[source].dtype != self.flow.tensors[number].dtype:
                return number
            number = source

    def add(self, kept: Kept, numbers: Iterable[int]) -> None:
        """Keep tensors."""
        for number in numbers:
            root = self.root(number)
            if root not in self.free:
                kept[root] = self.flow.tensors[root].nbytes

    def add_saved(self, kept: Kept, step: Any, words: Iterable[str]) -> None:
        """Keep what the gradients of a statement read."""
        if self.factors and step.statement.op in _FACTORS:
            kept[step, "factor"] = self.flow.tensors[step.results[0]].nbytes
            words = {"out"} if step.statement.op == "tanh" else ()  # (1 + out) times (1 - out)
        for word in words:
            if word == "mask":
                kept[step] = self.mask(step)
            else:
                self.add(kept, step.results if word == "out" else step.arguments.get(word, ()))

    def mask(self, step: Any) -> int:
        """Bytes of a mask: one to four per element, indices of maxima up to eight, and of
        normalisations two numbers per mean."""
        op, out = step.statement.op, self.flow.tensors[step.results[0]]
        if op == "max_pool2d":
            return int(out.size) * (8 if self.wide else 1)
        if op in ("batch_norm", "layer_norm"):
            gamma = self.flow.tensors[step.arguments["gamma"][0]]
            means = gamma.size if op == "batch_norm" else out.size // gamma.size
            return int(2 * means * (4 if self.wide else out.nbytes // out.size))
        if op == "rrelu":
            return int(out.nbytes)
        if op == "loop_sin":
            return int(out.nbytes) * (int(step.statement.options["times"]) - 1)
        if op == "max":
            return int(out.size) * (8 if self.wide else 1)
        return int(out.size) * (4 if self.wide else 1)


def expected(case: Case, flow: Any, saves: Mapping[str, str]) -> ExpectedMemory:
    """Bytes beyond inputs, parameters, state, outputs and loss, at the tensors' own dtypes."""
    plain: list[int] = []
    recomputed: list[int] = []
    drops: list[int] = []
    peaks: list[tuple[int, int]] = []
    for world in rules.worlds(case, flow, saves, alternatives=True):
        alive, units = _alive(flow, world), rules.minimal_units(flow, world)
        for views, wide in ((True, False), (True, True), (False, False), (False, True)):
            factors = "factors" in world.region
            ledger = Ledger(flow, views=views, wide=wide, factors=factors)
            before = _plain(flow, world, ledger, alive)
            least, most = _recomputed(flow, world, ledger, alive, units)
            plain.append(before)
            recomputed += [least, most]
            spared = _spared(flow, world, ledger, alive) if "cheap" in world.region else before
            plain.append(spared)
            drops.append(min(before, spared) - most)
            if not (views or wide):
                peaks.append(peaks_.peaks(flow, world, ledger, alive))
    sizes = [made.nbytes for made in flow.tensors if made.step is not None and made.floating]
    return ExpectedMemory(
        plain=(min(plain), max(plain)),
        recomputed=(min(recomputed), max(recomputed)),
        drop=max(0, min(drops)),
        unit=max(sizes, default=0),
        peaks=min(peaks, key=lambda pair: pair[0] - pair[1], default=(0, 0)),
        states=sum(map(_states, flow.calls())),
    )


def _states(call: Any) -> int:
    """Copies of the random state that a call of a region may keep: one, or one for each statement that
    draws, where a compiler keeps it by operation. A region inside another one keeps nothing: when it
    is called again, it reads the state again."""
    if call.parent is not None or not call.region.preserve_rng:
        return 0
    return max(1, sum(step.statement.op in RANDOM for step in call.steps()))


def _alive(flow: Any, world: Any) -> frozenset[Any]:
    """The statements whose gradients could be taken from what the program puts out."""
    ends = (*flow.outputs, *(() if flow.loss is None else (flow.loss,)))
    found: frozenset[Any] = flow.reached(world.active, ends)
    return found


def _plain(flow: Any, world: Any, ledger: Ledger, alive: Iterable[Any]) -> int:
    kept: Kept = {}
    for step in alive:
        ledger.add_saved(kept, step, world.words(flow, step))
    return sum(kept.values())


def _spared(flow: Any, world: Any, ledger: Ledger, alive: Iterable[Any]) -> int:
    """What the plain run keeps where a compiler runs again all that is cheap: what costly operations
    made."""
    kept: Kept = {}
    made = {n: step for step in flow.steps() for n in step.results}
    wanted: list[int] = []
    for step in alive:
        for word in world.words(flow, step):
            if word == "mask" and step.statement.op == "loop_sin":
                wanted += step.reads()
            elif word == "mask":
                kept[step] = ledger.mask(step)
            else:
                wanted += step.results if word == "out" else step.arguments.get(word, ())
    seen: set[int] = set()
    while wanted:
        number = wanted.pop()
        if number in seen:
            continue
        seen.add(number)
        step = made.get(number)
        if step is None or step.statement.op in rules.COSTLY:
            ledger.add(kept, [number])
        else:
            wanted += step.reads()
    return sum(kept.values())


def _recomputed(
    flow: Any, world: Any, ledger: Ledger, alive: frozenset[Any], units: Iterable[Any]
) -> tuple[int, int]:
    """(least, most): a region keeps what its gradients read from around it, or all that it was
    given and reads."""
    least: Kept = {}
    for step in alive:
        if "program" in world.region:
            continue
        if step.call is None or rules.run_plainly(step.call, world):
            ledger.add_saved(least, step, world.words(flow, step))
    most = dict(least)
    for unit in units:
        if unit.calls[0].parent is not None or rules.run_plainly(unit.calls[0], world):
            continue
        if any(step in alive for step in unit.steps()):
            made = {n for step in unit.steps() for n in step.results}
            read = {n for step in unit.steps() for n in step.reads()}
            taken = {n for call in unit.calls for n in (*call.taken, *call.gives)}
            ledger.add(most, (read | taken) - made)
            ledger.add(least, unit.reads)
            for kept in (least, most):
                ledger.add(kept, unit.kept_results)
            for call in unit.calls:
                ledger.add(most, rules.policy_keeps(call))
    return sum(least.values()), sum(most.values())
