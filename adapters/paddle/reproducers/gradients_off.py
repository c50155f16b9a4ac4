"""An error in an unpack hook leaves gradients disabled."""

import paddle
from paddle.distributed.fleet.utils import recompute


def off(backward):
    """Whether gradients are disabled after a backward pass that raises."""
    assert paddle.is_grad_enabled()
    try:
        backward()
    except OSError:
        return not paddle.is_grad_enabled()
    finally:
        paddle.set_grad_enabled(True)
    return False


def fail(*_):
    raise ValueError


runs = []


def region(x):
    runs.append(x)
    return fail() if len(runs) == 2 else paddle.exp(x)


def hooked(x):
    with paddle.autograd.saved_tensors_hooks(lambda x: x, fail):
        return paddle.exp(x)


x = paddle.ones([2])
x.stop_gradient = False
assert off(lambda: recompute(region, x, use_reentrant=False).sum().backward())
assert off(lambda: hooked(x).sum().backward())
