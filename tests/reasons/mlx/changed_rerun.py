"""A region that computes something else in the rerun has another gradient, without an error."""

import mlx.core as mx

REASON = "Nothing compares what the rerun computes"


def differs(changed: bool) -> bool:
    """Whether the gradient is another one; with the change, the rerun does what the forward did."""
    calls = []

    def region(x):
        calls.append(x)
        return mx.sin(x) if changed or len(calls) == 1 else mx.exp(x)

    x = mx.array(2.0)
    return not mx.allclose(mx.grad(mx.checkpoint(region))(x), mx.cos(x)).item()
