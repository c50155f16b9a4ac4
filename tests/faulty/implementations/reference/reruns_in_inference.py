"""Runs the region a second time if gradients are disabled."""

import functools

import tape

CAUGHT_BY = ("executions", "procedures/inference")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def again(*args, **kwargs):
        if not tape._state.recording:
            before = tape.random_state()
            function(*args, **kwargs)
            tape.set_random_state(before)
        return region(*args, **kwargs)

    return again
