"""Copies of random state: which of them a program keeps, and how much memory they take.

A region that preserves randomness saves the state of its generators when it runs. Frameworks read
that state with functions of their own and of Python (`torch.get_rng_state`, `random.getstate`).
Some return no tensor, so that counting tensors misses the copies. This module wraps those functions
and tracks what they return until it is freed.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from conformance.model.observation import RandomState

#: A function that returns random state: its module and its name there. Callers look the name up in the
#: module when they call it, so that it can be replaced.
Reader = tuple[str, str]
#: Readers that programs of every framework may call.
SHARED: tuple[Reader, ...] = (("random", "getstate"), ("numpy.random", "get_state"))
#: Python shares one object for each integer from 0 to this.
_SMALL = 256


class RandomStates:
    """Counts the states that `readers` returned inside `followed` and that are still alive. `size`
    returns the bytes of a state, or 0 where Python's own sizes are to be taken."""

    def __init__(self, readers: Sequence[Reader], size: Callable[[object], int]) -> None:
        self._readers = readers
        self._size = size
        self._alive: Counter[Reader] = Counter()
        self._nbytes = 0

    def now(self) -> RandomState:
        """The copies that are alive and their bytes. One copy may consist of the states of several
        generators: there are as many copies as states of one generator, at most."""
        return RandomState(self._nbytes, max(self._alive.values(), default=0))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Wrap the readers in all imported modules while inside the `with`."""
        with ExitStack() as stack:
            for reader in self._readers:
                module = sys.modules.get(reader[0])
                if module is not None:
                    read = partial(self._tracked, reader, getattr(module, reader[1]))
                    stack.enter_context(patch.object(module, reader[1], read))
            yield

    def _tracked(self, reader: Reader, read: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Read a state, and count it until it is freed. Returns it, or an equal one to be tracked."""
        state = read(*given, **named)
        size = self._size(state) or python_bytes(state)
        self._alive[reader] += 1
        self._nbytes += size

        def freed() -> None:
            self._alive[reader] -= 1
            self._nbytes -= size

        if isinstance(state, tuple | list):  # these cannot be referenced weakly
            tracked = _TrackedTuple(state) if isinstance(state, tuple) else _TrackedList(state)
            tracked.freed = freed
            return tracked
        weakref.finalize(state, freed).atexit = False
        return state


class _Tracked:
    """A value that calls `freed` when it is freed."""

    freed: Callable[[], None]

    def __del__(self) -> None:
        self.freed()


class _TrackedTuple(_Tracked, tuple[Any, ...]):
    pass


class _TrackedList(_Tracked, list[Any]):
    pass


def python_bytes(value: object) -> int:
    """Bytes of a value and of everything in it, by `sys.getsizeof`; shared small integers are 0."""
    if isinstance(value, int) and 0 <= value <= _SMALL:
        return 0
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(python_bytes(part) for pair in value.items() for part in pair)
    if isinstance(value, tuple | list):
        if set(map(type, value)) == {int}:  # hundreds of words, in each state of `random`
            return size + sum(sys.getsizeof(n) for n in value if not 0 <= n <= _SMALL)
        return size + sum(map(python_bytes, value))
    if isinstance(value, np.ndarray) and value.base is not None:
        return size + value.nbytes
    return size
