"""A function that computes something else in the rerun gets another gradient, without an error."""

import mlx.core as mx

calls = []


def region(x):
    calls.append(x)
    return mx.sin(x) if len(calls) == 1 else mx.exp(x)


x = mx.array(2.0)
assert not mx.allclose(mx.grad(mx.checkpoint(region))(x), mx.cos(x)).item()
