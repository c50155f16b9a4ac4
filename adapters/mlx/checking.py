"""How an MLX model that a user wrote is trained, and what is seen of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_map

from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.base import LEARNING_RATE, Watch
from conformance.observe.worker.checking.regions import Recompute

from .observe import Observer


class Trained(base.Trained):
    """A module of MLX."""

    def __init__(self, file: ModuleType, model: Any, watch: Watch) -> None:
        super().__init__(file, model, watch)
        mx.eval(model.parameters())

    def parameters(self) -> Mapping[str, Any]:
        return dict(tree_flatten(self.model.trainable_parameters()))

    def buffers(self) -> Mapping[str, Any]:
        trained = self.parameters()
        return {k: v for k, v in tree_flatten(self.model.parameters()) if k not in trained}

    def layers(self) -> Mapping[str, Any]:
        return dict(self.model.named_modules())

    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        self.watch.starts("forward")
        of = nn.value_and_grad(self.model, lambda batch: self.file.loss(self.model, batch))
        returned, gradients = of(batch)
        mx.eval(returned)
        self.watch.starts("backward", returned)
        mx.eval(gradients)
        self._gradients = gradients
        return returned, dict(tree_flatten(gradients))

    def update(self, gradients: Mapping[str, Any]) -> None:
        if self.optimizer is not None:
            self.optimizer.update(self.model, self._gradients)
        else:
            moved = tree_map(lambda g: LEARNING_RATE * g, self._gradients)
            old = self.model.trainable_parameters()
            self.model.update(tree_map(lambda p, step: p - step, old, moved))
        del self._gradients
        mx.eval(self.model.parameters())

    def start_as(self, other: base.Trained) -> None:
        self.model.update(tree_map(mx.array, other.model.parameters()))
        mx.eval(self.model.parameters())


class Framework(base.Framework):
    """MLX on the CPU."""

    peak_steps = 4
    recomputes: Sequence[Recompute] = (
        Recompute("mlx.core", "checkpoint", "transform"),
        Recompute("mlx.nn.utils", "checkpoint", "transform"),
    )

    def __init__(self) -> None:
        super().__init__(Observer("module"))

    def seed(self, number: int) -> None:
        mx.random.seed(number)

    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        if not isinstance(model, nn.Module):
            found = type(model).__name__
            raise TypeError(f"`model` returned a {found}, not an mlx.nn.Module")
        return Trained(file, model, watch)
