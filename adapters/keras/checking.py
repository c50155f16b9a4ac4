"""How a Keras model that a user wrote is trained on each backend, and what is seen of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import keras

from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.base import LEARNING_RATE, Watch
from conformance.observe.worker.checking.regions import Recompute

from .observe import Observer

BACKEND = keras.config.backend()
#: The number that Keras gives to the name of a layer which is not named.
_AUTOMATIC = re.compile(r"_\d+$")


class Trained(base.Trained):
    """A layer or a model of Keras, eagerly; on JAX by a stateless scope."""

    def __init__(self, file: ModuleType, model: Any, watch: Watch) -> None:
        super().__init__(file, model, watch)
        self._step: Any = None

    def parameters(self) -> Mapping[str, Any]:
        return self._by_name(self.model.trainable_variables)

    def buffers(self) -> Mapping[str, Any]:
        return self._by_name(self.model.non_trainable_variables)

    def layers(self) -> Mapping[str, Any]:
        found = self.model._flatten_layers(include_self=False)
        return {"": self.model, **self._by_name(found)}

    def _by_name(self, things: Sequence[Any]) -> dict[str, Any]:
        """Variables or layers by their paths, with a number where several have one path. Keras numbers
        the layers of a process, so that another model made alike has other names."""
        found: dict[str, Any] = {}
        for thing in things:
            path = "/".join(
                _AUTOMATIC.sub("", part) for part in (thing.path or thing.name).split("/")
            )
            several = sum(name.partition(" ")[0] == path for name in found)
            found[f"{path} ({several + 1})" if several else path] = thing
        return found

    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        if not self.model.built:  # so that variables are there before the first step
            self.file.loss(self.model, batch)
        self.watch.starts("forward")
        returned, gradients = getattr(self, f"_on_{BACKEND}")(batch)
        return returned, dict(zip(self.parameters(), gradients, strict=True))

    def _on_tensorflow(self, batch: Any) -> tuple[Any, Sequence[Any]]:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            returned = self.file.loss(self.model, batch)
        self.watch.starts("backward", returned)
        variables = [variable.value for variable in self.model.trainable_variables]
        found = tape.gradient(_loss(returned), variables)
        return returned, [None if g is None else tf.convert_to_tensor(g) for g in found]

    def _on_torch(self, batch: Any) -> tuple[Any, Sequence[Any]]:
        variables = [variable.value for variable in self.model.trainable_variables]
        for variable in variables:
            variable.grad = None
        returned = self.file.loss(self.model, batch)
        self.watch.starts("backward", returned)
        _loss(returned).backward()
        return returned, [variable.grad for variable in variables]

    def _on_jax(self, batch: Any) -> tuple[Any, Sequence[Any]]:
        """A compiled step, as `fit` has one. In a step that is traced once more, a function that
        `keras.remat` has traced before raises an error: it reads the variables of its first call."""
        import jax

        trained, state = self.model.trainable_variables, self.model.non_trainable_variables

        def loss_of(values: Sequence[Any], others: Sequence[Any], batch: Any) -> Any:
            pairs = zip([*trained, *state], [*values, *others], strict=True)
            with keras.StatelessScope(state_mapping=list(pairs)) as scope:
                returned = self.file.loss(self.model, batch)
            return _loss(returned), (returned, [scope.get_current_value(v) for v in state])

        if self._step is None:
            self._step = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
        given = ([v.value for v in variables] for variables in (trained, state))
        (_, (returned, after)), gradients = self._step(*given, batch)
        jax.block_until_ready(gradients)
        for variable, value in zip(state, after, strict=True):
            if value is not None:
                variable.assign(value)
        return returned, gradients

    def update(self, gradients: Mapping[str, Any]) -> None:
        pairs = [
            (gradients[n], v) for n, v in self.parameters().items() if gradients[n] is not None
        ]
        if self.optimizer is not None:
            self.optimizer.apply([g for g, _ in pairs], [v for _, v in pairs])
            return
        for gradient, variable in pairs:
            variable.assign(variable.value - LEARNING_RATE * gradient)

    def start_as(self, other: base.Trained) -> None:
        theirs = [*other.model.trainable_variables, *other.model.non_trainable_variables]
        own = [*self.model.trainable_variables, *self.model.non_trainable_variables]
        for variable, value in zip(own, theirs, strict=False):
            variable.assign(value)


def _loss(returned: Any) -> Any:
    return returned[0] if isinstance(returned, tuple) else returned


class Framework(base.Framework):
    """Keras on the CPU, on the backend that `KERAS_BACKEND` names."""

    recomputes: Sequence[Recompute] = (Recompute("keras", "remat", "transform"),)

    def __init__(self) -> None:
        super().__init__(Observer(f"remat-{BACKEND}"))
        if BACKEND == "jax":
            self.uncounted = (
                "on JAX the step is compiled: Python runs the layers once, to trace them"
            )
            self.unmeasured = (
                "on JAX forward and backward are one executable, with no moment between"
            )

    def seed(self, number: int) -> None:
        keras.utils.set_random_seed(number)

    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        if not isinstance(model, keras.Layer):
            found = type(model).__name__
            raise TypeError(f"`model` returned a {found}, not a layer or model of Keras")
        return Trained(file, model, watch)
