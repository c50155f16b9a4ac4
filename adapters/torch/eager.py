"""How PyTorch's eager mode is observed: dispatch modes around the program, as it is."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch._C import _functorch as functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from conformance.model.observation import Array, Leaf, Observation, Phase
from conformance.model.program import Program, Site
from conformance.observe.worker import ranks
from conformance.observe.worker.observer import Counts
from conformance.observe.worker.observer import Observer as Base
from conformance.observe.worker.random_state import Reader
from conformance.observe.worker.threads import entering
from conformance.observe.worker.trace import Trace

from . import storages
from .notes import SHARDED, SPLIT
from .settings import SETTINGS

#: PyTorch's functions in which a rank may wait for others, of autograd and beneath it.
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "broadcast")
#: After a collective, its thread keeps the tensors for a moment.
SECONDS = 0.05
#: Why retained memory cannot be observed, by the program's note.
UNSEEN = {
    SHARDED: "`fully_shard` frees what ranks have gathered by resizing it, which is no operation",
    SPLIT: "a `DTensor` has its rank's part in a storage that operations on the whole do not show",
}
Mode = TypeVar("Mode", bound=TorchDispatchMode)


class Dispatched(TorchDispatchMode):
    """Notes every operation that reaches a kernel, with its program line and the storages of its
    outputs.

    Operations of gradients come from no line of the program. An operation that early stop aborts
    before its kernel is not dispatched, and so is not noted.
    """

    def __init__(self, trace: Trace, live: storages.Storages) -> None:
        super().__init__()
        self.trace, self.live = trace, live
        #: The phases in which operations have run in forward mode, which computes tangents.
        self.dual: set[Phase] = set()
        #: (statement, phase, number of that execution of the statement) -> operations
        self.seen: dict[tuple[Site, Phase, int], list[Any]] = defaultdict(list)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace != "aten":  # it may be the program's own, written in Python
            return self.watched(func, args, kwargs)
        # What PyTorch and this mode call in Python from here on is of no line of the program.
        follow = sys.gettrace()
        sys.settrace(None)
        try:
            return self.watched(func, args, kwargs)
        finally:
            sys.settrace(follow)

    def watched(self, func: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """Run an operation, and note it with its line and the storages of its outputs."""
        site = self.trace.current()
        result = func(*args, **(kwargs or {}))
        self.live.know(result)
        # checkpoint's own hooks detach what they unpack, on whatever line that happens
        if site is not None and func is not torch.ops.aten.detach.default:
            self.note(site, func, result)
        return result

    def note(self, site: Site, func: Any, result: Any) -> None:
        """Note an operation that a statement dispatched, and its result."""
        phase = self.trace.phase
        if forward_ad._current_level >= 0:
            self.dual.add(phase)
        self.seen[site, phase, self.trace.begun[site, phase]].append(func)

    def statements(self) -> Counter[tuple[Site, Phase]]:
        """Executions of each statement: those that dispatched all operations that a forward execution
        did, casts aside. A flag may have each of those do something else."""
        counts: Counter[tuple[Site, Phase]] = Counter()
        for (site, phase), begun in self.trace.begun.items():
            runs = range(1, self.trace.begun[site, "forward"] + 1)
            whole = [self._counted(site, "forward", n) for n in runs]
            if not any(whole):  # nothing reaches a kernel: the line itself is all there is
                counts[site, phase] = self.trace.completed[site, phase]
                continue
            again = [self._counted(site, phase, n) for n in range(1, begun + 1)]
            counts[site, phase] = sum(one in whole for one in again if one)
            if [] in whole:  # under autocast, a cast may find the dtype that it casts to
                left = self.trace.completed[site, phase] - sum(map(bool, again))
                counts[site, phase] += max(0, left)
        return counts

    def _counted(self, site: Site, phase: Phase, number: int) -> Sequence[Any]:
        """An execution's operations without casts: autocast adds those, and caches their results, so
        that a rerun may lack them. Without views, too: some are made only where gradients are on. A
        statement of nothing else keeps them. Where a rerun computes no tangents, and forward did, only
        the first."""
        operations = self.seen.get((site, phase, number), [])
        left = [one for one in operations if one is not torch.ops.aten._to_copy.default]
        left = [one for one in left if not one.is_view] or left or operations
        return left[:1] if self.dual == {"forward"} else left


class Stored(TorchDispatchMode):
    """Notes the storage of every operation's outputs."""

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
    """Observes eager PyTorch, on the CPU and on one thread."""

    methods: Mapping[str, str] = {
        "executions": "TorchDispatchMode, operations by program line",
        "randomness": "values of the program's lines",
        "retained memory": "TorchDispatchMode, live storages",
        "peak memory": "TorchDispatchMode, live storages after each operation",
        "release": "TorchDispatchMode, live storages",
    }

    #: The mode in which operations are noted.
    dispatched: type[Dispatched] = Dispatched
    settings = SETTINGS
    together = True
    resolution = 0
    state_readers: tuple[Reader, ...] = (("torch", "get_rng_state"),)
    rehearsals = 0  # an eager kernel keeps nothing from run to run

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self._live: storages.Storages | None = None

    def warm_up(self) -> None:
        torch.set_num_threads(1)
        x = torch.ones(2, requires_grad=True)
        checkpoint(torch.sin, x, use_reentrant=False).sum().backward()

    def leaf(self, value: Any) -> Leaf | None:
        if not isinstance(value, torch.Tensor):
            return None
        with temporarily_clear_interpreter_stack():  # inside a transform
            while functorch.is_gradtrackingtensor(value):
                value = functorch.get_unwrapped(value)
            dtype = str(value.dtype).removeprefix("torch.")
            value = value.detach()
            if value.dtype == torch.bfloat16:
                value = value.float()
            return Leaf(np.array(value.numpy(force=True)), dtype)  # a tangent may be a ZeroTensor

    def generator(self) -> Array | None:
        return torch.rand(4).numpy(force=True)

    def nbytes(self, value: object) -> int:
        return value.untyped_storage().nbytes() if isinstance(value, torch.Tensor) else 0

    def identity(self, value: object) -> int:
        if isinstance(value, torch.Tensor):
            return int(value.untyped_storage()._cdata)
        return id(value)

    def numbers(self, generator: object) -> Array | None:
        if not isinstance(generator, torch.Generator):
            return None
        drawn = torch.rand(4, generator=generator, device=generator.device)
        return drawn.numpy(force=True)

    def held(self) -> int | None:
        return None if self._live is None else int(self._live.nbytes)

    def reset_peak(self) -> None:
        if self._live is not None:
            self._live.highest = self._live.nbytes

    def peak(self) -> int | None:
        return None if self._live is None else int(self._live.highest)

    def alive(self) -> int | None:
        return None if self._live is None else len(self._live)

    def wait(self) -> None:
        if dist.is_initialized():
            time.sleep(SECONDS)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        if program.ranks > 1:
            peak = {"peak memory": "a collective's thread frees what it has read at any time"}
            kept = [UNSEEN[note] for note in program.notes if note in UNSEEN]
            return {**peak, "retained memory": kept[0]} if kept else peak
        if program.procedure != "functional":
            return {}
        why = (
            "the forward pass runs inside a transform, on tensors that have no storage of their own"
        )
        return {"retained memory": why, "peak memory": why}

    def observe(self, program: Program) -> Observation:
        if program.ranks == 1:
            return super().observe(program)

        def seen(rank: int, folder: str) -> Observation:
            store = f"file://{folder}/store"
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=program.ranks)
            found = Base.observe(self, program)
            if found.plain.error is None and found.recomputed.error is None:
                dist.barrier()  # a rank that ends takes its connections along
            return found

        return ranks.observe(program, COLLECTIVES, seen)

    @contextmanager
    def dispatching(self, make: Callable[[storages.Storages], Mode]) -> Iterator[Mode]:
        """A dispatch mode, in all threads, made with the storages allocated inside the `with`."""
        gc.collect()
        self._live = storages.Storages()
        mode = make(self._live)
        try:
            with mode, entering(lambda: mode):
                yield mode
        finally:
            self._live = None

    @contextmanager
    def counting(self, trace: Trace) -> Iterator[Callable[[], Counts]]:
        with self.dispatching(lambda live: self.dispatched(trace, live)) as mode:
            yield mode.statements

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the storages that operations inside the `with` allocate."""
        with self.dispatching(Stored):
            yield
