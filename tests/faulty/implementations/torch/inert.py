"""Calls the function and recomputes nothing."""

CAUGHT_BY = ("executions", "basics/mlp-block")


def checkpoint(function, *args, preserve_rng_state=True, context_fn=None, **kwargs):
    return function(*args, **kwargs)
