"""Reuses the function of the first call, with its captured values, in every later call."""

import torch.utils.checkpoint

CAUGHT_BY = ("error", "errors/raised-in-region")
_known = {}


def checkpoint(function, *args, **options):
    code = getattr(function, "__code__", None)
    if code is not None:
        place = (code.co_filename, code.co_firstlineno)
        function = _known.setdefault(place, function)
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
