"""How PyTorch on a CUDA device is observed. Its own allocator tells the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from conformance.observe.worker.threads import entering

from .eager import Mode, Observer
from .storages import Storages

_ALLOCATOR = "torch.cuda.memory_stats, requested bytes"


class OnCuda(Observer):
    """Observes eager PyTorch on one CUDA device. Copies of random state are on the host, and are in none
    of the allocator's numbers."""

    methods: Mapping[str, str] = {
        **Observer.methods,
        "retained memory": _ALLOCATOR,
        "peak memory": _ALLOCATOR,
        "release": "torch.cuda.memory_stats, requested bytes and allocations",
    }
    state_readers = (*Observer.state_readers, ("torch.cuda", "get_rng_state"))
    rehearsals = 1  # libraries allocate their workspaces in the first run that needs them

    def warm_up(self) -> None:
        super().warm_up()
        x = torch.ones(1, 1, 4, 4, device="cuda", requires_grad=True)
        y = torch.nn.functional.conv2d(x @ x, x)
        checkpoint(torch.sin, y, use_reentrant=False).sum().backward()

    def held(self) -> int | None:
        return _told("requested_bytes.all.current")

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int | None:
        return _told("requested_bytes.all.peak")

    def alive(self) -> int | None:
        return _told("allocation.all.current")

    @contextmanager
    def dispatching(self, make: Callable[[Storages], Mode]) -> Iterator[Mode]:
        """As in the base class. Backward runs in the thread that calls it: one of PyTorch's own follows
        no lines of Python."""
        with super().dispatching(make) as mode, in_its_thread(), entering(in_its_thread):
            yield mode


@contextmanager
def in_its_thread() -> Iterator[None]:
    """Run backward in the thread that calls it. PyTorch's own context manager sets the flag when it is
    made, which may be in another thread than the one that enters it."""
    with torch.autograd.set_multithreading_enabled(False):
        yield


def _told(name: str) -> int:
    told: Mapping[str, Any] = torch.cuda.memory_stats()
    return int(told.get(name, 0))
