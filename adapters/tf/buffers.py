"""The memory of eager tensors: which buffers are held, and by whom."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import full_type_pb2, types_pb2
from tensorflow.python.framework.ops import EagerTensor

from conformance.model.observation import Leaf

from . import following

#: Address and bytes.
Place = tuple[int, int]
#: Enum values of dtypes whose tensors have no elements that NumPy could view.
_WITHOUT_SIZE = (types_pb2.DT_RESOURCE, types_pb2.DT_STRING, types_pb2.DT_VARIANT)


class LiveBuffers(following.Follower):
    """Tracks the buffers of eager operations' outputs that some tensor still holds."""

    def __init__(self) -> None:
        #: The tensors that hold a buffer, by `id`, with the whole buffer that each holds.
        self._live: dict[int, tuple[weakref.ref[Any], Place]] = {}
        #: Lists of tensors: what is in one is known when the operation is over.
        self._lists: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def put_out(self, inputs: Sequence[Any], outputs: Sequence[Any], *_: Any) -> None:
        around: list[Place] | None = None  # made where there is something to look up in it
        for value in outputs:
            if type(value) is not EagerTensor:
                continue
            if value._datatype_enum() == types_pb2.DT_VARIANT:
                self._lists[id(value)] = value
                continue
            place = elements(value)
            if place is not None:
                if around is None:
                    around = [entry for given in inputs for entry in self.places_of(given)]
                self.keep(value, _whole(place, around))

    def keep(self, tensor: Any, place: Place) -> None:
        """Note the buffer that a tensor holds, until it is freed."""
        key = id(tensor)
        self._live[key] = weakref.ref(tensor, lambda _: self.forget(key)), place

    def knows(self, tensor: Any) -> bool:
        """Whether the buffer that a tensor holds is noted."""
        return id(tensor) in self._live

    def forget(self, key: int) -> Place:
        """Called when the tensor with that `id` is freed: the buffer that it has held."""
        return self._live.pop(key)[1]

    def places_of(self, value: Any) -> Sequence[Place]:
        """Every whole buffer that a tensor holds."""
        known = self._live.get(id(value))
        return tuple(buffers(value)) if known is None else (known[1],)

    def places(self) -> set[Place]:
        """Every buffer that is held."""
        held = {place for _, place in self._live.values()}
        return held | {place for value in list(self._lists.values()) for place in buffers(value)}


def _whole(place: Place, around: Sequence[Place]) -> Place:
    """The whole buffer that a slice or an alias at `place` keeps alive, out of those `around`."""
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
    if type(value) is not EagerTensor:
        return
    if value._datatype_enum() == types_pb2.DT_VARIANT:
        for part in _listed(value):
            yield from buffers(part)
    else:
        place = elements(value)
        if place is not None:
            yield place


def elements(value: Any) -> Place | None:
    """Address and bytes of an eager tensor's elements; `None` where it has none."""
    if value._datatype_enum() in _WITHOUT_SIZE:
        return None
    array = value._numpy()  # the tensor's own memory, not a copy
    if not isinstance(array, np.ndarray) or not array.nbytes:
        return None
    return array.__array_interface__["data"][0], array.nbytes


def _listed(value: Any) -> Iterator[Any]:
    """The tensors of a TensorList, without copying; nothing for other values."""
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


def leaf(value: object) -> Leaf | None:
    """The elements and dtype of a tensor or variable; `None` for anything else."""
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    if not isinstance(value, tf.Tensor | tf.Variable):
        return None
    array, dtype = value.numpy(), value.dtype.name
    return Leaf(np.array(array, np.float32 if dtype == "bfloat16" else None), dtype)


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
    kinds = (EagerTensor, tf.Variable)
    return [value for value in gc.get_objects() if isinstance(value, kinds)]


def held() -> int:
    """Bytes of the distinct buffers of all eager tensors and variables that are alive."""
    places = {place for value in alive() for place in buffers(value)}
    return sum(size for _, size in places)


class Sizes(following.Follower):
    """Sums the bytes of operations' outputs, in a graph or eagerly: `small` for outputs below the limit,
    `large` for the others."""

    def __init__(self, small: int) -> None:
        self.limit = small
        self.small = self.large = 0

    def put_out(self, inputs: Sequence[Any], outputs: Sequence[Any], *_: Any) -> None:
        for value in outputs:
            if value.dtype.as_datatype_enum in _WITHOUT_SIZE or value.shape.rank is None:
                continue
            size = (value.shape.num_elements() or 0) * value.dtype.size
            if size < self.limit:
                self.small += size
            else:
                self.large += size
