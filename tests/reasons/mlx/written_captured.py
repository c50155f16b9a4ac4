"""An array that a region captures and writes over is changed when the rerun reads it."""

import mlx.core as mx

REASON = "A tensor that the region reads by closure and writes over"


def differs(changed: bool) -> bool:
    """Whether the gradient is not the plain one; with the change, the region writes to a copy."""

    def gradient(how):
        kept = mx.array(1.0)

        def region(x):
            y = mx.array(kept) if changed else kept
            y += 2
            return mx.sin(x * y)

        return mx.grad(how(region))(mx.array(2.0))

    return not mx.allclose(gradient(mx.checkpoint), gradient(lambda f: f)).item()
