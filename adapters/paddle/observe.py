"""How PaddlePaddle's dynamic mode is observed: program lines and allocator statistics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
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
        run = super().values(program, module, forward)
        if run.error is None:
            return run
        return replace(run, error=replace(run.error, message=essence(run.error.message)))


def essence(message: str) -> str:
    """An error's message on one line, without the stack, addresses and source position that Paddle
    writes into it."""
    message = re.sub(r"\n\s*At:\n.*?(?=={10}|\Z)", "\n", message, flags=re.DOTALL)
    message = re.sub(r"\(0x[0-9a-f]+\)|={10,}|\(at /paddle/\S*", "", message)
    return " ".join(message.split())
