"""How a TensorFlow model that a user wrote is trained, and what is seen of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import tensorflow as tf

from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.base import LEARNING_RATE, Watch
from conformance.observe.worker.checking.regions import Recompute
from conformance.observe.worker.observer import error_text

from .observe import Observer


class Trained(base.Trained):
    """A `tf.Module`, a layer or model of Keras, or a list or dict of variables; run eagerly."""

    def parameters(self) -> Mapping[str, Any]:
        return self._named(lambda variable: bool(variable.trainable))

    def buffers(self) -> Mapping[str, Any]:
        return self._named(lambda variable: not variable.trainable)

    def layers(self) -> Mapping[str, Any]:
        if isinstance(self.model, tf.keras.layers.Layer):
            found = {layer.path: layer for layer in self.model._flatten_layers(include_self=False)}
            return {"": self.model, **found}
        if isinstance(self.model, tf.Module):
            found = self.model._flatten(
                predicate=lambda m: isinstance(m, tf.Module), with_path=True
            )
            return {"": self.model, **{".".join(map(str, path)): one for path, one in found}}
        return {}

    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        self.watch.starts("forward")
        with tf.GradientTape() as tape:
            returned = self.file.loss(self.model, batch)
        loss = returned[0] if isinstance(returned, tuple) else returned
        self.watch.starts("backward", returned)
        parameters = self.parameters()
        gradients = tape.gradient(loss, list(parameters.values()))
        dense = (None if g is None else tf.convert_to_tensor(g) for g in gradients)
        return returned, dict(zip(parameters, dense, strict=True))

    def update(self, gradients: Mapping[str, Any]) -> None:
        pairs = [
            (gradients[n], p) for n, p in self.parameters().items() if gradients[n] is not None
        ]
        if self.optimizer is not None:
            self.optimizer.apply_gradients(pairs)
        else:
            for gradient, parameter in pairs:
                parameter.assign_sub(LEARNING_RATE * gradient)

    def start_as(self, other: base.Trained) -> None:
        theirs = {**other.parameters(), **other.buffers()}
        for name, variable in {**self.parameters(), **self.buffers()}.items():
            if name in theirs:
                variable.assign(theirs[name])

    def _named(self, chosen: Callable[[Any], bool]) -> Mapping[str, Any]:
        """The variables, by their paths in the model."""
        return {name: variable for name, variable in self.variables() if chosen(variable)}

    def variables(self) -> Iterator[tuple[str, Any]]:
        """All variables with their paths."""
        own = getattr(self.model, "variables", None)
        if own is None:
            pairs = list(_leaves(self.model))
        elif own and hasattr(own[0], "path"):  # of Keras
            pairs = [(variable.path, variable) for variable in own]
        else:
            found = self.model._flatten(
                predicate=lambda v: isinstance(v, tf.Variable), with_path=True
            )
            pairs = [(".".join(map(str, path)), variable) for path, variable in found]
        yield from pairs


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What is in nested lists and dicts, with its path."""
    if isinstance(tree, Mapping | list | tuple):
        for name, part in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from _leaves(part, f"{path}.{name}" if path else str(name))
    else:
        yield path, tree


class Framework(base.Framework):
    """TensorFlow on the CPU, eagerly."""

    recomputes: Sequence[Recompute] = (
        Recompute("tensorflow", "recompute_grad", "transform"),
        Recompute("keras", "remat", "transform"),
    )

    def __init__(self) -> None:
        super().__init__(Observer("eager"))

    def said(self, error: BaseException) -> str:
        text = error_text(error)
        if not text.startswith("in user code:"):
            return text
        # A traceback of what AutoGraph ran comes before the error itself.
        return text[max(found.end() for found in re.finditer(r"\n    \w[\w.]*: ", text)) :]

    def seed(self, number: int) -> None:
        tf.keras.utils.set_random_seed(number)

    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        trained = Trained(file, model, watch)
        if not all(hasattr(variable, "assign") for _, variable in trained.variables()):
            found = type(model).__name__
            raise TypeError(f"`model` returned a {found}, not a tf.Module or variables")
        return trained
