"""A region keeps all that it gives until backward, which no gradient reads."""

import mlx.core as mx

REASON = "The rerun of a region reads its arguments through mx.depends"
SIZE = 2**16


def rule_without_depends(function):
    """The same recompute, which waits for nothing."""
    region = mx.custom_function(function)
    region.vjp(lambda x, gradient, _output: mx.vjp(function, [x], [gradient])[1][0])
    return region


def differs(changed: bool) -> bool:
    """Whether the result is kept; with the change, a rule of one's own reads the arguments."""
    how = rule_without_depends if changed else mx.checkpoint
    region = how(lambda x: mx.exp(mx.sin(x)))
    x = mx.ones(SIZE)
    mx.eval(x)
    before = mx.get_active_memory()
    loss, gradient = mx.value_and_grad(lambda x: (region(x) + 1).sum())(x)
    mx.eval(loss)
    mx.synchronize()
    kept = mx.get_active_memory() - before
    mx.eval(gradient)
    return kept >= 4 * SIZE
