"""Being told of every operation that TensorFlow runs, or adds to a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.framework import op_callbacks

from conformance.observe.worker.threads import entering


class Follower(ABC):
    """Is told of operations inside `following`."""

    @abstractmethod
    def put_out(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        op_type: Any,
        op_name: Any,
        graph: Any,
    ) -> None:
        """An operation has made `outputs` of `inputs`; in a graph, it has the name `op_name`.

        The frame that the operation was made in is the third on the stack.
        """


@contextmanager
def following(*followers: Follower) -> Iterator[None]:
    """Tell followers of every operation, eager or added to a graph, until the `with` ends.

    All of them share one callback: in a graph, TensorFlow 2.21 gives the second one what the first
    returns in place of the outputs.
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
        if telling:  # of an operation that a follower makes itself
            return
        telling = True
        try:
            for follower in followers:
                follower.put_out(inputs, outputs, op_type, op_name, graph)
        finally:
            telling = False

    @contextmanager
    def listening() -> Iterator[None]:
        """A callback is on in one thread alone."""
        op_callbacks.add_op_callback(told)
        try:
            yield
        finally:
            op_callbacks.remove_op_callback(told)

    with listening(), entering(listening):
        yield
