"""The result of a checkpointed function is kept until backward although no gradient reads it."""

import mlx.core as mx

SIZE = 2**16
region = mx.checkpoint(lambda x: mx.exp(mx.sin(x)))
x = mx.ones(SIZE)
mx.eval(x)
before = mx.get_active_memory()
loss, gradient = mx.value_and_grad(lambda x: (region(x) + 1).sum())(x)
mx.eval(loss)
mx.synchronize()
kept = mx.get_active_memory() - before
mx.eval(gradient)
assert kept >= 4 * SIZE
