"""Keras on PyTorch: PyTorch's own observer, but for what Keras dispatches beside the program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from keras.random import SeedGenerator
from torch.utils._pytree import tree_leaves

from conformance.model.observation import Phase
from conformance.model.program import Site
from conformance.observe.worker.observer import Counts
from conformance.observe.worker.trace import Trace

from ..torch import eager, storages


class Dispatched(eager.Dispatched):
    """Notes what PyTorch's mode notes, in the phase in which it happens.

    The global generator is made by the first statement that draws, and is no part of it. Where Keras
    calls a layer for the shape of its output, on the device `meta`, only what computes all the same is
    noted.
    """

    trace: Any  # `Lines` of the module that this one is the backend of

    def __init__(self, trace: Trace, live: storages.Storages) -> None:
        super().__init__(trace, live)
        #: (statement, number of the look at a shape) -> operations
        self.looked: dict[tuple[Site, int], list[Any]] = defaultdict(list)

    def note(self, site: Site, func: Any, result: Any) -> None:
        if self.trace.paused:
            return
        if not self.trace.inferring:
            super().note(site, func, result)
        elif any(isinstance(v, torch.Tensor) and not v.is_meta for v in tree_leaves(result)):
            self.looked[site, self.trace.looks].append(func)

    def statements(self) -> Counter[tuple[Site, Phase]]:
        counts = super().statements()
        for (site, _), operations in self.looked.items():
            runs = range(1, self.trace.begun[site, "forward"] + 1)
            whole = [self.seen.get((site, "forward", n), []) for n in runs]
            counts[site, "forward"] += operations in (whole or [[]])
        return counts


class Observer(eager.Observer):
    """Eager PyTorch, on the CPU and on one thread."""

    dispatched = Dispatched

    @contextmanager
    def counting(self, trace: Any) -> Iterator[Callable[[], Counts]]:
        made = SeedGenerator.__init__

        def make(self: Any, *args: Any, **kwargs: Any) -> None:
            trace.paused = True
            made(self, *args, **kwargs)
            trace.paused = False

        with mock.patch.object(SeedGenerator, "__init__", make), super().counting(trace) as counts:
            yield counts
