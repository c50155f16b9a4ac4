"""When an outer checkpoint is recomputed, the last checkpoint inside it runs twice."""

import io

import mlx.core as mx


def outer(x):
    y = mx.checkpoint(lambda x: mx.exp(mx.sin(x)))(x)
    return mx.checkpoint(lambda y: mx.exp(mx.tanh(y)))(y)


graph = io.StringIO()
mx.export_to_dot(graph, *mx.value_and_grad(mx.checkpoint(outer))(mx.array(2.0)))
# Once in forward and twice in the recomputation.
assert graph.getvalue().count('"Tanh"') == 3
