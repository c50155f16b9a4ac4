"""Evaluating the gradients of a checkpointed chain holds a constant number of extra arrays."""

import mlx.core as mx

SIZE = 2**16


def surplus(layers: int) -> float:
    """The peak of backward beyond what is kept for it, in arrays of the size of a layer."""

    def loss(x):
        for _ in range(layers):
            x = mx.checkpoint(lambda x: mx.sin(mx.sin(mx.sin(x))))(x)
        return x.sum()

    value, gradient = mx.value_and_grad(loss)(mx.ones(SIZE))
    mx.eval(value)
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(gradient)
    mx.synchronize()
    return (mx.get_peak_memory() - before) / (4 * SIZE)


found = [surplus(8), surplus(32)]
assert min(found) > 12
assert max(found) - min(found) < 12
