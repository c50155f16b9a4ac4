"""A region that is given a batch of `fit` gives its parameters no gradient."""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "A batch that fit hands over is a tensor that asks for no gradient"


class Network(paddle.nn.Layer):
    def __init__(self, asks: bool) -> None:
        super().__init__()
        self.hidden, self.last = paddle.nn.Linear(3, 3), paddle.nn.Linear(3, 1)
        self.asks = asks

    def forward(self, x):
        x.stop_gradient = not self.asks
        return self.last(recompute(self.hidden, x))


def differs(changed: bool) -> bool:
    """Whether a step leaves a parameter as it was; with the change, the network has its batch ask for a
    gradient."""
    network = Network(changed)
    before = network.hidden.weight.numpy().copy()
    model = paddle.Model(network)
    optimizer = paddle.optimizer.SGD(0.1, parameters=network.parameters())
    model.prepare(optimizer, lambda y: y.mean())
    x = paddle.ones([2, 3])
    x.stop_gradient = False
    model.fit([[x]], verbose=0)
    return bool(np.array_equal(before, network.hidden.weight.numpy()))
