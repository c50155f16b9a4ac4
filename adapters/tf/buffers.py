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
from tensorflow.core.framework import full_type_pb2
from tensorflow.python.framework import op_callbacks

from conformance.worker.threads import entering

#: Address and bytes.
Place = tuple[int, int]


class Following(ABC):
    """Is told of every operation, eagerly or while a graph is made, inside `active`."""

    _told = False  # of an operation, just now

    @contextmanager
    def active(self) -> Iterator[Self]:
        """Follow operations until the `with` ends."""
        with self._listening(), entering(self._listening):
            yield self

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """A callback is on in one thread alone."""
        op_callbacks.add_op_callback(self._called)
        try:
            yield
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
        if not self._told:  # else it is an operation of `put_out` itself
            self._told = True
            try:
                self.put_out(inputs, outputs)
            finally:
                self._told = False

    @abstractmethod
    def put_out(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """An operation has made `outputs` of `inputs`."""


class LiveBuffers(Following):
    """Knows every buffer that an eager operation has put out and that a tensor still holds."""

    def __init__(self) -> None:
        self._live: dict[int, weakref.ref[Any]] = {}
        self._places: dict[int, frozenset[Place]] = {}
        #: Lists of tensors: what is in one is known when the operation is over.
        self._lists: dict[int, weakref.ref[Any]] = {}

    def put_out(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        around = [place for value in inputs for place in self.places_of(value)]
        for value in outputs:
            key = id(value)
            if value.dtype == tf.variant:
                self._lists[key] = weakref.ref(value, lambda _, key=key: self._forget(key))
                continue
            found = frozenset(_whole(place, around) for place in buffers(value))
            if found:
                self._places[key] = found
                self._live[key] = weakref.ref(value, lambda _, key=key: self._forget(key))

    def _forget(self, key: int) -> None:
        self._live.pop(key, None)
        self._places.pop(key, None)
        self._lists.pop(key, None)

    def places_of(self, value: Any) -> frozenset[Place]:
        """Every whole buffer that a tensor holds."""
        return self._places.get(id(value)) or frozenset(buffers(value))

    def places(self) -> set[Place]:
        """Every buffer that is held."""
        found = {place for places in self._places.values() for place in places}
        lists = [value() for value in self._lists.values()]
        return found | {place for value in lists for place in buffers(value)}


def _whole(place: Place, around: Sequence[Place]) -> Place:
    """The buffer that a slice or an alias keeps whole."""
    start, size = place
    for begin, length in around:
        if begin <= start and start + size <= begin + length:
            start, size = begin, length
    return start, size


def buffers(value: Any) -> Iterator[Place]:
    """Address and bytes of the elements of an eager tensor or variable, and of each tensor in a list
    of tensors, which is what a loop in a graph keeps for its gradient."""
    if isinstance(value, tf.Variable):
        value = value.read_value()
    if not isinstance(value, tf.Tensor) or not hasattr(value, "_numpy"):
        return
    if value.dtype == tf.variant:
        for part in _listed(value):
            yield from buffers(part)
    elif value.dtype not in (tf.resource, tf.string):
        elements = value._numpy()  # the tensor's own memory, not a copy
        if isinstance(elements, np.ndarray) and elements.nbytes:
            yield elements.__array_interface__["data"][0], elements.nbytes


def _listed(value: Any) -> Iterator[Any]:
    """The tensors of a list of tensors, each with the list's own memory; of others none."""
    data = value._handle_data
    if data is None or not data.is_set or not data.shape_and_type:
        return
    (kind,) = data.shape_and_type
    if kind.type.type_id != full_type_pb2.TFT_ARRAY:
        return
    for number in range(int(tf.raw_ops.TensorListLength(input_handle=value))):
        yield tf.raw_ops.TensorListGetItem(
            input_handle=value, index=number, element_shape=-1, element_dtype=kind.dtype
        )


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
    places = {place for value in alive() for place in buffers(value)}
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
