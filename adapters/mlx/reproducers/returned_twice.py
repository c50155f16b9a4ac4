"""A checkpointed function that returns one array twice loses the gradient of one of them."""

import mlx.core as mx


def region(x):
    y = mx.sin(x)
    return y, y


def loss(x):
    first, second = mx.checkpoint(region)(x)
    return 2 * first + 3 * second


x = mx.array(2.0)
(alone,) = mx.vjp(region, [x], [mx.array(2.0), mx.array(3.0)])[1]
found = [mx.allclose(g, 2 * mx.cos(x)).item() for g in (mx.grad(loss)(x), alone)]
assert found == [True, True]
