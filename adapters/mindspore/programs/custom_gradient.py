"""A recomputed cell with its own gradient rule (`bprop`)."""

import mindspore as ms
from mindspore import nn


class Twice(nn.Cell):
    def construct(self, x):
        return x * 2

    def bprop(self, x, out, gradient):
        return (gradient * 10,)


def plain(cell):
    return cell


def recomputed(cell):
    cell.recompute()
    return cell


def run(wrap):
    cell = wrap(Twice())
    value, gradient = ms.value_and_grad(cell)(ms.Tensor(3.0))
    return {"value": value, "gradient": gradient}
