"""A case evaluated in NumPy, every region called as a plain function: its values and its dataflow.

`check_shapes` evaluates cases to find statements whose arguments do not fit. The suite's own cases are
checked by its tests. Cases from another folder are checked when they are selected for a run, shown or
emitted, before any framework is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from conformance.errors import CaseError, ConformanceError
from conformance.language.operations import OF_CALLABLES, OPERATIONS, RANDOM
from conformance.model.binding import bind, build
from conformance.model.case import (
    Again,
    Array,
    Case,
    Generator,
    Loss,
    Node,
    Region,
    Scalar,
    Statement,
    Value,
    flat,
    leaves,
)
from conformance.oracle import tape
from conformance.oracle.dataflow import Call, Dataflow, Key, Step, TensorInfo
from conformance.oracle.tape import Elements, Tensor
from conformance.paths import find_paths

T = TypeVar("T")
#: What a name of a program stands for: a tensor, a generator, a constant, or a container of these.
ProgramValue = (
    Tensor
    | np.random.Generator
    | Scalar
    | tuple["ProgramValue", ...]
    | Mapping[str, "ProgramValue"]
)
#: What an operation of the tape raises where an argument does not fit it: `AttributeError` where it is
#: no tensor, `ZeroDivisionError` for the mean of nothing.
_UNFIT = (ValueError, TypeError, IndexError, MemoryError, AttributeError, ZeroDivisionError)
#: Operations whose purpose is to raise.
_RAISING = ("raise_if", "raise_in_rerun")
#: What a framework's random operations gave in its forward pass, by region and label, for the reference
#: to use in place of its own. What is used is taken out.
Drawn = Mapping[Key, list[Elements | None]]
#: What an operation of the tape returns; a bool for `asks_gradient`.
Results = Tensor | tuple[Tensor, ...] | bool


def on_ranks(case: Case, function: Callable[[], T]) -> list[T]:
    """The results of a function that each rank of a case runs."""
    return [function()] if case.ranks == 1 else tape.spawn(function, case.ranks)


def make_inputs(case: Case) -> dict[str, ProgramValue]:
    """The values that the program starts from on this rank, by name: inputs, parameters and state.

    Tensors hold float64 (int64, bool) rounded to their dtype. Random ones are drawn from one generator,
    `numpy.random.default_rng(case.seed)`, in this order; those that differ by rank from another one.
    """
    rng = np.random.default_rng(case.seed)
    own = np.random.default_rng([case.seed, tape.rank() + 1])
    values: dict[str, ProgramValue] = {}
    for value in (*case.inputs, *case.parameters, *case.state):
        if isinstance(value, Value):
            values[value.name] = value.value
        elif isinstance(value, Generator):
            values[value.name] = tape.generator(value.seed)
        else:
            elements = _fill(value, own if value.by_rank else rng)
            values[value.name] = tape.tensor(elements, value.dtype, value.gradient)
    return values


def _fill(array: Array, rng: np.random.Generator) -> Elements:
    """The elements of a tensor, of its shape, not yet rounded to its dtype."""
    kind, numbers, shape = array.fill.kind, array.fill.numbers, array.shape
    if kind == "full":
        return np.full(shape, numbers[0])
    if kind == "values":
        values = np.array(array.fill.values)
        return values[tape.rank()] if array.by_rank else values
    if kind == "arange":
        return (numbers[0] + numbers[1] * np.arange(int(np.prod(shape)))).reshape(shape)
    if kind == "normal":
        return numbers[0] * rng.standard_normal(shape)
    if kind == "uniform":
        return rng.uniform(numbers[0], numbers[1], shape)
    return rng.integers(int(numbers[0]), int(numbers[1]), shape)


class DrawsError(ValueError):
    """What a framework drew is not what the program draws."""


class Interpreter:
    """One forward pass of a case on the tape, every region called directly.

    Random operations give the `samples` where there are any, else draw from the tape's generators.
    After `forward`, `dataflow` is the program unrolled, `of_loss` the output that the loss is made of,
    and `second_loss` the scalar that a second backward pass differentiates (`None` where there is none).
    """

    def __init__(self, case: Case, samples: Drawn | None) -> None:
        self.case, self.samples = case, samples
        self.regions = {region.name: region for region in case.regions()}
        self.dataflow = Dataflow()
        self.second_loss: Tensor | None = None
        self.of_loss: Tensor
        self._number_of: dict[Tensor, int] = {}
        self._inputs: Mapping[str, ProgramValue] = {}

    def forward(self, values: Mapping[str, ProgramValue]) -> tuple[ProgramValue, Tensor | None]:
        """(outputs, loss) of the program on values by name; the loss is a tensor of one element, or
        `None` where the case has none."""
        for name, value in values.items():
            if isinstance(value, Tensor):
                self.dataflow.leaves[name] = self._add(value, None)
        names = dict(values)
        self._inputs = values
        self._nodes(self.case.program, names, None)
        outputs = build(self.case.outputs, names)
        self.dataflow.outputs = self._numbers(outputs)
        loss, self.dataflow.loss = self._loss(self.case.loss, names)
        if self.case.loss is not None:
            self.of_loss = tensor_of(self.case.loss.name, names)
        self.second_loss, self.dataflow.second_loss = self._loss(self.case.then, names)
        return outputs, loss

    def _loss(
        self, loss: Loss | None, names: Mapping[str, ProgramValue]
    ) -> tuple[Tensor | None, int | None]:
        """The scalar that is differentiated, and the number of the tensor that is summed to it."""
        if loss is None:
            return None, None
        tensor = tensor_of(loss.name, names)
        number = self._number_of[tensor]
        reduce = {"sum": tape.sum, "mean": tape.mean}.get(loss.reduction)
        return reduce(tensor) if reduce else tensor, number

    def _add(self, tensor: Tensor, step: Step | None) -> int:
        """The number of a new tensor, which `step` made."""
        self._number_of[tensor] = len(self.dataflow.tensors)
        self.dataflow.tensors.append(TensorInfo(tensor.data.shape, tensor.dtype, step))
        return self._number_of[tensor]

    def _nodes(
        self, nodes: Iterable[Node], names: dict[str, ProgramValue], call: Call | None
    ) -> None:
        """Run the nodes of a region, or of the program, on values by name; results are added to them."""
        for node in flat(nodes):
            if isinstance(node, Statement):
                self._statement(node, names, call)
            elif isinstance(node, Again) or node.called:
                self._call(node, names, call)

    def _call(
        self, node: Region | Again, names: dict[str, ProgramValue], parent: Call | None
    ) -> None:
        region = node if isinstance(node, Region) else self.regions[node.region]
        positional = tuple(build(tree, names) for tree in node.takes)
        named = build(node.kwargs, names)
        top = [value for value in positional if isinstance(value, Tensor)]
        call = Call(region, parent, self._numbers((positional, named)), self._numbers(top))
        call.captured = self._numbers([names[n] for n in region.captured() if n in names])
        inner = dict(names)
        bind(region.takes, positional, inner)
        bind(region.kwargs, named, inner)
        (parent or self.dataflow).body.append(call)
        self._nodes(region.body, inner, call)
        result = build(region.gives, inner)
        call.gives = self._numbers(result)
        bind(node.gives, result, names)
        if node.returned:
            names[node.returned] = result

    def _numbers(self, tree: object) -> tuple[int, ...]:
        return tuple(self._number_of[t] for t in tape.tensors_in(tree))

    def _statement(
        self, statement: Statement, names: dict[str, ProgramValue], call: Call | None
    ) -> None:
        named = zip(OPERATIONS[statement.op].tensors, statement.arguments, strict=True)
        arguments = {
            name.removesuffix("...").rstrip("?"): build(argument, names)
            for name, argument in named
            if name not in ("region?", "generator?")
        }
        numbers = {name: self._numbers(value) for name, value in arguments.items()}
        step = Step(statement, call, numbers)
        (call or self.dataflow).body.append(step)
        result = self._apply(step, list(arguments.values()))
        results = result if isinstance(result, tuple) else (result,)
        step.results = tuple(self._add(t, step) for t in results if isinstance(t, Tensor))
        names.update(zip(statement.targets, results, strict=True))

    def _apply(self, step: Step, arguments: list[ProgramValue]) -> Results:
        """The results of a statement, none of which is the same object as an argument."""
        statement = step.statement
        if statement.op in OF_CALLABLES:
            return True
        if statement.op in RANDOM and self.samples is not None:
            sampled = self._sampled(step, self.samples, arguments[0] if arguments else None)
            if sampled is not None:
                return sampled
        if statement.op == "uniform_from":
            arguments = [self._inputs[name] for name in statement.names()]
        result: Results = getattr(tape, statement.op)(*arguments, **statement.options)
        if any(result is argument for argument in arguments):
            raise AssertionError(f"{statement.op} gave its argument back")
        return result

    def _sampled(self, step: Step, samples: Drawn, x: ProgramValue) -> Tensor | None:
        """The result of a random statement from the framework's samples, `None` where it was left out;
        `x` is its tensor argument, if any. Raises `DrawsError` where the framework drew fewer, or a
        tensor of another shape."""
        op, options = step.statement.op, step.statement.options
        shape = x.shape if isinstance(x, Tensor) else options.get("shape", ())
        assert isinstance(shape, tuple)
        (region, label), waiting = step.key, samples.get(step.key, [])
        place = f"{label!r} of region {region!r}" if region else repr(label)
        if 0 in shape:
            return None
        if not waiting:
            raise DrawsError(f"no draw is left for statement {place}")
        sample = waiting.pop(0)
        if sample is None:
            return None
        sample = np.asarray(sample)
        if sample.shape != shape:
            raise DrawsError(f"the draw of {place} has shape {sample.shape}, should be {shape}")
        if not isinstance(x, Tensor):
            return tape.tensor(sample)
        if op == "rrelu":
            return tape.sloped(x, sample)
        p = options.get("p", OPERATIONS["dropout"].options["p"].default)
        assert isinstance(p, int | float)
        return tape.masked(x, sample != 0, p)


def tensor_of(name: str, names: Mapping[str, ProgramValue]) -> Tensor:
    """The tensor of that name, which must be one."""
    value = names[name]
    assert isinstance(value, Tensor), f"{name} is no tensor"
    return value


class _Checking(Interpreter):
    """Evaluates a case until a statement fails, or one of `_RAISING` raises."""

    def _apply(self, step: Step, arguments: list[ProgramValue]) -> Results:
        try:
            return super()._apply(step, arguments)
        except _UNFIT as error:
            operation = OPERATIONS[step.statement.op]
            if operation.name in _RAISING:
                raise
            shapes = [str(t.shape) for t in tape.tensors_in(arguments)]
            found = f"tensors of shape {' and '.join(shapes)}" if shapes else "these arguments"
            reason = "" if "operand" in str(error) else f": {error}"  # NumPy's own words
            raise CaseError(
                f"{operation.name} does not accept {found}{reason}",
                where=step.statement.where,
                hint=f"`{operation.signature()}`: {operation.shape}",
            ) from error

    def _call(
        self, node: Region | Again, names: dict[str, ProgramValue], parent: Call | None
    ) -> None:
        region = node if isinstance(node, Region) else self.regions[node.region]
        given = tuple(tape.tensors_in(build(node.takes, names))) if region.mapped else ()
        rows = [one.data[:1].copy() for one in given if one.shape]
        super()._call(node, names, parent)
        if not region.mapped or any(len(row) == 0 for row in rows):
            return
        whole = [one.shape[1:] for one in tape.tensors_in(build(node.gives, names))]
        single = dict(names)
        each = (tape.tensor(row[0], one.dtype) for row, one in zip(rows, given, strict=False))
        single.update(zip(leaves(region.takes), each, strict=False))
        try:
            alone = Interpreter(self.case, self.samples)
            alone._inputs = self._inputs
            for value in tape.tensors_in(tuple(single.values())):
                alone._add(value, None)
            alone._nodes(region.body, single, None)
            fits = whole == [one.shape for one in tape.tensors_in(build(region.gives, single))]
        except _UNFIT:
            fits = False
        if not fits or len(rows) < len(given):
            raise CaseError(
                f"region {region.name!r} is mapped, and does not fit a row of its arguments",
                where=region.where,
                hint="it is called with one row after the other, and reads by closure what is around it",
            )

    def _loss(
        self, loss: Loss | None, names: Mapping[str, ProgramValue]
    ) -> tuple[Tensor | None, int | None]:
        value = names[loss.name] if loss else None
        if loss and not (isinstance(value, Tensor) and "float" in value.dtype):
            message = f"the loss {loss.name!r} is not a floating-point tensor, and has no gradient"
            hint = "name another output in `gradients: {of: sum(y)}`, or use `astype` before"
            raise CaseError(message, where=self.case.where, hint=hint)
        if loss and loss.reduction == "mean" and isinstance(value, Tensor) and not value.data.size:
            message = f"{loss.name!r} has no elements, and so no mean"
            raise CaseError(message, where=self.case.where)
        return super()._loss(loss, names)


def _checked(case: Case) -> tuple[Interpreter, Tensor | None]:
    run = _Checking(case, None)
    with np.errstate(all="ignore"):
        return run, run.forward(make_inputs(case))[1]


def check_shapes(cases: Iterable[Case]) -> None:
    """Raise `CaseError` at the first statement whose arguments do not fit it, in any of the cases. Of a
    case in which one of `_RAISING` raises, only what comes before it is checked."""
    for case in cases:
        try:
            with tape.quiet():
                run, loss = on_ranks(case, partial(_checked, case))[0]
        except ValueError:
            continue
        for scalar in (loss, run.second_loss):
            if scalar is not None and scalar.data.size != 1:
                raise CaseError(
                    f"the loss has shape {scalar.shape}, expected one number",
                    where=case.where,
                    hint="write `gradients: {of: sum(y)}` or `mean(y)`",
                )


def is_own(folder: Path) -> bool:
    """Whether a folder of cases is the suite's own."""
    try:
        return folder.resolve() == find_paths().cases.resolve()
    except ConformanceError:  # an installation without cases of its own
        return False
