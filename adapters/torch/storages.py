"""PyTorch storages that are alive, from the operation that allocates them until they are freed.

PyTorch keeps a storage's Python object for as long as anything in C++ holds the memory, so a weak
reference to that object is called back when the memory is freed. The cost of an operation does not
depend on how many storages are alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from conformance.model.observation import RandomState

#: Bytes of the state of PyTorch's generator on the CPU.
STATE = torch.get_rng_state().nbytes


class Storages:
    """Storages that are alive, their bytes, and the most bytes that were alive at any time.

    Between two operations storages are only freed, so that the most bytes alive after any of them
    is the peak, but for what a kernel takes for itself and gives back.
    """

    def __init__(self) -> None:
        #: By address: the reference that tells when the storage is freed, and its bytes.
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}
        self.nbytes = 0
        self.highest = 0
        #: Addresses of those that are random state, out of a graph's operations that draw.
        self._states: set[int] = set()

    def __len__(self) -> int:
        return len(self._alive)

    def know(self, values: Any, given: Collection[int] = ()) -> None:
        """Note the storages of all tensors in an operation's outputs, except those at the addresses
        `given`, which are its inputs."""
        for value in (values,) if isinstance(values, torch.Tensor) else tree_leaves(values):
            if isinstance(value, torch.Tensor) and not value.is_meta:
                storage = value.untyped_storage()
                if storage._cdata not in given:
                    self._know(storage)
                    if value.dtype == torch.uint8 and storage.nbytes() == STATE:
                        self._states.add(storage._cdata)
        self.highest = max(self.highest, self.nbytes)

    def size(self, tensor: torch.Tensor) -> int:
        """Bytes of a tensor's storage if it is known; 0 of any other."""
        _, size = self._alive.get(tensor.untyped_storage()._cdata, (None, 0))
        return size

    def random_state(self) -> RandomState:
        """Bytes and number of the live storages that are copies of the generator's state."""
        return RandomState(STATE * len(self._states), len(self._states))

    def forget(self) -> None:
        """Forget all storages, and set bytes and peak to 0."""
        self._alive.clear()
        self._states.clear()
        self.nbytes = self.highest = 0

    def _know(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        reference, before = self._alive.get(key, (None, 0))
        if size == before and reference is not None:
            return
        self._alive[key] = (reference or weakref.ref(storage, lambda _: self._freed(key)), size)
        self.nbytes += size - before

    def _freed(self, key: int) -> None:
        _, size = self._alive.pop(key)
        self._states.discard(key)
        self.nbytes -= size
