"""A function that `mx.compile` has compiled, in a region."""

import mlx.core as mx


def plain(function):
    return function


recomputed = mx.checkpoint


def run(wrap):
    gated = mx.compile(lambda x: mx.sin(x) * mx.sigmoid(x))
    region = wrap(lambda x: mx.sin(gated(x)).sum())
    return mx.value_and_grad(region)(mx.array([1.0, 2.0]))
