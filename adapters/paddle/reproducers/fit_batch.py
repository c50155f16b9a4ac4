"""In `Model.fit`, a recomputed layer whose input is the batch is not trained."""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute


class Network(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.hidden, self.last = paddle.nn.Linear(3, 3), paddle.nn.Linear(3, 1)

    def forward(self, x):
        return self.last(recompute(self.hidden, x))


network = Network()
before = network.hidden.weight.numpy().copy()
model = paddle.Model(network)
optimizer = paddle.optimizer.SGD(0.1, parameters=network.parameters())
model.prepare(optimizer, lambda y: y.mean())
x = paddle.ones([2, 3])
x.stop_gradient = False
model.fit([[x]], verbose=0)
assert np.array_equal(before, network.hidden.weight.numpy())
