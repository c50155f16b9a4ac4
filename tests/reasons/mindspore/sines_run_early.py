"""In graph mode what is recomputed for the gradient of a sine runs before the gradients begin."""

import re
import tempfile
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, nn, ops, profiler

REASON = "A sine's gradient begins with a cosine that waits for nothing of backward"
LAYERS = 3


class Layer(nn.Cell):
    def __init__(self, function, name):
        super().__init__()
        self.function = function
        self.w = Parameter(ops.ones((8, 8)), name=name)

    def construct(self, x):
        return ops.exp(self.function(ops.matmul(x, self.w)))


class Net(nn.Cell):
    def __init__(self, function):
        super().__init__()
        self.layers = nn.CellList([Layer(function, f"w{i}") for i in range(LAYERS)])

    def construct(self, x):
        for layer in self.layers:
            x = ms.recompute(layer, x)
        return ops.sum(x * x)


def kernels(gradient, x) -> list[str]:
    """The operations that run, in order."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        activities = [profiler.ProfilerActivity.CPU]
        ready = profiler.tensorboard_trace_handler(folder)
        with profiler.profile(activities=activities, on_trace_ready=ready) as recorder:
            gradient(x).asnumpy()
            recorder.step()
        (path,) = Path(folder).rglob("cpu_op_execute_timestamp_0.txt")
        for line in path.read_text("utf-8").splitlines():
            name, _, runs = line.split(";", 2)
            found += [(int(run.split(",")[0]), name) for run in runs.split()]
    return [re.sub(r"^.*/|-op\d+$", "", name) for _, name in sorted(found)]


def differs(changed: bool) -> bool:
    """Whether all products of backward come after the last cosine; with the change, which has no such
    gradient, the layers have a tanh, and the products of backward come in between."""
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        gradient, x = ms.grad(Net(ops.tanh if changed else ops.sin)), ops.ones((8, 8))
        gradient(x)  # compiles
        names = kernels(gradient, x)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    first = "TanhGrad" if changed else "Cos"
    last = len(names) - names[::-1].index(first)
    return names[last:].count("MatMul") == LAYERS
