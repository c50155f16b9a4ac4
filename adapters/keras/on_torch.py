"""Keras on PyTorch: dispatch modes around the program, as it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from keras.random import SeedGenerator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from conformance.model.observation import Leaf, Phase
from conformance.model.program import Program, Site
from conformance.observe.worker.observer import Counts
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.threads import entering
from conformance.observe.worker.trace import Trace

from ..torch import storages


class Dispatched(TorchDispatchMode):
    """Notes every operation that reaches a kernel, with the line of the program it comes from, and
    knows the storages that it puts out.

    An operation that early stop aborts before its kernel is never dispatched. The global generator
    is made by the first statement that draws, and is no part of it. Where Keras calls a layer for the
    shape of its output, on the device `meta`, only what computes all the same is noted.
    """

    def __init__(self, trace: Any, live: storages.Storages) -> None:
        super().__init__()
        self.trace, self.live = trace, live
        self.paused = False
        #: (statement, phase, number of that execution of the statement) -> operations
        self.seen: dict[tuple[Site, Phase, int], list[Any]] = defaultdict(list)
        #: (statement, number of the look at a shape) -> operations
        self.looked: dict[tuple[Site, int], list[Any]] = defaultdict(list)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        site = None if self.paused else self.trace.current()
        result = func(*args, **(kwargs or {}))
        self.live.know(result)
        # checkpoint's own hooks detach what they unpack, on whatever line that happens
        if site is None or func is torch.ops.aten.detach.default:
            return result
        if self.trace.inferring:
            if any(isinstance(v, torch.Tensor) and not v.is_meta for v in tree_leaves(result)):
                self.looked[site, self.trace.looks].append(func)
        else:
            phase = self.trace.phase
            self.seen[site, phase, self.trace.begun[site, phase]].append(func)
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


class Stored(TorchDispatchMode):
    """Knows every storage that an operation puts out."""

    def __init__(self, live: storages.Storages) -> None:
        super().__init__()
        self.live = live

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.live.know(result)
        return result


class Observer(Base):
    """Eager PyTorch, on the CPU and on one thread."""

    resolution = 0
    state_readers = (("torch", "get_rng_state"),)

    methods: Mapping[str, str] = {
        "executions": "TorchDispatchMode, operations by program line",
        "randomness": "values of the program's lines",
        "retained memory": "TorchDispatchMode, live storages",
        "peak memory": "TorchDispatchMode, live storages after each operation",
        "release": "TorchDispatchMode, live storages",
    }

    together = True
    rehearsals = 0  # an eager kernel keeps nothing from run to run

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self._live = storages.Storages()

    def leaf(self, value: Any) -> Leaf | None:
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
        live = self._live = storages.Storages()
        with Dispatched(trace, live) as mode, entering(lambda: mode), patched:
            yield mode.statements
        self._live = storages.Storages()

    def held(self) -> int | None:
        return int(self._live.nbytes)

    def reset_peak(self) -> None:
        self._live.highest = self._live.nbytes

    def peak(self) -> int | None:
        return int(self._live.highest)

    def alive(self) -> int | None:
        return len(self._live)

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.settle()
        live = self._live = storages.Storages()
        mode = Stored(live)
        with mode, entering(lambda: mode):
            yield
        self._live = storages.Storages()
