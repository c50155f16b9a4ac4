"""The memory of eager tensors: which buffers are held, and by whom."""

from __future__ import annotations

import gc
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks


class Following(ABC):
    """Is told of every operation, eagerly or while a graph is made, inside `active`."""

    @contextmanager
    def active(self) -> Iterator[Self]:
        """Follow operations until the `with` ends."""
        op_callbacks.add_op_callback(self._called)
        try:
            yield self
        finally:
            op_callbacks.remove_op_callback(self._called)

    def _called(
        self,
        op_type: Any,
        inputs: Sequence[Any],
        attrs: Any,
        outputs: Sequence[Any],
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        self.put_out(inputs, outputs)

    @abstractmethod
    def put_out(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """An operation has made `outputs` of `inputs`."""


class LiveBuffers(Following):
    """Knows every buffer that an eager operation has put out and that a tensor still holds."""

    def __init__(self) -> None:
        self._live: dict[int, weakref.ref[Any]] = {}
        self._place: dict[int, tuple[int, int]] = {}

    def put_out(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        around = [place for value in inputs for place in self._known(value)]
        for value in outputs:
            place = buffer(value)
            if place is None:
                continue
            start, size = place
            for begin, length in around:  # a slice or an alias keeps the whole buffer
                if begin <= start and start + size <= begin + length:
                    place = begin, length
            key = id(value)
            self._place[key] = place
            self._live[key] = weakref.ref(value, lambda _, key=key: self._forget(key))

    def _known(self, value: Any) -> Iterator[tuple[int, int]]:
        found = self._place.get(id(value)) or buffer(value)
        if found is not None:
            yield found

    def _forget(self, key: int) -> None:
        self._live.pop(key, None)
        self._place.pop(key, None)

    def place(self, value: Any) -> tuple[int, int] | None:
        """Address and bytes of the whole buffer that a tensor holds; `None` for anything else."""
        return self._place.get(id(value)) or buffer(value)

    def places(self) -> set[tuple[int, int]]:
        """Every buffer that is held."""
        return set(self._place.values())


def buffer(value: Any) -> tuple[int, int] | None:
    """Address and bytes of the elements of an eager tensor or variable; `None` for others."""
    if isinstance(value, tf.Variable):
        value = value.read_value()
    if not isinstance(value, tf.Tensor) or not hasattr(value, "_numpy"):
        return None
    if value.dtype in (tf.resource, tf.variant, tf.string):
        return None
    elements = value._numpy()  # the tensor's own memory, not a copy
    if not isinstance(elements, np.ndarray) or not elements.nbytes:
        return None
    return elements.__array_interface__["data"][0], elements.nbytes


def tensors(value: Any) -> Iterator[Any]:
    """The tensors and variables in a value, containers included."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, tf.Tensor | tf.Variable):
        yield value


def alive() -> list[Any]:
    """Every eager tensor and variable that is alive."""
    kinds = (type(tf.constant(0)), tf.Variable)
    return [value for value in gc.get_objects() if isinstance(value, kinds)]


def held() -> int:
    """Bytes of the distinct buffers of all eager tensors and variables that are alive."""
    places = {place for value in alive() if (place := buffer(value)) is not None}
    return sum(size for _, size in places)


class Sizes(Following):
    """Notes the bytes of what operations put out, in a graph or eagerly: how many in small ones."""

    def __init__(self, small: int) -> None:
        self.limit = small
        self.small = self.large = 0

    def put_out(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for value in outputs:
            if value.dtype in (tf.resource, tf.variant, tf.string) or value.shape.rank is None:
                continue
            size = (value.shape.num_elements() or 0) * value.dtype.size
            if size < self.limit:
                self.small += size
            else:
                self.large += size
