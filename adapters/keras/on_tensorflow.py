"""Keras on TensorFlow, eagerly: the program's lines, and the buffers of the tensors that are alive."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record

from conformance.model.observation import Leaf
from conformance.observe.worker.observer import Counts
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.trace import Trace

from ..tf import buffers, following
from ..tf.buffers import Place


class LiveBuffers(buffers.LiveBuffers):
    """Buffers that tensors hold, their bytes, and the most bytes that were alive after any operation:
    between two, buffers are only freed.

    What a variable has for its value is not counted as held: a tensor that was read from it has no
    memory of its own, until something else is assigned to the variable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = self.highest = 0
        #: How many tensors hold each buffer.
        self.holders: Counter[Place] = Counter()
        #: The variables by the `id` of their handles, and how many of them have a buffer as their value.
        self._variables: dict[int, tuple[weakref.ref[Any], Place]] = {}
        self._values: Counter[Place] = Counter()

    def put_out(
        self, inputs: Sequence[Any], outputs: Sequence[Any], op_type: Any, op_name: Any, graph: Any
    ) -> None:
        super().put_out(inputs, outputs)
        for handle in inputs:
            if graph is None and handle.dtype == tf.resource:
                self._look(handle)
        self.highest = max(self.highest, self.held)

    def keep(self, tensor: Any, place: Place) -> None:
        super().keep(tensor, place)
        self._change(self.holders, place, 1)

    def hold(self, outputs: Any) -> None:
        """Note tensors that no operation has made, such as one of an array of NumPy's."""
        for tensor in buffers.tensors(outputs):
            for place in () if self.knows(tensor) else self.places_of(tensor):
                self.keep(tensor, place)

    def forget(self, key: int) -> Place:
        place = super().forget(key)
        self._change(self.holders, place, -1)
        return place

    def places_of(self, value: Any) -> Sequence[Place]:
        return () if isinstance(value, tf.Variable) else super().places_of(value)

    def _look(self, handle: Any) -> None:
        """Note where the value of a variable is now; of what has no value, like an iterator, nothing."""
        key, of = id(handle), handle._handle_data
        self._leave(key)
        if of is None or not of.is_set or len(of.shape_and_type) != 1:
            return
        try:
            with record.stop_recording():
                value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=of.shape_and_type[0].dtype)
        except tf.errors.OpError:
            return
        place = buffers.elements(value)
        if place is not None:
            self._variables[key] = weakref.ref(handle, lambda _: self._leave(key)), place
            self._change(self._values, place, 1)

    def _leave(self, key: int) -> None:
        """A variable is gone, or its value may be elsewhere now."""
        if key in self._variables:
            self._change(self._values, self._variables.pop(key)[1], -1)

    def _change(self, counter: Counter[Place], place: Place, by: int) -> None:
        """Count a holder of a buffer, or a variable with it as its value, and what is held by that."""
        before = self._counted(place)
        counter[place] += by
        if not counter[place]:
            del counter[place]
        self.held += self._counted(place) - before

    def _counted(self, place: Place) -> int:
        return place[1] if place in self.holders and place not in self._values else 0


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
        return buffers.leaf(value)

    def nbytes(self, value: object) -> int:
        return sum(size for _, size in self._live.places_of(value))

    def identity(self, value: object) -> int:
        return next((address for address, _ in self._live.places_of(value)), id(value))

    def unseed(self) -> None:
        tf.random.set_seed(None)

    def held(self) -> int | None:
        return self._live.held

    def reset_peak(self) -> None:
        self._live.highest = self._live.held

    def peak(self) -> int | None:
        return self._live.highest

    def alive(self) -> int | None:
        return len(self._live.holders)

    def kept(self, outputs: Any) -> None:
        self._live.hold(outputs)

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        with self.watching():
            yield lambda: trace.completed

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.settle()
        self._live = LiveBuffers()
        with following.following(self._live):
            yield
        self._live = LiveBuffers()
