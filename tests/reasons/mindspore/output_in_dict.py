"""In graph mode a recomputed cell's outputs run again where it returns them in a dict."""

from mindspore import Parameter, nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "A block's outputs are excluded from recomputation, as documented"


class Two(nn.Cell):
    def __init__(self, w, in_tuple):
        super().__init__()
        self.w, self.in_tuple = w, in_tuple

    def construct(self, x):
        a = ops.sin(ops.matmul(x, self.w))
        b = ops.exp(a)
        if self.in_tuple:
            return a, b
        return {"a": a, "b": b}


class Net(nn.Cell):
    def __init__(self, block, first, second):
        super().__init__()
        self.block, self.first, self.second = Recomputed(block), first, second

    def construct(self, x):
        found = self.block(x)
        a, b = found[self.first], found[self.second]
        return ops.sum(a * b), {"b": ops.stop_gradient(b)}


def differs(changed: bool) -> bool:
    """Whether the outputs run again; with the change, the cell returns a tuple."""
    w = Parameter(ops.ones((4, 4)), name="w")
    net = Net(Two(w, True), 0, 1) if changed else Net(Two(w, False), "a", "b")
    return bool(run_again(net, ops.ones((2, 4)))["Sin"])
