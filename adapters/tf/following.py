"""Callbacks for every operation that TensorFlow runs eagerly or adds to a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.framework import op_callbacks

from conformance.observe.worker.threads import entering


class Follower(ABC):
    """Base of classes that are called for each operation inside `following`."""

    @abstractmethod
    def put_out(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        op_type: Any,
        op_name: Any,
        graph: Any,
    ) -> None:
        """Called after an operation has made `outputs` from `inputs`; in a graph it is named `op_name`.

        The frame that made the operation is the third on the stack.
        """


@contextmanager
def following(*followers: Follower) -> Iterator[None]:
    """Call `put_out` of the followers for every operation inside the `with`.

    All followers share one op callback: in a graph, TensorFlow 2.21 passes a second callback what the
    first has returned, instead of the outputs.
    """
    telling = False

    def told(
        op_type: Any,
        inputs: Sequence[Any],
        attrs: Any,
        outputs: Sequence[Any],
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        nonlocal telling
        if telling:  # the operation is one that a follower makes itself
            return
        telling = True
        try:
            for follower in followers:
                follower.put_out(inputs, outputs, op_type, op_name, graph)
        finally:
            telling = False

    @contextmanager
    def listening() -> Iterator[None]:
        """Register the callback in the current thread; TensorFlow keeps callbacks per thread."""
        op_callbacks.add_op_callback(told)
        try:
            yield
        finally:
            op_callbacks.remove_op_callback(told)

    with listening(), entering(listening):
        yield
