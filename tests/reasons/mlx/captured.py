"""What a region reads by closure gets a gradient of zero."""

import mlx.core as mx
from mlx import nn

REASON = "mx.checkpoint differentiates with respect to the arguments of the function."


def differs(changed: bool) -> bool:
    """Whether the gradient is zero; with the change, it is an argument or a module's parameter."""
    module = nn.Module()

    def by_function(w):
        if changed:
            return mx.checkpoint(lambda w: mx.sin(w))(w)
        return mx.checkpoint(lambda x: mx.sin(w) * x)(mx.array(1.0))

    def by_module(w):
        module.w = w if changed else mx.array(1.0)
        region = nn.utils.checkpoint(module, lambda: mx.sin(module.w if changed else w))
        return region()

    found = {mx.grad(f)(mx.array(2.0)).item() == 0 for f in (by_function, by_module)}
    assert len(found) == 1
    return found.pop()
