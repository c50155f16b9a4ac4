"""Returns all outputs in float32."""

import functools

import tape

CAUGHT_BY = ("structure", "basics/precision[dtype=bfloat16]")


def widened(t):
    return tape._relabelled(t, t.data, "float32") if tape.is_float(t.dtype) else t


def checkpoint(function, **options):
    @functools.wraps(function)
    def changed(*args, **kwargs):
        return tape._map(widened, function(*args, **kwargs))

    return tape.recompute(changed, **options)
