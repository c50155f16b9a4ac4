"""With `use_reentrant=True`, a loss that a cell keeps in a list has no gradient."""

import mindspore as ms
from mindspore import mint, nn

kept = []


class Block(nn.Cell):
    def construct(self, x, w):
        h = x * w
        kept.append(h * h)
        return mint.sin(h)


def gradient(run):
    block, x = Block(), ms.Tensor(2.0)
    return float(ms.grad(lambda w: run(block, x, w) + kept.pop())(ms.Tensor(3.0)))


plain = gradient(lambda block, *args: block(*args))
recomputed = gradient(lambda *args: ms.recompute(*args, use_reentrant=True))
assert abs(plain - 25.92) < 0.01
assert abs(recomputed - 1.92) < 0.01
