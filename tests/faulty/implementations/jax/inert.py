"""Returns the function and recomputes nothing."""

CAUGHT_BY = ("executions", "basics/mlp-block")


def checkpoint(function, policy=None, static_argnums=()):
    if not callable(function):
        raise TypeError("not a callable")
    return function
