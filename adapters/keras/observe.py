"""How Keras is observed: what is common to its backends; the rest is in `on_<backend>.py`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import keras
import numpy as np

from conformance.adapter import load_file
from conformance.observation import Array, Leaf

_name = keras.config.backend()
_on: Any = load_file(Path(__file__).parent / f"on_{_name}.py", f"conformance_adapter_keras_{_name}")


class Observer(_on.Observer):
    """Observes Keras on the backend that `KERAS_BACKEND` names."""

    def warm_up(self) -> None:
        super().warm_up()
        keras.utils.set_random_seed(0)
        keras.random.uniform((4,))
        gc.collect()
        gc.freeze()  # three frameworks' objects make every later collection slow

    def leaf(self, value: object) -> Leaf | None:
        return super().leaf(_value(value))

    def nbytes(self, value: object) -> int:
        return super().nbytes(_value(value))

    def identity(self, value: object) -> int:
        return super().identity(_value(value))

    def generator(self) -> Array | None:
        return keras.ops.convert_to_numpy(keras.random.uniform((4,)))

    def numbers(self, generator: object) -> Array | None:
        if not isinstance(generator, keras.random.SeedGenerator):
            return None
        try:
            return keras.ops.convert_to_numpy(keras.random.uniform((4,), seed=generator))
        except Exception:  # JAX: its state is a tracer that has escaped from the recomputed region
            return np.full(4, np.nan)


def _value(value: object) -> object:
    return value.value if isinstance(value, keras.Variable) else value
