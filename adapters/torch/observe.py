"""How PyTorch's eager mode is observed: dispatch modes around the program, as it is."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from conformance.adapter import load_file
from conformance.observation import Array, Leaf, Phase
from conformance.program import Program, Site
from conformance.worker.observer import Counts
from conformance.worker.observer import Observer as Base
from conformance.worker.threads import entering
from conformance.worker.trace import Trace

compiled: Any = load_file(
    Path(__file__).parent / "compiled.py", "conformance_adapter_torch_compiled"
)


class Dispatched(TorchDispatchMode):
    """Notes every operation that reaches a kernel, with the line of the program it comes from.

    Operations of the gradient itself come from no line of the program. An operation that early stop
    aborts before its kernel is never dispatched.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace
        #: (statement, phase, number of that execution of the statement) -> operations
        self.seen: dict[tuple[Site, Phase, int], list[str]] = defaultdict(list)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        site = self.trace.current()
        # checkpoint's own hooks detach what they unpack, on whatever line that happens
        if site is not None and func is not torch.ops.aten.detach.default:
            phase = self.trace.phase
            self.seen[site, phase, self.trace.begun[site, phase]].append(str(func))
        return func(*args, **(kwargs or {}))

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
        return found


class LiveStorages(TorchDispatchMode):
    """Knows every storage that an operation has put out and that is still alive.

    Between two operations storages are only freed, so that the most bytes alive after any of them
    is the peak, but for what a kernel takes for itself and gives back.
    """

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
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                reference = StorageWeakRef(storage)
                _, before = self.known.get(reference.cdata, (None, 0))
                self.known[reference.cdata] = (reference, storage.nbytes())
                self.total += storage.nbytes() - before
        if self.total > self.highest:
            self.highest = max(self.highest, self.nbytes())
        return result

    def nbytes(self) -> int:
        """Bytes of all storages that are alive."""
        self._forget()
        return self.total

    def count(self) -> int:
        """How many storages are alive."""
        self._forget()
        return len(self.known)

    def _forget(self) -> None:
        expired = torch.UntypedStorage._expired  # as StorageWeakRef.expired does, for each of many
        gone = [key for key in self.known if expired(key)]
        for key in gone:
            self.total -= self.known.pop(key)[1]


class Observer(Base):
    """Observes eager PyTorch, on the CPU and on one thread."""

    methods: Mapping[str, str] = {
        "executions": "TorchDispatchMode, operations by program line",
        "randomness": "values of the program's lines",
        "retained memory": "TorchDispatchMode, live storages",
        "peak memory": "TorchDispatchMode, live storages after each operation",
        "release": "TorchDispatchMode, live storages",
    }

    def __new__(cls, variant: str) -> Observer:
        return super().__new__(CompiledObserver if variant in compiled.VARIANTS else cls)

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self._live: LiveStorages | None = None

    def warm_up(self) -> None:
        torch.set_num_threads(1)
        x = torch.ones(2, requires_grad=True)
        checkpoint(torch.sin, x, use_reentrant=False).sum().backward()

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, torch.Tensor):
            return None
        dtype = str(value.dtype).removeprefix("torch.")
        value = value.detach()
        if value.dtype == torch.bfloat16:
            value = value.float()
        return Leaf(np.array(value.numpy()), dtype)

    def generator(self) -> Array | None:
        return torch.rand(4).numpy()

    def nbytes(self, value: object) -> int:
        return value.untyped_storage().nbytes() if isinstance(value, torch.Tensor) else 0

    def identity(self, value: object) -> int:
        if isinstance(value, torch.Tensor):
            return value.untyped_storage()._cdata
        return id(value)

    def numbers(self, generator: object) -> Array | None:
        if not isinstance(generator, torch.Generator):
            return None
        return torch.rand(4, generator=generator).numpy()

    def held(self) -> int | None:
        return None if self._live is None else self._live.nbytes()

    def reset_peak(self) -> None:
        if self._live is not None:
            self._live.highest = self._live.nbytes()

    def peak(self) -> int | None:
        return None if self._live is None else self._live.highest

    def alive(self) -> int | None:
        return None if self._live is None else self._live.count()

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if program.procedure != "functional":
            return {}
        why = (
            "the forward pass runs inside a transform, on tensors that have no storage of their own"
        )
        return {"retained memory": why, "peak memory": why}

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        with Dispatched(trace) as mode, entering(lambda: mode):
            yield mode.statements

    def retained(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> int | None:
        gc.collect()
        with self.watching():
            return super().retained(program, module, forward)

    def leftovers(
        self, program: Program, module: ModuleType, forward: Callable[..., Any]
    ) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        with self.watching():
            return super().leftovers(program, module, forward)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Know the storages that operations inside the `with` put out."""
        live = self._live = LiveStorages()
        try:
            with live, entering(lambda: live):
                yield
        finally:
            self._live = None


class CompiledObserver(compiled.Compiled, Observer):  # type: ignore[misc, name-defined]
    """Observes programs that `torch.compile` compiles."""
