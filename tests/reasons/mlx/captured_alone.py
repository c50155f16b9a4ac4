"""A region runs only once where nothing but a captured parameter asks for a gradient."""

import mlx.core as mx

REASON = "Only the captured parameter asks for a gradient"


def differs(changed: bool) -> bool:
    """Whether nothing runs again; with the change, the parameter is an argument."""
    calls = []

    def loss(w):
        def region(x, w=w):
            calls.append(x)
            return mx.sin(x * w)

        x = mx.array(2.0)
        return mx.checkpoint(region)(x, w) if changed else mx.checkpoint(region)(x)

    mx.eval(mx.grad(loss)(mx.array(3.0)))
    return len(calls) == 1
