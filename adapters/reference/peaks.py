"""The most bytes held at any time of forward and backward: gradients taken one statement after the
other, in reverse, each value freed as soon as nothing needs it any more.

A region is made again, as a whole, when the first gradient inside it is to be taken; a region inside
it keeps what it reads until its own turn comes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from . import discipline as rules
from . import flow as flow_

Call = flow_.Call


class Backward:
    """Bytes while gradients are taken. `peak` is the most, outputs included, inputs not."""

    def __init__(self, flow: Any, world: Any, ledger: Any, alive: frozenset[Any]) -> None:
        self.flow, self.world, self.ledger, self.alive = flow, world, ledger, alive
        #: What is kept, by how many of those who read it, and its bytes.
        self.readers: Counter[object] = Counter()
        self.sizes: dict[object, int] = {}
        self.cotangents: dict[int, int] = {}
        self.kept = self.flowing = 0
        self.outputs = sum(
            flow.tensors[n].nbytes for n in set(flow.outputs) if flow.tensors[n].step is not None
        )
        self.peak = 0
        self._saved: dict[Any, dict[object, int]] = {}

    def run(self, *, recompute: bool) -> int:
        """The peak, with every region recomputed or run plainly."""
        items = self.flow.body if recompute else list(self.flow.steps())
        self.keep(items)
        self.note()
        ends = self.flow.outputs if self.flow.loss is None else (self.flow.loss,)
        for number in ends:
            self.add_cotangent(number)
        self.back(items)
        return self.peak

    def keep(self, items: Any) -> None:
        """Keep what a list of statements and regions saves, as it runs forward."""
        for item in items:
            for key, size in self.saved(item).items():
                if not self.readers[key]:
                    self.kept += size
                self.readers[key] += 1
                self.sizes[key] = size

    def free(self, item: Any) -> None:
        for key in self.saved(item):
            self.readers[key] -= 1
            if not self.readers[key]:
                self.kept -= self.sizes[key]

    def saved(self, item: Any) -> dict[object, int]:
        """What a statement's gradients read, or what a region keeps of what is around it."""
        found = self._saved.get(item)
        if found is None:
            found = self._saved[item] = self._read(item)
        return found

    def _read(self, item: Any) -> dict[object, int]:
        found: dict[object, int] = {}
        if not isinstance(item, Call):
            if item in self.alive:
                self.ledger.add_saved(found, item, self.world.words(self.flow, item))
        elif rules.run_plainly(item, self.world):
            for step in item.steps():
                found |= self.saved(step)
        elif any(step in self.alive for step in item.steps()):
            made = {n for step in item.steps() for n in step.results}
            read = {n for step in item.steps() for n in step.reads()}
            self.ledger.add(found, (read | set(item.taken)) - made)
            self.ledger.add(found, rules.policy_keeps(item))
        return found

    def back(self, items: Any) -> None:
        for item in reversed(items):
            if not isinstance(item, Call):
                self.step(item)
            else:
                self.keep(item.body)
                self.note()
                self.back(item.body)
            self.free(item)

    def step(self, step: Any) -> None:
        """Take the gradients of a statement."""
        if step not in self.world.reached:
            return
        for name in self.flow.differentiable(step, self.world.active):
            for number in step.arguments[name]:
                if number in self.world.active:
                    self.add_cotangent(number)
        self.note()
        for number in step.results:
            self.flowing -= self.cotangents.pop(number, 0)

    def add_cotangent(self, number: int) -> None:
        if number not in self.cotangents:
            self.cotangents[number] = self.flow.tensors[number].nbytes
            self.flowing += self.cotangents[number]

    def note(self) -> None:
        self.peak = max(self.peak, self.outputs + self.kept + self.flowing)


def peaks(flow: Any, world: Any, ledger: Any, alive: frozenset[Any]) -> tuple[int, int]:
    """Bytes: (plain, recomputed)."""
    plain = Backward(flow, world, ledger, alive).run(recompute=False)
    return plain, Backward(flow, world, ledger, alive).run(recompute=True)
