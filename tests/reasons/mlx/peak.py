"""mx.eval(gradients) has a constant number of arrays more than it needs, as it runs ahead."""

import mlx.core as mx

REASON = "mx.eval hands operations to the stream"
SIZE = 2**16


def surplus(layers: int) -> float:
    """How far the peak of the backward lies above what is kept for it, in arrays of a layer."""

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


def differs(changed: bool) -> bool:
    """Whether many are above it, for 8 and 32 layers alike; with the change, a limit makes eval wait."""
    limit = mx.set_memory_limit(1) if changed else None
    try:
        found = [surplus(8), surplus(32)]
    finally:
        if limit is not None:
            mx.set_memory_limit(limit)
    return min(found) > 12 and max(found) - min(found) < 12
