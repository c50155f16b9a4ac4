"""The peak: the most bytes held at any time of forward and backward. It is computed for a backward pass
that goes through the statements in reverse and frees each value after its last use.

A region is rerun as a whole before the first gradient inside it is computed. A region inside it keeps
what it reads until it is rerun itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from conformance.oracle.assumptions import Assumption, kept_by_policy, runs_plainly
from conformance.oracle.dataflow import Call, Dataflow, Step
from conformance.oracle.ledger import Kept, Ledger


def peaks(
    dataflow: Dataflow, assumed: Assumption, ledger: Ledger, alive: frozenset[Step]
) -> tuple[int, int]:
    """Bytes, (plain, recomputed): tensors beyond what the program starts from, at their own dtypes.
    `alive` are the steps that save residuals."""
    plain = _Backward(dataflow, assumed, ledger, alive).run(recompute=False)
    return plain, _Backward(dataflow, assumed, ledger, alive).run(recompute=True)


class _Backward:
    """Bytes held during backward: of outputs, of what is kept, and of cotangents not yet used
    (`flowing`). `peak` is the largest sum of the three so far."""

    def __init__(
        self, dataflow: Dataflow, assumed: Assumption, ledger: Ledger, alive: frozenset[Step]
    ) -> None:
        self.dataflow, self.assumed, self.ledger, self.alive = dataflow, assumed, ledger, alive
        #: How many statements and regions read what is kept, and its bytes.
        self.readers: Counter[object] = Counter()
        self.sizes: dict[object, int] = {}
        self.cotangents: dict[int, int] = {}
        self.kept = self.flowing = 0
        tensors = [dataflow.tensors[n] for n in set(dataflow.outputs)]
        self.outputs = sum(t.nbytes for t in tensors if t.producer is not None)
        self.peak = 0
        self._residuals: dict[Step | Call, Kept] = {}

    def run(self, *, recompute: bool) -> int:
        """The peak, with every region recomputed or run plainly."""
        flow = self.dataflow
        items: Sequence[Step | Call] = flow.body if recompute else flow.steps
        self.keep(items)
        self.note()
        for number in flow.outputs if flow.loss is None else (flow.loss,):
            self.add_cotangent(number)
        self.back(items)
        return self.peak

    def keep(self, items: Iterable[Step | Call]) -> None:
        """Keep what statements and regions save, as they run forward."""
        for item in items:
            for key, size in self.residuals(item).items():
                if not self.readers[key]:
                    self.kept += size
                self.readers[key] += 1
                self.sizes[key] = size

    def free(self, item: Step | Call) -> None:
        """Free what a statement or region saved and no other one reads."""
        for key in self.residuals(item):
            self.readers[key] -= 1
            if not self.readers[key]:
                self.kept -= self.sizes[key]

    def residuals(self, item: Step | Call) -> Kept:
        """What a statement's gradients read, or what a region keeps of what is around it."""
        kept = self._residuals.get(item)
        if kept is None:
            kept = self._residuals[item] = self._read(item)
        return kept

    def _read(self, item: Step | Call) -> Kept:
        kept: Kept = {}
        if isinstance(item, Step):
            if item in self.alive:
                self.ledger.add_residuals(kept, item, self.assumed.residuals(self.dataflow, item))
        elif runs_plainly(item, self.assumed):
            for step in item.steps:
                kept |= self.residuals(step)
        elif not self.alive.isdisjoint(item.steps):
            self.ledger.add(kept, item.read.union(item.taken) - item.made)
            self.ledger.add(kept, kept_by_policy(item))
        return kept

    def back(self, items: Sequence[Step | Call]) -> None:
        """Compute the gradients of statements and regions, the last first."""
        for item in reversed(items):
            if isinstance(item, Step):
                self.differentiate(item)
            else:
                self.keep(item.body)
                self.note()
                self.back(item.body)
            self.free(item)

    def differentiate(self, step: Step) -> None:
        """Take the gradients of a step's arguments, and free those of its results."""
        if step not in self.assumed.differentiated:
            return
        for name in self.dataflow.differentiable(step, self.assumed.active):
            for number in step.arguments[name]:
                if number in self.assumed.active:
                    self.add_cotangent(number)
        self.note()
        for number in step.results:
            self.flowing -= self.cotangents.pop(number, 0)

    def add_cotangent(self, number: int) -> None:
        """Hold the gradient of a tensor."""
        if number not in self.cotangents:
            self.cotangents[number] = self.dataflow.tensors[number].nbytes
            self.flowing += self.cotangents[number]

    def note(self) -> None:
        """Note the bytes that are held now."""
        self.peak = max(self.peak, self.outputs + self.kept + self.flowing)
