"""How a PaddlePaddle model that a user wrote is trained, and what is seen of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import paddle

from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.base import LEARNING_RATE, Watch
from conformance.observe.worker.checking.regions import Recompute

from .observe import Observer

#: What `recompute` takes for itself.
_OPTIONS = frozenset({"use_reentrant", "preserve_rng_state", "offload_indices"})


class Trained(base.Trained):
    """A layer of Paddle, in dynamic mode."""

    def parameters(self) -> Mapping[str, Any]:
        return {name: p for name, p in self.model.named_parameters() if not p.stop_gradient}

    def buffers(self) -> Mapping[str, Any]:
        frozen = {name: p for name, p in self.model.named_parameters() if p.stop_gradient}
        return {**frozen, **dict(self.model.named_buffers())}

    def layers(self) -> Mapping[str, Any]:
        return dict(self.model.named_sublayers(include_self=True))

    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        self.watch.starts("forward")
        returned = self.file.loss(self.model, batch)
        loss = returned[0] if isinstance(returned, tuple) else returned
        self.watch.starts("backward", returned)
        if isinstance(loss, paddle.Tensor) and loss.size == 1:
            loss.backward()
        return returned, {name: p.grad for name, p in self.parameters().items()}

    def update(self, gradients: Mapping[str, Any]) -> None:
        if self.optimizer is not None:
            self.optimizer.step()
        else:
            with paddle.no_grad():
                for name, parameter in self.parameters().items():
                    if gradients[name] is not None:
                        parameter.set_value(parameter - LEARNING_RATE * gradients[name])
        for parameter in self.parameters().values():
            parameter.clear_gradient(set_to_zero=False)

    def start_as(self, other: base.Trained) -> None:
        self.model.set_state_dict(other.model.state_dict())


class Framework(base.Framework):
    """PaddlePaddle on the CPU, in dynamic mode."""

    told = (
        "no-argument-requires-gradient",
        "no-top-level-argument-requires-gradient",
        "nested-inputs",
    )
    recomputes: Sequence[Recompute] = (
        Recompute("paddle.distributed.fleet.utils", "recompute", "call", _OPTIONS),
        Recompute("paddle.distributed.fleet.recompute", "recompute", "call", _OPTIONS),
    )

    def __init__(self) -> None:
        super().__init__(Observer("reentrant"))

    def seed(self, number: int) -> None:
        paddle.seed(number)

    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        if not isinstance(model, paddle.nn.Layer):
            found = type(model).__name__
            raise TypeError(f"`model` returned a {found}, not a paddle.nn.Layer")
        return Trained(file, model, watch)

    def features(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> set[str]:
        found, given = set(), (*args, *kwargs.values())
        if all(_is_frozen(one) for one in given):
            found.add("no-top-level-argument-requires-gradient")
        if all(_is_frozen(one) for one in paddle.utils.flatten(list(given))):
            found.add("no-argument-requires-gradient")
        if any(isinstance(value, dict | list | tuple) for value in given):
            found.add("nested-inputs")
        return found

    def variants_of(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("reentrant",) if options.get("use_reentrant", True) else ("hook",)


def _is_frozen(value: Any) -> bool:
    return not isinstance(value, paddle.Tensor) or bool(value.stop_gradient)
