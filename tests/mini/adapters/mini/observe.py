"""How `mini` is observed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from conformance.drivers.modules import load_file
from conformance.errors import LackingError
from conformance.model.observation import Leaf
from conformance.observe.worker.observer import Observer as Base

mini = load_file(Path(__file__).parent / "mini.py", "mini")


class OddError(Exception):
    """Cannot be unpickled: its constructor takes two arguments."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class Observer(Base):
    def leaf(self, value):
        if not isinstance(value, mini.Tensor):
            return None
        return Leaf(np.array(value.data, "float32"), "float32")

    def unobserved(self, program):
        return {"retained memory": "mini keeps no account of memory"}

    def observe(self, program):
        if self.variant == "older":
            raise LackingError("the option `keep`, which this release of mini does not have")
        if self.variant == "raising":
            raise OddError("lost", "count")
        return super().observe(program)
