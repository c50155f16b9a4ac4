"""The gradient of an unused output is computed with zeros."""

import mlx.core as mx

asked = []


@mx.custom_function
def unused(x):
    return mx.exp(x)


@unused.vjp
def rule(x, gradient, output):
    asked.append(gradient)
    return gradient * output


def region(x):
    y = unused(x)
    return mx.sin(x), y


mx.eval(mx.grad(lambda x: mx.checkpoint(region)(x)[0])(mx.array(2.0)))
assert [g.item() for g in asked] == [0.0]
