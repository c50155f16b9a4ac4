"""Bytes of what is kept between forward and backward: tensors and masks, shared memory counted once."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.oracle.dataflow import Dataflow, Step

#: Bytes by what is kept: a tensor by its number, the mask of a step, or the factor of its gradient.
Kept = dict[int | Step | tuple[Step, str], int]
#: Operations whose result may be the same memory as their argument.
VIEWS = frozenset({"reshape", "permute_dims", "split", "stop_gradient", "raise_if", "astype"})
#: Operations whose gradient is a product with a factor that they can already compute in forward.
_FACTORS = frozenset({"sin", "cos", "tanh"})
#: Operations whose mask holds the place of a maximum for each element of the result.
_INDICES = frozenset({"max", "max_pool2d"})


class Ledger:
    """Adds tensors and masks to a `Kept`. Tensors that the program starts from or returns are held
    anyway and never added.

    With `views`, a reshaped tensor shares the memory of its argument. With `wide`, masks take the most
    bytes per element that implementations use, else the least. With `factors`, `sin`, `cos` and `tanh`
    keep the factor of their gradient, an array that is no tensor of the program.
    """

    def __init__(
        self, dataflow: Dataflow, *, views: bool, wide: bool, factors: bool = False
    ) -> None:
        self.dataflow, self.views, self.wide, self.factors = dataflow, views, wide, factors
        self._roots: dict[int, int] = {}
        self.free = {self.root(n) for n in (*dataflow.leaves.values(), *dataflow.outputs)}

    def root(self, number: int) -> int:
        """The number of the tensor that owns a tensor's memory."""
        if not self.views:
            return number
        if number not in self._roots:
            self._roots[number] = self._root(number)
        return self._roots[number]

    def _root(self, number: int) -> int:
        tensors = self.dataflow.tensors
        while True:
            step = tensors[number].producer
            if step is None or step.statement.op not in VIEWS:
                return number
            source = step.arguments["x"][0]
            if tensors[source].dtype != tensors[number].dtype:
                return number
            number = source

    def add(self, kept: Kept, numbers: Iterable[int]) -> None:
        """Add tensors, by number, to `kept`."""
        for number in numbers:
            root = self.root(number)
            if root not in self.free:
                kept[root] = self.dataflow.tensors[root].nbytes

    def add_residuals(self, kept: Kept, step: Step, words: Iterable[str]) -> None:
        """Add the residuals of a step to `kept`, given the words of `Assumption.residuals`."""
        if self.factors and step.statement.op in _FACTORS:
            kept[step, "factor"] = self.dataflow.tensors[step.results[0]].nbytes
            words = {"out"} if step.statement.op == "tanh" else ()  # (1 + out) times (1 - out)
        for word in words:
            if word == "mask":
                kept[step] = self.mask(step)
            else:
                self.add(kept, step.results if word == "out" else step.arguments.get(word, ()))

    def mask(self, step: Step) -> int:
        """Bytes of a mask: one to four per element of the result; indices of maxima one to eight.

        A normalisation keeps two numbers per mean, at the dtype of its result or four bytes each;
        `rrelu` its slopes, as large as the result; `loop_sin` the results of all iterations but one.
        """
        op, out = step.statement.op, self.dataflow.tensors[step.results[0]]
        if op in ("batch_norm", "layer_norm"):
            gamma = self.dataflow.tensors[step.arguments["gamma"][0]]
            means = gamma.size if op == "batch_norm" else out.size // gamma.size
            return 2 * means * (4 if self.wide else out.nbytes // out.size)
        if op == "rrelu":
            return out.nbytes
        if op == "loop_sin":
            times = step.statement.options["times"]
            assert isinstance(times, int)
            return out.nbytes * (times - 1)
        if not self.wide:
            return out.size
        return out.size * (8 if op in _INDICES else 4)
