"""Keras on PyTorch: dispatch modes around the program, as it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import torch
from keras.random import SeedGenerator
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from conformance.observation import Leaf, Phase
from conformance.program import Program, Site
from conformance.worker.observer import Counts
from conformance.worker.observer import Observer as Base
from conformance.worker.threads import entering
from conformance.worker.trace import Trace


class Dispatched(TorchDispatchMode):
    """Notes every operation that reaches a kernel, with the line of the program it comes from.

    An operation that early stop aborts before its kernel is never dispatched. The global generator
    is made by the first statement that draws, and is no part of it. Where Keras calls a layer for the
    shape of its output, on the device `meta`, only what computes all the same is noted.
    """

    def __init__(self, trace: Any) -> None:
        super().__init__()
        self.trace = trace
        self.paused = False
        #: (statement, phase, number of that execution of the statement) -> operations
        self.seen: dict[tuple[Site, Phase, int], list[str]] = defaultdict(list)
        #: (statement, number of the look at a shape) -> operations
        self.looked: dict[tuple[Site, int], list[str]] = defaultdict(list)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        site = None if self.paused else self.trace.current()
        result = func(*args, **(kwargs or {}))
        # checkpoint's own hooks detach what they unpack, on whatever line that happens
        if site is None or func is torch.ops.aten.detach.default:
            return result
        if self.trace.inferring:
            if any(isinstance(v, torch.Tensor) and not v.is_meta for v in tree_leaves(result)):
                self.looked[site, self.trace.looks].append(str(func))
        else:
            phase = self.trace.phase
            self.seen[site, phase, self.trace.begun[site, phase]].append(str(func))
        return result

    def statements(self) -> Counter[tuple[Site, Phase]]:
        """Executions of each statement: those that dispatched all that its first forward did."""
        found: Counter[tuple[Site, Phase]] = Counter()
        for (site, phase), begun in self.trace.begun.items():
            whole = self.seen.get((site, "forward", 1), [])
            if not whole:  # nothing reaches a kernel: the line itself is all there is
                found[site, phase] = self.trace.completed[site, phase]
                continue
            for number in range(1, begun + 1):
                found[site, phase] += self.seen.get((site, phase, number), []) == whole
        for (site, _), operations in self.looked.items():
            found[site, "forward"] += operations == self.seen.get((site, "forward", 1), [])
        return found


class LiveStorages(TorchDispatchMode):
    """Knows every storage that an operation has put out and that is still alive, and the most
    bytes alive after any operation: between two, storages are only freed."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, tuple[StorageWeakRef, int]] = {}
        self.total = 0  # bytes of what is known, freed since or not
        self.highest = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and not value.is_meta:
                storage = value.untyped_storage()
                reference = StorageWeakRef(storage)
                _, before = self.known.get(reference.cdata, (None, 0))
                self.known[reference.cdata] = (reference, storage.nbytes())
                self.total += storage.nbytes() - before
        if self.total > self.highest:  # else nothing need be looked through
            self.highest = max(self.highest, self.held())
        return result

    def held(self) -> int:
        """Bytes of all storages that are alive."""
        self._forget()
        return self.total

    def count(self) -> int:
        """How many storages are alive."""
        self._forget()
        return len(self.known)

    def _forget(self) -> None:
        expired = torch.UntypedStorage._expired  # as StorageWeakRef.expired does, for each of many
        for key in [key for key in self.known if expired(key)]:
            self.total -= self.known.pop(key)[1]


class Observer(Base):
    """Eager PyTorch, on the CPU and on one thread."""

    methods: Mapping[str, str] = {
        "executions": "TorchDispatchMode, operations by program line",
        "randomness": "values of the program's lines",
        "retained memory": "TorchDispatchMode, live storages",
        "peak memory": "TorchDispatchMode, live storages after each operation",
        "release": "TorchDispatchMode, live storages",
    }

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self._live = LiveStorages()

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, torch.Tensor):
            return None
        dtype = str(value.dtype).removeprefix("torch.")
        value = value.detach()
        return Leaf(np.array(value.float() if dtype == "bfloat16" else value), dtype)

    def nbytes(self, value: object) -> int:
        return value.untyped_storage().nbytes() if isinstance(value, torch.Tensor) else 0

    def identity(self, value: object) -> int:
        return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else id(value)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if program.procedure != "functional":
            return {}
        why = (
            "the forward pass runs inside a transform, on tensors that have no storage of their own"
        )
        return {"retained memory": why, "peak memory": why}

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        made = SeedGenerator.__init__

        def make(self: Any, *args: Any, **kwargs: Any) -> None:
            mode.paused = True
            made(self, *args, **kwargs)
            mode.paused = False

        patched = mock.patch.object(SeedGenerator, "__init__", make)
        with Dispatched(trace) as mode, entering(lambda: mode), patched:
            yield mode.statements

    def held(self) -> int | None:
        return self._live.held()

    def reset_peak(self) -> None:
        self._live.highest = self._live.held()

    def peak(self) -> int | None:
        return self._live.highest

    def alive(self) -> int | None:
        return self._live.count()

    def retained(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> int | None:
        self.settle()
        with self._watching():
            return super().retained(program, module, forward)

    def leftovers(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        with self._watching():
            return super().leftovers(program, module, forward)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        live = self._live = LiveStorages()
        with live, entering(lambda: live):
            yield
        self._live = LiveStorages()
