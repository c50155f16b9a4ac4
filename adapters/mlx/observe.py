"""How MLX is observed: the graphs that `mx.eval` is given, and the allocator's own count of bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from conformance.model.observation import Array, Leaf
from conformance.model.program import MAPPED, Program
from conformance.observe.worker.lazy import Graph, Lazy
from conformance.observe.worker.surroundings import Setting

_PRIMITIVE = re.compile(r'^\{ (\d+) \[label ="([^"]*)"', re.M)
_MADE = re.compile(r'^(\d+) -> "(\w+)"$', re.M)
_READ = re.compile(r'^"(\w+)" -> (\d+)$', re.M)
#: Arrays that a function of MLX takes by name.
MOST = 1000


class Observer(Lazy):
    """Observes MLX on the CPU."""

    array, evaluates = mx.array, (mx, "eval")
    entries = frozenset({"Copy", "CustomTransforms", "Depends"})
    copies = frozenset({"Copy"})
    views = frozenset({"Reshape", "Squeeze", "Transpose"})
    masks, draws = frozenset({"Sum"}), frozenset({"RandomBits"})
    settings: Mapping[str, Setting] = {
        "the default device": (mx.default_device, mx.set_default_device)
    }
    resolution = 1024  # numbers between the operations are arrays, too

    methods: Mapping[str, str] = {
        "executions": "primitives in the graphs that are evaluated, by program line",
        "randomness": "values of the program's lines",
        "retained memory": "get_active_memory, with the loss evaluated and the gradients not",
        "peak memory": "get_peak_memory",
        "release": "get_active_memory",
    }
    rehearsals = 0  # the values' pass has filled all caches

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, mx.array):
            return None
        dtype = str(value.dtype).removeprefix("mlx.core.")
        array = np.array(value.astype(mx.float32) if dtype == "bfloat16" else value)
        return Leaf(array, dtype)

    def graph(self, arrays: Sequence[Any]) -> Graph:
        """Read out of what MLX exports: primitives that are not computed yet."""
        names: dict[str, str] = {}
        reads: dict[str, list[str]] = {}
        makers: dict[str, str] = {}
        asked: list[str] = []
        for start in range(0, len(arrays), MOST):
            given = {f"asked{i}": array for i, array in enumerate(arrays[start : start + MOST])}
            written = io.StringIO()
            mx.export_to_dot(written, **given)
            text = written.getvalue()
            names |= _PRIMITIVE.findall(text)
            primitive_of = {array: primitive for primitive, array in _MADE.findall(text)}
            asked += [primitive_of.get(name, "") for name in given]
            # A primitive has the same number in each text, and an array another name.
            makers |= {f"{start} {array}": primitive for array, primitive in primitive_of.items()}
            inputs: dict[str, list[str]] = {}
            for array, primitive in _READ.findall(text):
                inputs.setdefault(primitive, []).append(f"{start} {array}")
            reads |= inputs
        return Graph(names, reads, makers, asked)

    def same(self, array: Any) -> Any:
        return mx.stop_gradient(array)

    def generator(self) -> Array | None:
        return np.array(mx.random.uniform(shape=(4,)))

    def numbers(self, generator: object) -> Array | None:
        """A key has no state: it gives the same numbers as long as it is the same key."""
        if not isinstance(generator, mx.array):
            return None
        return np.array(mx.random.uniform(shape=(4,), key=generator))

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if MAPPED not in program.notes:
            return {}
        reason = "mx.vmap builds another graph, without the values of the program's lines"
        return {"executions": reason}

    # -- memory --------------------------------------------------------------------------------

    def wait(self) -> None:
        mx.synchronize()

    def held(self) -> int | None:
        return int(mx.get_active_memory())

    def reset_peak(self) -> None:
        mx.reset_peak_memory()

    def peak(self) -> int | None:
        return int(mx.get_peak_memory())

    def identity(self, value: object) -> int:
        if not isinstance(value, mx.array) or not self.is_computed(value):
            return id(value)
        if value.dtype == mx.bfloat16:  # NumPy has none, and so no view of it
            return id(value)
        pointer: int = np.array(value, copy=False).__array_interface__["data"][0]
        return pointer
