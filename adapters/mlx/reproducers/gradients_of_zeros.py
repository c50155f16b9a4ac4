"""A function is recomputed for gradients of zeros, because the next function stops the gradient."""

import mlx.core as mx

calls = []


def first(x):
    calls.append(x)
    return mx.sin(x)


def second(y, w):
    return mx.stop_gradient(y) * w


def loss(x, w):
    y = mx.checkpoint(first)(x)
    return mx.checkpoint(second)(y, w)


mx.eval(mx.grad(loss, argnums=(0, 1))(mx.array(2.0), mx.array(3.0)))
assert len(calls) > 1


def roots(x):
    return mx.sqrt(x), mx.sin(x)


def of_one(function):
    return mx.grad(lambda x: function(x)[1])(mx.array(0.0)).item()


# The gradient of the root is infinite, and not asked for.
assert of_one(roots) == 1.0
assert of_one(mx.checkpoint(roots)) != 1.0
