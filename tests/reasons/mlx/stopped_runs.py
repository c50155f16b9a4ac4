"""A region runs again for zeros that the region after it gives for a stopped argument."""

import mlx.core as mx

REASON = "A region gives each argument a gradient, of zeros"


def differs(changed: bool) -> bool:
    """Whether the first region runs again; with the change, the second is no region."""
    calls = []

    def first(x):
        calls.append(x)
        return mx.sin(x)

    def second(y, w):
        return mx.stop_gradient(y) * w

    def loss(x, w):
        y = mx.checkpoint(first)(x)
        return (second if changed else mx.checkpoint(second))(y, w)

    mx.eval(mx.grad(loss, argnums=(0, 1))(mx.array(2.0), mx.array(3.0)))
    return len(calls) > 1
