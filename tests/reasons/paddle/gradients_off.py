"""An unpack hook that raises leaves gradients turned off."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The rerun is run by an unpack hook"


def off(backward):
    """Whether gradients are turned off after a backward that raises."""
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


def differs(changed: bool) -> bool:
    """Whether they are, with recompute and hooks alone; with the change, another hook raises."""
    runs = []

    def region(x):
        runs.append(x)
        return fail() if len(runs) == 2 else paddle.exp(x)

    def hooked(x):
        with paddle.autograd.saved_tensors_hooks(lambda x: x, fail):
            return paddle.exp(x)

    x = paddle.ones([2])
    x.stop_gradient = False
    if changed:
        h = x * 1
        h.register_hook(fail)
        return off(lambda: paddle.exp(h).sum().backward())
    found = [off(lambda: recompute(region, x, use_reentrant=False).sum().backward())]
    return [*found, off(lambda: hooked(x).sum().backward())] == [True, True]
