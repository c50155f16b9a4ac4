"""In the rerun of an outer region its last inner one runs twice."""

import io

import mlx.core as mx

REASON = "A rerun waits for the results of its region (mx.depends)."


def rule_without_depends(function):
    """The same recompute, which waits for nothing."""
    region = mx.custom_function(function)
    region.vjp(lambda x, gradient, _output: mx.vjp(function, [x], [gradient])[1][0])
    return region


def differs(changed: bool) -> bool:
    """Whether tanh is three times in the graph; with the change, rules of one's own are twice."""
    how = rule_without_depends if changed else mx.checkpoint

    def outer(x):
        y = how(lambda x: mx.exp(mx.sin(x)))(x)
        return how(lambda y: mx.exp(mx.tanh(y)))(y)

    graph = io.StringIO()
    mx.export_to_dot(graph, *mx.value_and_grad(how(outer))(mx.array(2.0)))
    found = graph.getvalue().count('"Tanh"')
    assert found in (2, 3)
    return found == 3
