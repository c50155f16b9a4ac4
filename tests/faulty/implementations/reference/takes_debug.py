"""Takes the keyword `debug` of the function for an option of its own."""

import functools

import tape

CAUGHT_BY = ("value", "arguments/flag-named[word=debug]")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        kwargs.pop("debug", None)
        return region(*args, **kwargs)

    return changed
