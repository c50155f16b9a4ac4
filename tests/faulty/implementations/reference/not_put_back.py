"""Restores the random state for the recomputation, and does not reset it afterwards."""

import functools

import tape

CAUGHT_BY = ("randomness", "documents/paddle-blocks-2-and-3")


def checkpoint(function, preserve_rng=True, **options):
    state = []

    @functools.wraps(function)
    def restoring(*args, **kwargs):
        if state:
            tape.set_random_state(state[0])
        else:
            state.append(tape.random_state())
        return function(*args, **kwargs)

    return tape.recompute(restoring, preserve_rng=False, **options)
