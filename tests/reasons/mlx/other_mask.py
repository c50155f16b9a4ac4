"""The gradient of a region has other random numbers than its value."""

import mlx.core as mx

REASON = "The function is called a second time while gradients are built"


def differs(changed: bool) -> bool:
    """Whether the gradient has another mask; with the change, the function seeds MLX anew."""

    def region(x):
        if changed:
            mx.random.seed(0)
        return x * mx.random.bernoulli(0.5, (64,))

    mx.random.seed(0)
    (value,), (gradient,) = mx.vjp(mx.checkpoint(region), [mx.ones(64)], [mx.ones(64)])
    return not mx.array_equal(value, gradient).item()
