"""With `use_reentrant=True`, a loss that the function keeps in a list has no gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

kept = []


def block(x, w):
    h = x * w
    kept.append(h * h)
    return paddle.sin(h)


def gradient(run):
    kept.clear()
    x, w = paddle.to_tensor([2.0]), paddle.to_tensor([3.0], stop_gradient=False)
    (run(block, x, w) + kept.pop()).backward()
    return w.grad.item()


plain = gradient(lambda function, *args: function(*args))
recomputed = gradient(lambda *args: recompute(*args, use_reentrant=True))
assert abs(plain - 25.92) < 0.01
assert abs(recomputed - 1.92) < 0.01
