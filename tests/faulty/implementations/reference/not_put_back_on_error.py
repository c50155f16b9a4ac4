"""Does not reset the random state after a recomputation that raises an exception."""

import functools

import tape

CAUGHT_BY = ("randomness", "errors/raised-after-draw-in-rerun")


def checkpoint(function, preserve_rng=True, **options):
    state = []

    @functools.wraps(function)
    def restoring(*args, **kwargs):
        if not state:
            state.append(tape.random_state())
            return function(*args, **kwargs)
        before = tape.random_state()
        tape.set_random_state(state[0])
        result = function(*args, **kwargs)
        tape.set_random_state(before)
        return result

    return tape.recompute(restoring, preserve_rng=False, **options)
