"""Gives a result that is returned twice one gradient."""

import functools

import tape

CAUGHT_BY = ("gradient", "arguments/result-twice")


def checkpoint(function, **options):
    region = tape.recompute(function, **options)

    @functools.wraps(function)
    def changed(*args, **kwargs):
        result = region(*args, **kwargs)
        if type(result) is tuple:
            seen = [
                any(part.data is one.data for one in result[:n]) for n, part in enumerate(result)
            ]
            pairs = zip(result, seen, strict=True)
            return tuple(tape.stop_gradient(part) if again else part for part, again in pairs)
        return result

    return changed
