"""How a PyTorch model that a user wrote is trained, and what is seen of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.base import LEARNING_RATE, Watch
from conformance.observe.worker.checking.regions import Recompute

from .eager import Observer

#: What `checkpoint` takes for itself.
_OPTIONS = (
    "use_reentrant",
    "context_fn",
    "determinism_check",
    "debug",
    "early_stop",
    "preserve_rng_state",
)


_TORCH = str(Path(torch.__file__).parent)
_CHECKPOINT = sys.modules[checkpoint.__module__].__file__


class Trained(base.Trained):
    """A module, or a dict or list of tensors."""

    def parameters(self) -> Mapping[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def buffers(self) -> Mapping[str, torch.Tensor]:
        return dict(self.model.named_buffers())

    def layers(self) -> Mapping[str, Any]:
        return dict(self.model.named_modules())

    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        if self.watch.reading:
            # Memory is that of what operations return: a view shows the observer what the model holds,
            # so that a later view of a frozen parameter is nothing new.
            for tensor in (*self.parameters().values(), *self.buffers().values()):
                tensor.detach()
        self.watch.starts("forward")
        returned = self.file.loss(self.model, batch)
        loss = returned[0] if isinstance(returned, tuple) else returned
        self.watch.starts("backward", returned)
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            loss.backward()
        return returned, {name: p.grad for name, p in self.parameters().items()}

    def update(self, gradients: Mapping[str, Any]) -> None:
        if self.optimizer is not None:
            self.optimizer.step()
        else:
            with torch.no_grad():
                for parameter in self.parameters().values():
                    if parameter.grad is not None:
                        parameter -= LEARNING_RATE * parameter.grad
        for parameter in self.parameters().values():
            parameter.grad = None

    def start_as(self, other: base.Trained) -> None:
        self.model.load_state_dict(other.model.state_dict(), strict=False)


class Framework(base.Framework):
    """PyTorch on the CPU."""

    variant = "non-reentrant"
    unit = "operations"
    told = (
        "no-argument-requires-gradient",
        "no-top-level-argument-requires-gradient",
        "nested-inputs",
    )
    recomputes: Sequence[Recompute] = (
        Recompute("torch.utils.checkpoint", "checkpoint", "call", frozenset(_OPTIONS)),
    )

    def __init__(self) -> None:
        super().__init__(Observer(self.variant))

    def seed(self, number: int) -> None:
        torch.manual_seed(number)

    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        if not isinstance(model, torch.nn.Module):
            found = type(model).__name__
            raise TypeError(f"`model` returned a {found}, not a torch.nn.Module")
        return Trained(file, model, watch)

    def leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.layout != torch.strided:
            value = value.to_dense()
        return super().leaf(value)

    def features(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> set[str]:
        found = set()
        if not any(map(_requires_gradient, args)):
            found.add("no-top-level-argument-requires-gradient")
        if not any(map(_requires_gradient, tree_leaves((args, dict(kwargs))))):
            found.add("no-argument-requires-gradient")
        if any(isinstance(value, dict | list | tuple) for value in args):
            found.add("nested-inputs")
        return found

    def variants_of(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        if options.get("use_reentrant") is not False:
            return ("reentrant",)
        if "context_fn" in options:
            return ("selective", "contexts")
        return ("non-reentrant",)

    def hidden(self) -> str:
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is None or not dynamo.counters["stats"]["unique_graphs"]:
            return ""
        return "torch.compile compiles nothing while operations are watched"

    @contextmanager
    def counting(self, trained: base.Trained) -> Iterator[Callable[[], Mapping[str, int]]]:
        """Count the operations that reach a kernel while a layer, or a function of the program's file,
        runs its forward pass: in backward, those of the recomputation."""
        layers = {id(layer): name for name, layer in trained.layers().items()}
        mode = _Operations(layers, str(trained.file.__file__))
        with mode:
            yield lambda: dict(mode.counts)


class _Operations(TorchDispatchMode):
    """Counts operations by the innermost layer that runs them."""

    def __init__(self, layers: Mapping[int, str], file: str) -> None:
        super().__init__()
        self._layers, self._file = layers, file
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        name = self._place(sys._getframe(1))
        if name is not None and func is not torch.ops.aten.detach.default:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))

    def _place(self, frame: FrameType | None) -> str | None:
        """The innermost layer that runs; `None` for what is in no forward pass of a layer, and for what
        `checkpoint` does itself."""
        function = False
        while frame is not None:
            code = frame.f_code
            function = function or not code.co_filename.startswith(_TORCH)
            if code.co_filename == _CHECKPOINT and not function:
                return None
            if code.co_name == "_call_impl":
                name = self._layers.get(id(frame.f_locals.get("self")))
                if name is not None:
                    return name or "the model itself"
            elif code.co_name == "backward" and code.co_filename == __file__:
                return None
            frame = frame.f_back
        return None


def _requires_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
