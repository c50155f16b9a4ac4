"""Returns a tuple where the region returned a named tuple."""

import functools

import tape

CAUGHT_BY = ("error", "containers/named-tuple-output")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = region(*args, **kwargs)
        return tuple(result) if hasattr(result, "_fields") else result

    return changed
