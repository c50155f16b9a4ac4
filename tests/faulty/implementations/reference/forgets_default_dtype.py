"""Recomputes with the default dtype that holds in backward."""

import tape

CAUGHT_BY = ("gradient", "procedures/default-dtype[dtype=float64]")


def checkpoint(function, **options):
    calls = []

    def changed(*args, **kwargs):
        calls.append(function)
        if len(calls) > 1:
            tape.set_default_dtype("float32")
        return function(*args, **kwargs)

    return tape.recompute(changed, **options)
