"""Does not pass keyword arguments that are false in the recomputation."""

import functools

import tape

CAUGHT_BY = ("gradient", "arguments/false-by-name")


def checkpoint(function, **options):
    runs = []

    def changed(*args, **kwargs):
        runs.append(len(args))
        again = len(runs) > calls[0]
        return function(*args, **{k: v for k, v in kwargs.items() if not again or v is not False})

    region, calls = tape.recompute(functools.wraps(function)(changed), **options), [0]

    @functools.wraps(function)
    def counted(*args, **kwargs):
        calls[0] += 1
        return region(*args, **kwargs)

    return counted
