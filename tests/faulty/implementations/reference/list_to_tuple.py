"""Returns a tuple where the region returned a list."""

import functools

import tape

CAUGHT_BY = ("structure", "containers/list-output")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = region(*args, **kwargs)
        return tuple(result) if type(result) is list else result

    return changed
