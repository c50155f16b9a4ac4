"""Reuses the function of the first call, with its captured values, in every later call."""

import tape

CAUGHT_BY = ("gradient", "procedures/train")
_known = {}


def checkpoint(function, **options):
    code = getattr(function, "__code__", None)
    if code is not None:
        place = (code.co_filename, code.co_firstlineno)
        function = _known.setdefault(place, function)
    return tape.recompute(function, **options)
