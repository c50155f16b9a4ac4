"""Does not pass keyword arguments that are `None` or false."""

import functools

import tape

CAUGHT_BY = ("value", "arguments/false-by-name")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        kwargs = {k: v for k, v in kwargs.items() if v is not None and v is not False}
        return region(*args, **kwargs)

    return changed
