"""Copies of random state: which of them a program keeps, and how much memory they take.

A region that preserves randomness saves the state of its generators when it runs. Frameworks read
that state with functions of their own and of Python (`torch.get_rng_state`, `random.getstate`).
Some return no tensor, so that counting tensors misses the copies. This module wraps those functions
and tracks what they return until it is freed.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from conformance.model.observation import RandomState

#: A function that hands out random state: the module whose name is looked up when it is called, and
#: that name.
Reader = tuple[str, str]
#: Those that every framework shares.
SHARED: tuple[Reader, ...] = (("random", "getstate"), ("numpy.random", "get_state"))
#: Python has one object for each integer up to this.
_SMALL = 256


class RandomStates:
    """The copies that are alive of what `readers` handed out inside `followed`.

    `size` tells the bytes of one that it knows, and 0 of any other; those are counted as Python's
    objects.
    """

    def __init__(self, readers: Sequence[Reader], size: Callable[[object], int]) -> None:
        self._readers = readers
        self._size = size
        self._alive: Counter[Reader] = Counter()
        self._nbytes = 0

    def now(self) -> RandomState:
        """The copies that are alive. Several kinds of state may belong to one copy, so the most of
        any kind counts.
        """
        return RandomState(self._nbytes, max(self._alive.values(), default=0))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Wrap the readers in all imported modules while inside the `with`."""
        with ExitStack() as stack:
            for reader in self._readers:
                module = sys.modules.get(reader[0])
                if module is not None:
                    read = self._following(reader, getattr(module, reader[1]))
                    stack.enter_context(patch.object(module, reader[1], read))
            yield

    def _following(self, reader: Reader, read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*arguments: Any, **keywords: Any) -> Any:
            return self._known(reader, read(*arguments, **keywords))

        return reading

    def _known(self, reader: Reader, state: Any) -> Any:
        size = self._size(state) or python_bytes(state)
        self._alive[reader] += 1
        self._nbytes += size

        def freed() -> None:
            self._alive[reader] -= 1
            self._nbytes -= size

        if isinstance(state, tuple | list):  # these tell nobody when they are freed
            kept = _KeptTuple(state) if isinstance(state, tuple) else _KeptList(state)
            kept.freed = freed
            return kept
        weakref.finalize(state, freed).atexit = False
        return state


class _KeptTuple(tuple[Any, ...]):
    """A tuple that tells when it is freed."""

    freed: Callable[[], None]

    def __del__(self) -> None:
        self.freed()


class _KeptList(list[Any]):
    """A list that tells when it is freed."""

    freed: Callable[[], None]

    def __del__(self) -> None:
        self.freed()


def python_bytes(value: object) -> int:
    """Bytes of a value with all that is in it, as Python tells them."""
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
