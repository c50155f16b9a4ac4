"""Restores the global random state for the recomputation, but not that of NumPy and Python."""

import functools

import tape

CAUGHT_BY = ("randomness", "randomness/numpy-global")


def checkpoint(function, *, preserve_rng=True, **options):
    if not preserve_rng:
        return tape.recompute(function, preserve_rng=False, **options)

    @functools.wraps(function)
    def region(*args, **kwargs):
        source = tape._state.generator.bit_generator
        state = source.state
        calls = []

        @functools.wraps(function)
        def restored(*args, **kwargs):
            calls.append(function)
            if len(calls) == 1:
                return function(*args, **kwargs)
            before = source.state
            source.state = state
            result = function(*args, **kwargs)
            source.state = before
            return result

        return tape.recompute(restored, preserve_rng=False, **options)(*args, **kwargs)

    return region
