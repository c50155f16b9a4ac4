"""A checkpointed function that has indices as an argument cannot be differentiated."""

import mlx.core as mx

indices = mx.array([1, 2])


def loss(table):
    return mx.checkpoint(lambda table, indices: table[indices])(table, indices).sum()


try:
    mx.grad(loss)(mx.ones((5, 2)))
except ValueError as error:
    assert "Cannot calculate VJP with respect to indices" in str(error)
else:
    raise AssertionError("no error is raised")
