"""The dataflow between a program's statements, recorded in a run in PyNative mode."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from conformance.model.program import Program, Site
from conformance.observe.worker.trace import Trace


@dataclass(frozen=True)
class Step:
    """One execution of a statement: what it reads and gives, as numbers of tensors, and the calls of
    regions around it (name and number of the call), the outermost first."""

    site: Site
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    regions: tuple[tuple[str, int], ...]


class Dataflow(Trace):
    """Follows a program and keeps its steps, in order. Tensors are numbered as they appear."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, on_statement=self._done)
        self.steps: list[Step] = []
        self.starts: dict[int, tuple[str, int]] = {}  # tensors that the program starts from
        self._tensors: list[Tensor] = []  # kept, so that no `id` comes twice
        self._numbers: dict[int, int] = {}
        self._frames: dict[FrameType, int] = {}
        self._begun: dict[Site, tuple[tuple[int, ...], tuple[tuple[str, int], ...]]] = {}
        self._assignments = {
            node.lineno: node
            for node in ast.walk(ast.parse(program.text))
            if isinstance(node, ast.Assign | ast.Return)
        }
        #: The names that a statement gives; what is returned at once has the statement's label.
        self._targets = {
            id(site): _targets(node) if isinstance(node, ast.Assign) else (site.label,)
            for line, node in sorted(self._assignments.items(), reverse=True)
            if (site := program.lines.get(line)) is not None
        }

    def number(self, tensor: Tensor) -> int:
        """The number of a tensor; the same object always has the same one."""
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self._tensors)
            self._tensors.append(tensor)
        return self._numbers[id(tensor)]

    def start(self, tensor: Tensor, name: str) -> None:
        """Note that a tensor is an input or parameter of the program, and its name."""
        self.starts[self.number(tensor)] = name, 0

    def alike(self, tensor: Tensor, other: Tensor) -> Tensor:
        """Give the first tensor the number of the other, and return it."""
        self._tensors.append(tensor)
        self._numbers[id(tensor)] = self.number(other)
        return tensor

    def mapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A replacement for `vmap(function)`, which would compile the function: calls it once, on the
        first element of each argument."""

        def once(*arguments: Tensor) -> Any:
            given = function(*(self.alike(argument[0], argument) for argument in arguments))
            parts = given if isinstance(given, tuple) else (given,)
            length = len(arguments[0])
            whole = tuple(self.alike(ops.stack([part] * length), part) for part in parts)
            return whole if isinstance(given, tuple) else whole[0]

        return once

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        site = self.program.lines.get(frame.f_lineno) if event == "line" else None
        if site is not None and site.kind == "statement" and site is not self._pending.get(frame):
            read = self._read(frame) if frame.f_lineno in self._assignments else ()
            tracer = super()._step(frame, event, argument)
            self._begun[site] = tuple(read), tuple(reversed(list(self._around(frame))))
            return tracer
        return super()._step(frame, event, argument)

    def _read(self, frame: FrameType) -> tuple[int, ...]:
        """The tensors that the statement at a frame's line reads, in the order written."""
        tensors: list[int] = []
        weights: list[int] = []  # of layers, which read them after what they are called on
        read = self._assignments[frame.f_lineno].value
        for node in () if read is None else ast.walk(read):
            value = _value(node, frame)
            if isinstance(value, Tensor):
                tensors.append(self.number(value))
            elif isinstance(value, ms.nn.Cell) and isinstance(node, ast.Attribute):
                weights += map(self.number, value.get_parameters())
        return (*tensors, *weights)

    def _around(self, frame: FrameType | None) -> Iterator[tuple[str, int]]:
        while frame is not None:
            if frame.f_code.co_filename == self.program.file:
                site = self.program.lines.get(frame.f_code.co_firstlineno)
                if site is not None and site.kind == "region":
                    yield site.region, self._frames.setdefault(frame, len(self._frames))
            frame = frame.f_back

    def _done(self, site: Site, phase: str, names: Mapping[str, Any]) -> None:
        reads, regions = self._begun[site]
        if site.region and site.region not in (name for name, _ in regions):
            regions = (*regions, (site.region, -1 - len(self.steps)))  # an operation, and no cell
        values = map(names.get, self._targets[id(site)])
        gives = tuple(self.number(v) for v in values if isinstance(v, Tensor))
        self.steps.append(Step(site, reads, gives, regions))


def _targets(node: ast.Assign) -> tuple[str, ...]:
    """The names that an assignment of one or several gives."""
    target = node.targets[0]
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return tuple(part.id for part in parts if isinstance(part, ast.Name))


def _value(node: ast.AST, frame: FrameType) -> object:
    """What a name, an attribute of what a name is (`self.w`), or an item of such (`self.ws[0]`) is in a
    frame; `None` for anything else."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(frame.f_locals.get(node.value.id), node.attr, None)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        series, place = _value(node.value, frame), node.slice.value
        return series[place] if isinstance(series, tuple) and isinstance(place, int) else None
    return None


def _is_held(value: object) -> bool:
    """Whether a network is given a value when it is made: a parameter, or a list of parameters."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, ms.Parameter) for one in value)
    return isinstance(value, ms.Parameter)


def follow(program: Program, module: ModuleType) -> tuple[Dataflow, list[str]]:
    """The dataflow of the plain network of a loaded program, and the names of its inputs in order."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = module.inputs()
    held = {k: v for k, v in values.items() if _is_held(v)}
    given = {k: v for k, v in values.items() if k not in held}
    network = module.plain(**held)
    dataflow = Dataflow(program)
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Tensor):
                dataflow.start(one, one.name if name in held else name)
    mapping = ms.vmap
    ms.vmap = dataflow.mapped
    try:
        with dataflow.active():
            network(*given.values())
    finally:
        ms.vmap = mapping
    return dataflow, list(given)
