"""A checkpointed function that takes an array of indices cannot be differentiated."""

import mlx.core as mx


def shows():
    indices = mx.array([1, 2])

    def loss(table):
        return mx.checkpoint(lambda table, indices: table[indices])(table, indices).sum()

    try:
        return mx.grad(loss)(mx.ones((5, 2))).sum().item() != 4
    except ValueError as error:
        return "Cannot calculate VJP with respect to indices" in str(error)


assert shows()
