"""What made a result that nothing uses runs again for its gradient of zeros."""

import mlx.core as mx

REASON = "A result that nothing uses is given a gradient of zeros"


def differs(changed: bool) -> bool:
    """Whether its gradient is asked for, as zeros; with the change, the result is not returned."""
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
        return (mx.sin(x),) if changed else (mx.sin(x), y)

    mx.eval(mx.grad(lambda x: mx.checkpoint(region)(x)[0])(mx.array(2.0)))
    return [g.item() for g in asked] == [0.0]
