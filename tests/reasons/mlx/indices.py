"""A region that looks up what is at indices has no gradient."""

import mlx.core as mx

REASON = "mx.checkpoint differentiates with respect to all arguments"


def differs(changed: bool) -> bool:
    """Whether the gradient raises; with the change, the region takes the indices by closure."""
    indices = mx.array([1, 2])

    def loss(table):
        if changed:
            return mx.checkpoint(lambda table: table[indices])(table).sum()
        return mx.checkpoint(lambda table, indices: table[indices])(table, indices).sum()

    try:
        return mx.grad(loss)(mx.ones((5, 2))).sum().item() != 4
    except ValueError as error:
        return "Cannot calculate VJP with respect to indices" in str(error)
