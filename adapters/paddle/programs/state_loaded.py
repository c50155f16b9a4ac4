"""The state of a layer with recomputed regions, saved and loaded in another one."""

import tempfile
from pathlib import Path

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


class Model(nn.Layer):
    def __init__(self, call):
        super().__init__()
        self.first, self.second, self.call = nn.Linear(4, 4), nn.Linear(4, 4), call

    def forward(self, x):
        h = self.call(lambda x: paddle.tanh(self.first(x)), x)
        return self.call(self.second, h)


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return recompute(function, *args, use_reentrant=False)


def run(call):
    first, second = Model(call), Model(call)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "model.pdparams"))
        paddle.save(first.state_dict(), file)
        saved = paddle.load(file)
    second.set_state_dict(saved)
    x = paddle.randn([2, 4])
    x.stop_gradient = False
    y = second(x)
    (y * y).sum().backward()
    gradients = [parameter.grad for parameter in second.parameters()]
    return {"result": y, "gradient": x.grad, "gradients": gradients, "names": list(saved)}
