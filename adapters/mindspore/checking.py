"""How a MindSpore model that a user wrote is trained in PyNative mode, and what is seen of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import mindspore as ms

from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.base import LEARNING_RATE, Watch
from conformance.observe.worker.checking.regions import Recompute

from .observe import Observer

#: What `recompute` takes for itself.
_OPTIONS = frozenset({"use_reentrant", "output_recompute"})


class Trained(base.Trained):
    """A cell of MindSpore."""

    def parameters(self) -> Mapping[str, Any]:
        return {parameter.name: parameter for parameter in self.model.trainable_params()}

    def buffers(self) -> Mapping[str, Any]:
        return {parameter.name: parameter for parameter in self.model.untrainable_params()}

    def layers(self) -> Mapping[str, Any]:
        return dict(self.model.cells_and_names())

    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        returned: list[Any] = []

        def forward(batch: Any) -> Any:
            self.watch.starts("forward")
            returned.append(self.file.loss(self.model, batch))
            self.watch.starts("backward", returned)
            return returned[0][0] if isinstance(returned[0], tuple) else returned[0]

        parameters = self.parameters()
        step = ms.value_and_grad(forward, None, list(parameters.values()))
        _, gradients = step(batch)
        ms.runtime.synchronize()
        return returned[0], dict(zip(parameters, gradients, strict=True))

    def update(self, gradients: Mapping[str, Any]) -> None:
        if self.optimizer is not None:
            self.optimizer(tuple(gradients.values()))
            return
        for name, parameter in self.parameters().items():
            parameter.set_data(parameter - LEARNING_RATE * gradients[name])

    def start_as(self, other: base.Trained) -> None:
        theirs = dict(other.model.parameters_and_names())
        for name, parameter in self.model.parameters_and_names():
            if name in theirs:
                parameter.set_data(ms.Tensor(theirs[name].asnumpy(), theirs[name].dtype))


class Framework(base.Framework):
    """MindSpore on the CPU, in PyNative mode."""

    recomputes: Sequence[Recompute] = (
        Recompute("mindspore", "recompute", "call", _OPTIONS),
        Recompute("mindspore.nn", "Cell.recompute", "mark"),
    )

    def __init__(self) -> None:
        super().__init__(Observer("pynative-non-reentrant"))

    def seed(self, number: int) -> None:
        ms.set_seed(number)
        ms.manual_seed(number)

    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        if not isinstance(model, ms.nn.Cell):
            found = type(model).__name__
            raise TypeError(f"`model` returned a {found}, not a mindspore.nn.Cell")
        return Trained(file, model, watch)
