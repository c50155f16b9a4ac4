"""Keras on TensorFlow, eagerly: the program's lines, and the buffers of the tensors that are alive."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework import op_callbacks

from conformance.model.observation import Leaf
from conformance.observe.worker.observer import Counts
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.threads import entering
from conformance.observe.worker.trace import Trace

#: Address and bytes.
Buffer = tuple[int, int]


class LiveBuffers:
    """Knows every buffer that an eager operation has put out and that a tensor still holds, and the
    most bytes alive after any operation: between two, buffers are only freed.

    What a variable has for its value is not counted as held: a tensor that was read from it has no
    memory of its own, until something else is assigned to the variable.
    """

    def __init__(self) -> None:
        self.held = self.highest = 0
        self._tensors: dict[int, tuple[weakref.ref[Any], Buffer]] = {}
        self._holders: Counter[Buffer] = Counter()
        #: The variables by the `id` of their handles, and how many of them have a buffer as their value.
        self._variables: dict[int, tuple[weakref.ref[Any], Buffer]] = {}
        self._values: Counter[Buffer] = Counter()
        #: Whether a variable is being read for that: the operation is none of the program's.
        self._looking = False

    @contextmanager
    def active(self) -> Iterator[LiveBuffers]:
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

    def place(self, tensor: Any) -> Buffer | None:
        """The whole buffer that a tensor holds; `None` where it has no elements to hold."""
        known = self._tensors.get(id(tensor))
        return known[1] if known else buffer(tensor)

    def count(self) -> int:
        """How many buffers are alive."""
        return len(self._holders)

    def _called(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        if self._looking:
            return
        around = [found for found in map(self.place, inputs) if found is not None]
        for tensor in outputs:
            place = buffer(tensor)
            if place is None:
                continue
            for start, size in around:  # a slice or an alias keeps the whole buffer
                if start <= place[0] and sum(place) <= start + size:
                    place = start, size
            key = id(tensor)
            self._tensors[key] = weakref.ref(tensor, self._forgetting(key)), place
            self._change(self._holders, place, 1)
        for handle in inputs:
            if graph is None and handle.dtype == tf.resource:
                self._look(handle)
        self.highest = max(self.highest, self.held)

    def _look(self, handle: Any) -> None:
        """Note where the value of a variable is now; of what has no value, like an iterator, nothing."""
        key, of = id(handle), handle._handle_data
        self._leave(key)
        if of is None or not of.is_set or len(of.shape_and_type) != 1:
            return
        self._looking = True
        try:
            with record.stop_recording():
                value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=of.shape_and_type[0].dtype)
        except tf.errors.OpError:
            return
        finally:
            self._looking = False
        place = buffer(value)
        if place is not None:
            self._variables[key] = weakref.ref(handle, lambda _: self._leave(key)), place
            self._change(self._values, place, 1)

    def _leave(self, key: int) -> None:
        """A variable is gone, or its value may be elsewhere now."""
        if key in self._variables:
            self._change(self._values, self._variables.pop(key)[1], -1)

    def _forgetting(self, key: int) -> Callable[[object], None]:
        """What is called when a tensor is gone."""
        return lambda _: self._forget(key)

    def _forget(self, key: int) -> None:
        self._change(self._holders, self._tensors.pop(key)[1], -1)

    def _change(self, counter: Counter[Buffer], place: Buffer, by: int) -> None:
        """Count a holder of a buffer, or a variable with it as its value, and what is held by that."""
        before = self._counted(place)
        counter[place] += by
        if not counter[place]:
            del counter[place]
        self.held += self._counted(place) - before

    def _counted(self, place: Buffer) -> int:
        return place[1] if place in self._holders and place not in self._values else 0


def buffer(tensor: Any) -> Buffer | None:
    """Address and bytes of the elements of an eager tensor; `None` for anything else."""
    if not isinstance(tensor, tf.Tensor) or not hasattr(tensor, "_numpy"):
        return None
    if tensor.dtype in (tf.resource, tf.variant, tf.string):
        return None
    elements = tensor._numpy()  # the tensor's own memory, not a copy
    if not isinstance(elements, np.ndarray) or not elements.nbytes:
        return None
    return elements.__array_interface__["data"][0], elements.nbytes


class Observer(Base):
    """Python runs a region each time, so that lines tell what ran."""

    resolution = 0

    methods: Mapping[str, str] = {
        "executions": "Python line trace",
        "randomness": "values of the program's lines",
        "retained memory": "op callbacks, live tensor buffers",
        "peak memory": "op callbacks, live tensor buffers after each operation",
        "release": "op callbacks, live tensor buffers",
    }

    together = True
    rehearsals = 0  # the values' pass has filled all caches

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self._live = LiveBuffers()

    def leaf(self, value: object) -> Leaf | None:
        if isinstance(value, tf.IndexedSlices):
            value = tf.convert_to_tensor(value)
        if not isinstance(value, tf.Tensor | tf.Variable):
            return None
        dtype = value.dtype.name
        array = tf.cast(value, tf.float32) if dtype == "bfloat16" else value
        return Leaf(np.array(array), dtype)

    def nbytes(self, value: object) -> int:
        return (self._live.place(value) or (0, 0))[1]

    def identity(self, value: object) -> int:
        return (self._live.place(value) or (id(value), 0))[0]

    def unseed(self) -> None:
        tf.random.set_seed(None)

    def held(self) -> int | None:
        return self._live.held

    def reset_peak(self) -> None:
        self._live.highest = self._live.held

    def peak(self) -> int | None:
        return self._live.highest

    def alive(self) -> int | None:
        return self._live.count()

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        with self.watching():
            yield lambda: trace.completed

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.settle()
        self._live = LiveBuffers()
        with self._live.active():
            yield
        self._live = LiveBuffers()
