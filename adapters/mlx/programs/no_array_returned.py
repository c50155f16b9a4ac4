"""A recomputed function that returns no array, such as one that writes into a dict, ends the process."""

import mlx.core as mx


def plain(function):
    return function


recomputed = mx.checkpoint


def run(wrap):
    state = {}

    def region(x):
        state["sum"] = mx.sum(x)

    wrap(region)(mx.ones(3))
    return state
