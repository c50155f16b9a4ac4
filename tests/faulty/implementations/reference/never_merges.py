"""Keeps the tensors between adjacent regions even with `merge_adjacent=True`."""

import tape

CAUGHT_BY = ("retained memory", "regions/adjacent-merged")


def checkpoint(function, *, merge_adjacent=False, **options):
    return tape.recompute(function, merge_adjacent=False, **options)
