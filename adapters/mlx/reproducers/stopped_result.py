"""A result that follows a stopped one gets the gradient of the result before it."""

import mlx.core as mx


def block(x):
    return mx.stop_gradient(x), mx.sin(x)


def loss(function):
    def total(x):
        stopped, y = function(x)
        return (stopped * y).sum()

    return total


x = mx.array([1.0, 2.0, 3.0])
right = mx.grad(loss(block))(x)
wrong = mx.grad(loss(mx.checkpoint(block)))(x)
assert mx.allclose(right, x * mx.cos(x))
assert mx.allclose(wrong, mx.sin(x) * mx.cos(x))  # the cotangent of the stopped result
