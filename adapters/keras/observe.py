"""How Keras is observed: what is common to its backends; the rest is in `on_<backend>.py`."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import keras
import numpy as np
from keras.src import backend
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

from conformance.model.observation import Array, Leaf
from conformance.model.program import Program
from conformance.observe.worker.surroundings import Setting
from conformance.observe.worker.trace import Trace

if TYPE_CHECKING:
    from conformance.observe.worker.observer import Observer as OnBackend
else:
    OnBackend = importlib.import_module(f".on_{keras.config.backend()}", __package__).Observer

#: What is not seen of `fit`, and why.
HIDDEN = {
    "executions": "`fit` runs layers of Keras' own: no line of the program computes a statement",
    "retained memory": "`fit` runs forward and backward, with no boundary in the program",
    "peak memory": "`fit` runs forward and backward, with no boundary in the program",
    "release": "a model keeps what `fit` has compiled and counted",
}


class Lines(Trace):
    """Follows a program's lines, except where Keras calls a layer only to infer its output's shape.

    `RematScope(mode="larger_than")` does so at every call: in a graph of its own on TensorFlow, on the
    device `meta` on PyTorch, under `jax.make_jaxpr` on JAX. Operations that PyTorch really computes
    during such a call are noted by `on_torch.Dispatched`.
    """

    #: Whether a shape is being inferred now, and how often one was.
    inferring = False
    looks = 0
    #: Whether what is dispatched now is no part of the statement whose line runs.
    paused = False

    @contextmanager
    def active(self) -> Iterator[Trace]:
        infer = backend.compute_output_spec

        def apart(*args: Any, **kwargs: Any) -> Any:
            following, inferring = sys.gettrace(), self.inferring
            self.inferring = True
            self.looks += 1
            sys.settrace(None)
            try:
                return infer(*args, **kwargs)
            finally:
                self.inferring = inferring
                sys.settrace(following)

        with mock.patch.object(backend, "compute_output_spec", apart), super().active():
            yield self


#: What Keras has set for the whole process.
SETTINGS: Mapping[str, Setting] = {
    "Keras's default dtype": (keras.config.floatx, keras.config.set_floatx),
    "Keras's epsilon": (keras.config.epsilon, keras.config.set_epsilon),
    "the order of an image's axes": (
        keras.config.image_data_format,
        keras.config.set_image_data_format,
    ),
    "Keras's dtype policy": (
        lambda: keras.config.dtype_policy().name,
        keras.config.set_dtype_policy,
    ),
}


if not hasattr(seed_generator, "GLOBAL_SEED_GENERATOR"):  # up to Keras 3.12, it stays as it is
    _set_random_seed = keras.utils.set_random_seed

    def _seeded(seed: int) -> None:
        _set_random_seed(seed)
        global_state.set_global_attribute("global_seed_generator", None)

    keras.utils.set_random_seed = _seeded


class Observer(OnBackend):
    """Observes Keras on the backend that `KERAS_BACKEND` names."""

    settings: Mapping[str, Setting] = {**OnBackend.settings, **SETTINGS}
    tracing = Lines

    def warm_up(self) -> None:
        super().warm_up()
        keras.utils.set_random_seed(0)
        keras.random.uniform((4,))
        gc.collect()
        gc.freeze()  # three frameworks' objects make every later collection slow

    def unobserved(self, program: Program) -> Mapping[str, str]:
        reasons: Mapping[str, str] = super().unobserved(program)
        return {**reasons, **HIDDEN} if self.variant.startswith("fit-") else reasons

    def leaf(self, value: object) -> Leaf | None:
        return super().leaf(_value(value))  # type: ignore[safe-super]

    def nbytes(self, value: object) -> int:
        return super().nbytes(_value(value))

    def identity(self, value: object) -> int:
        return super().identity(_value(value))

    def generator(self) -> Array | None:
        return np.array(keras.ops.convert_to_numpy(keras.random.uniform((4,))))

    def numbers(self, generator: object) -> Array | None:
        if not isinstance(generator, keras.random.SeedGenerator):
            return None
        try:
            return np.array(keras.ops.convert_to_numpy(keras.random.uniform((4,), seed=generator)))
        except Exception:  # JAX: its state is a tracer that has escaped from the recomputed region
            return np.full(4, np.nan)


def _value(value: object) -> object:
    return value.value if isinstance(value, keras.Variable) else value
