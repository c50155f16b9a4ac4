"""In graph mode, the operations before a sine are recomputed before backward starts."""

import re
import tempfile
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, nn, ops, profiler

LAYERS = 3


class Layer(nn.Cell):
    def __init__(self, name):
        super().__init__()
        self.w = Parameter(ops.ones((8, 8)), name=name)

    def construct(self, x):
        return ops.exp(ops.sin(ops.matmul(x, self.w)))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([Layer(f"w{i}") for i in range(LAYERS)])

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
    return [re.sub("^.*/|-op\\d+$", "", name) for _, name in sorted(found)]


ms.set_context(mode=ms.GRAPH_MODE)
gradient, x = ms.grad(Net()), ops.ones((8, 8))
gradient(x)
names = kernels(gradient, x)
last = len(names) - names[::-1].index("Cos")
assert names[last:].count("MatMul") == LAYERS
