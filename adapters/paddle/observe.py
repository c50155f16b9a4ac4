"""How PaddlePaddle's dynamic mode is observed: program lines and allocator statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import paddle
from paddle.base import core, framework
from paddle.distributed.fleet.utils import recompute

from conformance.observation import Array, Leaf, Run
from conformance.program import Program
from conformance.worker.observer import Observer as Base


class Observer(Base):
    """Observes dynamic mode on the CPU, where every line runs its kernels when it is reached."""

    methods: Mapping[str, str] = {
        "executions": "Python line trace, dynamic mode",
        "randomness": "values of the program's lines",
        "retained memory": "host_memory_stat_current_value, allocated bytes",
    }

    def warm_up(self) -> None:
        paddle.device.set_device("cpu")
        x = paddle.ones([2])
        x.stop_gradient = False
        recompute(paddle.nn.ReLU(), x, use_reentrant=self.variant == "reentrant").sum().backward()

    def leaf(self, value: object) -> Leaf | None:
        if not isinstance(value, paddle.Tensor):
            return None
        # Detached first: reading must add nothing to the graph, nor to what a rerun packs.
        found = value.detach()
        if found.dtype == paddle.bfloat16:
            found = found.astype("float32")
        dtype = str(value.dtype).removeprefix("paddle.")
        return Leaf(np.array(found.numpy()), dtype)

    def generator(self) -> Array | None:
        return np.array(paddle.rand([4]).numpy())

    def nbytes(self, value: object) -> int:
        return value.size * value.element_size() if isinstance(value, paddle.Tensor) else 0

    def identity(self, value: object) -> int:
        """The address of the elements: a reshaped or transposed tensor shares them."""
        return value.data_ptr() if isinstance(value, paddle.Tensor) else id(value)

    def held(self) -> int | None:
        return int(core.host_memory_stat_current_value("Allocated", 0))

    def values(self, program: Program, module: ModuleType, forward: Callable[..., Any]) -> Run:
        # An exception that left a backward pass, of an earlier program or of the plain run, leaves
        # gradients switched off in Paddle, for the rest of the process.
        framework._dygraph_tracer()._has_grad = True
        core.eager.reset_saved_tensors_hooks()
        return super().values(program, module, forward)
